import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LatencyHistogram, latencyBucket, latencyQuantile } from './latency-histogram.ts';

test('a quantile is that of the sorted durations, but for a sixteenth', () => {
  const durations = fc.array(fc.double({ min: 0.01, max: 10_000_000, noNaN: true }), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(
    fc.property(durations, fc.constantFrom(0.5, 0.9, 0.99, 1), (all, share) => {
      const histogram = new LatencyHistogram();
      for (const one of all) histogram.add(one);
      const exact = all.toSorted((one, other) => one - other)[Math.ceil(all.length * share) - 1]!;
      const found = latencyQuantile(histogram.read(), share)!;
      expect(Math.abs(found - exact)).toBeLessThanOrEqual(exact / 16 + 0.011);
    }),
  );
});

test('durations beyond both ends are in the first and the last bucket', () => {
  expect([latencyBucket(-1), latencyBucket(0), latencyBucket(0.01)]).toEqual([0, 0, 0]);
  expect(latencyBucket(Number.MAX_SAFE_INTEGER)).toBe(latencyBucket(2 ** 31));
});

test('many at once count as many, and nothing has no quantile', () => {
  const histogram = new LatencyHistogram();
  expect(latencyQuantile(histogram.read(), 0.5)).toBeUndefined();
  histogram.add(5, 99);
  histogram.add(500);
  expect(latencyQuantile(histogram.read(), 0.5)).toBeCloseTo(5, 0);
  expect([...histogram.read().values()].reduce((sum, n) => sum + n, 0)).toBe(100);
});
