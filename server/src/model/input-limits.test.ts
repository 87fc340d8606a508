import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findLimitViolation, isTextTooDeep } from './input-limits.ts';

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

test.each([
  [101, false],
  [102, true],
  [500_000, true],
])('a text of %i levels is too deep: %j', (depth, isTooDeep) => {
  expect(isTextTooDeep('['.repeat(depth) + ']'.repeat(depth))).toBe(isTooDeep);
  expect(isTextTooDeep(`${'{"[":'.repeat(depth)}1${'}'.repeat(depth)}`)).toBe(isTooDeep);
  expect(isTextTooDeep('['.repeat(depth))).toBe(isTooDeep);
});

test('brackets side by side, or inside texts, are not deep', () => {
  expect(isTextTooDeep(`[${'[],{},'.repeat(1000)}1]`)).toBe(false);
  expect(isTextTooDeep(JSON.stringify(['['.repeat(1000), '\\', '"', '{'.repeat(1000), '\\"']))).toBe(false);
  expect(isTextTooDeep(`"${'['.repeat(1000)}`)).toBe(false);
});

test('no value is too deep as a text that is not too deep as a value', () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 10 }), fc.integer({ min: 85, max: 105 }), (json, around) => {
      const text = '['.repeat(around) + json + ']'.repeat(around);
      const isTooDeep = findLimitViolation(JSON.parse(text))?.message.startsWith('is nested') ?? false;
      expect(isTextTooDeep(text)).toBe(isTooDeep);
    }),
  );
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
