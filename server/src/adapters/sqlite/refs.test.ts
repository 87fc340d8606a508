import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Delivery } from '../../model/delivery.ts';
import { decodeRefs, encodeRecords, encodeRuns, Runs } from './refs.ts';

const positions = fc
  .uniqueArray(
    fc.oneof(
      fc.nat(300),
      fc.maxSafeNat().map((n) => n % 2 ** 48),
    ),
    { maxLength: 300 },
  )
  .map((list) => list.sort((a, b) => a - b));

describe('pending sets on disk', () => {
  it('give back the positions of deliveries never tried', () => {
    fc.assert(
      fc.property(positions, (list) => {
        expect(decodeRefs(encodeRuns(list))).toEqual(list.map((position) => ({ position, rounds: 0 })));
      }),
    );
  });

  it('give back everything about deliveries that failed', () => {
    const delivery: fc.Arbitrary<Delivery> = fc.record({
      position: fc.maxSafeNat().map((n) => n % 2 ** 48),
      rounds: fc.integer({ min: 1, max: 255 }),
      firstFailedAt: fc.integer({ min: 1, max: 2 ** 47 }),
      endpoints: fc.integer({ min: 1, max: 31 }),
      settingsVersion: fc.integer({ min: 0, max: 65_535 }),
    });
    fc.assert(
      fc.property(fc.array(delivery), (list) => {
        expect(decodeRefs(encodeRecords(list))).toEqual(list);
      }),
    );
  });

  it('cost a few bytes for an outage, whatever the rate', () => {
    const runs = new Runs();
    for (let position = 5_000_000; position < 5_010_000; position++) runs.add(position);
    expect(runs.size).toBe(10_000);
    expect(runs.bytes().byteLength).toBeLessThan(10);
  });
});
