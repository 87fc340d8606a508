import type { Duration } from '../../model/time.ts';

/** Receivers that do not keep connections close them with their answer or a moment later. */
const REST: Duration = 250;

/** One connection has carried so many requests: losing one in as many is borne, and nothing more is to be learned. */
const TRUST = 64;

/** So many answers must come after a loss before another request is risked; twice as many after each one that is lost again. */
const FIRST_PRICE = 20;
const HIGHEST_PRICE = 2560;

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
  #price = 0;
  #limit = Number.POSITIVE_INFINITY;

  /** Every connection may be used again at once. */
  get isTrusted(): boolean {
    return this.#proven === TRUST;
  }

  /** No connection has carried a second request. */
  get isUnproven(): boolean {
    return this.#proven === 1;
  }

  /** Whether a connection may be tried that has carried as many requests as any. */
  get mayTest(): boolean {
    return this.#answers >= this.#price;
  }

  /** How long an idle connection is of use. */
  get longestIdle(): Duration {
    return this.#limit;
  }

  /** Whether a connection that has carried so many requests may carry another one at once. */
  mayCarry(carried: number): boolean {
    return carried < this.#proven || this.isTrusted;
  }

  /** Whether a connection may be used again whatever else is known, after lying idle for so long. */
  isRested(idle: Duration): boolean {
    return idle >= REST;
  }

  /** A connection has answered, and carried so many requests now. */
  answered(carried: number): void {
    if (this.#answers < this.#price) this.#answers++;
    if (carried <= this.#proven) return;
    this.#proven = Math.min(carried, TRUST);
    if (this.isTrusted) this.#price = 0;
  }

  closed({ carried, idle, isLoss, isTest }: ClosedConnection): void {
    if (idle >= REST) this.#limitTo(Math.max(idle - LIMIT_MARGIN, idle / 2));
    if ((idle >= REST && !isLoss) || carried >= TRUST) return;
    this.#proven = Math.max(1, Math.min(this.#proven, carried));
    this.#answers = 0;
    if (this.#price === 0) this.#price = FIRST_PRICE;
    else if (isTest) this.#price = Math.min(2 * this.#price, HIGHEST_PRICE);
  }

  /** A connection was closed here, after lying idle for so long. */
  outlived(idle: Duration): void {
    // A restart of the receiver closes connections early once; the limit finds back.
    if (idle >= this.#limit) this.#limitTo(1.25 * idle + LIMIT_STEP);
  }

  #limitTo(limit: Duration): void {
    this.#limit = Math.max(LIMIT_STEP, LIMIT_STEP * Math.floor(limit / LIMIT_STEP));
  }
}
