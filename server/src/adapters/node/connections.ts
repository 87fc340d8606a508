import { Connection, type ConnectionOptions, type Owner } from './connection.ts';
import type { Target } from './connector.ts';
import type { Exchange } from './exchange.ts';
import type { Failure } from './failure.ts';

export interface ConnectionsOptions extends ConnectionOptions {
  /** Per origin; more requests than this wait in order of arrival. */
  readonly maximum: number;
}

/** The connections to one origin (scheme, host and port), and the requests that wait for one. */
export class Connections implements Owner {
  readonly #target: Target;
  readonly #options: ConnectionsOptions;
  readonly #forget: () => void;
  readonly #open = new Set<Connection>();
  /** Last in, first out: the busiest stay warm, the surplus grows old at the bottom and is closed. */
  readonly #free: Connection[] = [];
  #firstWaiting: Exchange | undefined;
  #lastWaiting: Exchange | undefined;

  /** `forget` is called whenever no connection is left; nothing waits then either. */
  constructor(target: Target, options: ConnectionsOptions, forget: () => void) {
    this.#target = target;
    this.#options = options;
    this.#forget = forget;
  }

  carry(exchange: Exchange): void {
    const free = this.#free.pop();
    if (free !== undefined) free.carry(exchange);
    else if (this.#open.size < this.#options.maximum) this.#connectFor(exchange);
    else this.#await(exchange);
  }

  /** Ends everything under way with `failure`; resolves when every connection is closed. */
  async stop(failure: Failure): Promise<void> {
    for (let waiting = this.#next(); waiting !== undefined; waiting = this.#next()) waiting.end(failure);
    const open = [...this.#open];
    for (const connection of open) connection.stop(failure);
    await Promise.all(open.map((connection) => connection.closed()));
  }

  released(connection: Connection): void {
    const next = this.#next();
    if (next !== undefined) {
      connection.carry(next);
      return;
    }
    connection.lies();
    this.#free.push(connection);
  }

  discarded(connection: Connection): void {
    this.#remove(connection);
    const next = this.#next();
    if (next !== undefined) this.#connectFor(next);
    else if (this.#open.size === 0) this.#forget();
  }

  /** A new connection, not a free one: what has lain as long as the dead one is likely dead as well. */
  replaced(connection: Connection, exchange: Exchange): void {
    this.#remove(connection);
    this.#connectFor(exchange);
  }

  #connectFor(exchange: Exchange): void {
    this.#open.add(new Connection(this.#target, exchange, this.#options, this));
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
