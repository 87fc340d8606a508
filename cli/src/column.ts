import { printable } from '@millrace/server/visible-text';
import stringWidth from 'string-width';

export { printable } from '@millrace/server/visible-text';

/**
 * Pieces of a line on a terminal, as pure text without colour.
 *
 * Text from clients and receivers is dangerous for a terminal: an event name may hold escape sequences that
 * move the cursor or rewrite the title. All text from the network goes through `printable`.
 */

/** Matches text in which every character takes one column, as in nearly every text. */
const NARROW = /^[ -~]*$/;

/** UTF-16 units of a character that are examined: a letter with stacked accents may have thousands. */
const LONGEST_CHARACTER = 16;

const CHARACTERS = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** Columns that a printable text takes on a terminal: two for a wide character, none for an accent. */
export function widthOf(text: string): number {
  return NARROW.test(text) ? text.length : stringWidth(text);
}

/** The text in exactly `width` columns: filled with spaces, or cut with `…` at the end. */
export function column(text: string, width: number): string {
  const shown = atMost(text, width);
  return shown + ' '.repeat(Math.max(0, width - widthOf(shown)));
}

/** The text without spaces at its end, cut with `…` where it takes more than `width` columns. */
export function atMost(text: string, width: number): string {
  // A name may be 32 KB long; only the part that can be shown is examined.
  const most = (width + 1) * LONGEST_CHARACTER;
  const start = printable(text.slice(0, most));
  if (text.length <= most && widthOf(start) <= width) return start.trimEnd();
  return `${cut(start, width - 1)}…`;
}

/** The longest prefix of whole characters that fits. */
function cut(text: string, width: number): string {
  if (NARROW.test(text)) return text.slice(0, width);
  let shown = '';
  let left = width;
  for (const { segment } of CHARACTERS.segment(text)) {
    left -= segment.length > LONGEST_CHARACTER ? left + 1 : widthOf(segment);
    if (left < 0) break;
    shown += segment;
  }
  return shown;
}

/** Local time of day, `10:23:45.123`. */
export function timeOfDay(time: number): string {
  const date = new Date(time);
  const millis = String(date.getMilliseconds()).padStart(3, '0');
  return `${wholeSecond(date)}.${millis}`;
}

/** Local time of day, `10:23:45`, for future times: milliseconds would promise too much. */
export function secondOfDay(time: number): string {
  return wholeSecond(new Date(time));
}

function wholeSecond(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** A server time to the minute, with its day: `2026-03-11 05:06 UTC`. */
export function minuteOf(time: string): string {
  return `${time.slice(0, 16).replace('T', ' ')} UTC`;
}

/** A latency: `0.4 ms`, `12 ms`, `5.0 s`. */
export function latency(ms: number): string {
  if (ms >= 999.5) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 9.95 ? `${trimZero(ms.toFixed(1))} ms` : `${Math.round(ms)} ms`;
}

/** The time that is left: `now`, `in 1 s`, `in 20 min`, `in 4 h`. */
export function remaining(ms: number): string {
  return ms < 500 ? 'now' : `in ${span(ms)}`;
}

/** A duration in its largest unit: `1 s`, `20 min`, `4 h`, `3 d`. Never negative. */
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

/** A whole number with thousands separators: `1,234`. */
export function count(n: number): string {
  return n.toLocaleString('en-US');
}

function trimZero(text: string): string {
  return text.endsWith('.0') ? text.slice(0, -2) : text;
}

/** `1 event`, `1,200 events`. */
export function counted(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? '' : 's'}`;
}
