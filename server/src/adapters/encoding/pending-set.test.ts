import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Delivery } from '../../model/delivery.ts';
import {
  decodeSet,
  deliveryIn,
  encodePositions,
  encodeSet,
  positionsBelow,
  positionsBetween,
  RunEncoder,
  splitSet,
  summaryOf,
} from './pending-set.ts';

const positions = fc
  .uniqueArray(
    fc.oneof(
      fc.nat(300),
      fc.maxSafeNat().map((n) => n % 2 ** 48),
    ),
    { maxLength: 300 },
  )
  .map((list) => list.sort((a, b) => a - b));

const position = fc.maxSafeNat().map((n) => n % 2 ** 48);
const untried: fc.Arbitrary<Delivery> = fc.record({ position, rounds: fc.constant(0) });
const failed: fc.Arbitrary<Delivery> = fc.record({
  position,
  rounds: fc.integer({ min: 0, max: 255 }),
  firstFailedAt: fc.integer({ min: 1, max: 2 ** 47 }),
  endpoints: fc.integer({ min: 1, max: 31 }),
  settingsVersion: fc.integer({ min: 0, max: 65_535 }),
});

describe('pending sets on disk', () => {
  it('give back the positions of deliveries never tried', () => {
    fc.assert(
      fc.property(positions, (list) => {
        expect(decodeSet(encodePositions(list))).toEqual(list.map((position) => ({ position, rounds: 0 })));
      }),
    );
  });

  it('give back everything about deliveries that failed, and the others beside them, in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(failed, untried)), (list) => {
        expect(decodeSet(encodeSet(list))).toEqual(list);
      }),
    );
  });

  it('split anywhere into the deliveries taken and those left', () => {
    const lists = fc.oneof(fc.array(failed, { minLength: 1 }), fc.array(untried, { minLength: 1 }));
    const sets = fc.oneof(
      positions.filter((list) => list.length > 0).map(encodePositions),
      lists.map(encodeSet),
    );
    fc.assert(
      fc.property(sets, fc.integer({ min: 1, max: 400 }), (encoded, max) => {
        const all = decodeSet(encoded);
        const { taken, rest } = splitSet(encoded, max);
        expect(taken).toEqual(all.slice(0, max));
        expect(rest === undefined ? [] : decodeSet(rest)).toEqual(all.slice(max));
      }),
    );
  });

  it('answer questions about positions as their deliveries do, without decoding all of them', () => {
    const small = fc.integer({ min: 0, max: 400 });
    const lists = fc.array(
      fc.oneof(
        failed.chain((delivery) => small.map((position) => ({ ...delivery, position }))),
        small.map((position) => ({ position, rounds: 0 })),
      ),
      { minLength: 1 },
    );
    const runs = fc.uniqueArray(small, { minLength: 1 }).map((list) => list.sort((a, b) => a - b));
    const sets = fc.oneof(runs.map(encodePositions), lists.map(encodeSet));
    const tried = fc.constantFrom(undefined, true, false);
    fc.assert(
      fc.property(sets, small, small, tried, (encoded, from, below, tried) => {
        const all = decodeSet(encoded);
        const every = all.map(({ position }) => position);
        expect(summaryOf(encoded)).toEqual({
          first: Math.min(...every),
          last: Math.max(...every),
          tried: all.filter(({ rounds }) => rounds > 0).length,
        });
        expect(deliveryIn(encoded, from)).toEqual(all.find(({ position }) => position === from));
        const isBetween = (position: number) => position >= from && position < below;
        expect([...positionsBetween(encoded, from, below)]).toEqual(every.filter(isBetween));
        const highest = all
          .filter(({ position, rounds }) => position < below && (tried === undefined || tried === rounds > 0))
          .map(({ position }) => position)
          .sort((a, b) => b - a);
        expect(positionsBelow(encoded, below, { max: 5, tried })).toEqual(highest.slice(0, 5));
      }),
    );
  });

  it('refuse positions that do not ascend, and say so when their end is missing', () => {
    expect(() => encodePositions([3, 2])).toThrow('does not come after');
    expect(() => encodePositions([3, 3])).toThrow('does not come after');
    const encoded = encodePositions([300, 301]);
    expect(() => decodeSet(encoded.subarray(0, -1))).toThrow('ends in the middle');
    expect(() => splitSet(encoded.subarray(0, -1), 1)).toThrow('ends in the middle');
  });

  it('cost a few bytes for an outage, whatever the rate', () => {
    const runs = new RunEncoder();
    for (let position = 5_000_000; position < 5_010_000; position++) runs.add(position);
    expect(runs.size).toBe(10_000);
    expect(runs.bytes().byteLength).toBeLessThan(10);
  });
});
