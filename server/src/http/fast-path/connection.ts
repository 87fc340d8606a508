import type { Server, Socket } from 'node:net';
import { type Duration, SECOND } from '../../model/time.ts';
import { rejectUnreadable } from '../connections.ts';
import {
  CONNECTION_CLOSE,
  type ExchangeContext,
  type HttpExchange,
  MAX_DRAINED_BYTES,
  type PreparedResponse,
  parseWriteKey,
  serializeResponse,
  withCorsHeaders,
} from '../exchange.ts';
import { admitCall, DrainedBody, type IncomingCall, type RequestDependencies } from '../receiving-api.ts';
import { type FastPathRequest, parseFastPathRequest } from './request-parser.ts';

export interface FastPathOptions extends Omit<FastPathContext, 'handOver' | 'onRelease'> {
  readonly limits: FastPathTimeouts;
  readonly isTls: boolean;
}

/**
 * The connections on the fast path. Every connection begins here, and stays until it sends something that is
 * not plain.
 */
export class FastPathConnections {
  readonly #open = new Set<FastPathConnection>();
  readonly #limits: FastPathTimeouts;

  /**
   * Takes the place of Node's own listener for connections, which is called for those that are handed over.
   * Bounds, handshakes and closing stay those of the one server.
   */
  constructor(server: Server, { limits, isTls, ...shared }: FastPathOptions) {
    this.#limits = limits;
    const event = isTls ? 'secureConnection' : 'connection';
    const [nodeListener] = server.listeners(event) as ((socket: Socket) => void)[];
    server.off(event, nodeListener!);
    const context: FastPathContext = {
      ...shared,
      handOver: (socket) => Reflect.apply(nodeListener!, server, [socket]),
      onRelease: (connection) => this.#open.delete(connection),
    };
    server.on(event, (socket: Socket) => this.#open.add(new FastPathConnection(socket, context)));
  }

  /**
   * Must be called every few seconds, with a time (of `performance`) before which everything that had arrived
   * has been read.
   */
  checkTimeouts(now: number): void {
    for (const connection of this.#open) connection.checkTimeouts(now, this.#limits);
  }

  closeIdle(): void {
    for (const connection of this.#open) connection.closeIfIdle();
  }
}

/** The parts that all connections of the fast path share. */
export interface FastPathContext extends ExchangeContext {
  readonly dependencies: RequestDependencies;
  readonly responses: ResponseWriter;
  /** Lets `node:http` read the connection. */
  readonly handOver: (socket: Socket) => void;
  /** The connection has left the fast path: it was handed over or is closed. */
  readonly onRelease: (connection: FastPathConnection) => void;
}

/** Time limits of a connection's states, as in `ServerTimeouts`. */
export interface FastPathTimeouts {
  readonly head: Duration;
  readonly request: Duration;
  readonly idle: Duration;
}

/**
 * Idle since some moment after the last check of the limits. The next check sets the time, so that no request
 * reads the clock.
 */
const UNKNOWN_TIME = Number.NaN;

const EMPTY = Buffer.alloc(0);

/**
 * A connection whose requests have all been plain so far, read without `node:http`.
 *
 * ```
 * new ──plain request──▶ active ──body read, answered──▶ idle ──plain request──▶ active
 *  │                       └── last answer, timeout, cut short, client disconnected ──▶ released
 *  └── anything else (the same from idle) ──▶ released: node:http reads on, from the first byte without an answer
 * ```
 * A plain request has no further bytes behind it: pipelined requests are handed over, as only `node:http`
 * reads a request before the one in front of it is answered. Bytes that come during a request stay unread
 * until its answer. With one request at a time the connection itself is the exchange, and a call costs no
 * closure, listener or timer here.
 */
export class FastPathConnection implements HttpExchange {
  readonly peer: Socket;
  readonly #context: FastPathContext;
  #state: 'new' | 'active' | 'idle' | 'released' = 'new';
  /** Begin of the state, where it has a time limit, on the clock of `performance`. */
  #stateSince = performance.now();
  /** While active. */
  #request: FastPathRequest | undefined;
  /** While active, unless the request was refused by its head. */
  #call: IncomingCall | undefined;
  #drained: DrainedBody | undefined;
  /** Bytes of the body that have not come yet. */
  #bodyRemaining = 0;
  #isResponseSent = false;
  #closesAfterResponse = false;
  /** The client has closed its side and will send nothing more. */
  #isHalfClosed = false;
  /** Reading waits for the answer, or for the client to read. */
  #isPaused = false;
  /** The last Authorization header: clients send the same one with every request of a connection. */
  #authorization = '';
  #writeKey: string | undefined;

  constructor(peer: Socket, context: FastPathContext) {
    this.peer = peer;
    this.#context = context;
    peer.on('data', this.#onData);
    peer.on('end', this.#onEnd);
    peer.on('close', this.#onClose);
    peer.on('error', ignoreError);
  }

  get contentLength(): number {
    return this.#request!.contentLength;
  }

  get contentEncoding(): string | undefined {
    return this.#request!.contentEncoding;
  }

  get traceparent(): string | undefined {
    return this.#request!.traceparent;
  }

  get forwardedFor(): string | undefined {
    return this.#request!.forwardedFor;
  }

  get writeKey(): string | undefined {
    const { authorization } = this.#request!;
    if (authorization === undefined) return undefined;
    if (authorization !== this.#authorization) {
      this.#writeKey = parseWriteKey(authorization);
      this.#authorization = authorization;
    }
    return this.#writeKey;
  }

  get hasOrigin(): boolean {
    return this.#request?.origin !== undefined;
  }

  closeAfterResponse(): void {
    this.#closesAfterResponse = true;
  }

  closeWhileReceiving(): void {
    this.#state = 'released';
    this.#context.lingering.close(this.peer);
  }

  #abort(): void {
    this.#state = 'released';
    this.peer.destroy();
  }

  reply(answer: PreparedResponse): void {
    const { recorder, shutdown, lingering, responses } = this.#context;
    recorder?.requestAnswered(answer.status, answer.code);
    if (this.#state === 'released') return;
    this.#isResponseSent = true;
    const { origin } = this.#request!;
    const full = origin === undefined ? answer : withCorsHeaders(answer, origin);
    const isLast = this.#closesAfterResponse || this.contentLength > MAX_DRAINED_BYTES;
    if (isLast || shutdown.isClosing) {
      this.#state = 'released';
      const last = responses.serializeLast(full);
      if (this.#bodyRemaining > 0) lingering.close(this.peer, last);
      else this.peer.end(last, () => this.peer.destroy());
      return;
    }
    if (!this.peer.write(responses.serialize(full))) this.#pauseUntilDrain();
    this.#finishRequest();
  }

  /**
   * Ends the connection when its state lasts too long, as `node:http` does. `now` is on the clock of
   * `performance`.
   */
  checkTimeouts(now: number, limits: FastPathTimeouts): void {
    if (Number.isNaN(this.#stateSince)) {
      this.#stateSince = now;
      return;
    }
    const elapsed = now - this.#stateSince;
    if (this.#state === 'idle') {
      if (elapsed >= limits.idle) this.#abort();
    } else if (this.#state === 'new') {
      if (elapsed >= limits.head) this.#failRequest('ERR_HTTP_REQUEST_TIMEOUT');
    } else if (this.#state === 'active' && this.#bodyRemaining > 0) {
      if (elapsed >= limits.request) this.#failRequest('ERR_HTTP_REQUEST_TIMEOUT');
    }
  }

  /** Closes the connection unless its client waits for an answer. For the stop of the server. */
  closeIfIdle(): void {
    if (this.#state === 'idle' || (this.#state === 'active' && this.#isHalfClosed)) this.#abort();
  }

  readonly #onData = (piece: Buffer): void => {
    switch (this.#state) {
      case 'released':
        return;
      case 'active':
        if (this.#bodyRemaining > 0) this.#readBody(piece);
        else this.#pushBack(piece);
        return;
      default:
        this.#startRequest(piece);
    }
  };

  #startRequest(piece: Buffer): void {
    const request = parseFastPathRequest(piece);
    if (request === undefined || piece.length > request.bodyAt + request.contentLength) {
      this.#handOver(piece);
      return;
    }
    this.#state = 'active';
    this.#request = request;
    this.#isResponseSent = false;
    this.#bodyRemaining = request.contentLength;
    if (piece.length < request.bodyAt + request.contentLength) this.#stateSince = performance.now();
    this.#call = admitCall(this, request.action, this.#context.dependencies);
    this.#readBody(piece.length === request.bodyAt ? EMPTY : piece.subarray(request.bodyAt));
  }

  #readBody(piece: Buffer): void {
    const isMore = piece.length > this.#bodyRemaining;
    const part = isMore ? piece.subarray(0, this.#bodyRemaining) : piece;
    this.#bodyRemaining -= part.length;
    if (part.length > 0) this.#appendBody(part);
    if (this.#bodyRemaining > 0) return;
    this.#call?.finish();
    this.#finishRequest();
    if (!isMore) return;
    const rest = piece.subarray(part.length);
    if (this.#isPaused) this.#pushBack(rest);
    else this.#onData(rest);
  }

  #appendBody(part: Buffer): void {
    if (this.#call !== undefined) this.#call.append(part);
    else {
      this.#drained ??= new DrainedBody();
      if (this.#drained.exceedsLimit(part)) this.closeWhileReceiving();
    }
  }

  /** Becomes idle when the body is read and the answer is sent. */
  #finishRequest(): void {
    if (this.#state !== 'active' || !this.#isResponseSent || this.#bodyRemaining > 0) return;
    if (this.#context.shutdown.isClosing) {
      // The answer was sent earlier; the body has been read only now.
      this.#abort();
      return;
    }
    this.#state = 'idle';
    this.#stateSince = UNKNOWN_TIME;
    // The request may keep the whole buffer that it was read from in memory.
    this.#request = undefined;
    this.#call = undefined;
    this.#drained = undefined;
    if (this.#isPaused) this.#resume();
  }

  /** Puts back bytes that came behind a request without an answer yet. They are read again later. */
  #pushBack(piece: Buffer): void {
    this.#isPaused = true;
    this.peer.pause();
    this.peer.unshift(piece);
  }

  /** Stops reading requests from a client that does not read its answers. */
  #pauseUntilDrain(): void {
    this.#isPaused = true;
    this.peer.pause();
    this.peer.once('drain', () => this.#resume());
  }

  #resume(): void {
    const isWaiting = this.#state === 'active' && this.#bodyRemaining === 0;
    if (isWaiting || this.#state === 'released' || this.peer.writableNeedDrain) return;
    this.#isPaused = false;
    this.peer.resume();
  }

  /**
   * Lets `node:http` read the connection, beginning with these bytes. They are put back and read at once,
   * because later `node:http` reads directly from the system and would skip them.
   */
  #handOver(bytes: Buffer): void {
    this.#state = 'released';
    const { peer } = this;
    peer.off('data', this.#onData);
    peer.off('end', this.#onEnd);
    peer.off('close', this.#onClose);
    peer.off('error', ignoreError);
    this.#context.onRelease(this);
    peer.unshift(bytes);
    this.#context.handOver(peer);
    peer.read();
  }

  /**
   * The client has closed its side. It may still read, and gets its answer. A client that is gone looks the
   * same, so a stop of the server does not wait for it.
   */
  readonly #onEnd = (): void => {
    if (this.#state === 'released') return;
    this.#isHalfClosed = true;
    if (this.#state !== 'active') {
      this.#state = 'released';
      this.peer.end();
    } else if (this.#bodyRemaining > 0) this.#failRequest('HPE_INVALID_EOF_STATE');
    else if (this.#context.shutdown.isClosing) this.#abort();
    else this.#closesAfterResponse = true;
  };

  /**
   * The request stays incomplete. One that was refused by its head has its answer already, and gets no second
   * one.
   */
  #failRequest(code: string): void {
    this.#state = 'released';
    if (this.#isResponseSent) this.#context.lingering.close(this.peer);
    else rejectUnreadable(code, this.peer, this.#context);
  }

  readonly #onClose = (): void => {
    this.#state = 'released';
    this.#context.onRelease(this);
    this.#call?.onDisconnect();
  };
}

/** Each error is followed by `close`, which is handled. */
function ignoreError(): void {}

/**
 * Makes answers byte for byte as `node:http` writes them, so that a client cannot tell which of the two has
 * read its request. The last answer is cached until the second is over, because nearly every answer is the
 * same.
 */
export class ResponseWriter {
  readonly #keepAliveHeaders: string;
  #date: string | undefined;
  #lastResponse: PreparedResponse | undefined;
  #lastText = '';

  /** `idle` is announced to clients as the time that a connection may be idle. */
  constructor(idle: Duration) {
    this.#keepAliveHeaders = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(idle / SECOND)}\r\n`;
  }

  serialize(answer: PreparedResponse): string {
    if (answer === this.#lastResponse) return this.#lastText;
    this.#lastText = serializeResponse(answer, '', this.#dateHeader() + this.#keepAliveHeaders);
    this.#lastResponse = answer;
    return this.#lastText;
  }

  /** Like `serialize`, for an answer that is the last of its connection. */
  serializeLast(answer: PreparedResponse): string {
    return serializeResponse(answer, '', this.#dateHeader() + CONNECTION_CLOSE);
  }

  /** The wall clock of the process, as `node:http` uses it for this header. */
  #dateHeader(): string {
    if (this.#date !== undefined) return this.#date;
    const now = new Date();
    setTimeout(() => this.#clear(), SECOND - now.getMilliseconds()).unref();
    this.#date = `Date: ${now.toUTCString()}\r\n`;
    return this.#date;
  }

  #clear(): void {
    this.#date = undefined;
    this.#lastResponse = undefined;
  }
}
