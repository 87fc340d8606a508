import type { DestinationStateName } from '../model/destination.ts';
import { MINUTE, type Monotonic, type Time } from '../model/time.ts';

/** The facts that decide the state of a destination. */
export interface StateFacts {
  /** An invariant did not hold in one of its lanes. */
  readonly hasFailed?: boolean;
  readonly enabled: boolean;
  readonly paused?: boolean;
  readonly failingSince?: Time | undefined;
  readonly refusingSince?: Time | undefined;
  /** A source, an audience or a computed trait may owe it something. */
  readonly isFed: boolean;
  /** A request to one of its endpoints has ended, in this process or an earlier one. */
  readonly wasAsked: boolean;
}

export function destinationStateOf(facts: StateFacts): DestinationStateName {
  if (facts.hasFailed === true) return 'failed';
  if (!facts.enabled) return 'disabled';
  if (facts.paused === true) return 'paused';
  if (facts.failingSince !== undefined) return 'failing';
  if (facts.refusingSince !== undefined) return 'refusing';
  if (!facts.isFed) return 'no_source';
  return facts.wasAsked ? 'healthy' : 'never_asked';
}

/** Deliveries of so long count. */
const WINDOW = 5 * MINUTE;
const BUCKETS = 10;
const BUCKET = WINDOW / BUCKETS;

/** It refuses when so many deliveries of the window have died, and so large a part of those that ended. */
const LEAST_DIED = 3;
const LEAST_PART = 0.01;

/**
 * It also refuses when the last so many that ended have died, and no more when the last so many were
 * accepted.
 */
const IN_A_ROW = 3;

/**
 * Whether deliveries die for good, because endpoints refuse them. It begins with the third death in a row,
 * however far apart, or with three deaths and a hundredth of what ended in five minutes. Silence ends
 * nothing: it ends with three acceptances in a row, and where acceptances came in between, with five minutes
 * below that hundredth besides. Recording an acceptance allocates nothing.
 */
export class RefusalTracker {
  readonly #ended = new Uint32Array(BUCKETS);
  readonly #died = new Uint32Array(BUCKETS);
  /** Number of the newest bucket, counted from the beginning of the clock. */
  #newest = 0;
  #diedInRow = 0;
  #acceptedInRow = 0;
  #since: Time | undefined;
  /** True when no delivery was accepted in the window in which the refusals began. */
  #isComplete = false;
  /** When the window last was above the bound. */
  #aboveAt: Monotonic = 0;

  /** When it began to refuse; undefined while it does not. */
  get since(): Time | undefined {
    return this.#since;
  }

  /** An earlier process has seen nothing but refusals since then. */
  restore(since: Time): void {
    this.#since = since;
    this.#isComplete = true;
  }

  /** A delivery was accepted. Returns whether that was the end of refusing. */
  accepted(now: Monotonic): boolean {
    const bucket = this.#advance(now);
    this.#ended[bucket]!++;
    this.#diedInRow = 0;
    this.#acceptedInRow++;
    if (this.#since === undefined) return false;
    if (this.#isAbove()) this.#aboveAt = now;
    if (this.#acceptedInRow < IN_A_ROW || !(this.#isComplete || now - this.#aboveAt >= WINDOW)) return false;
    this.#since = undefined;
    return true;
  }

  /** A delivery has died for good, at a time of both clocks. */
  died(now: Monotonic, at: Time): void {
    const bucket = this.#advance(now);
    this.#ended[bucket]!++;
    this.#died[bucket]!++;
    this.#diedInRow++;
    this.#acceptedInRow = 0;
    const isAbove = this.#isAbove();
    if (isAbove) this.#aboveAt = now;
    if (this.#since !== undefined || !(isAbove || this.#diedInRow >= IN_A_ROW)) return;
    this.#since = at;
    this.#isComplete = sumOf(this.#ended) === sumOf(this.#died);
  }

  #isAbove(): boolean {
    const died = sumOf(this.#died);
    return died >= LEAST_DIED && died >= LEAST_PART * sumOf(this.#ended);
  }

  /** Empties the buckets that are over. Returns the index of the present one. */
  #advance(now: Monotonic): number {
    const present = Math.floor(now / BUCKET);
    const passed = Math.min(BUCKETS, present - this.#newest);
    for (let nth = 0; nth < passed; nth++) {
      const index = (present - nth) % BUCKETS;
      this.#ended[index] = 0;
      this.#died[index] = 0;
    }
    this.#newest = present;
    return present % BUCKETS;
  }
}

function sumOf(counts: Uint32Array): number {
  let sum = 0;
  for (const count of counts) sum += count;
  return sum;
}
