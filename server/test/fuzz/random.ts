/** A source of chance that a seed repeats: the same seed makes the same attack. */
export interface Random {
  /** From 0 up to and without `below`, whole. */
  int(below: number): number;
  pick<T>(list: readonly T[]): T;
  /** True in so many of a hundred. */
  percent(chance: number): boolean;
  bytes(length: number): Buffer;
}

/** Marsaglia's xorshift with 32 bits, stirred once so that neighbouring seeds have nothing in common. */
export function randomOf(seed: number): Random {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) || 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  for (let n = 0; n < 8; n++) next();
  const int = (below: number) => (below <= 1 ? 0 : next() % below);
  return {
    int,
    pick: (list) => list[int(list.length)]!,
    percent: (chance) => int(100) < chance,
    bytes: (length) => Buffer.from(Array.from({ length }, () => int(256))),
  };
}
