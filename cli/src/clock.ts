/**
 * The only source of time for the display. It has the shape of the server's clock, and tests move it by hand.
 */
export interface Clock {
  /** Wall-clock time in milliseconds since 1970-01-01T00:00:00Z. It may jump when the clock is set. */
  now(): number;

  /** Milliseconds of a clock that never jumps. Only differences have a meaning. */
  monotonic(): number;

  /**
   * Calls `wake` once, `delay` ms later or soon after. The result cancels it. Does not keep the process
   * alive.
   */
  after(delay: number, wake: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delay, wake) {
    const timer = setTimeout(wake, Math.max(0, delay));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
