/**
 * A set of 64-bit hashes as an open-addressing table of two words each, at most half full. A `Set` of numbers or texts would take four
 * times the memory.
 */
export class HashSet {
  #slots: Uint32Array;
  #size = 0;

  /** `room`: how many hashes it takes before it grows. */
  constructor(room = 8) {
    this.#slots = new Uint32Array(4 * 2 ** Math.ceil(Math.log2(room)));
  }

  get size(): number {
    return this.#size;
  }

  add(high: number, low: number): void {
    if (this.#size * 4 >= this.#slots.length) this.#grow();
    // Two zeros mark a free slot. The hash of two zeros takes the place of its neighbour.
    this.#put(high, high === 0 && low === 0 ? 1 : low);
  }

  has(high: number, low: number): boolean {
    const slots = this.#slots;
    const wanted = high === 0 && low === 0 ? 1 : low;
    const last = slots.length - 1;
    for (let at = (wanted << 1) & last; slots[at] !== 0 || slots[at + 1] !== 0; at = (at + 2) & last)
      if (slots[at] === high && slots[at + 1] === wanted) return true;
    return false;
  }

  /** Removes all hashes and keeps the room. */
  clear(): void {
    this.#slots.fill(0);
    this.#size = 0;
  }

  visit(each: (high: number, low: number) => void): void {
    const slots = this.#slots;
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at] !== 0 || slots[at + 1] !== 0) each(slots[at]!, slots[at + 1]!);
    }
  }

  #put(high: number, low: number): void {
    const slots = this.#slots;
    const last = slots.length - 1;
    let at = (low << 1) & last;
    while (slots[at] !== 0 || slots[at + 1] !== 0) {
      if (slots[at] === high && slots[at + 1] === low) return;
      at = (at + 2) & last;
    }
    slots[at] = high;
    slots[at + 1] = low;
    this.#size++;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(before.length * 2);
    this.#size = 0;
    for (let at = 0; at < before.length; at += 2)
      if (before[at] !== 0 || before[at + 1] !== 0) this.#put(before[at]!, before[at + 1]!);
  }
}
