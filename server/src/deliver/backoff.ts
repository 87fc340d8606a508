import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';

/**
 * The delay after each failed round; the last one repeats. Quick at first, since most failures are short, then no more
 * than two requests an hour to an endpoint that stays down. decisions.md section 2, "schedule".
 */
export const SCHEDULE: readonly Duration[] = [
  1 * SECOND,
  2 * SECOND,
  4 * SECOND,
  8 * SECOND,
  15 * SECOND,
  30 * SECOND,
  1 * MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  20 * MINUTE,
  30 * MINUTE,
];

/** Each delay is stretched or shortened by up to this share, so that what failed together does not return together. */
export const JITTER = 0.2;

/**
 * The delay before the next round.
 *
 * @param rounds how many rounds have failed, the one just made included; from 1
 * @param random from 0 (inclusive) to 1 (exclusive)
 */
export function backoff(rounds: number, random: number): Duration {
  return spread(SCHEDULE[Math.min(rounds, SCHEDULE.length) - 1]!, random);
}

/** A delay with its jitter. `random` from 0 (inclusive) to 1 (exclusive). */
function spread(delay: Duration, random: number): Duration {
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random));
}

/** The latest wish among the endpoints' `Retry-After`, or nothing. */
export function latestWish(wishes: readonly (Monotonic | undefined)[]): Monotonic | undefined {
  const times = wishes.filter((time) => time !== undefined);
  return times.length === 0 ? undefined : Math.max(...times);
}
