/**
 * How many deliveries of a lane may be in flight. After each whole limit's worth of successes it grows: it doubles up to
 * `doublesUntil`, then goes up by one unless that would only make requests wait. After a failure it is halved. A fast endpoint is soon served with many connections,
 * a struggling one is left alone quickly, and one that comes back meets one request first and never a flood.
 */
export interface Concurrency {
  readonly limit: number;
  /** Successes since the limit last changed. */
  readonly successes: number;
  readonly doublesUntil: number;
}

export const MAX_CONCURRENCY = 256;

export const START: Concurrency = { limit: 16, successes: 0, doublesUntil: 16 };

/** After an outage: from one at a time to where a new lane starts in 15 successes, with care from there on. */
export const SLOW_START: Concurrency = { limit: 1, successes: 0, doublesUntil: START.limit };

/** `isCongested`: requests wait for each other at the endpoint, so that more of them would only wait longer. */
export function afterSuccess(
  { limit, successes, doublesUntil }: Concurrency,
  isCongested: boolean,
): Concurrency {
  if (successes + 1 < limit) return { limit, successes: successes + 1, doublesUntil };
  if (isCongested && limit >= doublesUntil) return { limit, successes: 0, doublesUntil };
  const grown = limit < doublesUntil ? Math.min(2 * limit, doublesUntil) : limit + 1;
  return { limit: Math.min(grown, MAX_CONCURRENCY), successes: 0, doublesUntil };
}

/**
 * `limitWhenSent` is the limit when the failed request was sent: of the many requests that fail together only the first
 * halves the limit, since the others were sent under a limit that is gone.
 */
export function afterFailure(now: Concurrency, limitWhenSent: number): Concurrency {
  if (limitWhenSent > now.limit) return now;
  const limit = Math.max(1, now.limit >> 1);
  return { limit, successes: 0, doublesUntil: limit };
}
