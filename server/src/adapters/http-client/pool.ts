import type { Duration } from '../../model/time.ts';
import { Connection, type ConnectionOptions, type ConnectionOwner } from './connection.ts';
import type { ConnectTarget } from './connector.ts';
import type { RequestFailure } from './errors.ts';
import type { PendingRequest } from './request.ts';
import type { TimeoutQueue } from './timeouts.ts';

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
const FIRST_REUSE_DELAY: Duration = 5;

/** The connections of one pool to one origin (scheme, host and port), and the requests that wait for one. */
export class ConnectionPool implements ConnectionOwner {
  readonly #target: ConnectTarget;
  readonly #options: ConnectionPoolOptions;
  readonly #policy = new ReusePolicy();
  readonly #open = new Set<Connection>();
  /** Last in, first out: the busiest stay warm, the surplus grows old at the bottom and is closed. */
  readonly #idle: Connection[] = [];
  /** The connection that carries more requests than any has before, or is watched before that. */
  #probe: Connection | undefined;
  /** Whether it is watched; nothing else is done meanwhile. */
  #isProbeWatched = false;
  #isDispatching = false;
  #firstWaiting: PendingRequest | undefined;
  #lastWaiting: PendingRequest | undefined;

  constructor(target: ConnectTarget, options: ConnectionPoolOptions) {
    this.#target = target;
    this.#options = options;
  }

  get longestIdle(): Duration {
    return this.#policy.longestIdle;
  }

  send(exchange: PendingRequest): void {
    if (this.#policy.isTrusted && this.#idle.length > 0) {
      this.#idle.pop()!.send(exchange);
      return;
    }
    this.#enqueue(exchange);
    this.#dispatch();
  }

  /** Ends everything under way with `failure`; resolves when every connection is closed. */
  async stop(failure: RequestFailure): Promise<void> {
    for (let waiting = this.#dequeue(); waiting !== undefined; waiting = this.#dequeue())
      waiting.end(failure);
    const open = [...this.#open];
    for (const connection of open) connection.stop(failure);
    await Promise.all(open.map((connection) => connection.closed()));
  }

  released(connection: Connection): void {
    const policy = this.#policy;
    if (!policy.isTrusted) this.#learnFrom(connection);
    const next = policy.mayReuse(connection.carried) ? this.#dequeue() : undefined;
    if (next !== undefined) {
      connection.send(next);
      return;
    }
    connection.markIdle();
    if (policy.isUnproven && this.#mayProbe()) this.#watchProbe(connection);
    else this.#idle.push(connection);
    this.#dispatch();
  }

  discarded(connection: Connection): void {
    this.#remove(connection);
    this.#dispatch();
  }

  /** A new connection, not a free one: what has lain as long as the dead one is likely dead as well. */
  replaced(connection: Connection, exchange: PendingRequest): void {
    this.#remove(connection);
    this.#connectFor(exchange);
  }

  closedByReceiver(connection: Connection, idle: Duration, isLoss: boolean): void {
    const isTest = this.#probe === connection;
    this.#policy.closed({ carried: connection.carried, idle, isLoss, isTest });
  }

  idleExpired(idle: Duration): void {
    this.#policy.idleExpired(idle);
  }

  /** Gives those that wait what there is. Closing a connection may lead here again, and the loop sees what that has changed. */
  #dispatch(): void {
    if (this.#isDispatching) return;
    this.#isDispatching = true;
    while (!this.#isProbeWatched) {
      const next = this.#dequeue();
      if (next === undefined) break;
      if (this.#reuseFor(next)) continue;
      if (this.#mayOpen()) this.#connectFor(next);
      else {
        this.#requeue(next);
        break;
      }
    }
    this.#isDispatching = false;
  }

  #learnFrom(connection: Connection): void {
    if (this.#probe === connection) this.#probe = undefined;
    this.#policy.answered(connection.carried);
  }

  #mayProbe(): boolean {
    return this.#probe === undefined && this.#policy.mayProbe;
  }

  /** Carries it over a free connection, if one may be used again: a test first, as everything else gains by it. */
  #reuseFor(exchange: PendingRequest): boolean {
    const newest = this.#idle.at(-1);
    if (newest === undefined) return false;
    const policy = this.#policy;
    let reused: Connection | undefined;
    if (policy.mayReuse(newest.carried)) reused = this.#idle.pop();
    else if (this.#mayProbe()) {
      reused = this.#idle.pop();
      this.#probe = reused;
    } else {
      const proven = this.#idle.findLastIndex(({ carried }) => policy.mayReuse(carried));
      if (proven !== -1) [reused] = this.#idle.splice(proven, 1);
      else if (policy.isRested(this.#idle[0]!.idleAt(performance.now()))) reused = this.#idle.shift();
    }
    reused?.send(exchange);
    return reused !== undefined;
  }

  /** Closes an idle one when there is no room, as it may not be used again yet; the others will have rested before it. */
  #mayOpen(): boolean {
    const { maximum, budget } = this.#options;
    if (this.#open.size >= maximum) {
      const idle = this.#idle.pop();
      if (idle === undefined) return false;
      idle.close();
      this.#remove(idle);
    }
    return budget.mayOpen(this.#open.size);
  }

  #connectFor(exchange: PendingRequest): void {
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
    if (this.#probe === connection) {
      this.#probe = undefined;
      this.#isProbeWatched = false;
    }
    const place = this.#idle.indexOf(connection);
    if (place !== -1) this.#idle.splice(place, 1);
  }

  #watchProbe(connection: Connection): void {
    this.#probe = connection;
    this.#isProbeWatched = true;
    const seen = () => {
      if (this.#probe !== connection || !this.#isProbeWatched) return;
      this.#probe = undefined;
      this.#isProbeWatched = false;
      this.#idle.push(connection);
      this.#dispatch();
    };
    // What has arrived while this process was busy is read before an immediate runs.
    setTimeout(() => setImmediate(seen), FIRST_REUSE_DELAY).unref();
  }

  #enqueue(exchange: PendingRequest): void {
    if (this.#lastWaiting === undefined) this.#firstWaiting = exchange;
    else this.#lastWaiting.nextWaiting = exchange;
    this.#lastWaiting = exchange;
  }

  /** It goes on waiting, in front of all others. */
  #requeue(exchange: PendingRequest): void {
    exchange.nextWaiting = this.#firstWaiting;
    this.#firstWaiting = exchange;
    this.#lastWaiting ??= exchange;
  }

  /** Those whose time was over while they waited are still in the row, and are passed over here. */
  #dequeue(): PendingRequest | undefined {
    let next = this.#firstWaiting;
    while (next?.ended) next = next.nextWaiting;
    this.#firstWaiting = next?.nextWaiting;
    if (this.#firstWaiting === undefined) this.#lastWaiting = undefined;
    // Else one that is carried for long would keep every later one in memory.
    if (next !== undefined) next.nextWaiting = undefined;
    return next;
  }
}

/** Receivers that do not keep connections close them with their answer or a moment later. */
const REST_TIME: Duration = 250;

/** One connection has carried so many requests: losing one in as many is borne, and nothing more is to be learned. */
const TRUSTED_REQUESTS = 64;

/** So many answers must come after a loss before another request is risked; twice as many after each one that is lost again. */
const FIRST_PENALTY = 20;
const MAX_PENALTY = 2560;

/** Learned limits are multiples of it, so that there are few different ones. */
const LIMIT_STEP: Duration = 250;

/** A receiver closes an idle connection at its time, give or take what its clock and the way to it take. */
const LIMIT_MARGIN: Duration = 500;

/** A connection that the receiver has closed without a word. */
export interface ClosedConnection {
  /** Requests that it answered. */
  readonly carried: number;
  /** Time between its last answer and its end, or the request that was lost. */
  readonly idle: Duration;
  /** Whether a request had been written to it. */
  readonly isLoss: boolean;
  /** Whether it was the one that was to carry more than any other. */
  readonly isTest: boolean;
}

/**
 * Learns how many requests a connection to an endpoint carries, and how long it may lie idle. A request written to a connection
 * that the receiver is closing is lost or, worse, read and not answered: it goes out again and arrives twice. Receivers that
 * close without saying so do it after each answer or after some.
 *
 * A connection may carry another request at once when some connection has carried more. Going further is tested by one
 * connection at a time, so that what there is to learn costs one request; a loss puts off the next test. One connection that
 * has carried 64 proves that they are kept. All of this is about using a connection *at once*, behind its last answer: one
 * that has rested is used in any case, as it would be closed by now.
 */
export class ReusePolicy {
  /** The most requests that one connection has carried, as far as it matters. */
  #proven = 1;
  /** Answers since the last loss, as far as they matter. */
  #answers = 0;
  #penalty = 0;
  #limit = Number.POSITIVE_INFINITY;

  /** Every connection may be used again at once. */
  get isTrusted(): boolean {
    return this.#proven === TRUSTED_REQUESTS;
  }

  /** No connection has carried a second request. */
  get isUnproven(): boolean {
    return this.#proven === 1;
  }

  /** Whether a connection may be tried that has carried as many requests as any. */
  get mayProbe(): boolean {
    return this.#answers >= this.#penalty;
  }

  /** How long an idle connection is of use. */
  get longestIdle(): Duration {
    return this.#limit;
  }

  /** Whether a connection that has carried so many requests may carry another one at once. */
  mayReuse(carried: number): boolean {
    return carried < this.#proven || this.isTrusted;
  }

  /** Whether a connection may be used again whatever else is known, after lying idle for so long. */
  isRested(idle: Duration): boolean {
    return idle >= REST_TIME;
  }

  /** A connection has answered, and carried so many requests now. */
  answered(carried: number): void {
    if (this.#answers < this.#penalty) this.#answers++;
    if (carried <= this.#proven) return;
    this.#proven = Math.min(carried, TRUSTED_REQUESTS);
    if (this.isTrusted) this.#penalty = 0;
  }

  closed({ carried, idle, isLoss, isTest }: ClosedConnection): void {
    if (idle >= REST_TIME) this.#limitTo(Math.max(idle - LIMIT_MARGIN, idle / 2));
    if ((idle >= REST_TIME && !isLoss) || carried >= TRUSTED_REQUESTS) return;
    this.#proven = Math.max(1, Math.min(this.#proven, carried));
    this.#answers = 0;
    if (this.#penalty === 0) this.#penalty = FIRST_PENALTY;
    else if (isTest) this.#penalty = Math.min(2 * this.#penalty, MAX_PENALTY);
  }

  /** A connection was closed here, after lying idle for so long. */
  idleExpired(idle: Duration): void {
    // A restart of the receiver closes connections early once; the limit finds back.
    if (idle >= this.#limit) this.#limitTo(1.25 * idle + LIMIT_STEP);
  }

  #limitTo(limit: Duration): void {
    this.#limit = Math.max(LIMIT_STEP, LIMIT_STEP * Math.floor(limit / LIMIT_STEP));
  }
}

/** However many endpoints there are, each may have so many connections. */
const MIN_SHARE = 8;

/** Connections that are open, over all pools, and a bound on them. */
export class ConnectionBudget {
  readonly #maximum: number;
  readonly #idle: TimeoutQueue;
  #open = 0;
  #pools = 0;

  /** `idle` holds the idle connections of all pools, and nothing else. */
  constructor(maximum: number, idle: TimeoutQueue) {
    this.#maximum = maximum;
    this.#idle = idle;
  }

  /**
   * Whether a pool that has `own` connections may open another one. At the bound the oldest idle connection is closed for it.
   * When all are busy, a pool may still have its share: endpoints that take long to answer must not keep the others
   * from being asked. So there are twice as many connections as the bound says at most.
   */
  mayOpen(own: number): boolean {
    if (this.#open < this.#maximum) return true;
    const oldest = this.#idle.first;
    if (oldest === undefined) return own < Math.max(MIN_SHARE, this.#maximum / Math.max(1, this.#pools));
    this.#idle.remove(oldest);
    oldest.expire();
    return true;
  }

  /** `isFirst`: its pool had none before. */
  opened(isFirst: boolean): void {
    this.#open++;
    if (isFirst) this.#pools++;
  }

  /** `isLast`: its pool has none any more. */
  closed(isLast: boolean): void {
    this.#open--;
    if (isLast) this.#pools--;
  }
}
