import { expect, test } from 'vitest';
import { findLimitViolation } from './input-limits.ts';

const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown;
const list = (length: number, entry: unknown = 1) => Array.from({ length }, () => entry);

test.each([[null], [1], ['x'.repeat(1_000_000)], [{}], [list(1000)], [nested(101)]])(
  '%j is within bounds',
  (value) => {
    expect(findLimitViolation(value)).toBe(undefined);
  },
);

test('the first list or mapping with too many entries is named with its path', () => {
  const message = 'has 1001 entries, and at most 1000 are allowed';
  expect(findLimitViolation(list(1001))).toEqual({ path: [], message });
  expect(findLimitViolation({ a: [0, { b: list(1001) }], c: list(2000) })).toEqual({
    path: ['a', 1, 'b'],
    message,
  });
  const mapping = Object.fromEntries(list(1001).map((_, nth) => [`k${nth}`, 1]));
  expect(findLimitViolation({ a: mapping })?.message).toBe('has 1001 keys, and at most 1000 are allowed');
});

test.each([102, 100_000])('%i lists inside one another are too deep', (depth) => {
  expect(findLimitViolation(nested(depth))).toEqual({
    path: [],
    message: 'is nested more than 100 levels deep',
  });
});

test('nothing behind the first excess is looked at', () => {
  const untouchable = new Proxy([], {
    get: () => {
      throw new Error('looked at');
    },
  });
  expect(findLimitViolation([list(1001), untouchable])?.path).toEqual([0]);
  expect(findLimitViolation([...list(1000), untouchable])?.path).toEqual([]);
});
