import { type Destination, endpointIdOf, type WebhookSettings } from '../../model/destination.ts';
import type { SerializedEvent } from '../../model/serialized-event.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type { AttemptContext, DestinationType, EndpointRequest } from '../../ports/destination-type.ts';
import { documentedPayloadFromBytes, messageIdFromBytes } from './fast-path/payload.ts';
import { requestHeaders, webhookId } from './headers.ts';
import { serializePayload } from './payload.ts';
import { signBody, standardWebhooksHeaders } from './signature.ts';

/** An endpoint must answer within 5 seconds. spec/specification.md, "Timeout". */
export const REQUEST_TIMEOUT: Duration = 5 * SECOND;

/** Posts every event as JSON to up to five URLs of the customer, signed when there is a shared secret. */
export const webhooks: DestinationType = { name: 'Webhooks', requests: buildRequests };

/**
 * Runs for every delivery: the body is made and signed once, however many endpoints get it, and all requests share
 * its buffer. An empty secret counts as none: whoever can read the code could sign with it.
 */
function buildRequests(
  written: SerializedEvent,
  destination: Destination,
  { endpoints, now, origin }: AttemptContext,
): readonly EndpointRequest[] {
  const { settings } = destination;
  const bytes = payloadBytes(written, settings.format);
  const id = webhookId(messageIdOf(written));
  const { sharedSecret, signingSecrets } = settings;
  const additions = {
    shared: sharedSecret ? signBody(bytes, sharedSecret) : undefined,
    standard: signingSecrets?.length
      ? standardWebhooksHeaders({ id, at: now, bytes }, signingSecrets)
      : undefined,
    replay: origin,
  };
  const placed: EndpointRequest[] = [];
  for (let place = 0; place < settings.endpoints.length; place++) {
    if ((endpoints & (1 << place)) === 0) continue;
    const endpoint = settings.endpoints[place]!;
    const request = {
      url: endpoint.url,
      headers: requestHeaders(endpoint, id, additions),
      body: bytes,
      timeout: REQUEST_TIMEOUT,
      pool: endpointIdOf(destination, place),
    };
    placed.push({ endpoint: place, request });
  }
  return placed;
}

/** As `body` makes it, from the line where there is one. */
function payloadBytes(written: SerializedEvent, format: WebhookSettings['format']): Buffer {
  const { line } = written;
  if (line !== undefined) {
    if (format === 'canonical') return line.bytes.subarray(line.from, line.to);
    const documented = documentedPayloadFromBytes(line);
    if (documented !== undefined) return documented;
  }
  return Buffer.from(serializePayload(written.event, format));
}

function messageIdOf(written: SerializedEvent): string {
  const plain = written.line === undefined ? undefined : messageIdFromBytes(written.line);
  return plain ?? written.event.messageId;
}
