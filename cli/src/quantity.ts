import { InvalidArgumentError } from 'commander';

/**
 * Parsers for numbers of the command line. Each throws an `InvalidArgumentError` that names the error and the
 * right form; the command line turns it into one line and exit code 2.
 */

const LONGEST = 60 * 60 * 1000;
const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: LONGEST };

/** A TCP port; 0 stands for any free one. */
export function port(text: string): number {
  return whole(text, { from: 0, to: 65_535, what: 'A port' });
}

/** The number of entries to list. */
export function entries(text: string): number {
  return whole(text, { from: 1, to: 999_999_999, what: 'A number of entries' });
}

/** The status of a final answer. */
export function status(text: string): number {
  return whole(text, { from: 200, to: 599, what: 'A status' });
}

/** `200ms`, `6s`, `1m` or `0`, at most an hour; in milliseconds. */
export function duration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text === '0' ? '0ms' : text);
  const ms = match ? Number(match[1]) * (UNITS[match[2] ?? ''] ?? Number.NaN) : Number.NaN;
  if (ms <= LONGEST) return Math.round(ms);
  throw new InvalidArgumentError(
    'A duration is a number with its unit, such as 200ms, 6s or 1m, at most 1h.',
  );
}

/** A share, from 0 (none) to 1 (all). */
export function share(text: string): number {
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError('A share is a number from 0 (none) to 1 (all), such as 0.2.');
}

function whole(text: string, range: { from: number; to: number; what: string }): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.from && value <= range.to) return value;
  throw new InvalidArgumentError(`${range.what} is a whole number from ${range.from} to ${range.to}.`);
}
