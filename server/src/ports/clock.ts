import type { Duration, Monotonic, Time } from '../model/time.ts';

/**
 * The only source of time. Two readings, never mixed: the wall clock says when something happened and may be set at any
 * moment; the monotonic clock says how long something took or is to wait, and passes evenly whatever is done to the other.
 * Tests hand in one they move themselves.
 */
export interface Clock {
  /** The time of day by the wall clock: for timestamps that people and other machines read. */
  now(): Time;

  /** For durations and for what is due: it never jumps, and goes on over a restart (see `Monotonic`). */
  monotonic(): Monotonic;

  /**
   * Calls `wake` once when so much monotonic time has passed, or soon after, and never before; the returned function
   * cancels it. Does not keep the process alive.
   */
  after(delay: Duration, wake: () => void): () => void;
}

/** What the wall clock shows at a monotonic time, as far as it can be known now. */
export function wallTimeOf(at: Monotonic, clock: Pick<Clock, 'now' | 'monotonic'>): Time {
  return clock.now() + (at - clock.monotonic());
}
