/** Milliseconds since 1970-01-01T00:00:00Z. Always a whole number; never a `Date`. */
export type Time = number;

/** A length of time in milliseconds. */
export type Duration = number;

export const SECOND: Duration = 1000;
export const MINUTE: Duration = 60 * SECOND;
export const HOUR: Duration = 60 * MINUTE;
export const DAY: Duration = 24 * HOUR;
