/** The lines of the events of one request, written one behind the other. Whoever begins knows that there is room. */

/** Where the next byte goes. */
export let end: usize = 0;

/** Longer pieces are copied by a function of the machine, whose call costs as much as this many bytes. */
const LONG_PIECE: usize = 192;

export function beginAt(place: usize): void {
  end = place;
}

export function putByte(byte: u8): void {
  store<u8>(end++, byte);
}

/** What is between two places. Up to fifteen bytes more are touched, which the next piece overwrites. */
export function put(from: usize, to: usize): void {
  let at = end;
  end += to - from;
  if (to - from > LONG_PIECE) memory.copy(at, from, to - from);
  else for (; from < to; from += 16, at += 16) v128.store(at, v128.load(from));
}

/** Words that are put into every line, as ASCII, each in a room of 32 bytes. */
const CONSTANTS = memory.data(32 * 32, 16);
const CONSTANT_SIZE: usize = 32;
const LENGTHS = memory.data(32);
let constantCount: usize = 0;

/** The number of a word of at most 32 characters. */
export function constant(text: string): usize {
  const number = constantCount++;
  for (let at = 0; at < text.length; at++)
    store<u8>(CONSTANTS + number * CONSTANT_SIZE + at, <u8>text.charCodeAt(at));
  store<u8>(LENGTHS + number, <u8>text.length);
  return number;
}

export function putConstant(number: usize): void {
  const from = CONSTANTS + number * CONSTANT_SIZE;
  v128.store(end, v128.load(from));
  v128.store(end, v128.load(from, 16), 16);
  end += load<u8>(LENGTHS + number);
}

/** Whether what is between two places is the same as a word from a character on to another one before its end. */
export function matchesConstant(from: usize, to: usize, number: usize, first: usize): bool {
  const own = CONSTANTS + number * CONSTANT_SIZE + first;
  for (let at = from; at < to; at++) if (load<u8>(at) !== load<u8>(own + at - from)) return false;
  return true;
}
