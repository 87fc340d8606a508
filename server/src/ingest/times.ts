import { isObject, type Json, type JsonObject } from '../model/json.ts';
import { DAY, HOUR, MINUTE, SECOND, type Time } from '../model/time.ts';

/** The years 0000 to 9999, which four digits can write. */
const EARLIEST: Time = -62_167_219_200_000;
const LATEST: Time = 253_402_300_799_999;

/** Year 1 begins here. .NET and Go write it where there is no time. */
const ZERO_OF_LANGUAGES: Time = -62_135_596_800_000;

/** Longer texts are no times. The limit keeps the patterns below cheap for every text. */
const LONGEST_TEXT = 100;

const TIME_OF_DAY = String.raw`(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?`;
const ZONE = String.raw`(Z|z|UTC|GMT|(?:UTC|GMT)?[+\u2212-]\d{2}(?::?\d{2})?)`;

/**
 * ISO 8601 as clients and languages write it: months and days of one digit (`2015-2-02` stands in Segment's
 * documentation), slashes for dashes, any number of fractional digits, offsets with and without a colon, a
 * blank instead of `T`, or a date alone. Java adds the name of the zone in brackets, Go an abbreviation and
 * its monotonic clock. spec/specification.md, "Timestamp formats".
 */
const WRITTEN = new RegExp(
  String.raw`^(\d{4})([-/])(\d{1,2})\2(\d{1,2})(?:[Tt ]${TIME_OF_DAY}(?: ?${ZONE}(?:\[[\w/+-]+\]| [A-Z]{1,5}| [+-]\d{2}(?:\d{2})?)?)?(?: m=[+-][\d.]+)?)?$`,
);

/** ISO 8601 without separators: `20190304T050607Z`. */
const BASIC = new RegExp(
  String.raw`^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(?:(\d{2})(?:[.,](\d+))?)?${ZONE}?$`,
);

/** As in mails and HTTP: `Mon, 04 Mar 2019 05:06:07 +0200`. */
const OF_MAILS = new RegExp(
  String.raw`^(?:[A-Z][a-z]{2}, )?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) ${TIME_OF_DAY} ?${ZONE}?$`,
);

/** As JavaScript writes a `Date`: `Mon Mar 04 2019 05:06:07 GMT+0200 (Central European Time)`. */
const OF_JAVASCRIPT = new RegExp(
  String.raw`^[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d{1,2}) (\d{4}) ${TIME_OF_DAY} ?${ZONE}?(?: \([^()]*\))?$`,
);

/** As .NET wrote it in JSON; what stands behind the number is the zone of its maker, and changes nothing. */
const OF_DOTNET = /^\/Date\((-?\d{1,16})(?:[+-]\d{4})?\)\/$/;

const DIGITS = /^-?\d{1,17}(?:\.\d{1,9})?$/;

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

const ZERO = 48;
const DASH = 45;
const COLON = 58;
const DOT = 46;
const UPPER_T = 84;
const UPPER_Z = 90;

/** Larger than every limit it is compared with. */
const NOT_DIGITS = 100_000;

/**
 * Reads a client's time: a text, a number since 1970 (also as text), or the objects that Firestore and
 * MongoDB write. A text without a zone is UTC. `NaN` when it cannot be read, when its year does not have four
 * digits, and up to the beginning of the year 1, which languages write for "no time".
 */
export function readTime(value: Json): Time {
  const time = readAny(value);
  return time > ZERO_OF_LANGUAGES ? time : Number.NaN;
}

function readAny(value: Json): Time {
  if (typeof value === 'string') {
    const time = readCanonical(value);
    return Number.isNaN(time) ? readWritten(value) : time;
  }
  if (typeof value === 'number') return readNumber(value);
  return isObject(value) ? readWrapped(value) : Number.NaN;
}

/** A number by its size: seconds up to the year 5138, then milliseconds up to the same, then microseconds. */
function readNumber(value: number): Time {
  const size = Math.abs(value);
  if (size < 1e11) return withinRange(Math.floor(Math.round(value * 1e6) / 1000));
  return withinRange(Math.floor(size < 1e14 ? value : value / 1000));
}

/** `{"_seconds":…,"_nanoseconds":…}` of Firestore and `{"$date":…}` of MongoDB. */
function readWrapped(value: JsonObject): Time {
  const { _seconds: seconds, _nanoseconds: nanos = 0, $date: date } = value;
  if (typeof seconds === 'number' && typeof nanos === 'number')
    return withinRange(Math.floor(seconds * SECOND + nanos / 1e6));
  if (isObject(date) && typeof date['$numberLong'] === 'string') return readOf1970(date['$numberLong']);
  if (typeof date === 'number') return withinRange(Math.floor(date));
  return typeof date === 'string' ? readAny(date) : Number.NaN;
}

/** Milliseconds as text. */
function readOf1970(text: string): Time {
  return /^-?\d{1,16}$/.test(text) ? withinRange(Number(text)) : Number.NaN;
}

/**
 * Reads exactly `YYYY-MM-DDTHH:mm:ss.sssZ`, which most clients send and which we write; `NaN` for anything
 * else.
 */
export function readCanonical(text: string): Time {
  if (text.length !== CANONICAL_LENGTH) return Number.NaN;
  for (let at = 0; at < CANONICAL_LENGTH; at++) {
    // A larger unit, stored in a byte, would look like another character.
    const unit = text.charCodeAt(at);
    characters[at] = unit < 128 ? unit : 0;
  }
  return readCharacters(characters);
}

const CANONICAL_LENGTH = 24;
const characters = new Uint8Array(CANONICAL_LENGTH);

function readCharacters(text: Uint8Array): Time {
  if (
    text[4] !== DASH ||
    text[7] !== DASH ||
    text[10] !== UPPER_T ||
    text[13] !== COLON ||
    text[16] !== COLON ||
    text[19] !== DOT ||
    text[23] !== UPPER_Z
  ) {
    return Number.NaN;
  }
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2);
  const day = daysSinceEpoch(year, twoDigits(text, 5), twoDigits(text, 8));
  const hour = twoDigits(text, 11);
  const minute = twoDigits(text, 14);
  const second = twoDigits(text, 17);
  const millis = twoDigits(text, 20) * 10 + digit(text, 22);
  if (hour > 23 || minute > 59 || second > 59 || millis > 999) return Number.NaN;
  const time = day * DAY + hour * HOUR + minute * MINUTE + second * SECOND + millis;
  return time > ZERO_OF_LANGUAGES ? time : Number.NaN;
}

function readWritten(said: string): Time {
  if (said.length > LONGEST_TEXT) return Number.NaN;
  const text = said.trim();
  const iso = WRITTEN.exec(text);
  if (iso !== null) {
    const [, year, , month, day, hour, minute, second, fraction, zone] = iso;
    return timeOf({ year, month: Number(month), day, hour, minute, second, fraction, zone });
  }
  if (DIGITS.test(text)) return readNumber(Number(text));
  const basic = BASIC.exec(text);
  if (basic !== null) {
    const [, year, month, day, hour, minute, second, fraction, zone] = basic;
    return timeOf({ year, month: Number(month), day, hour, minute, second, fraction, zone });
  }
  const mail = OF_MAILS.exec(text);
  if (mail !== null) {
    const [, day, month, year, hour, minute, second, fraction, zone] = mail;
    return timeOf({ year, month: MONTHS.indexOf(month!) + 1, day, hour, minute, second, fraction, zone });
  }
  const script = OF_JAVASCRIPT.exec(text);
  if (script !== null) {
    const [, month, day, year, hour, minute, second, fraction, zone] = script;
    return timeOf({ year, month: MONTHS.indexOf(month!) + 1, day, hour, minute, second, fraction, zone });
  }
  return readOf1970(OF_DOTNET.exec(text)?.[1] ?? '');
}

interface WrittenTime {
  readonly year: string | undefined;
  readonly month: number;
  readonly day: string | undefined;
  readonly hour: string | undefined;
  readonly minute: string | undefined;
  readonly second: string | undefined;
  readonly fraction: string | undefined;
  readonly zone: string | undefined;
}

/**
 * Seconds may be 60, as in a leap second, which becomes the first second of the next minute. 24:00:00 is the
 * end of its day.
 */
function timeOf(written: WrittenTime): Time {
  const { hour = '0', minute = '0', second = '0', fraction = '', zone } = written;
  const day = daysSinceEpoch(Number(written.year), written.month, Number(written.day));
  const [h, m, s] = [Number(hour), Number(minute), Number(second)];
  const millis = Number(fraction.slice(0, 3).padEnd(3, '0'));
  const isEndOfDay = h === 24 && m === 0 && s === 0 && Number(fraction || '0') === 0;
  if ((h > 23 && !isEndOfDay) || m > 59 || s > 60) return Number.NaN;
  return withinRange(day * DAY + h * HOUR + m * MINUTE + s * SECOND + millis - offsetOf(zone));
}

/** The offset in milliseconds, positive east of Greenwich; `NaN` when it is none. */
function offsetOf(zone: string | undefined): number {
  const [, sign, hours, minutes = '0'] = /([+\u2212-])(\d{2}):?(\d{2})?$/.exec(zone ?? '') ?? [];
  if (sign === undefined) return 0;
  if (Number(hours) > 23 || Number(minutes) > 59) return Number.NaN;
  return (sign === '+' ? 1 : -1) * (Number(hours) * HOUR + Number(minutes) * MINUTE);
}

function withinRange(time: Time): Time {
  return time >= EARLIEST && time <= LATEST ? time : Number.NaN;
}

function digit(text: Uint8Array, at: number): number {
  const value = text[at]! - ZERO;
  return value >= 0 && value <= 9 ? value : NOT_DIGITS;
}

function twoDigits(text: Uint8Array, at: number): number {
  return digit(text, at) * 10 + digit(text, at + 1);
}

/**
 * Whole days since 1970-01-01 in the Gregorian calendar; `NaN` for a day that does not exist. Years are
 * counted from March: the leap day is then the last of its year, and the first day of a month follows from a
 * linear formula.
 */
function daysSinceEpoch(year: number, month: number, day: number): number {
  if (year > 9999 || month < 1 || month > 12 || day < 1 || day > daysIn(month, year)) return Number.NaN;
  const marchYear = month > 2 ? year : year - 1;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const leapDays = Math.floor(marchYear / 4) - Math.floor(marchYear / 100) + Math.floor(marchYear / 400);
  return marchYear * 365 + leapDays + dayOfYear - 719_468;
}

function daysIn(month: number, year: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/**
 * Cached texts of the last day and the last second written: most events are of one second, and even a
 * historical import goes day by day. `toISOString` for every time would cost a fifth of receiving a call.
 */
let lastDay = Number.NaN;
let lastDate = '';
let lastSecond = Number.NaN;
let lastPrefix = '';
const TWO_DIGITS = Array.from({ length: 60 }, (_, n) => String(n).padStart(2, '0'));
const MILLIS = Array.from({ length: 1000 }, (_, n) => `${String(n).padStart(3, '0')}Z`);

/** Writes `YYYY-MM-DDTHH:mm:ss.sssZ`; `time` is a whole number between the years 0000 and 9999. */
export function formatTime(time: Time): string {
  const second = Math.floor(time / SECOND);
  if (second !== lastSecond) {
    const day = Math.floor(time / DAY);
    if (day !== lastDay) {
      lastDate = new Date(day * DAY).toISOString().slice(0, 11);
      lastDay = day;
    }
    const ofDay = second - day * (DAY / SECOND);
    const minute = Math.floor(ofDay / 60);
    const hour = Math.floor(minute / 60);
    lastPrefix = `${lastDate}${TWO_DIGITS[hour]}:${TWO_DIGITS[minute - hour * 60]}:${TWO_DIGITS[ofDay - minute * 60]}.`;
    lastSecond = second;
  }
  return lastPrefix + MILLIS[time - second * SECOND];
}

/**
 * When something happened by our clock: `original`, moved by how much the client's clock was off when it sent
 * the call. A difference below a second is the network and not the clock: correcting it would shift every
 * historical time. `NaN` when the two clocks are more than 24 hours apart, because the client's own time is
 * then worth more than the corrected one, and when the result would leave the years that four digits can
 * write. spec/specification.md, "Time".
 */
export function correctedTime(original: Time, sentAt: Time, receivedAt: Time): Time {
  const correction = receivedAt - sentAt;
  if (Math.abs(correction) < SECOND) return original;
  return Math.abs(correction) > DAY ? Number.NaN : withinRange(original + correction);
}
