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

/** How long until something: `now`, `1 s`, `20 min`, `4 h`. */
export function remaining(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 1) return 'now';
  if (seconds < 120) return `in ${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `in ${minutes} min` : `in ${trimZero((minutes / 60).toFixed(1))} h`;
}

function trimZero(text: string): string {
  return text.endsWith('.0') ? text.slice(0, -2) : text;
}
