import { DOT, isDigit, MINUS, ZERO } from './characters';
import { NOWHERE } from './place';
import { isAsWritten } from './program';

/** Whole numbers of so few digits are written as they are read. */
const SAFE_DIGITS: usize = 15;

/** JavaScript writes no number with more characters, such as `-1.7976931348623157e+308`. */
const LONGEST_NUMBER: usize = 25;

export function endOfNumber(from: usize): usize {
  const first = load<u8>(from) === MINUS ? from + 1 : from;
  let at = first;
  while (isDigit(load<u8>(at))) at++;
  if (at === first) return NOWHERE;
  const byte = load<u8>(at);
  // Only a number above 0, so that neither `-0` nor a 0 before other digits nor a small fraction passes here.
  if (load<u8>(first) > ZERO && at - first <= SAFE_DIGITS) {
    if (byte !== DOT && !isExponent(byte)) return at;
    if (byte === DOT) {
      const point = at++;
      while (isDigit(load<u8>(at))) at++;
      const safe = at - first <= SAFE_DIGITS && at > point + 1 && load<u8>(at - 1) !== ZERO;
      if (safe && !isExponent(load<u8>(at))) return at;
    }
  } else if (at - from === 1 && byte !== DOT && !isExponent(byte)) return at;
  return endOfOddNumber(from);
}

/** A number that is not just some digits: it stays when JavaScript writes it like that. */
function endOfOddNumber(from: usize): usize {
  let at = from;
  while (at - from <= LONGEST_NUMBER && isInNumber(load<u8>(at))) at++;
  return at - from <= LONGEST_NUMBER && isAsWritten(from, at) ? at : NOWHERE;
}

function isInNumber(byte: u8): bool {
  return isDigit(byte) || byte === MINUS || byte === DOT || byte === 0x2b || byte === 0x65;
}

function isExponent(byte: u8): bool {
  return byte === 0x65 || byte === 0x45;
}
