/**
 * How many deliveries of a lane may be in flight: up by one after each whole limit's worth of successes, down to half
 * after a failure. A fast endpoint is soon served with many connections, a struggling one is left alone quickly.
 */
export interface Concurrency {
  readonly limit: number;
  /** Successes since the limit last changed. */
  readonly successes: number;
}

export const MAX_CONCURRENCY = 256;

export const START: Concurrency = { limit: 16, successes: 0 };

export function afterSuccess({ limit, successes }: Concurrency): Concurrency {
  if (limit >= MAX_CONCURRENCY) return { limit, successes: 0 };
  return successes + 1 >= limit ? { limit: limit + 1, successes: 0 } : { limit, successes: successes + 1 };
}

/**
 * `limitWhenSent` is the limit when the failed request was sent: of the many requests that fail together only the first
 * halves the limit, since the others were sent under a limit that is gone.
 */
export function afterFailure(now: Concurrency, limitWhenSent: number): Concurrency {
  if (limitWhenSent > now.limit) return now;
  return { limit: Math.max(1, now.limit >> 1), successes: 0 };
}
