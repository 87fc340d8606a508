import type { Duration } from '../../model/time.ts';
import { Connection, type ConnectionOptions, type Owner } from './connection.ts';
import type { ConnectionBudget } from './connection-budget.ts';
import type { Target } from './connector.ts';
import type { Exchange } from './exchange.ts';
import type { Failure } from './failure.ts';
import { ReusePolicy } from './reuse-policy.ts';

export interface ConnectionPoolOptions extends ConnectionOptions {
  /** Connections of one pool; more requests than this wait in order of arrival. */
  readonly maximum: number;
  /** Shared by all pools. */
  readonly budget: ConnectionBudget;
  /** The pools that have a connection. */
  readonly active: Set<ConnectionPool>;
}

/**
 * How long the first connection that might be used again is watched before that: receivers that close after each answer
 * do so with it or within a moment.
 */
const WATCHED: Duration = 5;

/** The connections of one pool to one origin (scheme, host and port), and the requests that wait for one. */
export class ConnectionPool implements Owner {
  readonly #target: Target;
  readonly #options: ConnectionPoolOptions;
  readonly #policy = new ReusePolicy();
  readonly #open = new Set<Connection>();
  /** Last in, first out: the busiest stay warm, the surplus grows old at the bottom and is closed. */
  readonly #free: Connection[] = [];
  /** The connection that carries more requests than any has before, or is watched before that. */
  #tested: Connection | undefined;
  /** Whether it is watched; nothing else is done meanwhile. */
  #isWatching = false;
  #isServing = false;
  #firstWaiting: Exchange | undefined;
  #lastWaiting: Exchange | undefined;

  constructor(target: Target, options: ConnectionPoolOptions) {
    this.#target = target;
    this.#options = options;
  }

  get longestIdle(): Duration {
    return this.#policy.longestIdle;
  }

  carry(exchange: Exchange): void {
    if (this.#policy.isTrusted && this.#free.length > 0) {
      this.#free.pop()!.carry(exchange);
      return;
    }
    this.#await(exchange);
    this.#serve();
  }

  /** Ends everything under way with `failure`; resolves when every connection is closed. */
  async stop(failure: Failure): Promise<void> {
    for (let waiting = this.#next(); waiting !== undefined; waiting = this.#next()) waiting.end(failure);
    const open = [...this.#open];
    for (const connection of open) connection.stop(failure);
    await Promise.all(open.map((connection) => connection.closed()));
  }

  released(connection: Connection): void {
    const policy = this.#policy;
    if (!policy.isTrusted) this.#learnFrom(connection);
    const next = policy.mayCarry(connection.carried) ? this.#next() : undefined;
    if (next !== undefined) {
      connection.carry(next);
      return;
    }
    connection.lies();
    if (policy.isUnproven && this.#mayTest()) this.#watch(connection);
    else this.#free.push(connection);
    this.#serve();
  }

  discarded(connection: Connection): void {
    this.#remove(connection);
    this.#serve();
  }

  /** A new connection, not a free one: what has lain as long as the dead one is likely dead as well. */
  replaced(connection: Connection, exchange: Exchange): void {
    this.#remove(connection);
    this.#connectFor(exchange);
  }

  closedByReceiver(connection: Connection, idle: Duration, isLoss: boolean): void {
    const isTest = this.#tested === connection;
    this.#policy.closed({ carried: connection.carried, idle, isLoss, isTest });
  }

  outlived(idle: Duration): void {
    this.#policy.outlived(idle);
  }

  /** Gives those that wait what there is. Closing a connection may lead here again, and the loop sees what that has changed. */
  #serve(): void {
    if (this.#isServing) return;
    this.#isServing = true;
    while (!this.#isWatching) {
      const next = this.#next();
      if (next === undefined) break;
      if (this.#reuseFor(next)) continue;
      if (this.#mayOpen()) this.#connectFor(next);
      else {
        this.#awaitFirst(next);
        break;
      }
    }
    this.#isServing = false;
  }

  #learnFrom(connection: Connection): void {
    if (this.#tested === connection) this.#tested = undefined;
    this.#policy.answered(connection.carried);
  }

  #mayTest(): boolean {
    return this.#tested === undefined && this.#policy.mayTest;
  }

  /** Carries it over a free connection, if one may be used again: a test first, as everything else gains by it. */
  #reuseFor(exchange: Exchange): boolean {
    const newest = this.#free.at(-1);
    if (newest === undefined) return false;
    const policy = this.#policy;
    let reused: Connection | undefined;
    if (policy.mayCarry(newest.carried)) reused = this.#free.pop();
    else if (this.#mayTest()) {
      reused = this.#free.pop();
      this.#tested = reused;
    } else {
      const proven = this.#free.findLastIndex(({ carried }) => policy.mayCarry(carried));
      if (proven !== -1) [reused] = this.#free.splice(proven, 1);
      else if (policy.isRested(this.#free[0]!.idleAt(performance.now()))) reused = this.#free.shift();
    }
    reused?.carry(exchange);
    return reused !== undefined;
  }

  /** Closes an idle one when there is no room, as it may not be used again yet; the others will have rested before it. */
  #mayOpen(): boolean {
    const { maximum, budget } = this.#options;
    if (this.#open.size >= maximum) {
      const idle = this.#free.pop();
      if (idle === undefined) return false;
      idle.close();
      this.#remove(idle);
    }
    return budget.mayOpen(this.#open.size);
  }

  #connectFor(exchange: Exchange): void {
    const { budget, active } = this.#options;
    const isFirst = this.#open.size === 0;
    this.#open.add(new Connection(this.#target, exchange, this.#options, this));
    budget.opened(isFirst);
    if (isFirst) active.add(this);
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    const { budget, active } = this.#options;
    const isLast = this.#open.size === 0;
    budget.closed(isLast);
    if (isLast) active.delete(this);
    if (this.#tested === connection) {
      this.#tested = undefined;
      this.#isWatching = false;
    }
    const place = this.#free.indexOf(connection);
    if (place !== -1) this.#free.splice(place, 1);
  }

  #watch(connection: Connection): void {
    this.#tested = connection;
    this.#isWatching = true;
    const seen = () => {
      if (this.#tested !== connection || !this.#isWatching) return;
      this.#tested = undefined;
      this.#isWatching = false;
      this.#free.push(connection);
      this.#serve();
    };
    // What has arrived while this process was busy is read before an immediate runs.
    setTimeout(() => setImmediate(seen), WATCHED).unref();
  }

  #await(exchange: Exchange): void {
    if (this.#lastWaiting === undefined) this.#firstWaiting = exchange;
    else this.#lastWaiting.behind = exchange;
    this.#lastWaiting = exchange;
  }

  /** It goes on waiting, in front of all others. */
  #awaitFirst(exchange: Exchange): void {
    exchange.behind = this.#firstWaiting;
    this.#firstWaiting = exchange;
    this.#lastWaiting ??= exchange;
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
