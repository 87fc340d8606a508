import type { Server, Socket } from 'node:net';
import type { Duration } from '../../model/time.ts';
import type { MetricsRecorder } from '../../ports/telemetry.ts';
import { rejectUnreadable } from '../connections.ts';
import { withCorsHeaders } from '../cors.ts';
import { type HttpExchange, parseWriteKey, type ServerShutdown } from '../exchange.ts';
import { admitCall, type IncomingCall, type RequestDependencies } from '../receiving-api.ts';
import { DrainedBody } from '../request-body.ts';
import type { PreparedResponse } from '../responses.ts';
import { type FastPathRequest, parseFastPathRequest } from './request-parser.ts';
import type { ResponseWriter } from './response-writer.ts';

export interface FastPathOptions extends Omit<FastPathContext, 'attend' | 'left'> {
  readonly limits: FastPathTimeouts;
  readonly isTls: boolean;
}

/** The connections that are read without `node:http`: every one from its beginning until something is not plain. */
export class FastPathConnections {
  readonly #open = new Set<FastPathConnection>();
  readonly #limits: FastPathTimeouts;

  /**
   * Stands between the server and Node's own reader of connections, which is called for those that are handed over: in all
   * else, the bounds, the time limits, the closing, it is the same server for both.
   */
  constructor(server: Server, { limits, isTls, ...shared }: FastPathOptions) {
    this.#limits = limits;
    const event = isTls ? 'secureConnection' : 'connection';
    const [read] = server.listeners(event) as ((socket: Socket) => void)[];
    server.off(event, read!);
    const tools: FastPathContext = {
      ...shared,
      attend: (socket) => Reflect.apply(read!, server, [socket]),
      left: (connection) => this.#open.delete(connection),
    };
    server.on(event, (socket: Socket) => this.#open.add(new FastPathConnection(socket, tools)));
  }

  /** To be called every few seconds. */
  checkTimeouts(): void {
    const now = performance.now();
    for (const connection of this.#open) connection.checkTimeouts(now, this.#limits);
  }

  closeIdle(): void {
    for (const connection of this.#open) connection.closeIfIdle();
  }
}

/** What all plain connections share. */
export interface FastPathContext {
  readonly dependencies: RequestDependencies;
  readonly responses: ResponseWriter;
  readonly shutdown: ServerShutdown;
  readonly measures: MetricsRecorder | undefined;
  /** Begins to read the connection with `node:http`. */
  readonly attend: (socket: Socket) => void;
  /** It is none of the plain connections any more. */
  readonly left: (connection: FastPathConnection) => void;
}

/** How long a connection may be in a state; in milliseconds, as in `TimeLimits`. */
export interface FastPathTimeouts {
  readonly head: Duration;
  readonly request: Duration;
  readonly idle: Duration;
}

/** Idle since the last look at the time; the next one writes down when that was, so that no request asks for it. */
const UNKNOWN_TIME = Number.NaN;

const EMPTY = Buffer.alloc(0);

/**
 * A connection whose requests have all been plain so far, read without `node:http`.
 *
 * ```
 * silent ──plain request──▶ asking ──its body here, answered──▶ idle ──plain request──▶ asking
 *    │                        └── last answer, too slow, broken off, client gone ──▶ over
 *    └── anything else (the same from idle) ──▶ over here: node:http goes on, from the first byte that was not answered
 * ```
 * A plain request is alone: whoever sends more bytes right behind it is handed over with both, as only `node:http` takes
 * requests before the one in front of them is answered. What comes while one is waiting for its verdict is left unread until
 * then. So there is one request at a time, the connection itself is its exchange, and a call costs no closure, listener
 * or timer here.
 */
export class FastPathConnection implements HttpExchange {
  readonly peer: Socket;
  readonly #context: FastPathContext;
  #state: 'silent' | 'asking' | 'idle' | 'over' = 'silent';
  /** When the state began that has a limit, on the clock of `performance`. */
  #stateSince = performance.now();
  /** While asking. */
  #request: FastPathRequest | undefined;
  /** While asking, unless it was refused by its head. It must know when the client goes before its body is here. */
  #call: IncomingCall | undefined;
  #drained: DrainedBody | undefined;
  /** Bytes of the body that are still to come. */
  #bodyRemaining = 0;
  #isResponseSent = false;
  #closesAfter = false;
  /** Whether the client will send nothing more. */
  #isHalfClosed = false;
  /** Whether nothing is read because something has to come first. */
  #isPaused = false;
  /** Clients send the same header with every request of a connection. */
  #authorization = '';
  #writeKey: string | undefined;

  constructor(peer: Socket, tools: FastPathContext) {
    this.peer = peer;
    this.#context = tools;
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

  closeAfterResponse(): void {
    this.#closesAfter = true;
  }

  abort(): void {
    this.#state = 'over';
    this.peer.destroy();
  }

  reply(answer: PreparedResponse): void {
    const { measures, shutdown: closing, responses: texts } = this.#context;
    measures?.requestAnswered(answer.status, answer.code);
    if (this.#state === 'over') return;
    this.#isResponseSent = true;
    const full = this.#request!.hasOrigin ? withCorsHeaders(answer) : answer;
    if (this.#closesAfter || closing.isClosing) {
      this.#state = 'over';
      this.peer.end(texts.serializeLast(full), () => this.peer.destroy());
      return;
    }
    if (!this.peer.write(texts.serialize(full))) this.#pauseUntilDrain();
    this.#finishRequest();
  }

  /** Cuts off what takes too long, as `node:http` does; `now` is on the clock of `performance`. */
  checkTimeouts(now: number, limits: FastPathTimeouts): void {
    if (Number.isNaN(this.#stateSince)) {
      this.#stateSince = now;
      return;
    }
    const lasted = now - this.#stateSince;
    if (this.#state === 'idle') {
      if (lasted >= limits.idle) this.abort();
    } else if (this.#state === 'silent') {
      if (lasted >= limits.head) this.#failRequest('ERR_HTTP_REQUEST_TIMEOUT');
    } else if (this.#state === 'asking' && this.#bodyRemaining > 0) {
      if (lasted >= limits.request) this.#failRequest('ERR_HTTP_REQUEST_TIMEOUT');
    }
  }

  /** The server is about to stop: closes it unless a client waits here for an answer. */
  closeIfIdle(): void {
    if (this.#state === 'idle' || (this.#state === 'asking' && this.#isHalfClosed)) this.abort();
  }

  readonly #onData = (piece: Buffer): void => {
    switch (this.#state) {
      case 'over':
        return;
      case 'asking':
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
    this.#state = 'asking';
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
      if (this.#drained.exceedsLimit(part)) this.abort();
    }
  }

  /** Ready for the next request when there is nothing more to read or write of this one. */
  #finishRequest(): void {
    if (this.#state !== 'asking' || !this.#isResponseSent || this.#bodyRemaining > 0) return;
    if (this.#context.shutdown.isClosing) {
      // Answered before, and only now rid of its body.
      this.abort();
      return;
    }
    this.#state = 'idle';
    this.#stateSince = UNKNOWN_TIME;
    // A head may hold on to all the bytes that were read with it.
    this.#request = undefined;
    this.#call = undefined;
    this.#drained = undefined;
    if (this.#isPaused) this.#resume();
  }

  /** It came behind a request that waits for its verdict. */
  #pushBack(piece: Buffer): void {
    this.#isPaused = true;
    this.peer.pause();
    this.peer.unshift(piece);
  }

  /** A client that does not read its answers is not asked for more requests. */
  #pauseUntilDrain(): void {
    this.#isPaused = true;
    this.peer.pause();
    this.peer.once('drain', () => this.#resume());
  }

  #resume(): void {
    const isWaiting = this.#state === 'asking' && this.#bodyRemaining === 0;
    if (isWaiting || this.#state === 'over' || this.peer.writableNeedDrain) return;
    this.#isPaused = false;
    this.peer.resume();
  }

  /**
   * From here on `node:http` reads the connection, beginning with these bytes. They are put back, and read again before
   * anything else can happen: from then on `node:http` takes what arrives right from the system, past what was put back.
   */
  #handOver(bytes: Buffer): void {
    this.#state = 'over';
    const { peer } = this;
    peer.off('data', this.#onData);
    peer.off('end', this.#onEnd);
    peer.off('close', this.#onClose);
    peer.off('error', ignoreError);
    this.#context.left(this);
    peer.unshift(bytes);
    this.#context.attend(peer);
    peer.read();
  }

  /**
   * The client will send nothing more. It may still read, and gets its answer; or it may be gone, which looks the same, and
   * a stop does not wait for it.
   */
  readonly #onEnd = (): void => {
    if (this.#state === 'over') return;
    this.#isHalfClosed = true;
    if (this.#state !== 'asking') {
      this.#state = 'over';
      this.peer.end();
    } else if (this.#bodyRemaining > 0) this.#failRequest('HPE_INVALID_EOF_STATE');
    else if (this.#context.shutdown.isClosing) this.abort();
    else this.#closesAfter = true;
  };

  /** What is here is no whole request. One that was refused by its head has its answer, and gets no second one. */
  #failRequest(code: string): void {
    this.#state = 'over';
    if (this.#isResponseSent) this.peer.end(() => this.peer.destroy());
    else rejectUnreadable(code, this.peer, this.#context.measures);
  }

  readonly #onClose = (): void => {
    this.#state = 'over';
    this.#context.left(this);
    this.#call?.onDisconnect();
  };
}

/** The close that follows is all there is to know of an error. */
function ignoreError(): void {}
