/**
 * Reads over JSON in memory without making values of it, and makes sure that the bytes are what `JSON.stringify` would write:
 * such bytes can be stored as they are.
 *
 * One-sided: what passes is exactly the text that parsing and writing would give back. What is refused may be valid all the
 * same (blanks between tokens, `1.0`, `\u0041`, keys that occur twice or begin with a digit, unusual depth) and is left to
 * `JSON.parse`. The bytes must be valid UTF-8, which the caller has looked at, with zeros behind the last one: a zero ends
 * every loop here, and sixteen bytes are looked at together.
 */
import { BACKSLASH, CLOSE_LIST, CLOSE_OBJECT, COMMA, OPEN_LIST, OPEN_OBJECT, QUOTE } from './characters';
import { endOfKey } from './keys';
import { endOfNumber } from './numbers';
import { NOWHERE } from './place';
import { endOfPlain } from './texts';

/** Values nested deeper are left to `JSON.parse`. */
const DEEPEST_SCANNED: i32 = 32;

/** `rue`, `alse` and `null` as they stand in memory, the first letter lowest. */
const RUE: u32 = 0x657572;
const ALSE: u32 = 0x65736c61;
const NULL: u32 = 0x6c6c756e;

/** The end of the value that begins at `at`. `depth` levels are around it, whose keys have their hashes below `top`. */
export function endOfValue(at: usize, depth: i32, top: usize): usize {
  switch (load<u8>(at)) {
    case QUOTE:
      return endOfText(at + 1);
    case OPEN_OBJECT:
      return depth < DEEPEST_SCANNED ? endOfObject(at + 1, depth + 1, top) : NOWHERE;
    case OPEN_LIST:
      return depth < DEEPEST_SCANNED ? endOfList(at + 1, depth + 1, top) : NOWHERE;
    case 0x74: // t
      return (load<u32>(at + 1) & 0xffffff) === RUE ? at + 4 : NOWHERE;
    case 0x66: // f
      return load<u32>(at + 1) === ALSE ? at + 5 : NOWHERE;
    case 0x6e: // n
      return load<u32>(at) === NULL ? at + 4 : NOWHERE;
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
    if (at === NOWHERE) return NOWHERE;
    top += 4;
    at = load<u8>(at) === QUOTE ? endOfText(at + 1) : endOfValue(at, depth, top);
    if (at === NOWHERE) return NOWHERE;
    if (load<u8>(at) !== COMMA) break;
    at++;
  }
  return load<u8>(at) === CLOSE_OBJECT ? at + 1 : NOWHERE;
}

/** `at` is behind the bracket. */
function endOfList(at: usize, depth: i32, top: usize): usize {
  if (load<u8>(at) === CLOSE_LIST) return at + 1;
  for (;;) {
    at = endOfValue(at, depth, top);
    if (at === NOWHERE) return NOWHERE;
    if (load<u8>(at) !== COMMA) break;
    at++;
  }
  return load<u8>(at) === CLOSE_LIST ? at + 1 : NOWHERE;
}

/** `at` is behind the opening quote. Of the escapes, `\u` is left to `JSON.parse`. */
function endOfText(at: usize): usize {
  at = endOfPlain(at);
  while (load<u8>(at) === BACKSLASH && isEscape(load<u8>(at + 1))) at = endOfPlain(at + 2);
  return load<u8>(at) === QUOTE ? at + 1 : NOWHERE;
}

/** What follows the backslash in the escapes that `JSON.stringify` writes. */
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
 * The end of the value that begins at `at`, provided that it is valid: only quotes and brackets are looked at. `NOWHERE`
 * when it breaks off.
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
  return NOWHERE;
}
