import { type Duration, SECOND } from '../../model/time.ts';

/** Receivers that do not keep connections close them with their answer or a moment later. */
const REST: Duration = 250;

/** A request that is lost with a kept connection costs as much as so many answers gain: one in twenty may be lost. */
const LOSS = 20;
const MOST_CREDIT = 2 * LOSS;

/** After so many answers every connection may be used again at once; before, twice as many with each answer. */
const TRUST = 10;

/** How long no connection is used again at once, after the first loss and after relapses. */
const FIRST_WAIT: Duration = 250;
const LONGEST_WAIT: Duration = 30 * SECOND;

/** Learned limits are multiples of it, so that there are few different ones. */
const LIMIT_STEP: Duration = 250;

/** A receiver closes an idle connection at its time, give or take what its clock and the way to it take. */
const LIMIT_MARGIN: Duration = 500;

/**
 * Learns whether an endpoint keeps its connections, and how long. A request written to a connection that the receiver is
 * closing is lost or, worse, read and not answered: it goes out again and arrives twice.
 *
 * ```
 *   unproven ──answered──▶ proven ──answered, and again──▶ trusted
 *      ▲                     └── lost, or closed at once, too often ──┤
 *      └──────────── the wait is over ──────────── wary ◀─────────────┘
 * ```
 * It is about using a connection again *at once*, behind its last answer; one that has rested would be closed by now. Unproven:
 * one at a time, so that an endpoint that closes after each answer costs one request. Proven: twice as many with each
 * answer. Trusted: all. Wary: none. All times are on the clock of `performance.now`.
 */
export class ReusePolicy {
  #answers = 0;
  #credit = 0;
  #wait = FIRST_WAIT;
  #waryUntil = 0;
  #limit = Number.POSITIVE_INFINITY;

  get isTrusted(): boolean {
    return this.#answers === TRUST;
  }

  /** How long an idle connection is of use. */
  get longestIdle(): Duration {
    return this.#limit;
  }

  /** Whether it is to be seen yet if a connection can be used again at once. */
  isUnproven(now: number): boolean {
    return this.#answers === 0 && now >= this.#waryUntil;
  }

  /** How many connections may be in use again at the same time. */
  most(now: number): number {
    if (now < this.#waryUntil) return 0;
    return this.isTrusted ? Number.POSITIVE_INFINITY : 2 ** this.#answers;
  }

  /** Whether a connection may be used again whatever else is known, after lying idle for so long. */
  isRested(idle: Duration): boolean {
    return idle >= REST;
  }

  /** A request was answered over a connection that was used again at once. */
  answered(): void {
    if (this.#answers < TRUST) this.#answers++;
    if (this.#credit === MOST_CREDIT) return;
    if (++this.#credit === MOST_CREDIT) this.#wait = FIRST_WAIT;
  }

  /**
   * The receiver has closed a connection without a word now, so long after its last answer; `isLoss`: a request had been
   * written to it.
   */
  closed(now: number, idle: Duration, isLoss: boolean): void {
    if (idle >= REST) this.#limitTo(Math.max(idle - LIMIT_MARGIN, idle / 2));
    if ((idle >= REST && !isLoss) || now < this.#waryUntil) return;
    this.#credit -= LOSS;
    if (this.#credit >= 0) return;
    this.#credit = 0;
    this.#answers = 0;
    this.#waryUntil = now + this.#wait;
    this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT);
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
