import { type Duration, type Monotonic, SECOND } from '../model/time.ts';

/**
 * A pace that has fallen behind may catch up so much: a timer wakes a little late, and at a high rate several requests are
 * due at once. It keeps a burst after a rest small, at 100 a second three requests.
 */
const SLACK: Duration = 25;

/**
 * When the request after this one may go, at so many a second. `at` is when this one may go, so no later than `now`.
 * Fractions of a millisecond count: they are what rates above 1,000 are made of.
 */
export function afterRequest(at: number, now: Monotonic, perSecond: number): number {
  return Math.max(at, now - SLACK) + SECOND / perSecond;
}
