/**
 * What stands behind `/api/`: the listener carries its requests and answers and knows nothing of them.
 * Answers every request; rejects only for an error of ours, which the client sees as 500.
 */
export type ControlHandler = (request: ControlRequest) => Promise<ControlResponse>;

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

export interface ControlResponse {
  readonly status: number;
  /** Without Content-Length, which the listener adds. */
  readonly headers: Readonly<Record<string, string>>;
  /** A whole text, or one that goes on; the listener sees to it that `gone` of that one is called in every case. */
  readonly body: string | ResponseStream;
}

/** The body of an answer that goes on until one of the two sides ends it. */
export interface ResponseStream {
  /** The head is on its way: write. Not called when the client is gone before, or wants the head only. */
  begin(client: StreamClient): void;
  /** What was written has been taken, and more may be. Called after a `write` that was false. */
  drained(): void;
  /** Nothing may be written any more. Called exactly once, whoever has ended it. */
  gone(): void;
}

/** The client of an answer that goes on. */
export interface StreamClient {
  /** False: the client reads more slowly than this. Nothing is lost yet, but wait for `drained` before the next. */
  write(text: string): boolean;
  /** Ends the answer. A client that does not read is not waited for. */
  end(): void;
}
