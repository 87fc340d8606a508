/**
 * Writes the lines of the events of one request, one behind the other. The program makes sure that there is
 * room.
 */

/** The address of the next byte. */
export let end: usize = 0;

/** Longer pieces are copied by `memory.copy`, whose call costs as much as this many bytes. */
const LONG_PIECE: usize = 192;

export function beginAt(place: usize): void {
  end = place;
}

export function putByte(byte: u8): void {
  store<u8>(end++, byte);
}

/**
 * Copies the bytes between two addresses. Writes up to fifteen bytes more, which the next piece overwrites.
 */
export function put(from: usize, to: usize): void {
  let at = end;
  end += to - from;
  if (to - from > LONG_PIECE) memory.copy(at, from, to - from);
  else for (; from < to; from += 16, at += 16) v128.store(at, v128.load(from));
}

/** Texts that go into every line, as ASCII, 32 bytes each. */
const CONSTANTS = memory.data(32 * 32, 16);
const CONSTANT_SIZE: usize = 32;
const LENGTHS = memory.data(32);
let constantCount: usize = 0;

/** Registers a text of at most 32 characters and gives its number. */
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

/** Whether the bytes between two addresses are those of a constant from its character `first` on. */
export function matchesConstant(from: usize, to: usize, number: usize, first: usize): bool {
  const own = CONSTANTS + number * CONSTANT_SIZE + first;
  for (let at = from; at < to; at++) if (load<u8>(at) !== load<u8>(own + at - from)) return false;
  return true;
}
