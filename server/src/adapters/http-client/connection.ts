import type { Socket } from 'node:net';
import { LinkedList, type ListEntry } from '../../model/containers.ts';
import { type Duration, SECOND } from '../../model/time.ts';
import type { HttpResult, OutboundRequest } from '../../ports/http-client.ts';
import type { Connect, ConnectTarget } from './connector.ts';
import { HttpClientError, type RequestFailure } from './errors.ts';
import { RequestWriter } from './request-head.ts';
import { type ResponseHandler, ResponseParser } from './response-parser.ts';

/**
 * How late an idle connection may be closed. It is less than the margin to the time that receivers announce.
 */
export const IDLE_STEP: Duration = 250;

/** Connections that were opened together end over this part of their age, and not at once. */
const AGE_SPREAD = 0.25;

/**
 * Closed this long before the time a receiver has announced, so that a request does not cross the closing.
 */
const KEEP_ALIVE_MARGIN: Duration = 500;

/**
 * News of a connection for the pool that owns it. `complete`: the answer is complete. `closed`: it was closed
 * here, by its request or because of stray bytes. `idle_expired`: it was idle for too long. An `Error`: it
 * failed, or the receiver closed it.
 */
export type ConnectionEvent = 'complete' | 'closed' | 'idle_expired' | Error;

export interface ConnectionOptions {
  readonly connect: Connect;
  /** How long a connection may be idle. */
  readonly idleTimeout: Duration;
  /** How long a connection may be used at most, from its beginning to the last request that it is given. */
  readonly maxConnectionAge: Duration;
  /** The time limits of idle connections. */
  readonly idle: TimeoutQueue;
  /** Requests of all connections that are to be written. */
  readonly writes: WriteQueue;
}

/**
 * Requests that wait until everything that has arrived is read, and are then written one right behind the
 * other. A receiver that is busy with one need not be woken for the next, which costs more than writing it.
 * docs/decisions/0009-sending.md
 */
export class WriteQueue {
  readonly #writer = new RequestWriter();
  #connections: Connection[] = [];

  add(connection: Connection): void {
    if (this.#connections.push(connection) === 1) setImmediate(this.#flush);
  }

  readonly #flush = (): void => {
    const connections = this.#connections;
    this.#connections = [];
    for (const connection of connections) connection.write(this.#writer);
  };
}

/**
 * One connection and its HTTP/1.1. It carries one request at a time, each written in one piece. It knows
 * nothing of other connections: the pool decides what becomes of it.
 *
 * ```
 *   connecting ──▶ busy ⇄ idle         any ──▶ closed
 *        with its first request
 * ```
 */
export class Connection implements TimeoutEntry {
  deadline = Number.POSITIVE_INFINITY;
  list: TimeoutList | undefined = undefined;
  previous: TimeoutEntry | undefined = undefined;
  next: TimeoutEntry | undefined = undefined;

  /** Requests that were answered over it. */
  carried = 0;
  /** The request that it carries now. */
  request: PendingRequest | undefined;
  /** A byte of the answer to `request` has come. */
  hasResponseBytes = false;

  readonly #onEvent: (connection: Connection, event: ConnectionEvent) => void;
  readonly #options: ConnectionOptions;
  readonly #parser = new ResponseParser();
  readonly #abortConnect: () => void;
  #socket: Socket | undefined;
  /**
   * Start of the idle time that lasts or preceded the request; infinite when that came right behind an
   * answer.
   */
  #idleSince = Number.POSITIVE_INFINITY;
  /** No request is given to it from then on. */
  readonly #usedUntil: number;
  #isClosed = false;

  constructor(
    target: ConnectTarget,
    options: ConnectionOptions,
    onEvent: (connection: Connection, event: ConnectionEvent) => void,
  ) {
    this.#onEvent = onEvent;
    this.#options = options;
    // An idle one may be given a request until it is closed, which may be late by one step.
    const longest = options.maxConnectionAge - IDLE_STEP;
    this.#usedUntil = performance.now() + longest * (1 - AGE_SPREAD * Math.random());
    this.#abortConnect = options.connect(
      target,
      (...[error, socket]) => {
        if (error === null) this.#onConnect(socket);
        else this.#fail(error);
      },
      (length, bytes) => {
        this.#onRead(bytes, length);
        return true;
      },
    );
  }

  /** Resolves when its socket is closed. */
  async closed(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || socket.closed) return;
    await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  }

  /** Sends a request as soon as it is connected. It must carry none. */
  send(request: PendingRequest): void {
    this.#options.idle.remove(this);
    this.request = request;
    this.hasResponseBytes = false;
    request.onAssigned(this.#closeForRequest);
    this.#parser.reset();
    if (this.#socket !== undefined) this.#options.writes.add(this);
  }

  /** Takes the answered request off. */
  finish(): PendingRequest {
    const request = this.request!;
    this.request = undefined;
    this.carried += 1;
    this.#idleSince = Number.POSITIVE_INFINITY;
    return request;
  }

  /**
   * Whether it may carry another request. `longestIdle` is the idle time that the receiver bears, as far as
   * it has shown.
   */
  isReusable(longestIdle: Duration): boolean {
    // An answer may come before its request is written; receivers close after that.
    return this.#parser.keepAlive && this.#idleTime(longestIdle) > 0 && this.#socket!.writableLength === 0;
  }

  /** There is no request for it now. It expires when the idle time is over. */
  markIdle(longestIdle: Duration): void {
    this.#idleSince = performance.now();
    this.#options.idle.add(this, this.#idleSince, this.#idleTime(longestIdle));
  }

  /** How long it had been idle at this time, on the clock of `performance.now`. */
  idleAt(now: number): Duration {
    return Math.max(0, now - this.#idleSince);
  }

  /** The idle time is over. */
  expire(): void {
    this.#onEvent(this, 'idle_expired');
  }

  /** Closes it without an event. */
  close(): void {
    this.#isClosed = true;
    this.request = undefined;
    this.#options.idle.remove(this);
    // Both: the connector knows the socket that is still connecting, and this object the connected one.
    this.#abortConnect();
    this.#socket?.destroy();
  }

  readonly #closeForRequest = (): void => {
    if (this.#isClosed) return;
    this.close();
    this.#onEvent(this, 'closed');
  };

  #onConnect(socket: Socket): void {
    this.#socket = socket;
    socket.on('error', (error) => this.#fail(error));
    socket.on('end', () => this.#onEnd());
    socket.on('close', () => this.#onEnd());
    this.#options.writes.add(this);
  }

  /** Writes its request. */
  write(writer: RequestWriter): void {
    const { request } = this;
    const socket = this.#socket;
    // It may have ended since it was sent.
    if (this.#isClosed || socket === undefined || request === undefined) return;
    // This process may have stood still while it connected, and the deliveries be another node's by now.
    if (performance.now() >= request.deadline) {
      request.expire();
      return;
    }
    request.onWrite();
    writer.write(socket, request.fixedHead, request.headRest, request.request.body);
  }

  #onRead(bytes: Buffer, length: number): void {
    const { request } = this;
    if (this.#isClosed) return;
    // Bytes without a request: the answer to the next request could not be told from what follows them.
    if (request === undefined) {
      this.#closeForRequest();
      return;
    }
    if (!request.isWritten) {
      this.#fail(new HttpClientError('connection_closed', 'the receiver answered before it was asked'));
      return;
    }
    const progress = this.#parser.parse(bytes, length, request);
    // The request may have ended while its answer was read.
    if (this.#isClosed) return;
    if (progress === 'complete') this.#onEvent(this, 'complete');
    else if (progress === 'more') {
      this.hasResponseBytes = true;
      request.onPartial();
    } else {
      this.#fail(
        new HttpClientError('protocol_error', `the answer is not as HTTP wants it: ${this.#parser.problem}`),
      );
    }
  }

  /** The receiver has closed it. */
  #onEnd(): void {
    if (this.#isClosed) return;
    if (this.request !== undefined && this.#parser.endsWithConnection) this.#onEvent(this, 'complete');
    else this.#fail(new HttpClientError('connection_closed', 'the receiver closed the connection'));
  }

  #fail(error: Error): void {
    if (!this.#isClosed) this.#onEvent(this, error);
  }

  #idleTime(longestIdle: Duration): Duration {
    // In steps, which keeps the number of different limits small.
    const age = IDLE_STEP * Math.floor((this.#usedUntil - performance.now()) / IDLE_STEP);
    const longest = Math.min(this.#options.idleTimeout, longestIdle, age);
    const announced = this.#parser.keepAliveSeconds;
    return Number.isNaN(announced) ? longest : Math.min(announced * SECOND - KEEP_ALIVE_MARGIN, longest);
  }
}

/** Bytes that are kept of the body of an answer that is not 2xx. spec/specification.md, "Timeout". */
export const MAX_KEPT_BODY = 4096;

/**
 * An unwanted body is read this far and for this long, to keep the connection. Beyond that a new one is
 * cheaper.
 */
const MAX_DRAINED_BODY = 64 * 1024;
const DRAIN_TIME: Duration = 1000;

/**
 * One request and its answer. The response handler, the entry in the time limits and the state are one
 * object, because each further object would be paid once per request.
 *
 * ```
 *   waiting ──▶ assigned ──▶ written ──▶ head ──▶ ended      reported (`done` called) at the head of a 2xx, else when
 *   for a         ▲            │                             the body ended, 4 KB of it were read or the time was over;
 *   connection    └────────────┘ once, when the connection   the rest of the body is drained
 *                                was dead
 * ```
 */
export class PendingRequest implements ResponseHandler, TimeoutEntry {
  readonly request: OutboundRequest;
  /** The head of the request, as `serializeFixedHead` and `serializeHeadRest` make it. */
  readonly fixedHead: Buffer;
  readonly headRest: string;
  /** On the clock of `performance.now`. */
  readonly startedAt: number;

  deadline = 0;
  list: TimeoutList | undefined = undefined;
  previous: TimeoutEntry | undefined = undefined;
  next: TimeoutEntry | undefined = undefined;

  readonly #done: (answer: HttpResult) => void;
  readonly #limits: TimeoutQueue;
  #closeConnection: (() => void) | undefined = undefined;
  #isInSend = true;
  #isWritten = false;
  #isReported = false;
  #isEnded = false;
  #status = 0;
  #retryAfter: string | undefined = undefined;
  #latencyMs = 0;
  #received = 0;
  #kept: Buffer[] | undefined = undefined;

  constructor(
    request: OutboundRequest,
    { fixedHead, headRest }: Pick<PendingRequest, 'fixedHead' | 'headRest'>,
    limits: TimeoutQueue,
    done: (answer: HttpResult) => void,
  ) {
    this.request = request;
    this.startedAt = performance.now() - (request.waited ?? 0);
    this.fixedHead = fixedHead;
    this.headRest = headRest;
    this.#limits = limits;
    this.#done = done;
  }

  /** Whether it is over: answered in full, failed or timed out. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Whether its connection has got it. */
  get isWritten(): boolean {
    return this.#isWritten;
  }

  /** `HttpClient.send` has returned. From now on `done` may be called synchronously. */
  sendReturned(): void {
    this.#isInSend = false;
  }

  /** A connection carries it now. `close` closes that connection. */
  onAssigned(close: () => void): void {
    this.#closeConnection = close;
    this.#isWritten = false;
  }

  /** Call when it is being written to its connection. */
  onWrite(): void {
    this.#isWritten = true;
  }

  onHead(status: number, retryAfter: string | undefined): void {
    this.#status = status;
    this.#latencyMs = this.#elapsed();
    this.#retryAfter = retryAfter;
  }

  onBody(bytes: Buffer, from: number, to: number): void {
    if (this.#isEnded) return;
    const before = this.#received;
    this.#received += to - from;
    if (!this.#isReported && !isSuccess(this.#status)) {
      // A copy: the buffer is reused for the next read.
      this.#kept ??= [];
      this.#kept.push(Buffer.from(bytes.subarray(from, Math.min(to, from + MAX_KEPT_BODY - before))));
      if (this.#received >= MAX_KEPT_BODY) this.#reportEarly();
    }
    if (this.#received > MAX_DRAINED_BODY) this.end(TOO_LONG);
  }

  /**
   * A part of the answer is here, and more is to come. A 2xx counts with its head. It is reported here and
   * not in `onHead`: most answers are complete by then, and the connection is free when `done` sends the next
   * request.
   */
  onPartial(): void {
    if (isSuccess(this.#status)) this.#reportEarly();
  }

  /** The answer is complete, and the connection is free or closed. */
  onComplete(): void {
    this.#isEnded = true;
    this.#limits.remove(this);
    this.#reportAnswer();
  }

  expire(): void {
    const limit = `${this.request.timeout} ms`;
    let detail = `no answer within ${limit}`;
    if (this.#closeConnection === undefined) detail = `no connection was free within ${limit}`;
    else if (!this.#isWritten) detail = `not connected within ${limit}`;
    this.end({ reason: 'timeout', detail });
  }

  /** Ends it and closes its connection. It is reported as answered when the head was here, else as failed. */
  end(failure: RequestFailure): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#limits.remove(this);
    this.#closeConnection?.();
    if (this.#status === 0) this.#reportFailure(failure);
    else this.#reportAnswer();
  }

  /** Reports the answer as far as it is known, and gives the rest of the body a moment to pass. */
  #reportEarly(): void {
    if (this.#isEnded || this.#isReported) return;
    this.#limits.remove(this);
    this.#limits.add(this, performance.now(), DRAIN_TIME);
    this.#reportAnswer();
  }

  #reportAnswer(): void {
    if (this.#isReported) return;
    this.#report({
      kind: 'answered',
      status: this.#status,
      ...(this.#retryAfter === undefined ? undefined : { retryAfter: this.#retryAfter }),
      body: this.#kept === undefined ? '' : decodeBody(this.#kept),
      latencyMs: this.#latencyMs,
    });
  }

  #reportFailure({ reason, detail }: RequestFailure): void {
    this.#report({ kind: 'failed', reason, detail, latencyMs: this.#elapsed() });
  }

  #report(answer: HttpResult): void {
    this.#isReported = true;
    this.#kept = undefined;
    if (this.#isInSend) process.nextTick(callDone, this.#done, answer);
    else callDone(this.#done, answer);
  }

  #elapsed(): number {
    return performance.now() - this.startedAt;
  }
}

const TOO_LONG: RequestFailure = {
  reason: 'connection_closed',
  detail: 'the answer is longer than anyone reads',
};

/**
 * An exception of `done` is a bug: it must be seen, and must not stop the reading of this connection or
 * message half-way.
 */
export function callDone(done: (answer: HttpResult) => void, answer: HttpResult): void {
  try {
    done(answer);
  } catch (bug) {
    process.nextTick(() => {
      throw bug;
    });
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** `stream` leaves out a character that was cut in two at the end of the kept bytes. */
function decodeBody(kept: readonly Buffer[]): string {
  return new TextDecoder().decode(Buffer.concat(kept), { stream: true });
}

/** Something with a time limit. */
export interface TimeoutEntry extends ListEntry<TimeoutEntry> {
  /** Time on the clock of `performance.now`. The queue sets it. */
  deadline: number;
  /** The time is over. The entry is in no list any more. */
  expire(): void;
}

/**
 * The entries with one and the same time limit, in the order they were added, which is the order they expire
 * in.
 */
type TimeoutList = LinkedList<TimeoutEntry>;

/**
 * How late an entry may expire unless the queue says otherwise. A step costs a look at the first entry of
 * each list.
 */
const STEP: Duration = 25;

/**
 * Time limits of very many short operations. One timer serves all of them; adding and removing are a few
 * assignments. A timer per request would cost more than all the rest of a request in JavaScript.
 */
export class TimeoutQueue {
  readonly #step: Duration;
  readonly #lists = new Map<Duration, TimeoutList>();
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;

  constructor(step: Duration = STEP) {
    this.#step = step;
  }

  /** Lets `entry` expire at `startedAt + limit`, both in milliseconds on the clock of `performance.now`. */
  add(entry: TimeoutEntry, startedAt: number, limit: Duration): void {
    let list = this.#lists.get(limit);
    if (list === undefined) {
      list = new LinkedList();
      this.#lists.set(limit, list);
    }
    entry.deadline = startedAt + limit;
    list.push(entry);
    if (!this.#isRunning) this.#start();
  }

  /** The entry that expires first. */
  get first(): TimeoutEntry | undefined {
    let first: TimeoutEntry | undefined;
    for (const { first: entry } of this.#lists.values()) {
      if (entry !== undefined && (first === undefined || entry.deadline < first.deadline)) first = entry;
    }
    return first;
  }

  /** Does nothing when `entry` is in no list. */
  remove(entry: TimeoutEntry): void {
    entry.list?.remove(entry);
  }

  #start(): void {
    this.#isRunning = true;
    if (this.#timer === undefined) {
      // After a pause of this process every limit may seem over while the answers lie unread in the sockets.
      // An immediate runs after they have been read.
      this.#timer = setTimeout(() => setImmediate(() => this.#sweep()), this.#step);
      this.#timer.unref();
    } else {
      this.#timer.refresh();
    }
  }

  #sweep(): void {
    // Read once: entries that are added meanwhile have a deadline that is not before `now`, so the loops end.
    const now = performance.now();
    for (const [limit, list] of this.#lists) {
      for (let { first } = list; first !== undefined && first.deadline < now; { first } = list) {
        list.remove(first);
        first.expire();
      }
      if (list.first === undefined) this.#lists.delete(limit);
    }
    this.#isRunning = false;
    if (this.#lists.size > 0) this.#start();
  }
}
