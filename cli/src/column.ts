import { printable } from '@millrace/server/visible-text';
import stringWidth from 'string-width';

export { printable } from '@millrace/server/visible-text';

/**
 * The pieces of a line on a terminal: pure text, no colour.
 *
 * What clients and receivers send is not to be trusted with a terminal: an event name may hold escape sequences that
 * move the cursor or rewrite the title. Everything that came over the network goes through `printable`.
 */

/** Nearly every text has only characters of one column. */
const NARROW = /^[ -~]*$/;

/** UTF-16 units of the longest character that is looked at: a letter with a heap of accents may have thousands. */
const LONGEST_CHARACTER = 16;

const CHARACTERS = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** How many columns of a terminal a printable text takes: wide characters take two, accents none. */
export function widthOf(text: string): number {
  return NARROW.test(text) ? text.length : stringWidth(text);
}

/** Exactly `width` columns: filled with spaces, or cut with `…` at the end. */
export function column(text: string, width: number): string {
  const shown = atMost(text, width);
  return shown + ' '.repeat(Math.max(0, width - widthOf(shown)));
}

/** The text, cut with `…` where it takes more than `width` columns, and without spaces at its end. */
export function atMost(text: string, width: number): string {
  // A name may be 32 KB long, and no more of it is looked at than can be shown.
  const most = (width + 1) * LONGEST_CHARACTER;
  const start = printable(text.slice(0, most));
  if (text.length <= most && widthOf(start) <= width) return start.trimEnd();
  return `${cut(start, width - 1)}…`;
}

/** As many whole characters as fit. */
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

/** Local time of day, `10:23:45`; for what is still to come, where milliseconds would promise too much. */
export function secondOfDay(time: number): string {
  return wholeSecond(new Date(time));
}

function wholeSecond(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** A time of the server to the minute, with its day: `2026-03-11 05:06 UTC`. */
export function minuteOf(time: string): string {
  return `${time.slice(0, 16).replace('T', ' ')} UTC`;
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
