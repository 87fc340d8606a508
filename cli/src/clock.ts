/** The only source of time for what is shown. The same shape as the server's, so that tests move it themselves. */
export interface Clock {
  /** Milliseconds since 1970-01-01T00:00:00Z. */
  now(): number;

  /** Calls `wake` once, at `at` or soon after; the returned function cancels it. Does not keep the process alive. */
  at(at: number, wake: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  at(at, wake) {
    const timer = setTimeout(wake, Math.max(0, at - Date.now()));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
