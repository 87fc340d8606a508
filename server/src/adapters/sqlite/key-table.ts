import type { Position } from '../../model/event.ts';

/**
 * An open-addressing table from 64-bit keys to positions, in flat arrays: 16 bytes a slot, at most half full, no object
 * per key. The same key may stand in it more than once (different events whose hashes collide).
 */
export class KeyTable {
  #high: Uint32Array;
  #low: Uint32Array;
  /** Position + 1; 0 marks a free slot. */
  #positions: Float64Array;
  #mask: number;
  #size = 0;

  constructor(slots = 1 << 14) {
    this.#high = new Uint32Array(slots);
    this.#low = new Uint32Array(slots);
    this.#positions = new Float64Array(slots);
    this.#mask = slots - 1;
  }

  get size(): number {
    return this.#size;
  }

  add(high: number, low: number, position: Position): void {
    if (this.#size * 2 >= this.#positions.length) this.#grow();
    this.#insert(high, low, position + 1);
    this.#size++;
  }

  /** Whether `matches` says yes to any of the positions kept under this key; asks until the first yes. */
  some(high: number, low: number, matches: (position: Position) => boolean): boolean {
    let slot = low & this.#mask;
    for (;;) {
      const kept = this.#positions[slot]!;
      if (kept === 0) return false;
      if (this.#low[slot] === low && this.#high[slot] === high && matches(kept - 1)) return true;
      slot = (slot + 1) & this.#mask;
    }
  }

  #insert(high: number, low: number, stored: number): void {
    let slot = low & this.#mask;
    while (this.#positions[slot] !== 0) slot = (slot + 1) & this.#mask;
    this.#high[slot] = high;
    this.#low[slot] = low;
    this.#positions[slot] = stored;
  }

  #grow(): void {
    const high = this.#high;
    const low = this.#low;
    const positions = this.#positions;
    const slots = positions.length * 2;
    this.#high = new Uint32Array(slots);
    this.#low = new Uint32Array(slots);
    this.#positions = new Float64Array(slots);
    this.#mask = slots - 1;
    for (let slot = 0; slot < positions.length; slot++) {
      if (positions[slot] !== 0) this.#insert(high[slot]!, low[slot]!, positions[slot]!);
    }
  }
}
