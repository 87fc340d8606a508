/**
 * A stream of chance from a seed (the generator sfc32). Each purpose has a stream of its own: a world without
 * one of its faults draws the same numbers for everything else.
 */
export class Chance {
  #a: number;
  #b: number;
  #c: number;
  #count = 1;

  /** @param purpose what the numbers are for, such as `network` */
  constructor(seed: number, purpose: string) {
    let hash = 2166136261 ^ seed;
    for (let at = 0; at < purpose.length; at++) hash = Math.imul(hash ^ purpose.charCodeAt(at), 16777619);
    this.#a = hash | 0;
    this.#b = seed | 0;
    this.#c = Math.floor(seed / 2 ** 32) | 0;
    for (let round = 0; round < 15; round++) this.bits();
  }

  /** 32 bits, as an integer from 0. */
  bits(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#count) | 0;
    this.#count = (this.#count + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  readonly next = (): number => this.bits() / 2 ** 32;

  /** An integer from 0 to `count` (exclusive). */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  between(from: number, to: number): number {
    return from + this.next() * (to - from);
  }

  /** Spread evenly over the orders of magnitude. */
  magnitude(from: number, to: number): number {
    return from * (to / from) ** this.next();
  }

  exponential(mean: number): number {
    return -Math.log(1 - this.next()) * mean;
  }

  is(share: number): boolean {
    return this.next() < share;
  }

  of<Choice>(choices: readonly Choice[]): Choice {
    return choices[this.below(choices.length)]!;
  }

  /** Letters and digits. */
  text(length: number): string {
    let made = '';
    while (made.length < length) made += this.bits().toString(36);
    return made.slice(0, length);
  }
}
