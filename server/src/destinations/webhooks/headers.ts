import type { Endpoint } from '../../model/destination.ts';
import type { StandardWebhooksHeaders } from './signature.ts';

const VISIBLE = /^[!-$&-~]*$/;
const NOT_VISIBLE = /[^!-$&-~]+/g;

/** What some requests carry besides: signatures, each when the destination has a secret for it, and more. */
export interface ExtraHeaders {
  /** The value of `X-Signature`. */
  readonly shared?: string | undefined;
  readonly standard?: StandardWebhooksHeaders | undefined;
  /** The id of the replay that the event is sent for. */
  readonly replay?: string | undefined;
}

const NO_EXTRA_HEADERS: ExtraHeaders = {};

/**
 * The headers of one request. spec/specification.md, "Request headers".
 * Ours come last: the settings refuse static headers of these names, and should one slip through, ours still win.
 *
 * @param id what `webhookId` made of the messageId
 */
export function requestHeaders(
  endpoint: Endpoint,
  id: string,
  { shared, standard, replay }: ExtraHeaders = NO_EXTRA_HEADERS,
): Record<string, string> {
  const all: Record<string, string> = {
    ...endpoint.headers,
    'User-Agent': 'Millrace/1.0',
    'Content-Type': 'application/json',
    'Webhook-Id': id,
  };
  if (shared !== undefined) all['X-Signature'] = shared;
  if (replay !== undefined) all['X-Replay-Id'] = replay;
  return standard === undefined ? all : Object.assign(all, standard);
}

/**
 * The value of `Webhook-Id`: the messageId with everything but visible ASCII percent-encoded as UTF-8, and `%` itself,
 * so that it is a valid header value whatever the client sent and `decodeURIComponent` gives the messageId back.
 * The one exception is half of a surrogate pair, which UTF-8 cannot carry: it becomes U+FFFD.
 */
export function webhookId(messageId: string): string {
  if (VISIBLE.test(messageId)) return messageId;
  return messageId.toWellFormed().replace(NOT_VISIBLE, encodeURIComponent);
}
