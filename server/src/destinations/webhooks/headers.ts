import type { Endpoint } from '../../model/destination.ts';
import type { StandardWebhooksHeaders } from './signature.ts';

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
