import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';

/**
 * Sizes of a memtable as it grows, as bits of the number of slots. The last one holds the keys of one sorted
 * run.
 */
const SIZES: readonly number[] = [14, 16, 18, 21];

/** Slots after the last home slot. Probing never wraps around, so the order of slots is the order of keys. */
const TAIL = 4096;

/** Keys of a full memtable. */
export const MEMTABLE_KEYS = 2 ** (SIZES.at(-1)! - 1);

/** 32-bit words of a slot: high word, low word, and position + 1 as a double; 0 there marks a free slot. */
const SLOT_WORDS = 4;
const LOW = 1;
/** Doubles of a slot, and the place of the position among them. */
const SLOT_DOUBLES = 2;
const POSITION = 1;

/**
 * An open-addressing hash table from 64-bit keys to positions. It is one flat piece of memory, 16 bytes a
 * slot and at most half full, so that a lookup is one visit to memory and no key costs an object. A key may
 * stand in it more than once, because different events may share a hash.
 *
 * The highest bits of a key give its home slot, so a scan over the slots meets the keys almost in order.
 * Writing the memtable as a sorted run is therefore a scan that can stop anywhere, not a sort of a million
 * keys that blocks the thread.
 */
export class Memtable {
  /** `#words` and `#doubles` are two views of the same memory. */
  #words: Uint32Array;
  #doubles: Float64Array;
  #bits = SIZES[0]!;
  /** Keys with which it grows. A table of the last size is frozen instead. */
  #growsAt = 2 ** (SIZES[0]! - 1);
  #size = 0;

  constructor() {
    this.#doubles = new Float64Array(this.#slots() * SLOT_DOUBLES);
    this.#words = new Uint32Array(this.#doubles.buffer);
  }

  get size(): number {
    return this.#size;
  }

  /** The memory that it takes. */
  get bytes(): number {
    return this.#words.byteLength;
  }

  get isFull(): boolean {
    return this.#size >= MEMTABLE_KEYS;
  }

  add(high: number, low: number, position: Position): void {
    invariant(this.#size < MEMTABLE_KEYS, 'a memtable takes no more keys than a run has');
    if (this.#size >= this.#growsAt) this.#grow();
    this.#insert(high, low, position + 1);
    this.#size++;
  }

  /**
   * Moves the keys to the smallest table that is at most half full. Call it when few keys come: the table
   * grows again.
   */
  shrink(): void {
    const needed = Math.max(SIZES[0]!, Math.ceil(Math.log2(this.#size * 2)));
    if (needed < this.#bits) this.#move(needed);
  }

  /** Whether `matches` accepts any position of this key. Stops at the first one it accepts. */
  some(high: number, low: number, matches: (position: Position) => boolean): boolean {
    const words = this.#words;
    const doubles = this.#doubles;
    for (let slot = this.#home(high); ; slot++) {
      const stored = doubles[slot * SLOT_DOUBLES + POSITION];
      if (stored === 0 || stored === undefined) return false;
      const at = slot * SLOT_WORDS;
      if (words[at + LOW] === low && words[at] === high && matches(stored - 1)) return true;
    }
  }

  /**
   * Reads the home slots of many keys at once, so that they are in the processor's cache when the keys are
   * looked up one by one: independent reads overlap. The result means nothing. `keys` are pairs of words,
   * high before low.
   */
  touch(keys: Uint32Array): number {
    const words = this.#words;
    let seen = 0;
    for (let at = 0; at < keys.length; at += 2) seen ^= words[this.#home(keys[at]!) * SLOT_WORDS]!;
    return seen;
  }

  /**
   * Visits the entries in the order of their keys, from the slot `from` on: at least `atLeast` of them,
   * unless the table ends first. Returns the slot to go on from; −1 at the end.
   */
  scan(
    from: number,
    atLeast: number,
    visit: (high: number, low: number, position: Position) => void,
  ): number {
    const words = this.#words;
    const slots = this.#slots();
    let visited = 0;
    let slot = from;
    while (slot < slots) {
      if (this.#stored(slot) === 0) {
        slot++;
        continue;
      }
      if (visited >= atLeast) return slot;
      let end = slot;
      while (end < slots && this.#stored(end) !== 0) end++;
      // Keys are out of order only within a stretch of used slots without a gap. Such stretches are short.
      if (end - slot > 1) this.#sort(slot, end);
      visited += end - slot;
      for (; slot < end; slot++)
        visit(words[slot * SLOT_WORDS]!, words[slot * SLOT_WORDS + LOW]!, this.#stored(slot) - 1);
    }
    return -1;
  }

  /**
   * Sorts a stretch of slots in place, by insertion. Every key of it is still found: no slot between it and
   * its home is free.
   */
  #sort(from: number, end: number): void {
    const words = this.#words;
    const doubles = this.#doubles;
    for (let slot = from + 1; slot < end; slot++) {
      const high = words[slot * SLOT_WORDS]!;
      const low = words[slot * SLOT_WORDS + LOW]!;
      const stored = this.#stored(slot);
      let at = slot;
      for (; at > from; at--) {
        const before = (at - 1) * SLOT_WORDS;
        if (words[before]! < high || (words[before] === high && words[before + LOW]! <= low)) break;
        words[at * SLOT_WORDS] = words[before]!;
        words[at * SLOT_WORDS + LOW] = words[before + LOW]!;
        doubles[at * SLOT_DOUBLES + POSITION] = this.#stored(at - 1);
      }
      words[at * SLOT_WORDS] = high;
      words[at * SLOT_WORDS + LOW] = low;
      doubles[at * SLOT_DOUBLES + POSITION] = stored;
    }
  }

  #stored(slot: number): number {
    return this.#doubles[slot * SLOT_DOUBLES + POSITION]!;
  }

  #home(high: number): number {
    return high >>> (32 - this.#bits);
  }

  #slots(): number {
    return 2 ** this.#bits + TAIL;
  }

  #insert(high: number, low: number, stored: number): void {
    const doubles = this.#doubles;
    let slot = this.#home(high);
    while (doubles[slot * SLOT_DOUBLES + POSITION] !== 0) {
      if (++slot >= this.#slots()) throw new RangeError('the memtable has no room after its last slot');
    }
    this.#words[slot * SLOT_WORDS] = high;
    this.#words[slot * SLOT_WORDS + LOW] = low;
    doubles[slot * SLOT_DOUBLES + POSITION] = stored;
  }

  #grow(): void {
    this.#move(SIZES.find((bits) => bits > this.#bits)!);
  }

  #move(bits: number): void {
    const words = this.#words;
    const doubles = this.#doubles;
    this.#bits = bits;
    this.#growsAt = bits < SIZES.at(-1)! ? 2 ** (bits - 1) : Number.POSITIVE_INFINITY;
    this.#doubles = new Float64Array(this.#slots() * SLOT_DOUBLES);
    this.#words = new Uint32Array(this.#doubles.buffer);
    for (let at = 0; at < words.length; at += SLOT_WORDS) {
      const stored = doubles[at / 2 + POSITION]!;
      if (stored !== 0) this.#insert(words[at]!, words[at + LOW]!, stored);
    }
  }
}
