import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fullBucket, giveBack, take } from './token-bucket.ts';

describe('a bucket', () => {
  test('gives one second’s worth at once, and then as much as flows in', () => {
    let bucket = fullBucket(10, 0);
    for (let n = 0; n < 10; n++) {
      const taken = take(bucket, 1, { perSecond: 10, now: 0 });
      expect(taken.wait).toBe(0);
      bucket = taken.bucket;
    }
    expect(take(bucket, 1, { perSecond: 10, now: 99 }).wait).toBe(1);
    expect(take(bucket, 1, { perSecond: 10, now: 100 }).wait).toBe(0);
  });

  test('gives a batch larger than itself when it is full, and then makes others wait for all of it', () => {
    const { bucket, wait } = take(fullBucket(10, 0), 100, { perSecond: 10, now: 0 });
    expect(wait).toBe(0);
    expect(take(bucket, 1, { perSecond: 10, now: 0 }).wait).toBe(10);
    expect(take(bucket, 100, { perSecond: 10, now: 0 }).wait).toBe(10);
    expect(take(bucket, 100, { perSecond: 10, now: 10_000 }).wait).toBe(0);
  });

  test('never holds more than one second’s worth', () => {
    const { bucket } = take(fullBucket(10, 0), 10, { perSecond: 10, now: 0 });
    const later = take(bucket, 10, { perSecond: 10, now: 1_000_000 });
    expect(later.wait).toBe(0);
    expect(take(later.bucket, 1, { perSecond: 10, now: 1_000_000 }).wait).toBe(1);
  });

  test('has what was given back', () => {
    const { bucket } = take(fullBucket(10, 0), 10, { perSecond: 10, now: 0 });
    expect(take(giveBack(bucket, 4), 4, { perSecond: 10, now: 0 }).wait).toBe(0);
  });

  test('tells a wait after which the same is given, and never gives more than its rate', () => {
    const asks = fc.array(fc.record({ after: fc.nat(3000), wanted: fc.integer({ min: 1, max: 200 }) }));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), asks, (perSecond, list) => {
        let bucket = fullBucket(perSecond, 0);
        let now = 0;
        let given = 0;
        for (const { after, wanted } of list) {
          now += after;
          const asked = take(bucket, wanted, { perSecond, now });
          const later = take(asked.bucket, wanted, { perSecond, now: now + asked.wait * 1000 });
          expect(asked.wait === 0 || later.wait === 0).toBe(true);
          expect(Number.isInteger(asked.wait)).toBe(true);
          // Before the last request the rate was kept; the last may be larger than the bucket.
          if (asked.wait === 0) {
            expect(given).toBeLessThanOrEqual(perSecond * (1 + now / 1000) + 1e-6);
            given += wanted;
          }
          bucket = asked.bucket;
        }
      }),
    );
  });
});
