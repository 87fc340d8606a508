import type { CallType } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import type { JsonLine } from '../model/serialized-event.ts';
import type { Time } from '../model/time.ts';

/**
 * Handles one request of the receiving API. Calls `answer` exactly once, with `stored` only after every
 * accepted event of the request is on stable storage.
 */
export type IngestHandler = (request: IngestRequest, answer: (result: IngestResult) => void) => void;

export interface IngestRequest {
  /** The type in the path, or `batch`; `forwarded`: what another service of the protocol passes on. */
  readonly type: CallType | 'batch' | 'forwarded';
  /** The write key of the Authorization header, decoded; absent when there is none. */
  readonly writeKey?: string;
  /** Write keys in the body are those of another service: that of the request alone decides. */
  readonly ignoresBodyKeys?: true;
  /** Of `forwarded` calls: its header `X-Signature`, as it came. */
  readonly signature?: string;
  /** The body, decompressed, within the limits of its path, not parsed. */
  readonly body: Buffer;
  readonly receivedAt: Time;
  /**
   * The client's address, read only when a call gets it as its `context.ip`, or its source limits what one
   * address may send. It is that of the proxy when the proxy is not trusted.
   */
  readonly peer?: { readonly remoteAddress?: string | undefined };
  /** The calls are those of others, such as of an import: the address is not theirs. */
  readonly passesOn?: true;
  /** Only browsers and mail programs send such a request: it is an image. */
  readonly isFromBrowser?: true;
  /** It has an `Origin`, as requests of pages have and those of servers have not. */
  readonly hasOrigin?: boolean;
  /** The client's trace context; absent when there is no valid one. */
  readonly traceparent?: string;
}

export type IngestResult =
  | { readonly kind: 'stored' }
  /** Sending the same request again would not help. `code` is one of `spec/errors.json`. */
  | {
      readonly kind: 'refused';
      readonly code: string;
      readonly detail?: string | undefined;
      /** The calls for which a batch was refused, by index, with codes of `spec/errors.json`. */
      readonly invalid?: readonly { readonly index: number; readonly code: string }[] | undefined;
    }
  /** The request was not stored. The client may send it again after so many whole seconds. */
  | {
      readonly kind: 'unavailable';
      readonly code: 'overloaded' | 'rate_limited' | 'storage_unavailable';
      readonly retryAfter: number;
    };

/** The number of calls in one request that belong to a source. */
export interface SourceCalls {
  /** Id of the source. */
  readonly source: number;
  readonly calls: number;
}

/**
 * Checks the rate limits of sources. Called once for every request whose calls are known by source, before
 * anything is stored or counted. Undefined admits the request. Otherwise it is refused as `rate_limited`.
 */
export type RateLimitCheck = (
  calls: readonly SourceCalls[],
  peer: IngestRequest['peer'],
) => OverRateLimit | undefined;

export interface OverRateLimit {
  /** Id of the source that gets more than it takes, in all or from the address of the request. */
  readonly source: number;
  /** Whole seconds after which the client may try again. */
  readonly retryAfter: number;
}

/**
 * Tells whether calls are of suppressed users. Asked for every call while anybody is suppressed: it must be
 * quick. spec/specification.md, "Suppression".
 */
export interface SuppressionCheck {
  /** True while no user is suppressed, so that nothing needs to be asked. */
  readonly isEmpty: boolean;
  /** Whether the event of this line is of a suppressed user. */
  suppresses(line: JsonLine): boolean;
  /** Whether a call, as the client sent it, names a suppressed user. The call may be invalid. */
  names(call: Json): boolean;
}
