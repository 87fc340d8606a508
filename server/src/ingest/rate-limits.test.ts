import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { realTurns } from '../../test/support/clock.ts';
import type { Source } from '../model/settings.ts';
import { fullBucket, refundTokens, SourceRateLimiter, takeTokens } from './rate-limits.ts';

const source = (id: number, rateLimit?: number, more: Partial<Source> = {}): Source => ({
  ...{ id, name: `s${id}`, writeKeys: [`k${id}`], enabled: true, mode: 'standard', whenDisabled: 'refuse' },
  ...(rateLimit === undefined ? {} : { rateLimit }),
  ...more,
});

function limitsOf(...sources: Source[]) {
  const clock = {
    time: 0,
    now: () => 0,
    monotonic: () => clock.time,
    after: () => () => {},
    steps: () => [{ at: 0, ahead: 0 }],
    ...realTurns,
  };
  const lines: object[] = [];
  const logger = { warn: (fields: object, event: string) => lines.push({ ...fields, event }) };
  const limits = new SourceRateLimiter({ clock, logger });
  limits.configure(sources);
  return {
    clock,
    limits,
    lines,
    admit: (...calls: [number, number][]) =>
      limits.admit(
        calls.map(([id, n]) => ({ source: id, calls: n })),
        undefined,
      )?.retryAfter ?? 0,
    /** Calls of source 1 from an address. */
    from: (remoteAddress: string, calls: number) =>
      limits.admit([{ source: 1, calls }], { remoteAddress })?.retryAfter ?? 0,
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

describe('one address', () => {
  const PUBLIC = '203.0.113.7';

  test('sends 200 calls a second to a client source, and 10,000 at once when it has been quiet', () => {
    const { from, clock } = limitsOf(source(1, undefined, { trust: 'client' }));
    expect([from(PUBLIC, 10_000), from(PUBLIC, 1)]).toEqual([0, 1]);
    clock.time = 1000;
    expect([from(PUBLIC, 200), from(PUBLIC, 1)]).toEqual([0, 1]);
    clock.time = 600_000;
    expect([from(PUBLIC, 10_000), from(PUBLIC, 1)]).toEqual([0, 1]);
  });

  test('is not limited at a server source, at one that says 0, and at one without a public address', () => {
    for (const more of [{ trust: 'server' }, {}, { trust: 'client', rateLimitPerAddress: 0 }] as const)
      expect(limitsOf(source(1, undefined, more)).from(PUBLIC, 1_000_000)).toBe(0);
    const { from, admit } = limitsOf(source(1, undefined, { trust: 'client' }));
    for (const address of ['127.0.0.1', '10.1.2.3', '::1', '::ffff:192.168.0.4', 'fd00::1', 'unknown', ''])
      for (let n = 0; n < 3; n++) expect(from(address, 9000)).toBe(0);
    for (let n = 0; n < 3; n++) expect(admit([1, 9000])).toBe(0);
  });

  test('is limited at a server source that says so', () => {
    const { from } = limitsOf(source(1, undefined, { trust: 'server', rateLimitPerAddress: 2 }));
    expect([from(PUBLIC, 100), from(PUBLIC, 1)]).toEqual([0, 1]);
  });

  test('does not slow another one', () => {
    const { from } = limitsOf(source(1, undefined, { rateLimitPerAddress: 2 }));
    expect([from(PUBLIC, 100), from(PUBLIC, 1), from('203.0.113.8', 100)]).toEqual([0, 1, 0]);
  });

  test('is the same however it is written, and one customer has all of an IPv6 network', () => {
    const { from } = limitsOf(source(1, undefined, { rateLimitPerAddress: 2 }));
    expect([from(PUBLIC, 100), from(`::ffff:${PUBLIC}`, 1), from('::FFFF:cb00:7107', 1)]).toEqual([0, 1, 1]);
    expect([from('2001:db8:1:2::5', 100), from('2001:DB8:1:2:ffff::9', 1)]).toEqual([0, 1]);
    expect(from('2001:db8:1:3::5', 1)).toBe(0);
  });

  test('that is turned away takes nothing of what its source may send', () => {
    const { from, admit } = limitsOf(source(1, 100, { rateLimitPerAddress: 1 }));
    expect([from(PUBLIC, 50), from(PUBLIC, 50), from(PUBLIC, 50)]).toEqual([0, 50, 50]);
    expect([admit([1, 50]), admit([1, 1])]).toEqual([0, 1]);
  });

  test('has what it gave for a request that another source refused', () => {
    const { limits } = limitsOf(source(1, undefined, { rateLimitPerAddress: 1 }), source(2, 1));
    const admit = (...calls: [number, number][]) =>
      limits.admit(
        calls.map(([id, n]) => ({ source: id, calls: n })),
        { remoteAddress: PUBLIC },
      )?.source;
    expect([admit([2, 1]), admit([1, 50], [2, 1]), admit([1, 50])]).toEqual([undefined, 2, undefined]);
  });

  test('is named in the log by its source, once a minute, with how to let a proxy pass', () => {
    const { from, clock, lines } = limitsOf(source(1, undefined, { rateLimitPerAddress: 1 }));
    from(PUBLIC, 50);
    for (let n = 0; n < 500; n++) from(PUBLIC, 1);
    expect(lines).toMatchObject([{ event: 'source.address_over_limit', source: 's1', requests: 1 }]);
    clock.time = 60_000;
    from(PUBLIC, 50);
    from(PUBLIC, 50);
    expect(lines).toMatchObject([{}, { requests: 500, advice: expect.stringContaining('trustedProxies') }]);
  });

  test('is forgotten when a hundred thousand others have come, and may send what it could at first', () => {
    const { from } = limitsOf(source(1, undefined, { rateLimitPerAddress: 1 }));
    from(PUBLIC, 50);
    const others = (first: number, n: number) => {
      for (let nth = first; nth < first + n; nth++)
        from(`198.${nth >> 16}.${(nth >> 8) & 255}.${nth & 255}`, 1);
    };
    others(0, 49_000);
    expect(from(PUBLIC, 1)).toBe(1);
    others(49_000, 101_000);
    expect(from(PUBLIC, 50)).toBe(0);
  });
});

describe('a bucket', () => {
  test('gives one second’s worth at once, and then as much as flows in', () => {
    let bucket = fullBucket(10, 0);
    for (let n = 0; n < 10; n++) {
      const taken = takeTokens(bucket, 1, { perSecond: 10, capacity: 10, now: 0 });
      expect(taken.wait).toBe(0);
      bucket = taken.bucket;
    }
    expect(takeTokens(bucket, 1, { perSecond: 10, capacity: 10, now: 99 }).wait).toBe(1);
    expect(takeTokens(bucket, 1, { perSecond: 10, capacity: 10, now: 100 }).wait).toBe(0);
  });

  test('gives a batch larger than itself when it is full, and then makes others wait for all of it', () => {
    const { bucket, wait } = takeTokens(fullBucket(10, 0), 100, { perSecond: 10, capacity: 10, now: 0 });
    expect(wait).toBe(0);
    expect(takeTokens(bucket, 1, { perSecond: 10, capacity: 10, now: 0 }).wait).toBe(10);
    expect(takeTokens(bucket, 100, { perSecond: 10, capacity: 10, now: 0 }).wait).toBe(10);
    expect(takeTokens(bucket, 100, { perSecond: 10, capacity: 10, now: 10_000 }).wait).toBe(0);
  });

  test('never holds more than one second’s worth', () => {
    const { bucket } = takeTokens(fullBucket(10, 0), 10, { perSecond: 10, capacity: 10, now: 0 });
    const later = takeTokens(bucket, 10, { perSecond: 10, capacity: 10, now: 1_000_000 });
    expect(later.wait).toBe(0);
    expect(takeTokens(later.bucket, 1, { perSecond: 10, capacity: 10, now: 1_000_000 }).wait).toBe(1);
  });

  test('has what was given back', () => {
    const { bucket } = takeTokens(fullBucket(10, 0), 10, { perSecond: 10, capacity: 10, now: 0 });
    expect(takeTokens(refundTokens(bucket, 4), 4, { perSecond: 10, capacity: 10, now: 0 }).wait).toBe(0);
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
          const asked = takeTokens(bucket, wanted, { perSecond, capacity: perSecond, now });
          const later = takeTokens(asked.bucket, wanted, {
            perSecond,
            capacity: perSecond,
            now: now + asked.wait * 1000,
          });
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
