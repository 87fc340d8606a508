/**
 * What stands behind `/api/`: the listener carries its requests and answers and knows nothing of them.
 * Answers every request; rejects only for an error of ours, which the client sees as 500.
 */
export type Control = (request: ControlRequest) => Promise<ControlAnswer>;

export interface ControlRequest {
  readonly method: string;
  /** From `/api` on, as the request line has it, without the query. */
  readonly path: string;
  /** What follows the question mark; empty when there is none. */
  readonly query: string;
  /** The Authorization header as it came. */
  readonly authorization: string | undefined;
  /** The headers If-Match and Idempotency-Key as they came. */
  readonly ifMatch: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** Of the other end of the connection. */
  readonly address: string;
  /** Empty when there is none; `too_large` beyond a megabyte. */
  readonly body: string | 'too_large';
}

export interface ControlAnswer {
  readonly status: number;
  /** Without Content-Length, which the listener adds. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
