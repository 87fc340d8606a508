import { parseTime } from './host';
import { isDigit, ZERO } from './json';
import { put } from './output';

/** Milliseconds since 1970. */
const SECOND: i32 = 1000;
const MINUTE: i32 = 60 * SECOND;
const HOUR: i32 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/** The years 0000 to 9999, which four digits can write. */
const EARLIEST: f64 = -62_167_219_200_000;
const LATEST: f64 = 253_402_300_799_999;

/** The first moment of the year 1, which languages write for "no time", as everything before. */
const ZERO_OF_LANGUAGES: f64 = -62_135_596_800_000;

/** Length of `YYYY-MM-DDTHH:mm:ss.sssZ`, the form that most clients send and that we write. */
export const CANONICAL_LENGTH: usize = 24;

/** Larger than every limit it is compared with. */
const NOT_DIGITS: i32 = 100_000;

/** Reads the time between two addresses. */
export function readTime(from: usize, to: usize): f64 {
  const time = to - from === CANONICAL_LENGTH ? readCanonical(from) : NaN;
  return F64.isNaN(time) ? parseTime(from, to) : time;
}

function readCanonical(at: usize): f64 {
  if (
    load<u8>(at, 4) !== 0x2d ||
    load<u8>(at, 7) !== 0x2d ||
    load<u8>(at, 10) !== 0x54 || // T
    load<u8>(at, 13) !== 0x3a ||
    load<u8>(at, 16) !== 0x3a ||
    load<u8>(at, 19) !== 0x2e ||
    load<u8>(at, 23) !== 0x5a // Z
  ) {
    return NaN;
  }
  const year = twoDigits(at) * 100 + twoDigits(at + 2);
  const month = twoDigits(at + 5);
  const day = twoDigits(at + 8);
  const hour = twoDigits(at + 11);
  const minute = twoDigits(at + 14);
  const second = twoDigits(at + 17);
  const millis = twoDigits(at + 20) * 10 + digit(at + 22);
  if (year > 9999 || month < 1 || month > 12 || day < 1 || day > daysIn(month, year)) return NaN;
  if (hour > 23 || minute > 59 || second > 59 || millis > 999) return NaN;
  const ofDay = hour * HOUR + minute * MINUTE + second * SECOND + millis;
  const time = <f64>(<i64>daysSinceEpoch(year, month, day) * DAY + ofDay);
  return time > ZERO_OF_LANGUAGES ? time : NaN;
}

function digit(at: usize): i32 {
  const byte = load<u8>(at);
  return isDigit(byte) ? byte - ZERO : NOT_DIGITS;
}

function twoDigits(at: usize): i32 {
  return digit(at) * 10 + digit(at + 1);
}

function daysIn(month: i32, year: i32): i32 {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/**
 * Whole days from 1970-01-01 in the Gregorian calendar. Years are counted from March, so that the leap day is
 * the last of its year and a month's first day is a linear formula; and 400 years later than they are, so
 * that none is negative.
 */
function daysSinceEpoch(year: i32, month: i32, day: i32): i32 {
  const marchYear = (month > 2 ? year : year - 1) + 400;
  const dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const leapDays = marchYear / 4 - marchYear / 100 + marchYear / 400;
  return marchYear * 365 + leapDays + dayOfYear - DAYS_BEFORE_EPOCH;
}

/** From the first of March of the year −400 to 1970-01-01. */
const DAYS_BEFORE_EPOCH: i32 = 719_468 + 146_097;

/**
 * As `correctedTime` in `envelope.ts`.
 */
export function correctedTime(original: f64, sentAt: f64, receivedAt: f64): f64 {
  const correction = receivedAt - sentAt;
  if (abs(correction) < <f64>SECOND) return original;
  const time = original + correction;
  return abs(correction) > <f64>DAY || time < EARLIEST || time > LATEST ? NaN : time;
}

/** The text of the time written last, and the begin of its day: most events are of one day. */
const WRITTEN = memory.data(32, 16);
let dayBegan: i64 = i64.MAX_VALUE - DAY;

/** Writes `YYYY-MM-DDTHH:mm:ss.sssZ`; `time` is a whole number between the years 0000 and 9999. */
export function putTime(time: f64): void {
  const whole = <i64>time;
  if (whole < dayBegan || whole >= dayBegan + DAY) {
    const day = (whole - <i64>EARLIEST) / DAY;
    writeDate(<i32>day);
    dayBegan = <i64>EARLIEST + day * DAY;
  }
  const ofDay = <i32>(whole - dayBegan);
  const seconds = ofDay / SECOND;
  const minutes = seconds / 60;
  const hours = minutes / 60;
  const millis = ofDay - seconds * SECOND;
  writeTwo(11, hours);
  writeTwo(14, minutes - hours * 60);
  writeTwo(17, seconds - minutes * 60);
  const hundreds = millis / 100;
  store<u8>(WRITTEN, ZERO + <u8>hundreds, 20);
  writeTwo(21, millis - hundreds * 100);
  put(WRITTEN, WRITTEN + CANONICAL_LENGTH);
}

function writeTwo(at: usize, number: i32): void {
  store<u8>(WRITTEN + at, ZERO + <u8>(number / 10));
  store<u8>(WRITTEN + at + 1, ZERO + <u8>(number % 10));
}

/** Reverses `daysSinceEpoch`, in cycles of 400 years. `day` is counted from 0000-01-01. */
function writeDate(day: i32): void {
  // Counted from the first of March 400 years before.
  const days = day + 146_097 - 60;
  const cycle = days / 146_097;
  const ofCycle = days - cycle * 146_097;
  const yearOfCycle = (ofCycle - ofCycle / 1460 + ofCycle / 36_524 - ofCycle / 146_096) / 365;
  const ofYear = ofCycle - (365 * yearOfCycle + yearOfCycle / 4 - yearOfCycle / 100);
  const march = (5 * ofYear + 2) / 153;
  const month = march < 10 ? march + 3 : march - 9;
  const year = yearOfCycle + (cycle - 1) * 400 + (month <= 2 ? 1 : 0);
  writeTwo(0, year / 100);
  writeTwo(2, year % 100);
  writeTwo(5, month);
  writeTwo(8, ofYear - (153 * march + 2) / 5 + 1);
  store<u8>(WRITTEN, 0x2d, 4);
  store<u8>(WRITTEN, 0x2d, 7);
  store<u8>(WRITTEN, 0x54, 10);
  store<u8>(WRITTEN, 0x3a, 13);
  store<u8>(WRITTEN, 0x3a, 16);
  store<u8>(WRITTEN, 0x2e, 19);
  store<u8>(WRITTEN, 0x5a, 23);
}
