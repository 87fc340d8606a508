import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Delivery } from '../../model/delivery.ts';
import { decodeRefs, encodeRecords, encodeRuns, Runs, splitRefs } from './refs.ts';

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

  it('split anywhere into the deliveries taken and those left', () => {
    const records = fc
      .array(fc.record({ position: fc.nat(), rounds: fc.integer({ min: 1, max: 9 }) }), { minLength: 1 })
      .map(encodeRecords);
    const sets = fc.oneof(positions.filter((list) => list.length > 0).map(encodeRuns), records);
    fc.assert(
      fc.property(sets, fc.integer({ min: 1, max: 400 }), (refs, max) => {
        const all = decodeRefs(refs);
        const { taken, rest } = splitRefs(refs, max);
        expect(taken).toEqual(all.slice(0, max));
        expect(rest === undefined ? [] : decodeRefs(rest)).toEqual(all.slice(max));
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
