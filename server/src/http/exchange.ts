import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { AnswerStream } from '../ports/control.ts';
import type { Measures } from '../ports/measures.ts';
import { writeKeyIn } from './authorization.ts';
import type { CallExchange } from './call-exchange.ts';
import { ASKED, type Carrier } from './connections.ts';
import { forBrowsers } from './cors.ts';
import { type Answer, respond } from './respond.ts';
import { isReceivingPath, targetIn } from './routes.ts';
import { stream } from './stream.ts';

/** Whether the server is about to stop: then every answer is the last of its connection. */
export interface Closing {
  isClosing: boolean;
}

/** One request that `node:http` has read, and the way to answer it. */
export class Exchange implements CallExchange {
  readonly request: IncomingMessage;
  /** What the request asks for: a path and its query, also where the request line has a whole URL. */
  readonly target: string;
  readonly #response: ServerResponse;
  readonly #closing: Closing;
  readonly #measures: Measures | undefined;
  #awaitsContinue = false;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    closing: Closing,
    measures: Measures | undefined,
  ) {
    this.request = request;
    this.target = targetIn(request.url ?? '');
    this.#response = response;
    this.#closing = closing;
    this.#measures = measures;
    (request.socket as Carrier)[ASKED] = this;
  }

  get contentLength(): number {
    return Number(this.request.headers['content-length']);
  }

  get contentEncoding(): string | undefined {
    return this.request.headers['content-encoding'];
  }

  get writeKey(): string | undefined {
    const { authorization } = this.request.headers;
    return authorization === undefined ? undefined : writeKeyIn(authorization);
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
  awaitContinue(): void {
    this.#awaitsContinue = true;
  }

  /** The client may send the body. A client that is refused by the head alone is spared sending it. */
  invite(): void {
    if (this.#awaitsContinue) this.#response.writeContinue();
  }

  closeAfter(): void {
    this.#response.shouldKeepAlive = false;
  }

  abandon(): void {
    this.request.destroy();
  }

  get isAnswered(): boolean {
    return this.#response.headersSent;
  }

  /** It has its answer before all of it is here. What is wrong with the rest is not worth another one. */
  get isAnsweredEarly(): boolean {
    return this.isAnswered && !this.request.complete;
  }

  /** Browsers may read every answer of the receiving API, the refusals too; everybody else is spared the headers. */
  reply(answer: Answer): void {
    if (this.#closing.isClosing) this.closeAfter();
    const isReceiving = isReceivingPath(this.target);
    if (isReceiving) this.#measures?.answered(answer.status, answer.code);
    const toBrowser = isReceiving && this.request.headers.origin !== undefined;
    respond(this.#response, toBrowser ? forBrowsers(answer) : answer);
  }

  /** An answer that goes on. It is the last of its connection, so that nothing is left open when the server stops. */
  stream(head: Pick<Answer, 'status' | 'headers'>, body: AnswerStream): void {
    this.closeAfter();
    stream(this.#response, head, body);
  }
}
