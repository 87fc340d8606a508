/**
 * The pieces of a line on a terminal: pure text, no colour.
 *
 * What clients and receivers send is not to be trusted with a terminal: an event name may hold escape sequences that
 * move the cursor or rewrite the title. Everything that came over the network goes through `printable`.
 */

/** Control and formatting characters (escape sequences, direction overrides) and line breaks. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** The text with every character a terminal would obey instead of show replaced by `·`. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '·');
}

/** Exactly `width` characters: filled with spaces, or cut with `…` as the last one. */
export function column(text: string, width: number): string {
  // A name may be 32 KB long. A character is at most two units, so this slice is always enough.
  const characters = [...printable(text.slice(0, width * 2 + 2))];
  if (characters.length > width) return `${characters.slice(0, width - 1).join('')}…`;
  return characters.join('') + ' '.repeat(width - characters.length);
}

/** The text, cut with `…` if it is longer than `width` characters. */
export function atMost(text: string, width: number): string {
  return column(text, width).trimEnd();
}

/** Local time of day, `10:23:45.123`. */
export function timeOfDay(time: number): string {
  const date = new Date(time);
  const millis = String(date.getMilliseconds()).padStart(3, '0');
  return `${wholeSecond(date)}.${millis}`;
}

/** Local time of day, `10:23:45`; for what is still to come, where milliseconds would promise too much. */
export function secondOfDay(time: number): string {
  return wholeSecond(new Date(time));
}

function wholeSecond(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** How long something took: `0.4 ms`, `12 ms`, `5.0 s`. */
export function latency(ms: number): string {
  if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 9.95 ? `${trimZero(ms.toFixed(1))} ms` : `${Math.round(ms)} ms`;
}

/** How long until something: `now`, `in 1 s`, `in 20 min`, `in 4 h`. */
export function remaining(ms: number): string {
  return ms < 500 ? 'now' : `in ${span(ms)}`;
}

/** A length of time, as exact as it is of interest: `1 s`, `20 min`, `4 h`, `3 d`. Never negative. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = minutes / 60;
  return hours < 48 ? `${trimZero(hours.toFixed(1))} h` : `${trimZero((hours / 24).toFixed(1))} d`;
}

const SIZES = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** A number of bytes in the largest unit it fills, in steps of 1024: `512 bytes`, `32 KB`, `1.5 GB`. */
export function size(bytes: number): string {
  let amount = bytes;
  let unit = 0;
  for (; amount >= 1024 && unit < SIZES.length - 1; unit++) amount /= 1024;
  return `${trimZero(amount.toFixed(1))} ${SIZES[unit]}`;
}

/** `1,234`. */
export function count(n: number): string {
  return n.toLocaleString('en-US');
}

function trimZero(text: string): string {
  return text.endsWith('.0') ? text.slice(0, -2) : text;
}
