import fc from 'fast-check';
import { expect, test } from 'vitest';
import { addBillionths, fromBillionths, toBillionths } from './decimal.ts';

test('a sum is exact beyond the whole numbers that floating point has', () => {
  expect(addBillionths(2 ** 53 - 1, 2)).toBe(2n ** 53n + 1n);
  expect(addBillionths(2n ** 53n + 1n, -2)).toBe(2 ** 53 - 1);
  expect(toBillionths(12_345_678.9)).toBe(12_345_678_900_000_000n);
  expect(fromBillionths(-12_345_678_900_000_000n)).toBe(-12_345_678.9);
});

test('a number with up to nine digits behind the point comes back as it was', () => {
  const decimal = fc
    .tuple(fc.integer({ min: -(10 ** 15), max: 10 ** 15 }), fc.integer({ min: 0, max: 9 }))
    .map(([digits, behind]) => Number(`${digits}e-${behind}`) || 0);
  fc.assert(
    fc.property(decimal, (value) => {
      expect(fromBillionths(toBillionths(value)!)).toBe(value);
    }),
    { numRuns: 5000 },
  );
});

test('a number of 10^21 or more is no decimal', () => {
  expect(toBillionths(1e21)).toBeUndefined();
  expect(toBillionths(Number.NaN)).toBeUndefined();
  expect(fromBillionths(toBillionths(-999_999_999_999_999_900_000)!)).toBe(-999_999_999_999_999_900_000);
});
