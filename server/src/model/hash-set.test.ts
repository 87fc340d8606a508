import { expect, it } from 'vitest';
import { HashSet } from './hash-set.ts';

it('holds any hashes, also those that look free', () => {
  const set = new HashSet();
  const pairs = Array.from({ length: 5000 }, (_, n) => [n % 3, n * 64] as const);
  for (const [high, low] of pairs) expect(set.has(high, low)).toBe(false);
  for (const [high, low] of [...pairs, ...pairs]) set.add(high, low);
  for (const [high, low] of pairs) expect(set.has(high, low)).toBe(true);
  expect(set.size).toBe(5000);
  expect(set.has(9, 64)).toBe(false);
});

it('is empty after it was cleared, and gives every hash once', () => {
  const set = new HashSet(100);
  for (let n = 1; n <= 300; n++) set.add(n % 7, n);
  set.clear();
  expect([set.size, set.has(1, 1)]).toEqual([0, false]);
  for (const [high, low] of [
    [1, 2],
    [1, 2],
    [3, 4],
  ] as const)
    set.add(high, low);
  const seen: (readonly [number, number])[] = [];
  set.visit((high, low) => seen.push([high, low]));
  expect(seen.toSorted()).toEqual([
    [1, 2],
    [3, 4],
  ]);
});
