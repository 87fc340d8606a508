import { isDigit, QUOTE } from './characters';
import { NOWHERE } from './place';
import { endOfPlain } from './texts';

/** Objects with more keys are left to `JSON.parse`. */
export const MOST_KEYS: usize = 64;

/**
 * Hashes of the keys of every object that is being read, four bytes each, the outermost first. They only tell keys apart:
 * two with the same hash count as equal, which costs time and nothing else.
 */
export const HASHES = memory.data(34 * 64 * 4, 16);

/** A quote and a colon. */
const END_OF_KEY: u16 = 0x3a22;

/** Of the key read last: its hash, and where its name begins and ends. */
let lastHash: u32 = 0;
let lastFrom: usize = 0;
let lastEnd: usize = 0;

/**
 * The place behind the colon of the key whose quote is at `at`. The keys of the same object have their hashes from `first`
 * to `top`. Keys that begin with a digit are refused, because JavaScript moves whole numbers to the front.
 */
export function endOfKey(at: usize, first: usize, top: usize): usize {
  if (load<u8>(at) !== QUOTE || top - first >= MOST_KEYS * 4 || isDigit(load<u8>(at + 1))) return NOWHERE;
  at++;
  const end = endOfPlain(at);
  if (load<u16>(end) !== END_OF_KEY) return NOWHERE;
  const hash = hashOf(at, end - at);
  for (let other = first; other < top; other += 4) if (load<u32>(other) === hash) return NOWHERE;
  store<u32>(top, hash);
  lastHash = hash;
  lastFrom = at;
  lastEnd = end;
  return end + 2;
}

/** Eight bytes at a time; of the last ones only those that belong to the name. */
function hashOf(at: usize, length: usize): u32 {
  let hash: u64 = length;
  for (; length > 8; length -= 8, at += 8) hash = mixed(hash ^ load<u64>(at));
  return <u32>(mixed(hash ^ lowBytes(at, length)) >>> 32);
}

function mixed(word: u64): u64 {
  word *= ((<u64>0x9e3779b9) << 32) | 0x7f4a7c15;
  return word ^ (word >>> 32);
}

/** Up to eight bytes as one number. */
function lowBytes(at: usize, length: usize): u64 {
  return length === 0 ? 0 : load<u64>(at) & (u64.MAX_VALUE >>> (64 - ((<u64>length) << 3)));
}

/** Names to be recognised, 24 bytes each, the rest of it zeros. No name is longer. */
const NAME_ROOM: usize = 24;
const NAMES = memory.data(32 * 24, 16);
const LENGTHS = memory.data(32);

/** The number of a name by the low bits of its hash, `UNKNOWN` where there is none. */
const SLOTS = memory.data(256);
export const UNKNOWN: u8 = 0xff;

/** Where the program writes the name with this number before it calls `learn`. */
export function roomOfName(name: i32): usize {
  return NAMES + <usize>name * NAME_ROOM;
}

export function forgetNames(): void {
  memory.fill(SLOTS, UNKNOWN, 256);
}

/** False when the slot of the name is taken. */
export function learn(name: i32, length: i32): bool {
  const slot = SLOTS + (hashOf(roomOfName(name), length) & 0xff);
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
  let own = roomOfName(name);
  let at = lastFrom;
  for (; length > 8; length -= 8, at += 8, own += 8) if (load<u64>(at) !== load<u64>(own)) return UNKNOWN;
  return lowBytes(at, length) === load<u64>(own) ? name : UNKNOWN;
}

/** From the quote before a name to the value: the name, two quotes and a colon. */
export function keyLength(name: i32): usize {
  return <usize>load<u8>(LENGTHS + name) + 3;
}
