import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ResponseStream } from '../ports/control-api.ts';
import type { MetricsRecorder } from '../ports/telemetry.ts';
import { CURRENT_REQUEST, type TrackedSocket } from './connections.ts';
import { withCorsHeaders } from './cors.ts';
import { type PreparedResponse, writeResponse, writeStream } from './responses.ts';
import { isReceivingPath, requestTarget } from './routes.ts';

/**
 * What a call needs of the request it comes in, and of the way to answer it. There are two of them: `Exchange`, whose request
 * `node:http` has read, and `FastPathConnection`, which has read it itself.
 */
export interface HttpExchange {
  /** Bytes of the body as announced; NaN when nothing is. */
  readonly contentLength: number;
  readonly contentEncoding: string | undefined;
  /** Of the Authorization header; see `parseWriteKey`. */
  readonly writeKey: string | undefined;
  /** As the client sent it, whatever it is. */
  readonly traceparent: string | undefined;
  /** The `X-Forwarded-For` of the request, several of them joined with commas; anybody may have written it. */
  readonly forwardedFor: string | undefined;
  /** The connection it came over. */
  readonly peer: Socket;
  /** The client learns that it must not send another request on this connection. */
  closeAfterResponse(): void;
  reply(answer: PreparedResponse): void;
  /** Closes the connection at once, answered or not. */
  abort(): void;
}

/** Whether the server is about to stop: then every answer is the last of its connection. */
export interface ServerShutdown {
  isClosing: boolean;
}

/** One request that `node:http` has read, and the way to answer it. */
export class NodeHttpExchange implements HttpExchange {
  readonly request: IncomingMessage;
  /** What the request asks for: a path and its query, also where the request line has a whole URL. */
  readonly target: string;
  readonly #response: ServerResponse;
  readonly #shutdown: ServerShutdown;
  readonly #measures: MetricsRecorder | undefined;
  #awaitsContinue = false;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    closing: ServerShutdown,
    measures: MetricsRecorder | undefined,
  ) {
    this.request = request;
    this.target = requestTarget(request.url ?? '');
    this.#response = response;
    this.#shutdown = closing;
    this.#measures = measures;
    (request.socket as TrackedSocket)[CURRENT_REQUEST] = this;
  }

  get contentLength(): number {
    return Number(this.request.headers['content-length']);
  }

  get contentEncoding(): string | undefined {
    return this.request.headers['content-encoding'];
  }

  get writeKey(): string | undefined {
    const { authorization } = this.request.headers;
    return authorization === undefined ? undefined : parseWriteKey(authorization);
  }

  get traceparent(): string | undefined {
    // Node joins what is there more than once, and gives a list for cookies only.
    return this.request.headers['traceparent'] as string | undefined;
  }

  get forwardedFor(): string | undefined {
    return this.request.headers['x-forwarded-for'] as string | undefined;
  }

  get peer(): Socket {
    return this.request.socket;
  }

  /** The client sends the body only when it is told to. */
  expectContinue(): void {
    this.#awaitsContinue = true;
  }

  /** The client may send the body. A client that is refused by the head alone is spared sending it. */
  writeContinue(): void {
    if (this.#awaitsContinue) this.#response.writeContinue();
  }

  closeAfterResponse(): void {
    this.#response.shouldKeepAlive = false;
  }

  abort(): void {
    this.request.destroy();
  }

  get isResponseSent(): boolean {
    return this.#response.headersSent;
  }

  /** It has its answer before all of it is here. What is wrong with the rest is not worth another one. */
  get hasEarlyResponse(): boolean {
    return this.isResponseSent && !this.request.complete;
  }

  /** Browsers may read every answer of the receiving API, the refusals too; everybody else is spared the headers. */
  reply(answer: PreparedResponse): void {
    if (this.#shutdown.isClosing) this.closeAfterResponse();
    const isReceiving = isReceivingPath(this.target);
    if (isReceiving) this.#measures?.requestAnswered(answer.status, answer.code);
    const toBrowser = isReceiving && this.request.headers.origin !== undefined;
    writeResponse(this.#response, toBrowser ? withCorsHeaders(answer) : answer);
  }

  /** An answer that goes on. It is the last of its connection, so that nothing is left open when the server stops. */
  replyStream(head: Pick<PreparedResponse, 'status' | 'headers'>, body: ResponseStream): void {
    this.closeAfterResponse();
    writeStream(this.#response, head, body);
  }
}

const BASIC_CREDENTIALS = /^basic +([\w+/-]+={0,2}) *$/i;

/**
 * The write key in an Authorization header: the user name of Basic authorization, with or without a colon behind it; the
 * password is ignored. Anything else, also `Bearer` (whose write key is in the body), carries no key.
 * spec/specification.md, "Write key".
 */
export function parseWriteKey(header: string): string | undefined {
  const encoded = BASIC_CREDENTIALS.exec(header)?.[1];
  if (encoded === undefined) return undefined;
  const credentials = Buffer.from(encoded, 'base64').toString();
  const colon = credentials.indexOf(':');
  const user = colon < 0 ? credentials : credentials.slice(0, colon);
  return user === '' ? undefined : user;
}
