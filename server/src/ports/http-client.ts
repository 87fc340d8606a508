import type { Duration } from '../model/time.ts';

/** Sends one HTTP request to one endpoint and says what came of it. It never retries and never follows a redirect. */
export interface HttpClient {
  /**
   * Calls `done` exactly once, never before `send` returns, and never throws: every failure is an `Answer`.
   * The time limit runs from this call to the end of the answer's head, over name lookup, connecting and TLS.
   */
  send(request: OutboundRequest, done: (answer: HttpResult) => void): void;

  /** Closes every connection; requests under way end as `connection_closed`. */
  stop(): Promise<void>;
}

export interface OutboundRequest {
  /** Absolute, `http:` or `https:`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly timeout: Duration;
  /**
   * Whose request it is. Requests of different pools never share a connection, wherever they go: what goes wrong on a
   * connection can harm the requests of its own pool only.
   */
  readonly pool: number;
}

export type HttpResult =
  | {
      readonly kind: 'answered';
      readonly status: number;
      /** The `Retry-After` header as it came. */
      readonly retryAfter?: string;
      /** The first 4 KB of the body, read only when the status is not 2xx. */
      readonly body: string;
      readonly latencyMs: number;
    }
  | {
      readonly kind: 'failed';
      readonly reason: FailureReason;
      /** What the network said, for the operator. */
      readonly detail: string;
      readonly latencyMs: number;
    };

export type FailureReason =
  | 'timeout'
  | 'name_not_resolved'
  | 'connection_refused'
  | 'connection_closed'
  | 'connection_failed'
  | 'certificate_untrusted'
  | 'protocol_error'
  | 'egress_refused'
  | 'invalid_request';
