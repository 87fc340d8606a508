import type { Socket } from 'node:net';
import { type Duration, SECOND } from '../../model/time.ts';
import type { Connect, ConnectTarget } from './connector.ts';
import { HttpClientError } from './errors.ts';
import type { PendingRequest, TimeoutEntry, TimeoutList, TimeoutQueue } from './request.ts';
import { ResponseParser } from './response-parser.ts';

/** Closed this long before the time a receiver has announced, so that a request does not cross the closing. */
const KEEP_ALIVE_MARGIN: Duration = 500;

/**
 * News of a connection for the pool that owns it. `complete`: the answer is complete. `closed`: it was closed here, by its
 * request or because of stray bytes. `idle_expired`: it was idle for too long. An `Error`: it failed, or the receiver closed it.
 */
export type ConnectionEvent = 'complete' | 'closed' | 'idle_expired' | Error;

export interface ConnectionOptions {
  readonly connect: Connect;
  /** How long a connection may be idle. */
  readonly idleTimeout: Duration;
  /** The time limits of idle connections. */
  readonly idle: TimeoutQueue;
}

/**
 * One connection and its HTTP/1.1. It carries one request at a time, each written in one piece. It knows nothing of other
 * connections: the pool decides what becomes of it.
 *
 * ```
 *   connecting ──▶ busy ⇄ idle         any ──▶ closed
 *        with its first request
 * ```
 */
export class Connection implements TimeoutEntry {
  deadline = 0;
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
  /** Start of the idle time that lasts or preceded the request; infinite when that came right behind an answer. */
  #idleSince = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(
    target: ConnectTarget,
    options: ConnectionOptions,
    onEvent: (connection: Connection, event: ConnectionEvent) => void,
  ) {
    this.#onEvent = onEvent;
    this.#options = options;
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
    if (this.#socket !== undefined) this.#write(this.#socket, request);
  }

  /** Takes the answered request off. */
  finish(): PendingRequest {
    const request = this.request!;
    this.request = undefined;
    this.carried += 1;
    this.#idleSince = Number.POSITIVE_INFINITY;
    return request;
  }

  /** Whether it may carry another request. `longestIdle` is the idle time that the receiver bears, as far as it has shown. */
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
    if (this.request !== undefined) this.#write(socket, this.request);
  }

  /** In one piece: a second write costs as much as all the rest of a request. */
  #write(socket: Socket, request: PendingRequest): void {
    const {
      requestHead,
      request: { body },
    } = request;
    this.#parser.reset();
    const bytes = Buffer.allocUnsafe(requestHead.length + body.length);
    bytes.write(requestHead, 'latin1');
    body.copy(bytes, requestHead.length);
    request.onWrite();
    socket.write(bytes);
  }

  #onRead(bytes: Buffer, length: number): void {
    const { request } = this;
    if (this.#isClosed) return;
    // Bytes without a request: the answer to the next request could not be told from what follows them.
    if (request === undefined) {
      this.#closeForRequest();
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
    const longest = Math.min(this.#options.idleTimeout, longestIdle);
    const announced = this.#parser.keepAliveSeconds;
    return Number.isNaN(announced) ? longest : Math.min(announced * SECOND - KEEP_ALIVE_MARGIN, longest);
  }
}
