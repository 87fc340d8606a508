import type { Endpoint } from '../../model/endpoint.ts';
import { allHeaders, type OutboundRequest, type RequestHeaders } from '../../ports/http-client.ts';
import { isReservedHeader } from './settings.ts';
import type { StandardWebhooksHeaders } from './signatures.ts';

const VISIBLE = /^[!-$&-~]*$/;
const NOT_VISIBLE = /[^!-$&-~]+/g;

/** Headers of some requests: signatures, where the destination has a secret for them, and the replay. */
interface ExtraHeaders {
  /** The value of `X-Signature`. */
  readonly signature?: string | undefined;
  /** The value of `X-Signature-Next`. */
  readonly nextSignature?: string | undefined;
  readonly standardWebhooks?: StandardWebhooksHeaders | undefined;
  /** The id of the replay that the event is sent for. */
  readonly replayId?: string | undefined;
}

const NO_EXTRA_HEADERS: ExtraHeaders = {};

/**
 * The headers of one request. spec/specification.md, "Request headers".
 *
 * @param id the result of `webhookId`
 */
export function requestHeaders(
  id: string,
  { signature, nextSignature, standardWebhooks, replayId }: ExtraHeaders = NO_EXTRA_HEADERS,
): RequestHeaders {
  const all: Record<string, string> = { 'Webhook-Id': id };
  if (signature !== undefined) all['X-Signature'] = signature;
  if (nextSignature !== undefined) all['X-Signature-Next'] = nextSignature;
  if (replayId !== undefined) all['X-Replay-Id'] = replayId;
  return standardWebhooks === undefined ? all : Object.assign(all, standardWebhooks);
}

/**
 * The headers of every request to an endpoint; always the same object for the same endpoint, which is one of
 * one version of the settings, and so has one agent. A static header of a reserved name is left out, though
 * the settings refuse it: it would stand beside our own.
 */
export function fixedHeaders(endpoint: Endpoint, userAgent = 'Millrace/1.0'): RequestHeaders {
  let headers = fixedHeadersOf.get(endpoint);
  if (headers === undefined) {
    const own = Object.entries(endpoint.headers).filter(([name]) => !isReservedHeader(name));
    const namesAccept = own.some(([name]) => name.toLowerCase() === 'accept');
    headers = {
      // Frameworks that negotiate answer 406 to a request that takes nothing.
      ...(namesAccept ? {} : { Accept: '*/*' }),
      ...Object.fromEntries(own),
      'User-Agent': userAgent,
      'Content-Type': 'application/json',
    };
    fixedHeadersOf.set(endpoint, headers);
  }
  return headers;
}

const fixedHeadersOf = new WeakMap<Endpoint, RequestHeaders>();

/**
 * The value of `Webhook-Id`: the messageId with `%` and everything but visible ASCII percent-encoded as
 * UTF-8. It is a valid header value whatever the client sent, and `decodeURIComponent` gives the messageId
 * back. Half a surrogate pair is the one exception: UTF-8 cannot encode it, and it becomes U+FFFD.
 */
export function webhookId(messageId: string): string {
  if (VISIBLE.test(messageId)) return messageId;
  return messageId.toWellFormed().replace(NOT_VISIBLE, encodeURIComponent);
}

/** Adds the trace context of the event's own request, unless the headers of the endpoint name another. */
export function withTraceparent<Request extends Pick<OutboundRequest, 'fixedHeaders' | 'headers'>>(
  traceparent: string,
  request: Request,
): Request {
  const isTraced = Object.keys(allHeaders(request)).some((name) => name.toLowerCase() === 'traceparent');
  return isTraced ? request : { ...request, headers: { ...request.headers, traceparent } };
}
