import { type Delivery, RETRY_WINDOW } from '../model/delivery.ts';
import { type Duration, MINUTE, type Monotonic } from '../model/time.ts';

/**
 * When the retry window counts from.
 *
 * A delivery that has failed counts from its first failure. One that was parked behind an open breaker was never tried and
 * counts from its parking (decisions.md section 2, "schedule"). One that was parked for another reason, because its lane
 * was slow or this program was down, does not count at all before it fails. On disk the last two look alike, so the lane
 * says since when it knows of an outage, and nothing is counted from before that.
 */
export interface Outage {
  readonly since: Monotonic;
}

/**
 * A program that starts in the middle of an outage cannot know when it began. It is taken for old enough to count every
 * delivery from its parking, but first the endpoint has this long: where the machine was off for a night, the network may
 * be slower to come up than this program, and the events of the evening must not die for it.
 */
const DOUBT: Duration = 10 * MINUTE;

/** A try that was due inside the window may be made so much later: stores merge due times, and expiry is looked at once a minute. */
const LATE: Duration = MINUTE;

/** `proven`: the endpoint has shown life since this program started, so the outage began when it began to fail. */
export function outageOf(failingSince: Monotonic, proven: boolean): Outage {
  return { since: proven ? failingSince : failingSince - (RETRY_WINDOW - DOUBT) };
}

/**
 * Before which time what waits on disk has had its window, or nothing when that cannot be said for all of it: an outage
 * younger than the window ends nothing that was parked before it. `firstDueAt` is when the first on disk is due, `before`
 * where the window begins that ends now (model/pauses.ts, `windowStart`).
 */
export function expiredBefore(
  { since }: Outage,
  firstDueAt: Monotonic,
  before: Monotonic,
): Monotonic | undefined {
  return since <= before || firstDueAt >= before ? before : undefined;
}

/** Whether a delivery that was claimed during an outage comes too late for another try; `before` as above. */
export function isOver({ firstFailedAt }: Delivery, before: Monotonic): boolean {
  return firstFailedAt !== undefined && firstFailedAt + LATE < before;
}

/**
 * A delivery claimed during an outage: one that was never tried has its window from its parking, which is when its event
 * arrived, or from the beginning of the outage if that is later (a replayed event arrived long ago).
 */
export function datedBy({ since }: Outage, delivery: Delivery, arrivedAt: Monotonic): Delivery {
  if (delivery.firstFailedAt !== undefined) return delivery;
  return { ...delivery, firstFailedAt: Math.max(since, arrivedAt) };
}
