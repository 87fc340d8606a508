import type { Socket } from 'node:net';
import type { Answer } from './respond.ts';

/**
 * What a call needs of the request it comes in, and of the way to answer it. There are two of them: `Exchange`, whose request
 * `node:http` has read, and `PlainConnection`, which has read it itself.
 */
export interface CallExchange {
  /** Bytes of the body as announced; NaN when nothing is. */
  readonly contentLength: number;
  readonly contentEncoding: string | undefined;
  /** Of the Authorization header; see `writeKeyIn`. */
  readonly writeKey: string | undefined;
  /** As the client sent it, whatever it is. */
  readonly traceparent: string | undefined;
  /** The `X-Forwarded-For` of the request, several of them joined with commas; anybody may have written it. */
  readonly forwardedFor: string | undefined;
  /** The connection it came over. */
  readonly peer: Socket;
  /** The client learns that it must not send another request on this connection. */
  closeAfter(): void;
  reply(answer: Answer): void;
  /** Closes the connection at once, answered or not. */
  abandon(): void;
}
