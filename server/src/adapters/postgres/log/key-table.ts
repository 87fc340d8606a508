import type { Position } from '../../../model/event.ts';

/** Sizes of a table as it grows, as bits of the number of its slots. */
const SIZES: readonly number[] = [14, 16, 18, 21];

/** Lower bits of a slot: the number of its key, from 1 on. The bits above are a part of the key, so that few other keys are compared. */
const NUMBER_BITS = 20;
const NUMBERS = 2 ** NUMBER_BITS - 1;

/** Keys of a full table: as many as have a number. */
export const TABLE_KEYS = NUMBERS;

/** Keys whose slots are read ahead at once: their cache lines stay in the first level of the cache. */
const BLOCK_KEYS = 256;

/** Keys that a visitor is shown at once. */
const SLICE_KEYS = 8192;

/**
 * The keys of events in the order in which they came, and an open-addressing hash table of their numbers: eight bytes a key and four a slot,
 * at most half of which are used. No key costs an object, and a position costs nothing either where those of a batch follow each other.
 *
 * Most keys that are looked for are not there. Slots are read ahead for many keys at once, because independent reads overlap, and a lookup
 * then visits nothing but its slots: the part of a key in a used one tells all but one of four thousand others from it.
 */
export class KeyTable {
  #bits = SIZES[0]!;
  #slots = new Int32Array(2 ** SIZES[0]!);
  /** Pairs of words, high before low; two zeros for an event that is not there. */
  #keys = new Uint32Array(2 ** SIZES[0]!);
  #length = 0;
  /** Where the keys of events that follow each other begin, and the positions of these events. */
  readonly #starts: number[] = [];
  readonly #firsts: Position[] = [];
  /** Numbers of keys that came more than once, by the first: hundreds of one key would fill a stretch of slots. */
  readonly #repeated = new Map<number, number[]>();
  /** Of reads whose result means nothing, so that they are not optimized away. */
  #seen = 0;

  get isFull(): boolean {
    return this.#length >= TABLE_KEYS;
  }

  /** The memory that it takes. */
  get bytes(): number {
    return this.#slots.byteLength + this.#keys.byteLength;
  }

  /** Adds keys of events that follow each other, from the index `from` on. Returns that of the first one that found no room. */
  add(keys: Uint32Array, from: number, first: Position): number {
    const to = Math.min(keys.length / 2, from + TABLE_KEYS - this.#length);
    const length = this.#length + to - from;
    while (length > this.#room) this.#grow();
    this.#keys.set(keys.subarray(from * 2, to * 2), this.#length * 2);
    this.#place(first);
    this.#insert(this.#length, length);
    this.#length = length;
    return to;
  }

  /** Adds the positions of the keys from the index `first` on to `found`, by their index. */
  find(keys: Uint32Array, first: number, found: Map<number, Position[]>): void {
    this.#readAhead(keys, first, keys.length / 2);
    const slots = this.#slots;
    const mask = slots.length - 1;
    const shift = 32 - this.#bits;
    for (let index = first, at = first * 2; at < keys.length; index++, at += 2) {
      const part = keys[at + 1]! << NUMBER_BITS;
      let slot = keys[at]! >>> shift;
      for (let used = slots[slot]!; used !== 0; used = slots[slot]!) {
        if ((used ^ part) >>> NUMBER_BITS === 0 && this.#isAt(used & NUMBERS, keys, at)) {
          this.#note(used & NUMBERS, index, found);
          break;
        }
        slot = (slot + 1) & mask;
      }
    }
  }

  /** All keys as pairs of words, some thousand at a time; two zeros for an event that is not there. */
  *slices(): Generator<Uint32Array> {
    for (let from = 0; from < this.#length; from += SLICE_KEYS)
      yield this.#keys.subarray(from * 2, Math.min(this.#length, from + SLICE_KEYS) * 2);
  }

  /** Keys that the table has room for before it grows. */
  get #room(): number {
    return this.#keys.length / 2;
  }

  #place(first: Position): void {
    const last = this.#starts.length - 1;
    if (last >= 0 && this.#firsts[last]! + (this.#length - this.#starts[last]!) === first) return;
    this.#starts.push(this.#length);
    this.#firsts.push(first);
  }

  #positionOf(number: number): Position {
    let [low, high] = [0, this.#starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#starts[middle]! < number) low = middle;
      else high = middle - 1;
    }
    return this.#firsts[low]! + (number - 1 - this.#starts[low]!);
  }

  /** Adds the positions of the key with this number to those of an index. */
  #note(number: number, index: number, found: Map<number, Position[]>): void {
    const numbers = [number, ...(this.#repeated.get(number) ?? [])];
    found.set(index, [...(found.get(index) ?? []), ...numbers.map((one) => this.#positionOf(one))]);
  }

  /** Whether the key with this number is the one at a place of `keys`. */
  #isAt(number: number, keys: Uint32Array, at: number): boolean {
    const stored = this.#keys;
    return stored[number * 2 - 2] === keys[at] && stored[number * 2 - 1] === keys[at + 1];
  }

  #readAhead(keys: Uint32Array, from: number, to: number): void {
    const slots = this.#slots;
    const shift = 32 - this.#bits;
    let seen = 0;
    for (let at = from * 2; at < to * 2; at += 2) seen ^= slots[keys[at]! >>> shift]!;
    this.#seen ^= seen;
  }

  #insert(from: number, to: number): void {
    for (let at = from; at < to; at += BLOCK_KEYS) {
      const end = Math.min(to, at + BLOCK_KEYS);
      this.#readAhead(this.#keys, at, end);
      this.#insertBlock(at, end);
    }
  }

  #insertBlock(from: number, to: number): void {
    const keys = this.#keys;
    const slots = this.#slots;
    const mask = slots.length - 1;
    const shift = 32 - this.#bits;
    for (let number = from + 1, at = from * 2; number <= to; number++, at += 2) {
      const high = keys[at]!;
      const low = keys[at + 1]!;
      if ((high | low) === 0) continue;
      const part = low << NUMBER_BITS;
      let slot = high >>> shift;
      let used = slots[slot]!;
      while (used !== 0) {
        if ((used ^ part) >>> NUMBER_BITS === 0 && this.#isAt(used & NUMBERS, keys, at)) break;
        slot = (slot + 1) & mask;
        used = slots[slot]!;
      }
      if (used === 0) slots[slot] = part | number;
      else this.#repeat(used & NUMBERS, number);
    }
  }

  #repeat(first: number, number: number): void {
    const others = this.#repeated.get(first);
    if (others === undefined) this.#repeated.set(first, [number]);
    else others.push(number);
  }

  #grow(): void {
    const keys = this.#keys;
    this.#bits = SIZES.find((bits) => bits > this.#bits)!;
    this.#slots = new Int32Array(2 ** this.#bits);
    this.#keys = new Uint32Array(2 ** this.#bits);
    this.#keys.set(keys);
    this.#repeated.clear();
    this.#insert(0, this.#length);
  }
}
