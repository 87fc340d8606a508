import type { Position } from '../../model/event.ts';

/** Sizes a table goes through; the last one holds as many keys as one sealed run. */
const SIZES = [14, 16, 18, 21] as const;

/** Slots behind the last home, so that probing never wraps around and the order of slots stays the order of keys. */
const TAIL = 4096;

/** Keys of one table when it is full; then it is sealed and a new one begins. */
export const TABLE_KEYS = 2 ** (SIZES.at(-1)! - 1);

/**
 * An open-addressing table from 64-bit keys to positions, in flat arrays: 16 bytes a slot, at most half full, no object
 * per key. The same key may stand in it more than once (different events whose hashes collide).
 *
 * A key's home is given by its highest bits, so a walk over the slots meets the keys nearly in order: sealing a table is
 * a scan that can stop anywhere, not a sort of a million keys that stalls everything.
 */
export class KeyTable {
  #high: Uint32Array;
  #low: Uint32Array;
  /** Position + 1; 0 marks a free slot. */
  #positions: Float64Array;
  #step = 0;
  #size = 0;

  constructor() {
    const slots = this.#slots();
    this.#high = new Uint32Array(slots);
    this.#low = new Uint32Array(slots);
    this.#positions = new Float64Array(slots);
  }

  get size(): number {
    return this.#size;
  }

  get isFull(): boolean {
    return this.#size >= TABLE_KEYS;
  }

  add(high: number, low: number, position: Position): void {
    if (this.#step + 1 < SIZES.length && this.#size * 2 >= 2 ** SIZES[this.#step]!) this.#grow();
    this.#insert(high, low, position + 1);
    this.#size++;
  }

  /** Whether `matches` says yes to any of the positions kept under this key; asks until the first yes. */
  some(high: number, low: number, matches: (position: Position) => boolean): boolean {
    let slot = this.#home(high);
    for (;;) {
      const kept = this.#positions[slot];
      if (kept === 0 || kept === undefined) return false;
      if (this.#low[slot] === low && this.#high[slot] === high && matches(kept - 1)) return true;
      slot++;
    }
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
    const slots = this.#positions.length;
    let visited = 0;
    let slot = from;
    while (slot < slots) {
      if (this.#positions[slot] === 0) {
        slot++;
        continue;
      }
      if (visited >= atLeast) return slot;
      let end = slot;
      while (end < slots && this.#positions[end] !== 0) end++;
      // Keys are out of order only within a stretch of slots without a gap, and such stretches are short.
      const stretch = Array.from({ length: end - slot }, (_, index) => slot + index);
      stretch.sort((a, b) => this.#high[a]! - this.#high[b]! || this.#low[a]! - this.#low[b]!);
      for (const at of stretch) visit(this.#high[at]!, this.#low[at]!, this.#positions[at]! - 1);
      visited += stretch.length;
      slot = end;
    }
    return -1;
  }

  #home(high: number): number {
    return high >>> (32 - SIZES[this.#step]!);
  }

  #slots(): number {
    return 2 ** SIZES[this.#step]! + TAIL;
  }

  #insert(high: number, low: number, stored: number): void {
    let slot = this.#home(high);
    while (this.#positions[slot] !== 0) slot++;
    if (slot >= this.#positions.length)
      throw new RangeError('the key table has no room behind its last slot');
    this.#high[slot] = high;
    this.#low[slot] = low;
    this.#positions[slot] = stored;
  }

  #grow(): void {
    const high = this.#high;
    const low = this.#low;
    const positions = this.#positions;
    this.#step++;
    const slots = this.#slots();
    this.#high = new Uint32Array(slots);
    this.#low = new Uint32Array(slots);
    this.#positions = new Float64Array(slots);
    for (let slot = 0; slot < positions.length; slot++) {
      if (positions[slot] !== 0) this.#insert(high[slot]!, low[slot]!, positions[slot]!);
    }
  }
}
