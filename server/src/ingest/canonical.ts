/**
 * Reads over JSON in bytes without making values of it, and makes sure that the bytes are what `JSON.stringify` would write:
 * such bytes can be stored as they are.
 *
 * One-sided: what passes is exactly the text that parsing and writing would give back. What is refused may be valid all the
 * same (blanks between tokens, `1.0`, `\u0041`, keys that occur twice or begin with a digit, unusual depth) and is left to
 * `JSON.parse`. The bytes must be valid UTF-8, which the caller has looked at.
 */

/** Not canonical. Every function here that gives a place gives this instead. */
export const NOWHERE = -1;

export const QUOTE = 0x22;
export const COMMA = 0x2c;
const COLON = 0x3a;
export const OPEN_LIST = 0x5b;
export const CLOSE_LIST = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
export const BACKSLASH = 0x5c;

/** Values nested deeper, and objects with more keys, are left to `JSON.parse`. */
const DEEPEST_SCANNED = 32;
export const MOST_KEYS = 64;

/** Whole numbers of so few digits are written as they are read; other numbers are looked at one by one. */
const SAFE_DIGITS = 15;

/** 1 for what follows the backslash in the escapes that `JSON.stringify` writes; `\u` is left to `JSON.parse`. */
const ESCAPES = Uint8Array.from({ length: 256 }, (_, byte) =>
  '"\\bfnrt'.includes(String.fromCharCode(byte)) ? 1 : 0,
);

/**
 * Hashes of the keys of every object that is being read, the outermost first. They only tell keys apart: two with the same
 * hash count as equal, which costs time and nothing else. Scratch memory, as reading never waits.
 */
const hashes = new Int32Array((DEEPEST_SCANNED + 2) * MOST_KEYS);
let lastHash = 0;

/** The end of the value that begins at `at`. `depth` levels are around it, whose keys have their hashes below `top`. */
export function endOfValue(bytes: Uint8Array, at: number, depth: number, top: number): number {
  switch (bytes[at]) {
    case QUOTE:
      return endOfText(bytes, at + 1);
    case OPEN_OBJECT:
      return depth < DEEPEST_SCANNED ? endOfObject(bytes, at + 1, depth + 1, top) : NOWHERE;
    case OPEN_LIST:
      return depth < DEEPEST_SCANNED ? endOfList(bytes, at + 1, depth + 1, top) : NOWHERE;
    case 0x74: // true
      return bytes[at + 1] === 0x72 && bytes[at + 2] === 0x75 && bytes[at + 3] === 0x65 ? at + 4 : NOWHERE;
    case 0x66: // false
      return bytes[at + 1] === 0x61 &&
        bytes[at + 2] === 0x6c &&
        bytes[at + 3] === 0x73 &&
        bytes[at + 4] === 0x65
        ? at + 5
        : NOWHERE;
    case 0x6e: // null
      return bytes[at + 1] === 0x75 && bytes[at + 2] === 0x6c && bytes[at + 3] === 0x6c ? at + 4 : NOWHERE;
    default:
      return endOfNumber(bytes, at);
  }
}

/** `at` is behind the brace. */
function endOfObject(bytes: Uint8Array, at: number, depth: number, top: number): number {
  if (bytes[at] === CLOSE_OBJECT) return at + 1;
  const first = top;
  for (;;) {
    at = endOfKey(bytes, at, first, top++);
    if (at === NOWHERE) return NOWHERE;
    at = endOfValue(bytes, at, depth, top);
    if (at === NOWHERE) return NOWHERE;
    if (bytes[at] !== COMMA) break;
    at++;
  }
  return bytes[at] === CLOSE_OBJECT ? at + 1 : NOWHERE;
}

/** `at` is behind the bracket. */
function endOfList(bytes: Uint8Array, at: number, depth: number, top: number): number {
  if (bytes[at] === CLOSE_LIST) return at + 1;
  for (;;) {
    at = endOfValue(bytes, at, depth, top);
    if (at === NOWHERE) return NOWHERE;
    if (bytes[at] !== COMMA) break;
    at++;
  }
  return bytes[at] === CLOSE_LIST ? at + 1 : NOWHERE;
}

/**
 * The place behind the colon of the key whose quote is at `at`. The keys of the same object have their hashes from `first`
 * to `top`. Keys that begin with a digit are refused, because JavaScript moves whole numbers to the front.
 */
export function endOfKey(bytes: Uint8Array, at: number, first: number, top: number): number {
  if (bytes[at] !== QUOTE || top - first >= MOST_KEYS) return NOWHERE;
  at++;
  if (isDigit(bytes[at]!)) return NOWHERE;
  let hash = 0;
  let byte = bytes[at]!;
  while (byte !== QUOTE && byte !== BACKSLASH && byte >= 0x20) {
    hash = (Math.imul(hash, 31) + byte) | 0;
    byte = bytes[++at]!;
  }
  if (byte !== QUOTE || bytes[at + 1] !== COLON) return NOWHERE;
  for (let other = first; other < top; other++) if (hashes[other] === hash) return NOWHERE;
  hashes[top] = hash;
  lastHash = hash;
  return at + 2;
}

/** The hash of the key that `endOfKey` read last. */
export function hashOfLastKey(): number {
  return lastHash;
}

export function hashOfKey(name: string): number {
  let hash = 0;
  for (let at = 0; at < name.length; at++) hash = (Math.imul(hash, 31) + name.charCodeAt(at)) | 0;
  return hash;
}

/** `at` is behind the opening quote. A byte behind the last one is `undefined`, which ends every loop here. */
function endOfText(bytes: Uint8Array, at: number): number {
  for (;;) {
    let byte = bytes[at]!;
    while (byte !== QUOTE && byte !== BACKSLASH && byte >= 0x20) byte = bytes[++at]!;
    if (byte === QUOTE) return at + 1;
    if (bytes[at] !== BACKSLASH || ESCAPES[bytes[at + 1]!] !== 1) return NOWHERE;
    at += 2;
  }
}

function endOfNumber(bytes: Uint8Array, from: number): number {
  const first = bytes[from] === MINUS ? from + 1 : from;
  let at = first;
  while (isDigit(bytes[at]!)) at++;
  if (at === first) return NOWHERE;
  // Only a number above 0, so that neither `-0` nor a 0 before other digits nor a small fraction passes here.
  if (bytes[first]! > ZERO && at - first <= SAFE_DIGITS) {
    if (bytes[at] !== DOT && !isExponent(bytes[at]!)) return at;
    if (bytes[at] === DOT) {
      const point = at++;
      while (isDigit(bytes[at]!)) at++;
      const safe = at - first <= SAFE_DIGITS && at > point + 1 && bytes[at - 1] !== ZERO;
      if (safe && !isExponent(bytes[at]!)) return at;
    }
  }
  return endOfOddNumber(bytes, from);
}

/** A number that is not just some digits: it stays when JavaScript writes it like that. */
function endOfOddNumber(bytes: Uint8Array, from: number): number {
  let text = '';
  let at = from;
  for (; text.length <= LONGEST_NUMBER && isInNumber(bytes[at]!); at++)
    text += String.fromCharCode(bytes[at]!);
  return text.length <= LONGEST_NUMBER && String(Number(text)) === text ? at : NOWHERE;
}

/** JavaScript writes no number with more characters, such as `-1.7976931348623157e+308`. */
const LONGEST_NUMBER = 25;

function isInNumber(byte: number): boolean {
  return isDigit(byte) || byte === MINUS || byte === DOT || byte === 0x2b || byte === 0x65;
}

function isExponent(byte: number): boolean {
  return byte === 0x65 || byte === 0x45;
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

/**
 * The end of the value that begins at `at`, provided that it is valid: only quotes and brackets are looked at. `NOWHERE`
 * when it breaks off.
 */
export function endOfAny(bytes: Uint8Array, at: number): number {
  let depth = 0;
  for (; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (byte === COMMA && depth === 0) return at;
  }
  return NOWHERE;
}
