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
 * Runs for every delivery. The body is made and signed once for all endpoints, and all requests share its buffer. An empty
 * secret counts as none: anybody could sign with it.
 */
function buildRequests(
  event: SerializedEvent,
  destination: Destination,
  { endpoints, now, origin }: AttemptContext,
): readonly EndpointRequest[] {
  const { settings } = destination;
  const bytes = payloadBytes(event, settings.format);
  const id = webhookId(messageIdOf(event));
  const { sharedSecret, signingSecrets } = settings;
  const extraHeaders = {
    signature: sharedSecret ? signBody(bytes, sharedSecret) : undefined,
    standardWebhooks: signingSecrets?.length
      ? standardWebhooksHeaders({ id, at: now, bytes }, signingSecrets)
      : undefined,
    replayId: origin,
  };
  const requests: EndpointRequest[] = [];
  for (let index = 0; index < settings.endpoints.length; index++) {
    if ((endpoints & (1 << index)) === 0) continue;
    const endpoint = settings.endpoints[index]!;
    const request = {
      url: endpoint.url,
      headers: requestHeaders(endpoint, id, extraHeaders),
      body: bytes,
      timeout: REQUEST_TIMEOUT,
      pool: endpointIdOf(destination, index),
    };
    requests.push({ endpoint: index, request });
  }
  return requests;
}

/** The bytes of `serializePayload`, made from the stored line where there is one. */
function payloadBytes(serialized: SerializedEvent, format: WebhookSettings['format']): Buffer {
  const { line } = serialized;
  if (line !== undefined) {
    if (format === 'canonical') return line.bytes.subarray(line.from, line.to);
    const documented = documentedPayloadFromBytes(line);
    if (documented !== undefined) return documented;
  }
  return Buffer.from(serializePayload(serialized.event, format));
}

/** `serialized.event` is parsed on first use, which the id in the line spares. */
function messageIdOf(serialized: SerializedEvent): string {
  const fromLine = serialized.line === undefined ? undefined : messageIdFromBytes(serialized.line);
  return fromLine ?? serialized.event.messageId;
}
