/** The only source of time for what is shown. The same shape as the server's, so that tests move it themselves. */
export interface Clock {
  /** The time of day by the wall clock, which may be set at any moment: milliseconds since 1970-01-01T00:00:00Z. */
  now(): number;

  /** Milliseconds that pass evenly whatever is done to the wall clock. Only differences mean anything. */
  monotonic(): number;

  /** Calls `wake` once, after `delay` or soon later; the returned function cancels it. Does not keep the process alive. */
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
