import type { Socket } from 'node:net';
import { type Duration, SECOND } from '../../model/time.ts';
import type { Connect, ConnectTarget } from './connector.ts';
import { HttpClientError, type RequestFailure } from './errors.ts';
import type { PendingRequest, RequestConnection } from './request.ts';
import { ResponseParser } from './response-parser.ts';
import type { TimeoutEntry, TimeoutList, TimeoutQueue } from './timeouts.ts';

/** Closed this long before the time a receiver has announced, so that a request does not cross the closing. */
const KEEP_ALIVE_MARGIN: Duration = 500;

/** The pool that gives a connection its exchanges. */
export interface ConnectionOwner {
  /** How long a connection may lie idle, as far as the receiver has shown. */
  readonly longestIdle: Duration;
  /** It is free for the next exchange. */
  released(connection: Connection): void;
  /** It is closed. */
  discarded(connection: Connection): void;
  /** It is closed, and this exchange wants another one. */
  replaced(connection: Connection, exchange: PendingRequest): void;
  /** The receiver has closed it without a word, so long after its last answer; `isLoss`: under a request. */
  closedByReceiver(connection: Connection, idle: Duration, isLoss: boolean): void;
  /** It has lain idle for so long without being closed by the receiver. */
  idleExpired(idle: Duration): void;
}

export interface ConnectionOptions {
  readonly connect: Connect;
  /** How long it may lie idle. */
  readonly idleTimeout: Duration;
  /** Where that is counted. */
  readonly idle: TimeoutQueue;
}

/**
 * One connection and its HTTP/1.1: never more than one request at a time, each written in one piece.
 *
 * ```
 *   connecting ──▶ busy ⇄ idle         any ──▶ closed, at the end of the socket, of the idle time, or of a request
 *        with its first exchange                        that cannot be told apart from the next one
 * ```
 */
export class Connection implements RequestConnection, TimeoutEntry {
  deadline = 0;
  row: TimeoutList | undefined = undefined;
  before: TimeoutEntry | undefined = undefined;
  after: TimeoutEntry | undefined = undefined;

  /** Requests that were answered over it. */
  carried = 0;

  readonly #owner: ConnectionOwner;
  readonly #options: ConnectionOptions;
  readonly #parser = new ResponseParser();
  readonly #abortConnect: () => void;
  #socket: Socket | undefined;
  #request: PendingRequest | undefined;
  /** Since when it lies idle, or lay before the request it carries; infinite when that came right behind an answer. */
  #idleSince = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(
    target: ConnectTarget,
    exchange: PendingRequest,
    options: ConnectionOptions,
    owner: ConnectionOwner,
  ) {
    this.#owner = owner;
    this.#options = options;
    this.#request = exchange;
    exchange.assignTo(this);
    this.#abortConnect = options.connect(
      target,
      (...[error, socket]) => {
        if (error === null) this.#connected(socket);
        else this.#failed(error);
      },
      (bytes, length) => this.#read(bytes, length),
    );
  }

  get reused(): boolean {
    return this.carried > 0;
  }

  /** Resolves when its socket is gone. */
  async closed(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || socket.closed) return;
    await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  }

  send(exchange: PendingRequest): void {
    this.#options.idle.remove(this);
    this.#request = exchange;
    exchange.assignTo(this);
    this.#write(this.#socket!, exchange);
  }

  release(): void {
    this.#request = undefined;
    this.carried += 1;
    this.#idleSince = Number.POSITIVE_INFINITY;
    // What is still being written belongs to a request whose answer came early: receivers close after that.
    if (this.#parser.keepAlive && this.#idleTime() > 0 && this.#socket!.writableLength === 0) {
      this.#owner.released(this);
    } else this.discard();
  }

  /** There is nothing for it to carry now. */
  markIdle(): void {
    this.#idleSince = performance.now();
    this.#options.idle.add(this, this.#idleSince, this.#idleTime());
  }

  /** For how long it has lain idle at this time, on the clock of `performance.now`. */
  idleAt(now: number): Duration {
    return Math.max(0, now - this.#idleSince);
  }

  /** It has lain idle for too long. */
  expire(): void {
    this.#owner.idleExpired(this.idleAt(performance.now()));
    this.discard();
  }

  discard(): void {
    if (this.#isClosed) return;
    this.close();
    this.#owner.discarded(this);
  }

  replace(exchange: PendingRequest): void {
    this.close();
    this.#owner.closedByReceiver(this, this.idleAt(exchange.startedAt), true);
    this.#owner.replaced(this, exchange);
  }

  /** Closes it without telling the pool. */
  close(): void {
    this.#isClosed = true;
    this.#request = undefined;
    this.#options.idle.remove(this);
    // Both: the connector knows what is still connecting, the socket is what has become of it.
    this.#abortConnect();
    this.#socket?.destroy();
  }

  stop(failure: RequestFailure): void {
    if (this.#request === undefined) this.discard();
    else this.#request.end(failure);
  }

  #connected(socket: Socket): void {
    this.#socket = socket;
    socket.on('error', (error) => this.#failed(error));
    socket.on('end', () => this.#ended());
    socket.on('close', () => this.#ended());
    if (this.#request !== undefined) this.#write(socket, this.#request);
  }

  /** In one piece: a second write costs as much as all the rest of a request. */
  #write(socket: Socket, { requestHead, request: { body } }: PendingRequest): void {
    this.#parser.reset();
    const bytes = Buffer.allocUnsafe(requestHead.length + body.length);
    bytes.write(requestHead, 'latin1');
    body.copy(bytes, requestHead.length);
    this.#request!.markWritten();
    socket.write(bytes);
  }

  #read(bytes: Buffer, length: number): void {
    const exchange = this.#request;
    if (this.#isClosed) return;
    // Nobody has asked for them: whatever comes next on it cannot be told from the answer to another request.
    if (exchange === undefined) this.discard();
    else {
      const progress = this.#parser.parse(bytes, length, exchange);
      if (progress === 'complete') exchange.complete();
      else if (progress === 'more') exchange.heard();
      else
        this.#failed(
          new HttpClientError(
            'protocol_error',
            `the answer is not as HTTP wants it: ${this.#parser.problem}`,
          ),
        );
    }
  }

  /** The other side has closed it. */
  #ended(): void {
    if (this.#isClosed) return;
    if (this.#request !== undefined && this.#parser.endsWithConnection) this.#request.complete();
    else this.#failed(new HttpClientError('connection_closed', 'the receiver closed the connection'));
  }

  #failed(error: Error): void {
    if (this.#isClosed) return;
    if (this.#request !== undefined) this.#request.failed(error);
    else {
      this.#owner.closedByReceiver(this, this.idleAt(performance.now()), false);
      this.discard();
    }
  }

  #idleTime(): Duration {
    const longest = Math.min(this.#options.idleTimeout, this.#owner.longestIdle);
    const announced = this.#parser.keepAliveSeconds;
    return Number.isNaN(announced) ? longest : Math.min(announced * SECOND - KEEP_ALIVE_MARGIN, longest);
  }
}
