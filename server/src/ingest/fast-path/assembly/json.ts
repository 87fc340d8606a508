import { isCanonicalNumber } from './host';

/** Not canonical. Every function that gives an address gives this instead. */
export const FAILED: usize = 0;

/** The bytes of JSON's syntax. */
export const QUOTE: u8 = 0x22;
export const COMMA: u8 = 0x2c;
export const COLON: u8 = 0x3a;
export const OPEN_LIST: u8 = 0x5b;
export const CLOSE_LIST: u8 = 0x5d;
export const OPEN_OBJECT: u8 = 0x7b;
export const CLOSE_OBJECT: u8 = 0x7d;
export const BACKSLASH: u8 = 0x5c;
export const MINUS: u8 = 0x2d;
export const DOT: u8 = 0x2e;
export const ZERO: u8 = 0x30;
export const BLANK: u8 = 0x20;
export const LINE_FEED: u8 = 0x0a;

export function isDigit(byte: u8): bool {
  return byte - ZERO <= 9;
}

/** The first quote, backslash or control character from `at` on. */
export function endOfPlainText(at: usize): usize {
  let ends = endsIn(at);
  while (ends === 0) {
    at += 16;
    ends = endsIn(at);
  }
  return at + ctz(ends);
}

/** One bit for each of sixteen bytes that ends a run of plain characters. */
function endsIn(at: usize): i32 {
  const bytes = v128.load(at);
  const quotes = i8x16.eq(bytes, i8x16.splat(QUOTE));
  const backslashes = i8x16.eq(bytes, i8x16.splat(BACKSLASH));
  const controls = i8x16.lt_u(bytes, i8x16.splat(BLANK));
  return i8x16.bitmask(v128.or(v128.or(quotes, backslashes), controls));
}

/** Whether the text between two addresses is ASCII without escapes, so that it means what it says. */
export function isPlain(at: usize, end: usize): bool {
  for (; at < end; at++) {
    const byte = load<u8>(at);
    if (byte >= 0x80 || byte === BACKSLASH) return false;
  }
  return true;
}

/** JavaScript writes a whole number of at most this many digits exactly as it read it. */
const SAFE_DIGITS: usize = 15;

/** JavaScript writes no number with more characters, such as `-1.7976931348623157e+308`. */
const MAX_NUMBER_LENGTH: usize = 25;

export function endOfNumber(from: usize): usize {
  const first = load<u8>(from) === MINUS ? from + 1 : from;
  let at = first;
  while (isDigit(load<u8>(at))) at++;
  if (at === first) return FAILED;
  const byte = load<u8>(at);
  // Numbers from 1 on: `-0`, a 0 before other digits and small fractions do not pass here.
  if (load<u8>(first) > ZERO && at - first <= SAFE_DIGITS) {
    if (byte !== DOT && !isExponent(byte)) return at;
    if (byte === DOT) {
      const point = at++;
      while (isDigit(load<u8>(at))) at++;
      const safe = at - first <= SAFE_DIGITS && at > point + 1 && load<u8>(at - 1) !== ZERO;
      if (safe && !isExponent(load<u8>(at))) return at;
    }
  } else if (at - from === 1 && byte !== DOT && !isExponent(byte)) return at;
  return endOfRareNumber(from);
}

/** The end of a number that is more than some digits. It is canonical when JavaScript writes it like that. */
function endOfRareNumber(from: usize): usize {
  let at = from;
  while (at - from <= MAX_NUMBER_LENGTH && isInNumber(load<u8>(at))) at++;
  return at - from <= MAX_NUMBER_LENGTH && isCanonicalNumber(from, at) ? at : FAILED;
}

function isInNumber(byte: u8): bool {
  return isDigit(byte) || byte === MINUS || byte === DOT || byte === 0x2b || byte === 0x65;
}

function isExponent(byte: u8): bool {
  return byte === 0x65 || byte === 0x45;
}

/** Objects with more keys are left to `JSON.parse`. */
export const MAX_KEYS: usize = 64;

/**
 * Hashes of the keys of every object being read, four bytes each, the outermost object first. Two keys with
 * the same hash count as equal, which only costs time: the body is then parsed.
 */
export const HASHES = memory.data(34 * 64 * 4, 16);

/** A quote and a colon. */
const END_OF_KEY: u16 = 0x3a22;

/** Hash, begin and end of the key read last. */
let lastHash: u32 = 0;
let lastFrom: usize = 0;
let lastEnd: usize = 0;

/**
 * The address behind the colon of the key whose quote is at `at`. The hashes of the object's other keys stand
 * from `first` to `top`. Refuses a key that begins with a digit, because JavaScript moves whole numbers to
 * the front.
 */
export function endOfKey(at: usize, first: usize, top: usize): usize {
  if (load<u8>(at) !== QUOTE || top - first >= MAX_KEYS * 4 || isDigit(load<u8>(at + 1))) return FAILED;
  at++;
  const end = endOfPlainText(at);
  if (load<u16>(end) !== END_OF_KEY) return FAILED;
  const hash = hashOf(at, end - at);
  for (let other = first; other < top; other += 4) if (load<u32>(other) === hash) return FAILED;
  store<u32>(top, hash);
  lastHash = hash;
  lastFrom = at;
  lastEnd = end;
  return end + 2;
}

/** Hashes eight bytes at a time, and of the last ones only those that belong to the name. */
function hashOf(at: usize, length: usize): u32 {
  let hash: u64 = length;
  for (; length > 8; length -= 8, at += 8) hash = mixed(hash ^ load<u64>(at));
  return <u32>(mixed(hash ^ lowBytes(at, length)) >>> 32);
}

function mixed(constant: u64): u64 {
  constant *= ((<u64>0x9e3779b9) << 32) | 0x7f4a7c15;
  return constant ^ (constant >>> 32);
}

/** Up to eight bytes as one number. */
function lowBytes(at: usize, length: usize): u64 {
  return length === 0 ? 0 : load<u64>(at) & (u64.MAX_VALUE >>> (64 - ((<u64>length) << 3)));
}

/** The names that are recognised, 24 bytes each, filled up with zeros. No name is longer. */
const NAME_SIZE: usize = 24;
const NAMES = memory.data(32 * 24, 16);
const LENGTHS = memory.data(32);

/** Numbers of names by the low bits of their hashes; `UNKNOWN` where there is none. */
const SLOTS = memory.data(256);
export const UNKNOWN: u8 = 0xff;

/** The address to which the program writes the name with this number before it calls `registerName`. */
export function nameAddress(name: i32): usize {
  return NAMES + <usize>name * NAME_SIZE;
}

export function clearNames(): void {
  memory.fill(SLOTS, UNKNOWN, 256);
}

/** False when the slot of the name is taken. */
export function registerName(name: i32, length: i32): bool {
  const slot = SLOTS + (hashOf(nameAddress(name), length) & 0xff);
  if (load<u8>(slot) !== UNKNOWN) return false;
  store<u8>(slot, <u8>name);
  store<u8>(LENGTHS + name, <u8>length);
  return true;
}

/** The number of the name of the key read last. */
export function lastName(): i32 {
  const name = load<u8>(SLOTS + (lastHash & 0xff));
  if (name === UNKNOWN) return UNKNOWN;
  let length: usize = load<u8>(LENGTHS + name);
  if (length !== lastEnd - lastFrom) return UNKNOWN;
  let own = nameAddress(name);
  let at = lastFrom;
  for (; length > 8; length -= 8, at += 8, own += 8) if (load<u64>(at) !== load<u64>(own)) return UNKNOWN;
  return lowBytes(at, length) === load<u64>(own) ? name : UNKNOWN;
}

/** Bytes from the quote before a name to the value: the name, two quotes and a colon. */
export function keyLength(name: i32): usize {
  return <usize>load<u8>(LENGTHS + name) + 3;
}

/**
 * The functions below read over JSON without making values of it. They check that the bytes are canonical,
 * which means what `JSON.stringify` would write: such bytes can be stored as they are.
 *
 * The check is one-sided. Text that passes is exactly what parsing and writing would give back. Text that
 * fails may be valid all the same (blanks between tokens, `1.0`, `\u0041`, keys that occur twice or begin
 * with a digit, unusual depth) and is left to `JSON.parse`. The bytes must be valid UTF-8, which the caller
 * has checked, with zeros behind the last one: a zero ends every loop here, and sixteen bytes are read
 * together.
 */

/** Values nested deeper are left to `JSON.parse`. */
const MAX_SCANNED_DEPTH: i32 = 32;

/** `rue`, `alse` and `null` as they stand in memory, the first letter lowest. */
const RUE: u32 = 0x657572;
const ALSE: u32 = 0x65736c61;
export const NULL: u32 = 0x6c6c756e;

/** The end of the value at `at`. `depth` levels are around it; the hashes of their keys stand below `top`. */
export function endOfValue(at: usize, depth: i32, top: usize): usize {
  switch (load<u8>(at)) {
    case QUOTE:
      return endOfText(at + 1);
    case OPEN_OBJECT:
      return depth < MAX_SCANNED_DEPTH ? endOfObject(at + 1, depth + 1, top) : FAILED;
    case OPEN_LIST:
      return depth < MAX_SCANNED_DEPTH ? endOfList(at + 1, depth + 1, top) : FAILED;
    case 0x74: // t
      return (load<u32>(at + 1) & 0xffffff) === RUE ? at + 4 : FAILED;
    case 0x66: // f
      return load<u32>(at + 1) === ALSE ? at + 5 : FAILED;
    case 0x6e: // n
      return load<u32>(at) === NULL ? at + 4 : FAILED;
    default:
      return endOfNumber(at);
  }
}

/** `at` is behind the brace. */
function endOfObject(at: usize, depth: i32, top: usize): usize {
  if (load<u8>(at) === CLOSE_OBJECT) return at + 1;
  const first = top;
  for (;;) {
    at = endOfKey(at, first, top);
    if (at === FAILED) return FAILED;
    top += 4;
    at = load<u8>(at) === QUOTE ? endOfText(at + 1) : endOfValue(at, depth, top);
    if (at === FAILED) return FAILED;
    if (load<u8>(at) !== COMMA) break;
    at++;
  }
  return load<u8>(at) === CLOSE_OBJECT ? at + 1 : FAILED;
}

/** `at` is behind the bracket. */
function endOfList(at: usize, depth: i32, top: usize): usize {
  if (load<u8>(at) === CLOSE_LIST) return at + 1;
  for (;;) {
    at = endOfValue(at, depth, top);
    if (at === FAILED) return FAILED;
    if (load<u8>(at) !== COMMA) break;
    at++;
  }
  return load<u8>(at) === CLOSE_LIST ? at + 1 : FAILED;
}

/** `at` is behind the opening quote. The escape `\u` is left to `JSON.parse`. */
function endOfText(at: usize): usize {
  at = endOfPlainText(at);
  while (load<u8>(at) === BACKSLASH && isEscape(load<u8>(at + 1))) at = endOfPlainText(at + 2);
  return load<u8>(at) === QUOTE ? at + 1 : FAILED;
}

/** Whether `JSON.stringify` writes this byte behind a backslash. */
function isEscape(byte: u8): bool {
  return (
    byte === QUOTE ||
    byte === BACKSLASH ||
    byte === 0x6e || // n
    byte === 0x74 || // t
    byte === 0x72 || // r
    byte === 0x62 || // b
    byte === 0x66 // f
  );
}

/**
 * The end of the value at `at`, provided that it is valid: only quotes and brackets are read. `FAILED` when
 * it breaks off.
 */
export function endOfAny(at: usize, limit: usize): usize {
  let depth = 0;
  for (; at < limit; at++) {
    const byte = load<u8>(at);
    if (byte === QUOTE) {
      for (at++; at < limit && load<u8>(at) !== QUOTE; at++) if (load<u8>(at) === BACKSLASH) at++;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (byte === COMMA && depth === 0) return at;
  }
  return FAILED;
}
