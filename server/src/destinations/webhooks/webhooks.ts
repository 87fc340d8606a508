import type { Destination } from '../../model/destination.ts';
import type { Event } from '../../model/event.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type { DestinationType, PlacedRequest, WantedRound } from '../../ports/destination-type.ts';
import { body } from './body.ts';
import { headers, webhookId } from './headers.ts';
import { signature, standardHeaders } from './signature.ts';

/** An endpoint must answer within 5 seconds. service.md "Outbound". */
export const TIMEOUT: Duration = 5 * SECOND;

/** Posts every event as JSON to up to five URLs of the customer, signed when there is a shared secret. */
export const webhooks: DestinationType = { name: 'Webhooks', requests };

/**
 * Runs for every delivery: the body is made and signed once, however many endpoints get it, and all requests share
 * its buffer. An empty secret counts as none: whoever can read the code could sign with it.
 */
function requests(
  event: Event,
  { settings }: Destination,
  { endpoints, now, origin }: WantedRound,
): readonly PlacedRequest[] {
  const bytes = Buffer.from(body(event, settings.format));
  const id = webhookId(event.messageId);
  const { sharedSecret, signingSecrets } = settings;
  const additions = {
    shared: sharedSecret ? signature(bytes, sharedSecret) : undefined,
    standard: signingSecrets?.length ? standardHeaders({ id, at: now, bytes }, signingSecrets) : undefined,
    replay: origin,
  };
  const placed: PlacedRequest[] = [];
  for (let place = 0; place < settings.endpoints.length; place++) {
    if ((endpoints & (1 << place)) === 0) continue;
    const endpoint = settings.endpoints[place]!;
    const request = {
      url: endpoint.url,
      headers: headers(endpoint, id, additions),
      body: bytes,
      timeout: TIMEOUT,
    };
    placed.push({ place, request });
  }
  return placed;
}
