/**
 * The first byte from `at` on that begins no character of UTF-8, or belongs to none; the length when there is
 * none.
 */
export function firstInvalid(bytes: Uint8Array, at = 0): number {
  while (at < bytes.length) {
    const length = lengthOfCharacter(bytes, at);
    if (length === 0) return at;
    at += length;
  }
  return at;
}

/** Bytes of the character that begins here; 0 when none does. Unicode 15, table 3-7. */
function lengthOfCharacter(bytes: Uint8Array, at: number): number {
  const first = bytes[at]!;
  if (first < 0x80) return 1;
  const second = bytes[at + 1] ?? 0;
  if (first >= 0xc2 && first <= 0xdf) return isTail(second) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const least = first === 0xe0 ? 0xa0 : 0x80;
    const most = first === 0xed ? 0x9f : 0xbf;
    return second >= least && second <= most && isTail(bytes[at + 2] ?? 0) ? 3 : 0;
  }
  if (first < 0xf0 || first > 0xf4) return 0;
  const least = first === 0xf0 ? 0x90 : 0x80;
  const most = first === 0xf4 ? 0x8f : 0xbf;
  const isWhole = second >= least && second <= most;
  return isWhole && isTail(bytes[at + 2] ?? 0) && isTail(bytes[at + 3] ?? 0) ? 4 : 0;
}

const isTail = (byte: number) => byte >= 0x80 && byte <= 0xbf;
