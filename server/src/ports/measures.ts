import type { Attempt, Decision } from '../model/delivery.ts';
import type { Duration, Monotonic } from '../model/time.ts';

/**
 * Adds up what happens, for somebody who looks at the sums now and then. Called for every request, every commit and every
 * round, so it must cost no more than adding to a number, and it must not throw.
 */
export interface Measures {
  /** A request of the receiving API is being answered. `code`: of `spec/errors.json`; undefined when nothing was wrong. */
  answered(status: number, code: string | undefined): void;
  /** A commit of the event log has ended, so long after it was asked for; `isStored`: and not failed. */
  committed(took: Duration, isStored: boolean): void;
  /** What is counted of one destination, by its id. Asked for once and kept. */
  ofDestination(destination: number): DeliveryMeasures;
}

export interface DeliveryMeasures {
  /** A round has ended with this decision. `arrivedAt`: when its event did. */
  ended(arrivedAt: Monotonic, attempts: readonly Attempt[], decision: Decision, now: Monotonic): void;
}
