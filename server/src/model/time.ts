/**
 * Milliseconds since 1970-01-01T00:00:00Z by the wall clock. Always a whole number; never a `Date`. The mark
 * keeps the compiler from taking a time of one clock for one of the other; no value has it, and any number is
 * either.
 */
export type Time = number & { readonly clock?: 'wall' };

/**
 * Whole milliseconds on the monotonic clock, for durations and due times. A store keeps such times over
 * restarts: the clock of the next process goes on where the last one stood, advanced by the time in which
 * none ran. It began at the wall clock's time and differs from it by as much as the wall clock was set since.
 * It is never shown to people: see `wallTimeOf`.
 */
export type Monotonic = number & { readonly clock?: 'monotonic' };

/** The same data with times of the wall clock where it has monotonic ones, as people are shown it. */
export type OnWallClock<Data> = Data extends number
  ? 'clock' extends keyof Data
    ? Time
    : Data
  : Data extends Uint8Array
    ? Data
    : Data extends object
      ? { [Key in keyof Data]: OnWallClock<Data[Key]> }
      : Data;

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
export function isoTime(time: Time): string;
export function isoTime(time: Time | undefined): string | undefined;
export function isoTime(time: Time | undefined): string | undefined {
  return time === undefined ? undefined : new Date(time).toISOString();
}
