/** Chance that can be repeated: the same seed gives the same numbers. */
export interface Chance {
  /** From 0 (inclusive) to 1 (exclusive). */
  next(): number;
  /** A whole number from `from` to `to`, both included. */
  between(from: number, to: number): number;
  /** True with this probability. */
  happens(probability: number): boolean;
  one<Value>(values: readonly Value[]): Value;
  bytes(length: number): Buffer;
}

/** A 32-bit counter, scrambled (the finalizer of MurmurHash3): plenty for choosing when a disk dies. */
export function chanceOf(seed: number): Chance {
  let state = seed | 0;
  const next = () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
  const between = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    between,
    happens: (probability) => next() < probability,
    one: (values) => values[between(0, values.length - 1)]!,
    bytes: (length) => Buffer.from(Array.from({ length }, () => between(0, 255))),
  };
}
