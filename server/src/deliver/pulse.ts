import type { Position } from '../model/event.ts';
import type { Monotonic } from '../model/time.ts';
import { latestWish } from './backoff.ts';
import {
  afterChange,
  afterFailedRound,
  afterLife,
  type Breaker,
  beginProbe,
  CLOSED,
  type Open,
  signOf,
  withoutProbe,
} from './breaker.ts';
import { afterFailure, afterSuccess, type Concurrency, SLOW_START, START } from './concurrency.ts';
import { Congestion } from './congestion.ts';
import type { PlacedOutcome } from './decide.ts';
import { type Outage, outageOf } from './expiry.ts';

/** A round under way: what must be known of it to understand how it ends. */
export interface BegunRound {
  /** Counted from 1. */
  readonly nth: number;
  /** The concurrency when it was sent. */
  readonly limit: number;
  readonly isProbe: boolean;
}

/** How a round ended. */
export interface Beat {
  readonly round: BegunRound;
  readonly position: Position;
  readonly outcomes: readonly PlacedOutcome[];
  /** Of its first answer. */
  readonly latencyMs: number;
  readonly now: Monotonic;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: number;
}

/** What a round has changed, where more than numbers must follow. */
export type Change =
  | { readonly kind: 'none' }
  | { readonly kind: 'opened'; readonly breaker: Open; readonly outage: Outage }
  | { readonly kind: 'closed' };

const NONE: Change = { kind: 'none' };

/** How the endpoints of a lane do, as its rounds show it: whether it may send, and how much at once. */
export class Pulse {
  #breaker: Breaker = CLOSED;
  #concurrency: Concurrency = START;
  readonly #congestion = new Congestion();
  /** Rounds ever begun. */
  #begun = 0;
  /** The endpoint has shown life since this program started. */
  #proven = false;

  get breaker(): Breaker {
    return this.#breaker;
  }

  /** How many deliveries may be in flight while the breaker is closed. */
  get limit(): number {
    return this.#concurrency.limit;
  }

  get isClosed(): boolean {
    return this.#breaker.state === 'closed';
  }

  get isProbing(): boolean {
    return this.#breaker.state === 'probing';
  }

  begin(isProbe: boolean): BegunRound {
    return { nth: ++this.#begun, limit: this.#concurrency.limit, isProbe };
  }

  feel(beat: Beat): Change {
    const sign = signOf(beat.outcomes);
    if (sign === 'alive') return this.#live(beat);
    if (sign === 'failing') return this.#fail(beat);
    if (beat.round.isProbe) this.withoutProbe(beat.now);
    return NONE;
  }

  beginProbe(): void {
    if (this.#breaker.state === 'open') this.#breaker = beginProbe(this.#breaker);
  }

  withoutProbe(now: Monotonic): void {
    if (this.#breaker.state === 'probing') this.#breaker = withoutProbe(this.#breaker, now);
  }

  settingsChanged(now: Monotonic): void {
    this.#breaker = afterChange(this.#breaker, now);
  }

  #live({ now, latencyMs }: Beat): Change {
    const wasClosed = this.isClosed;
    this.#proven = true;
    this.#breaker = afterLife(this.#breaker, now);
    this.#congestion.note(latencyMs);
    this.#concurrency = wasClosed ? afterSuccess(this.#concurrency, this.#congestion.isFelt) : SLOW_START;
    if (this.#concurrency.successes === 0) this.#congestion.turn(now);
    return wasClosed ? NONE : { kind: 'closed' };
  }

  #fail({ round, position, outcomes, now, random }: Beat): Change {
    const wasClosed = this.isClosed;
    const notBefore = latestWish(outcomes.map(({ outcome }) => outcome.notBefore));
    const failed = { ...round, position, begun: this.#begun, now, notBefore, random };
    this.#breaker = afterFailedRound(this.#breaker, failed);
    this.#concurrency = afterFailure(this.#concurrency, round.limit);
    if (!wasClosed || this.#breaker.state !== 'open') return NONE;
    const outage = outageOf(this.#breaker.failingSince, this.#proven);
    return { kind: 'opened', breaker: this.#breaker, outage };
  }
}
