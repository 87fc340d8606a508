import type { CallType } from '../model/call.ts';
import type { Time } from '../model/time.ts';

/**
 * What stands behind the receiving API: takes the bytes of one request and answers when their fate is certain.
 * `answer` is called exactly once; `stored` only after every accepted event of the request is on stable storage.
 */
export type Receiver = (call: CallRequest, answer: (verdict: Verdict) => void) => void;

export interface CallRequest {
  /** The type in the path, or `batch`. */
  readonly type: CallType | 'batch';
  /** The write key of the Authorization header, already decoded; absent when there was none. */
  readonly writeKey?: string;
  /** The body, inflated, within the limits of its path; not yet parsed. */
  readonly body: Buffer;
  readonly receivedAt: Time;
}

export type Verdict =
  | { readonly kind: 'stored' }
  /** Sending the same request again cannot help. `code` is one of `spec/errors.json`. */
  | { readonly kind: 'refused'; readonly code: string; readonly detail?: string }
  /** Nothing was stored; the same request may be sent again after this many whole seconds. */
  | {
      readonly kind: 'unavailable';
      readonly code: 'overloaded' | 'storage_unavailable';
      readonly retryAfter: number;
    };
