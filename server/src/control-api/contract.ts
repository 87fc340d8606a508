import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Answers a request for a path below `/api`, or for `/metrics`. The listener has read the body and decides
 * how long the connection lives; the handler writes the response. It throws for an error of ours only, which
 * the client sees as 500.
 */
export type ControlHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  received: ReceivedRequest,
) => void;

/** The parts of a request that only the listener knows. */
export interface ReceivedRequest {
  /** The address of the client, from `X-Forwarded-For` where a trusted proxy has sent the request. */
  readonly address: string;
  /** The body as text, empty when there is none; `too_large` beyond a megabyte. */
  readonly body: string | 'too_large';
  /** The first byte of the body that belongs to no character of UTF-8; absent where all do. */
  readonly invalidAt?: number;
}
