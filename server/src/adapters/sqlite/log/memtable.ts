import type { Position } from '../../../model/event.ts';

/** Sizes a table goes through; the last one holds as many keys as one sealed run. */
const SIZES = [14, 16, 18, 21] as const;

/** Slots behind the last home, so that probing never wraps around and the order of slots stays the order of keys. */
const TAIL = 4096;

/** Keys of one table when it is full; then it is sealed and a new one begins. */
export const MEMTABLE_KEYS = 2 ** (SIZES.at(-1)! - 1);

/** 32-bit words of a slot: high word, low word, position + 1 as a double; a position of 0 marks a free slot. */
const SLOT_WORDS = 4;
const LOW = 1;
/** The same in doubles. */
const SLOT_DOUBLES = 2;
const POSITION = 1;

/**
 * An open-addressing table from 64-bit keys to positions, in one flat piece of memory: 16 bytes a slot, so that a look at
 * one is one visit to memory, at most half full, no object per key. The same key may stand in it more than once (different
 * events whose hashes collide).
 *
 * A key's home is given by its highest bits, so a walk over the slots meets the keys nearly in order: sealing a table is
 * a scan that can stop anywhere, not a sort of a million keys that stalls everything.
 */
export class Memtable {
  #words: Uint32Array;
  /** The same memory. */
  #doubles: Float64Array;
  #step = 0;
  #size = 0;

  constructor() {
    this.#doubles = new Float64Array(this.#slots() * SLOT_DOUBLES);
    this.#words = new Uint32Array(this.#doubles.buffer);
  }

  get size(): number {
    return this.#size;
  }

  get isFull(): boolean {
    return this.#size >= MEMTABLE_KEYS;
  }

  add(high: number, low: number, position: Position): void {
    if (this.#step + 1 < SIZES.length && this.#size * 2 >= 2 ** SIZES[this.#step]!) this.#grow();
    this.#insert(high, low, position + 1);
    this.#size++;
  }

  /** Whether `matches` says yes to any of the positions kept under this key; asks until the first yes. */
  some(high: number, low: number, matches: (position: Position) => boolean): boolean {
    const words = this.#words;
    const doubles = this.#doubles;
    for (let slot = this.#home(high); ; slot++) {
      const kept = doubles[slot * SLOT_DOUBLES + POSITION];
      if (kept === 0 || kept === undefined) return false;
      const at = slot * SLOT_WORDS;
      if (words[at + LOW] === low && words[at] === high && matches(kept - 1)) return true;
    }
  }

  /**
   * Looks at the homes of so many keys, to have them in the caches when they are asked for one by one: the processor makes
   * many such visits at once. The result means nothing. `keys` are pairs of words, high before low.
   */
  touch(keys: Uint32Array): number {
    const words = this.#words;
    let seen = 0;
    for (let at = 0; at < keys.length; at += 2) seen ^= words[this.#home(keys[at]!) * SLOT_WORDS]!;
    return seen;
  }

  /**
   * Entries in the order of their keys, from a slot on. `visit` gets at least `atLeast` of them, unless the end comes
   * first. Returns the slot to go on from; the end is −1.
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
      if (this.#kept(slot) === 0) {
        slot++;
        continue;
      }
      if (visited >= atLeast) return slot;
      let end = slot;
      while (end < slots && this.#kept(end) !== 0) end++;
      // Keys are out of order only within a stretch of slots without a gap, and such stretches are short.
      const stretch = Array.from({ length: end - slot }, (_, index) => (slot + index) * SLOT_WORDS);
      stretch.sort((a, b) => words[a]! - words[b]! || words[a + LOW]! - words[b + LOW]!);
      for (const at of stretch) visit(words[at]!, words[at + LOW]!, this.#kept(at / SLOT_WORDS) - 1);
      visited += stretch.length;
      slot = end;
    }
    return -1;
  }

  #kept(slot: number): number {
    return this.#doubles[slot * SLOT_DOUBLES + POSITION]!;
  }

  #home(high: number): number {
    return high >>> (32 - SIZES[this.#step]!);
  }

  #slots(): number {
    return 2 ** SIZES[this.#step]! + TAIL;
  }

  #insert(high: number, low: number, stored: number): void {
    const doubles = this.#doubles;
    let slot = this.#home(high);
    while (doubles[slot * SLOT_DOUBLES + POSITION] !== 0) {
      if (++slot >= this.#slots()) throw new RangeError('the key table has no room behind its last slot');
    }
    this.#words[slot * SLOT_WORDS] = high;
    this.#words[slot * SLOT_WORDS + LOW] = low;
    doubles[slot * SLOT_DOUBLES + POSITION] = stored;
  }

  #grow(): void {
    const words = this.#words;
    const doubles = this.#doubles;
    this.#step++;
    this.#doubles = new Float64Array(this.#slots() * SLOT_DOUBLES);
    this.#words = new Uint32Array(this.#doubles.buffer);
    for (let at = 0; at < words.length; at += SLOT_WORDS) {
      const kept = doubles[at / 2 + POSITION]!;
      if (kept !== 0) this.#insert(words[at]!, words[at + LOW]!, kept);
    }
  }
}
