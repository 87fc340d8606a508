import type { CallType } from '../model/call.ts';
import type { Time } from '../model/time.ts';

/**
 * What stands behind the receiving API: takes the bytes of one request and answers when their fate is certain.
 * `answer` is called exactly once; `stored` only after every accepted event of the request is on stable storage.
 */
export type IngestHandler = (call: IngestRequest, answer: (verdict: IngestResult) => void) => void;

export interface IngestRequest {
  /** The type in the path, or `batch`. */
  readonly type: CallType | 'batch';
  /** The write key of the Authorization header, already decoded; absent when there was none. */
  readonly writeKey?: string;
  /** The body, inflated, within the limits of its path; not yet parsed. */
  readonly body: Buffer;
  readonly receivedAt: Time;
  /**
   * Who sent it: where the call wants the server to fill in `context.ip`, the address is looked at. Behind a proxy that is not
   * trusted it is the proxy's.
   */
  readonly peer?: { readonly remoteAddress?: string | undefined };
  /** The trace it belongs to, as the client says it; absent when it says nothing that is one. */
  readonly traceparent?: string;
}

export type IngestResult =
  | { readonly kind: 'stored' }
  /** Sending the same request again cannot help. `code` is one of `spec/errors.json`. */
  | {
      readonly kind: 'refused';
      readonly code: string;
      readonly detail?: string;
      /** Of a batch: the calls it was refused for, by their places, with codes of `spec/errors.json`. */
      readonly invalid?: readonly { readonly index: number; readonly code: string }[];
    }
  /** Nothing was stored; the same request may be sent again after this many whole seconds. */
  | {
      readonly kind: 'unavailable';
      readonly code: 'overloaded' | 'rate_limited' | 'storage_unavailable';
      readonly retryAfter: number;
    };

/** How many calls of one request belong to a source. */
export interface SourceCalls {
  /** Id of the source. */
  readonly source: number;
  readonly calls: number;
}

/**
 * Asked once for every request whose calls are known by source, before anything of it is stored or counted: 0 takes it;
 * otherwise nothing of it is kept, and the client is asked to come again after so many whole seconds (`rate_limited`).
 */
export type RateLimitCheck = (calls: readonly SourceCalls[]) => number;
