import type { Duration } from '../model/time.ts';

/** Sends HTTP requests to endpoints. It never retries a request and never follows a redirect. */
export interface HttpClient {
  /**
   * Calls `done` exactly once, never before `send` returns, and never throws: every failure is an
   * `HttpResult`. The time limit runs from this call to the end of the answer's head, and includes name
   * lookup, connecting and TLS.
   */
  send(request: OutboundRequest, done: (answer: HttpResult) => void): void;

  /** The program has become quiet: gives back memory that a busy time has left on other threads. */
  release?(): void;

  /** Closes every connection. Requests in flight end as `connection_closed`. */
  stop(): Promise<void>;
}

/** Values by name, as they are sent. */
export type RequestHeaders = Readonly<Record<string, string>>;

export interface OutboundRequest {
  /** Absolute, `http:` or `https:`. */
  readonly url: string;
  /**
   * Headers that every request of the endpoint has. The client prepares them once for as long as it gets the
   * same object.
   */
  readonly fixedHeaders?: RequestHeaders;
  /** Headers of this request. None of them is in `fixedHeaders` as well. */
  readonly headers: RequestHeaders;
  readonly body: Buffer;
  readonly timeout: Duration;
  /**
   * How long it has waited before this call, on its way to another thread. It counts for the time limit and
   * for the latency.
   */
  readonly waited?: Duration;
  /**
   * The endpoint of a destination that the request belongs to. Requests of different pools never share a
   * connection, even to the same address: a fault on a connection can harm the requests of its own pool only.
   */
  readonly pool: number;
}

/** The headers that a request is sent with, beside those of the connection. */
export function allHeaders({
  fixedHeaders,
  headers,
}: Pick<OutboundRequest, 'fixedHeaders' | 'headers'>): Record<string, string> {
  return { ...fixedHeaders, ...headers };
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
      /** The message of the network error, for the operator. */
      readonly detail: string;
      readonly latencyMs: number;
    };

/** Whether the egress rules let a request to a URL be sent now, in the words of `millrace egress explain`. */
export interface EgressVerdict {
  /**
   * `unresolved` may be better later, so it is no reason to refuse settings. spec/specification.md, "Network
   * safety".
   */
  readonly verdict: 'allowed' | 'refused' | 'unresolved' | 'invalid';
  /** One sentence for the operator. */
  readonly message: string;
}

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
