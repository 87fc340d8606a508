import {
  type Destination,
  type Endpoint,
  endpointIdOf,
  type WebhookSettings,
} from '../../model/destination.ts';
import type { SerializedEvent } from '../../model/serialized-event.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type { AttemptContext, DestinationType, EndpointRequest } from '../../ports/destination-type.ts';
import { documentedPayloadFromBytes, messageIdFromBytes } from './fast-path/payload.ts';
import { serializePayload } from './payload.ts';
import { type StandardWebhooksHeaders, signBody, standardWebhooksHeaders } from './signature.ts';

/** An endpoint must answer within 5 seconds. spec/specification.md, "Timeout". */
export const REQUEST_TIMEOUT: Duration = 5 * SECOND;

/** Posts every event as JSON to up to five URLs of the customer, signed when there is a shared secret. */
export const webhooks: DestinationType = { name: 'Webhooks', requests: buildRequests };

/**
 * The requests of one delivery. The body is made and signed once for all endpoints, and all requests share its buffer. An
 * empty secret counts as none, because anyone could sign with it.
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

/** The payload as bytes, the same as those of `serializePayload`. They are made from the stored line where there is one. */
function payloadBytes(serialized: SerializedEvent, format: WebhookSettings['format']): Buffer {
  const { line } = serialized;
  if (line !== undefined) {
    if (format === 'canonical') return line.bytes.subarray(line.from, line.to);
    const documented = documentedPayloadFromBytes(line);
    if (documented !== undefined) return documented;
  }
  return Buffer.from(serializePayload(serialized.event, format));
}

/** The messageId, from the line where possible: `serialized.event` would parse the whole event. */
function messageIdOf(serialized: SerializedEvent): string {
  const fromLine = serialized.line === undefined ? undefined : messageIdFromBytes(serialized.line);
  return fromLine ?? serialized.event.messageId;
}

const VISIBLE = /^[!-$&-~]*$/;
const NOT_VISIBLE = /[^!-$&-~]+/g;

/** Headers of some requests: signatures, where the destination has a secret for them, and the replay. */
export interface ExtraHeaders {
  /** The value of `X-Signature`. */
  readonly signature?: string | undefined;
  readonly standardWebhooks?: StandardWebhooksHeaders | undefined;
  /** The id of the replay that the event is sent for. */
  readonly replayId?: string | undefined;
}

const NO_EXTRA_HEADERS: ExtraHeaders = {};

/**
 * The headers of one request. spec/specification.md, "Request headers".
 * Our own come last and win: the settings refuse static headers of these names, too.
 *
 * @param id the result of `webhookId`
 */
export function requestHeaders(
  endpoint: Endpoint,
  id: string,
  { signature, standardWebhooks, replayId }: ExtraHeaders = NO_EXTRA_HEADERS,
): Record<string, string> {
  const all: Record<string, string> = {
    ...endpoint.headers,
    'User-Agent': 'Millrace/1.0',
    'Content-Type': 'application/json',
    'Webhook-Id': id,
  };
  if (signature !== undefined) all['X-Signature'] = signature;
  if (replayId !== undefined) all['X-Replay-Id'] = replayId;
  return standardWebhooks === undefined ? all : Object.assign(all, standardWebhooks);
}

/**
 * The value of `Webhook-Id`: the messageId with `%` and everything but visible ASCII percent-encoded as UTF-8. It is a valid
 * header value whatever the client sent, and `decodeURIComponent` gives the messageId back. Half a surrogate pair is the one
 * exception: UTF-8 cannot encode it, and it becomes U+FFFD.
 */
export function webhookId(messageId: string): string {
  if (VISIBLE.test(messageId)) return messageId;
  return messageId.toWellFormed().replace(NOT_VISIBLE, encodeURIComponent);
}
