import { type Destination, endpointNumber, type WebhookSettings } from '../../model/destination.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type { WrittenEvent } from '../../model/written-event.ts';
import type { DestinationType, PlacedRequest, WantedRound } from '../../ports/destination-type.ts';
import { body } from './body.ts';
import { headers, webhookId } from './headers.ts';
import { documentedBody, plainMessageId } from './line.ts';
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
  written: WrittenEvent,
  destination: Destination,
  { endpoints, now, origin }: WantedRound,
): readonly PlacedRequest[] {
  const { settings } = destination;
  const bytes = bodyOf(written, settings.format);
  const id = webhookId(messageIdOf(written));
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
      pool: endpointNumber(destination, place),
    };
    placed.push({ place, request });
  }
  return placed;
}

/** As `body` makes it, from the line where there is one. */
function bodyOf(written: WrittenEvent, format: WebhookSettings['format']): Buffer {
  const { line } = written;
  if (line !== undefined) {
    if (format === 'canonical') return line.bytes.subarray(line.from, line.to);
    const documented = documentedBody(line);
    if (documented !== undefined) return documented;
  }
  return Buffer.from(body(written.event, format));
}

function messageIdOf(written: WrittenEvent): string {
  const plain = written.line === undefined ? undefined : plainMessageId(written.line);
  return plain ?? written.event.messageId;
}
