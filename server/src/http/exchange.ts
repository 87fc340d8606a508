import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { MetricsRecorder } from '../ports/telemetry.ts';
import { CURRENT_REQUEST, type TrackedSocket } from './connections.ts';
import { type PreparedResponse, withCorsHeaders, writeResponse } from './responses.ts';
import { isReceivingPath, requestTarget } from './routes.ts';

/**
 * A request of the receiving API and the way to answer it. `NodeHttpExchange` has its request from `node:http`;
 * `FastPathConnection` reads it itself.
 */
export interface HttpExchange {
  /** Bytes of the body as announced; NaN when no length is. */
  readonly contentLength: number;
  readonly contentEncoding: string | undefined;
  /** From the Authorization header; see `parseWriteKey`. */
  readonly writeKey: string | undefined;
  /** As the client sent it, unchecked. */
  readonly traceparent: string | undefined;
  /** The `X-Forwarded-For` headers, joined with commas. Untrusted: any client can send it. */
  readonly forwardedFor: string | undefined;
  /** The connection it came over. */
  readonly peer: Socket;
  /** Makes the answer the last of its connection, and tells the client. */
  closeAfterResponse(): void;
  reply(answer: PreparedResponse): void;
  /** Closes the connection at once, answered or not. */
  abort(): void;
}

/** Whether the server is stopping. While it is, every answer is the last of its connection. */
export class ServerShutdown {
  readonly #delegated = new Set<ServerResponse>();
  #isClosing = false;

  get isClosing(): boolean {
    return this.#isClosing;
  }

  begin(): void {
    this.#isClosing = true;
    for (const response of this.#delegated) response.shouldKeepAlive = false;
  }

  /** Adds a response that another part writes, before or during the stop. */
  delegate(response: ServerResponse): void {
    if (this.#isClosing) response.shouldKeepAlive = false;
    else {
      this.#delegated.add(response);
      response.once('close', () => this.#delegated.delete(response));
    }
  }
}

/** A request that `node:http` has read, and the way to answer it. */
export class NodeHttpExchange implements HttpExchange {
  readonly request: IncomingMessage;
  /** The path and its query, also where the request line has a whole URL. */
  readonly target: string;
  readonly #response: ServerResponse;
  readonly #shutdown: ServerShutdown;
  readonly #recorder: MetricsRecorder | undefined;
  #awaitsContinue = false;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    shutdown: ServerShutdown,
    recorder: MetricsRecorder | undefined,
  ) {
    this.request = request;
    this.target = requestTarget(request.url ?? '');
    this.#response = response;
    this.#shutdown = shutdown;
    this.#recorder = recorder;
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
    // Node joins repeated headers, and gives a list for cookies only.
    return this.request.headers['traceparent'] as string | undefined;
  }

  get forwardedFor(): string | undefined {
    return this.request.headers['x-forwarded-for'] as string | undefined;
  }

  get peer(): Socket {
    return this.request.socket;
  }

  /** The client waits for `100 Continue` before it sends the body. */
  expectContinue(): void {
    this.#awaitsContinue = true;
  }

  /** Lets the client send the body. A request that is refused by its head alone needs no body. */
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

  /** Whether the answer was sent before the whole request had arrived. An error in the rest gets no second answer. */
  get hasEarlyResponse(): boolean {
    return this.isResponseSent && !this.request.complete;
  }

  /** Sends the answer. Requests of browsers to the receiving API get CORS headers, so that pages can read refusals too. */
  reply(answer: PreparedResponse): void {
    if (this.#shutdown.isClosing) this.closeAfterResponse();
    const isReceiving = isReceivingPath(this.target);
    if (isReceiving) this.#recorder?.requestAnswered(answer.status, answer.code);
    const toBrowser = isReceiving && this.request.headers.origin !== undefined;
    writeResponse(this.#response, toBrowser ? withCorsHeaders(answer) : answer);
  }

  /** Lets another part write the response. `target` replaces the target of the request. */
  delegate(handler: (request: IncomingMessage, response: ServerResponse) => void): void {
    this.request.url = this.target;
    this.#shutdown.delegate(this.#response);
    handler(this.request, this.#response);
  }
}

const BASIC_CREDENTIALS = /^basic +([\w+/-]+={0,2}) *$/i;

/**
 * The write key in an Authorization header: the user name of Basic authorization, with or without a colon behind it. The
 * password is ignored. Other schemes carry no key; with `Bearer` it is in the body. spec/specification.md, "Write key".
 */
export function parseWriteKey(header: string): string | undefined {
  const encoded = BASIC_CREDENTIALS.exec(header)?.[1];
  if (encoded === undefined) return undefined;
  const credentials = Buffer.from(encoded, 'base64').toString();
  const colon = credentials.indexOf(':');
  const user = colon < 0 ? credentials : credentials.slice(0, colon);
  return user === '' ? undefined : user;
}
