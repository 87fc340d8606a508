import { Client } from 'undici';
import type { Duration } from '../../model/time.ts';
import type { Connect } from './connector.ts';
import type { Carrier, Exchange } from './exchange.ts';
import type { Failure } from './failure.ts';
import { withoutContinue } from './interim.ts';

export interface ConnectionsOptions {
  readonly connect: Connect;
  /** How long a connection may lie idle. */
  readonly idleTimeout: Duration;
  /** Per origin; more requests than this wait in order of arrival. */
  readonly maximum: number;
}

/** Closed this long before the time a server has announced, so that a request does not cross the closing. */
const KEEP_ALIVE_MARGIN: Duration = 500;

/** The connections to one origin (scheme, host and port), and the requests that wait for one. */
export class Connections {
  readonly #origin: string;
  readonly #options: ConnectionsOptions;
  readonly #forget: () => void;
  readonly #open = new Set<Connection>();
  /** Last in, first out: the busiest stay warm, the surplus grows old at the bottom and is closed. */
  readonly #free: Connection[] = [];
  #firstWaiting: Exchange | undefined;
  #lastWaiting: Exchange | undefined;

  /** `forget` is called whenever no connection is left; nothing waits then either. */
  constructor(origin: string, options: ConnectionsOptions, forget: () => void) {
    this.#origin = origin;
    this.#options = options;
    this.#forget = forget;
  }

  carry(exchange: Exchange): void {
    const free = this.#free.pop();
    if (free !== undefined) free.carry(exchange);
    else if (this.#open.size < this.#options.maximum) this.#connection().carry(exchange);
    else this.#await(exchange);
  }

  /** Ends everything under way with `failure`; resolves when every connection is closed. */
  async stop(failure: Failure): Promise<void> {
    for (let waiting = this.#next(); waiting !== undefined; waiting = this.#next()) waiting.end(failure);
    const open = [...this.#open];
    for (const connection of open) connection.stop(failure);
    await Promise.all(open.map((connection) => connection.closed));
  }

  released(connection: Connection): void {
    const next = this.#next();
    if (next === undefined) this.#free.push(connection);
    else connection.carry(next);
  }

  discarded(connection: Connection): void {
    this.#remove(connection);
    const next = this.#next();
    if (next !== undefined) this.#connection().carry(next);
    else if (this.#open.size === 0) this.#forget();
  }

  /** A new connection, not a free one: what has lain as long as the dead one is likely dead as well. */
  replaced(connection: Connection, exchange: Exchange): void {
    this.#remove(connection);
    this.#connection().carry(exchange);
  }

  #connection(): Connection {
    const connection = new Connection(this.#origin, this.#options, this);
    this.#open.add(connection);
    return connection;
  }

  #remove(connection: Connection): void {
    this.#open.delete(connection);
    const place = this.#free.indexOf(connection);
    if (place !== -1) this.#free.splice(place, 1);
  }

  #await(exchange: Exchange): void {
    if (this.#lastWaiting === undefined) this.#firstWaiting = exchange;
    else this.#lastWaiting.behind = exchange;
    this.#lastWaiting = exchange;
  }

  /** Those whose time was over while they waited are still in the row, and are passed over here. */
  #next(): Exchange | undefined {
    let next = this.#firstWaiting;
    while (next?.ended) next = next.behind;
    this.#firstWaiting = next?.behind;
    if (this.#firstWaiting === undefined) this.#lastWaiting = undefined;
    // Else one that is carried for long would keep every later one in memory.
    if (next !== undefined) next.behind = undefined;
    return next;
  }
}

/**
 * One connection: an undici `Client` that never has more than one request. undici notices that the other side closed it
 * while it lay idle, and honours the idle time a server announces (`Keep-Alive: timeout=5`).
 */
class Connection implements Carrier {
  readonly #client: Client;
  readonly #connections: Connections;
  #exchange: Exchange | undefined;
  #carried = 0;
  #giveUp: () => void = () => {};
  #closed: Promise<void> | undefined;

  constructor(origin: string, { connect, idleTimeout }: ConnectionsOptions, connections: Connections) {
    this.#connections = connections;
    this.#client = new Client(origin, {
      connect: (target, connected) => {
        this.#carried = 0;
        this.#giveUp = connect(target, (...result) => {
          const [, socket] = result;
          if (socket !== null) withoutContinue(socket, () => this.#exchange?.heard === false);
          connected(...result);
        });
      },
      pipelining: 1,
      allowH2: false,
      // The time limits are ours: undici's count from one byte to the next, so that an answer that drips never ends.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleTimeout,
      keepAliveMaxTimeout: idleTimeout,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN,
    });
    // With a request in hand undici has told it already, or sends it over a new connection when nothing was written yet.
    this.#client.on('disconnect', () => {
      if (this.#exchange === undefined) this.discard();
    });
  }

  get reused(): boolean {
    return this.#carried > 0;
  }

  /** Settled once it was discarded. */
  get closed(): Promise<void> | undefined {
    return this.#closed;
  }

  carry(exchange: Exchange): void {
    this.#exchange = exchange;
    exchange.carriedBy(this);
    const { headers, body } = exchange.request;
    // `blocking` matters to pipelines only; without it undici looks at the connection once less.
    this.#client.dispatch({ path: exchange.path, method: 'POST', headers, body, blocking: false }, exchange);
  }

  release(): void {
    this.#exchange = undefined;
    this.#carried += 1;
    this.#connections.released(this);
  }

  discard(): void {
    if (this.#closed !== undefined) return;
    this.#close();
    this.#connections.discarded(this);
  }

  replace(exchange: Exchange): void {
    this.#close();
    this.#connections.replaced(this, exchange);
  }

  stop(failure: Failure): void {
    if (this.#exchange === undefined) this.discard();
    else this.#exchange.end(failure);
  }

  /** Both: undici closes what is connected, and knows nothing of what is still connecting. */
  #close(): void {
    this.#exchange = undefined;
    this.#giveUp();
    this.#closed = this.#client.destroy();
  }
}
