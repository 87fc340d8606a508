/** Milliseconds since 1970-01-01T00:00:00Z by the wall clock. Always a whole number; never a `Date`. */
export type Time = number;

/**
 * Whole milliseconds on the monotonic clock, for durations and due times. A store keeps such times over
 * restarts: the clock of the next process goes on where the last one stood, advanced by the time in which
 * none ran. It began at the wall clock's time and differs from it by as much as the wall clock was set since.
 * It is never shown to people: see `wallTimeOf`.
 */
export type Monotonic = number;

/** A length of time in milliseconds. */
export type Duration = number;

/** To a hundredth of a millisecond, as measured times are kept and shown. */
export function rounded(duration: Duration): Duration {
  return Math.round(duration * 100) / 100;
}

export const SECOND: Duration = 1000;
export const MINUTE: Duration = 60 * SECOND;
export const HOUR: Duration = 60 * MINUTE;
export const DAY: Duration = 24 * HOUR;

/**
 * ISO 8601 in UTC with milliseconds: `2026-03-04T05:06:07.000Z`. Throws a `RangeError` beyond the year
 * 275760.
 */
export function isoTime(time: Time): string {
  return new Date(time).toISOString();
}
