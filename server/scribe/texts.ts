import { BACKSLASH, BLANK, QUOTE } from './characters';

/** The first quote, backslash or control character from `at` on. */
export function endOfPlain(at: usize): usize {
  let ends = endsIn(at);
  while (ends === 0) {
    at += 16;
    ends = endsIn(at);
  }
  return at + ctz(ends);
}

/** Of sixteen bytes, a bit for each that ends a run of plain characters. */
function endsIn(at: usize): i32 {
  const bytes = v128.load(at);
  const quotes = i8x16.eq(bytes, i8x16.splat(QUOTE));
  const backslashes = i8x16.eq(bytes, i8x16.splat(BACKSLASH));
  const controls = i8x16.lt_u(bytes, i8x16.splat(BLANK));
  return i8x16.bitmask(v128.or(v128.or(quotes, backslashes), controls));
}

/** Whether what is written between two places means exactly that: ASCII without escapes. */
export function isPlain(at: usize, end: usize): bool {
  for (; at < end; at++) {
    const byte = load<u8>(at);
    if (byte >= 0x80 || byte === BACKSLASH) return false;
  }
  return true;
}
