import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Source } from '../model/settings.ts';
import { fullBucket, refundTokens, SourceRateLimiter, takeTokens } from './admission.ts';

const source = (id: number, rateLimit?: number): Source => ({
  ...{ id, name: `s${id}`, writeKeys: [`k${id}`], enabled: true, mode: 'standard', whenDisabled: 'refuse' },
  ...(rateLimit === undefined ? {} : { rateLimit }),
});

function limitsOf(...sources: Source[]) {
  const clock = {
    time: 0,
    now: () => 0,
    monotonic: () => clock.time,
    after: () => () => {},
    steps: () => [{ at: 0, ahead: 0 }],
  };
  const limits = new SourceRateLimiter(clock);
  limits.configure(sources);
  return {
    clock,
    limits,
    admit: (...calls: [number, number][]) =>
      limits.admit(calls.map(([id, n]) => ({ source: id, calls: n })))?.retryAfter ?? 0,
  };
}

test('a source without a limit is never asked to wait', () => {
  const { admit } = limitsOf(source(1), source(2, 1));
  for (let n = 0; n < 100; n++) expect(admit([1, 1000])).toBe(0);
});

test('each source has its own limit', () => {
  const { admit, clock } = limitsOf(source(1, 10), source(2, 20));
  expect([admit([1, 10]), admit([1, 1]), admit([2, 20]), admit([2, 1])]).toEqual([0, 1, 0, 1]);
  clock.time = 1000;
  expect([admit([1, 10]), admit([1, 1]), admit([2, 20]), admit([2, 1])]).toEqual([0, 1, 0, 1]);
});

test('a request of several sources is taken whole or not at all', () => {
  const { admit } = limitsOf(source(1, 10), source(2, 10), source(3));
  expect(admit([2, 10])).toBe(0);
  expect(admit([3, 5], [1, 6], [2, 1])).toBe(1);
  // The first source had given a token and got it back when the second source refused.
  expect(admit([1, 10])).toBe(0);
});

test('a request of no source is not asked to wait', () => {
  expect(limitsOf(source(1, 1)).admit()).toBe(0);
});

test('saving the sources again opens no gap, and a new limit holds at once', () => {
  const { admit, limits } = limitsOf(source(1, 10));
  expect(admit([1, 10])).toBe(0);
  limits.configure([source(1, 10)]);
  expect(admit([1, 1])).toBe(1);
  limits.configure([source(1)]);
  expect(admit([1, 1000])).toBe(0);
  limits.configure([source(1, 5)]);
  expect([admit([1, 5]), admit([1, 1])]).toEqual([0, 1]);
});

describe('a bucket', () => {
  test('gives one second’s worth at once, and then as much as flows in', () => {
    let bucket = fullBucket(10, 0);
    for (let n = 0; n < 10; n++) {
      const taken = takeTokens(bucket, 1, { perSecond: 10, now: 0 });
      expect(taken.wait).toBe(0);
      bucket = taken.bucket;
    }
    expect(takeTokens(bucket, 1, { perSecond: 10, now: 99 }).wait).toBe(1);
    expect(takeTokens(bucket, 1, { perSecond: 10, now: 100 }).wait).toBe(0);
  });

  test('gives a batch larger than itself when it is full, and then makes others wait for all of it', () => {
    const { bucket, wait } = takeTokens(fullBucket(10, 0), 100, { perSecond: 10, now: 0 });
    expect(wait).toBe(0);
    expect(takeTokens(bucket, 1, { perSecond: 10, now: 0 }).wait).toBe(10);
    expect(takeTokens(bucket, 100, { perSecond: 10, now: 0 }).wait).toBe(10);
    expect(takeTokens(bucket, 100, { perSecond: 10, now: 10_000 }).wait).toBe(0);
  });

  test('never holds more than one second’s worth', () => {
    const { bucket } = takeTokens(fullBucket(10, 0), 10, { perSecond: 10, now: 0 });
    const later = takeTokens(bucket, 10, { perSecond: 10, now: 1_000_000 });
    expect(later.wait).toBe(0);
    expect(takeTokens(later.bucket, 1, { perSecond: 10, now: 1_000_000 }).wait).toBe(1);
  });

  test('has what was given back', () => {
    const { bucket } = takeTokens(fullBucket(10, 0), 10, { perSecond: 10, now: 0 });
    expect(takeTokens(refundTokens(bucket, 4), 4, { perSecond: 10, now: 0 }).wait).toBe(0);
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
          const asked = takeTokens(bucket, wanted, { perSecond, now });
          const later = takeTokens(asked.bucket, wanted, { perSecond, now: now + asked.wait * 1000 });
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
