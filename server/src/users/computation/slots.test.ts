import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DAY, HOUR, MINUTE, type Time } from '../../model/time.ts';
import { ByteReader, ByteWriter } from '../identity/byte-codec.ts';
import { MAX_FREQUENCIES, MAX_HASHES, MAX_TEXT, MAX_UNIQUE, type Sample } from './reductions.ts';
import {
  addToSlot,
  emptySlot,
  isCounted,
  mergeSlot,
  nextFlip,
  nextLeaving,
  readSlot,
  type SlotShape,
  type SlotState,
  slotValue,
  writeSlot,
} from './slots.ts';

const NOON: Time = Date.UTC(2026, 10, 22, 12);
const REDUCTIONS = ['count', 'sum', 'min', 'max', 'first', 'last', 'mode', 'unique', 'unique_count'] as const;

const shapes: readonly SlotShape[] = [
  ...REDUCTIONS.map((reduction): SlotShape => ({ window: 'none', reduction })),
  ...REDUCTIONS.map((reduction): SlotShape => ({ window: 'buckets', reduction, within: 3 * HOUR })),
  { window: 'times', within: 3 * HOUR, keep: 3, buckets: false },
  { window: 'times', within: 90 * MINUTE, keep: 3, buckets: true },
];

describe('a slot is the same bytes', () => {
  const few = fc.record({
    at: fc.integer({ min: 0, max: 12 }).map((hours) => NOON - hours * HOUR),
    messageId: fc.constantFrom('m1', 'm2', 'm3', 'm4'),
    value: fc.oneof(fc.constantFrom('a', 'b', true, '1', 0.1, 0.2, 0.7, 1e15, -1e-9), fc.integer()),
  });

  test('in whatever order events come and profiles are merged', () => {
    const orders = fc.record({
      shape: fc.constantFrom(...shapes),
      samples: fc.array(few, { maxLength: 30 }),
      seeds: fc.tuple(fc.nat(), fc.nat()),
    });
    fc.assert(
      fc.property(orders, ({ shape, samples, seeds }) => {
        const [a, b] = seeds.map((seed) => bytes(collect(shape, samples, seed)));
        expect(Buffer.compare(a!, b!)).toBe(0);
      }),
      { numRuns: 4000 },
    );
  });

  test('also beyond every limit', () => {
    const samples = Array.from({ length: 700 }, (_, i) => sample(i % 450, NOON - (i % 7) * HOUR));
    for (const shape of shapes) {
      const expected = bytes(collect(shape, samples, 0));
      for (let seed = 1; seed < 20; seed++) expect(bytes(collect(shape, samples, seed))).toEqual(expected);
    }
  });

  test('after it was stored and read', () => {
    for (const shape of shapes) {
      for (const values of [[], [1, 2.5, -3e15, 2], ['a', true, '', 'ü\u{1f600}', 2, 'a']]) {
        const slot = collect(
          shape,
          values.map((value, i) => sample(value, -3 * DAY + i * HOUR)),
          1,
        );
        expect(stored(slot)).toEqual(slot);
      }
    }
  });
});

describe('a reduction', () => {
  test('sums decimals as they are written, without the errors of floating-point numbers', () => {
    expect(reduce('sum', [0.1, 0.2])).toBe(0.3);
    expect(
      reduce(
        'sum',
        Array.from({ length: 1000 }, () => 19.99),
      ),
    ).toBe(19_990);
    expect(reduce('sum', [123_456_789_012.34, -123_456_789_012.33])).toBe(0.01);
    expect(reduce('sum', [2 ** 53, 1, 1])).toBe(2 ** 53 + 2);
    expect(reduce('sum', [9e20, 0.5, -9e20])).toBe(0.5);
    expect(reduce('sum', [1e-10, 1e-10])).toBe(0);
  });

  test('averages the same decimals', () => {
    const slot = collect(
      { window: 'none', reduction: 'sum' },
      [0.1, 0.2, 0.6].map((one) => sample(one)),
      1,
    );
    expect(slotValue(slot, NOON, true)).toBe(0.3);
    expect(slotValue(emptySlot({ window: 'none', reduction: 'sum' }), NOON, true)).toBeUndefined();
  });

  test('of numbers takes no text, also not one of digits, and no number of 10^21 or more', () => {
    for (const reduction of ['sum', 'min', 'max'] as const) {
      expect(isCounted({ window: 'none', reduction }, sample('5'))).toBe(false);
      expect(isCounted({ window: 'none', reduction }, sample(1e21))).toBe(false);
      expect(isCounted({ window: 'none', reduction }, sample(-9.9e20))).toBe(true);
    }
  });

  test('takes no list, no object, no null and no text beyond 1,000 characters', () => {
    for (const value of [[], {}, null, undefined, 'x'.repeat(MAX_TEXT + 1)]) {
      for (const reduction of ['first', 'last', 'mode', 'unique', 'unique_count'] as const) {
        expect(isCounted({ window: 'none', reduction }, { ...sample(0), value })).toBe(false);
      }
    }
  });

  test('calls a value the most frequent one from the second time on, of several the alphabetically first', () => {
    expect(reduce('mode', ['b', 'a'])).toBeUndefined();
    expect(reduce('mode', ['b', 'a', 'b', 'a', 'c'])).toBe('a');
    expect(reduce('mode', ['b', 'a', 'b', 'a', 'b'])).toBe('b');
    expect(reduce('mode', [10, 9, 9, 10, '1', '1'])).toBe(9);
  });

  test('knows no most frequent value beyond 200 different ones', () => {
    const values = Array.from({ length: MAX_FREQUENCIES }, (_, i) => `v${i}`);
    expect(reduce('mode', [...values, 'v7'])).toBe('v7');
    expect(reduce('mode', [...values, 'v7', 'one more', 'v7'])).toBeUndefined();
  });

  test('knows none either once a profile with too many different values was merged', () => {
    const shape: SlotShape = { window: 'none', reduction: 'mode' };
    const values = Array.from({ length: MAX_FREQUENCIES + 1 }, (_, i) => sample(i));
    const few = ['a', 'a'].map((value) => sample(value));
    const merged = mergeSlot(collect(shape, few, 1), collect(shape, values, 1));
    expect(slotValue(merged, NOON)).toBeUndefined();
  });

  test('lists the 100 least different values', () => {
    const values = Array.from({ length: MAX_UNIQUE + 50 }, (_, i) => i);
    expect(reduce('unique', [...values, ...values].reverse())).toEqual(values.slice(0, MAX_UNIQUE));
    expect(reduce('unique', ['b', 2, 'a', true, 'b', 10])).toEqual([true, 2, 10, 'a', 'b']);
  });

  test('counts fewer than 256 different values exactly and estimates more of them', () => {
    const different = (n: number) => Array.from({ length: n }, (_, i) => `product ${i}`);
    expect(reduce('unique_count', [...different(MAX_HASHES - 1), ...different(20)])).toBe(MAX_HASHES - 1);
    for (const n of [1000, 10_000]) {
      const estimate = reduce('unique_count', different(n)) as number;
      expect(Math.abs(estimate - n) / n).toBeLessThan(0.2);
    }
  });

  test('takes the first and the last by time, and by messageId at the same time', () => {
    const samples = ['m2', 'm3', 'm1'].map((messageId) => ({ at: NOON, messageId, value: messageId }));
    expect(slotValue(collect({ window: 'none', reduction: 'first' }, samples, 1), NOON)).toBe('m1');
    expect(slotValue(collect({ window: 'none', reduction: 'last' }, samples, 1), NOON)).toBe('m3');
  });
});

describe('a window', () => {
  const times = (keep: number, ...ages: number[]) => {
    const shape: SlotShape = { window: 'times', within: HOUR, keep, buckets: false };
    return collect(
      shape,
      ages.map((age) => sample(1, NOON - age)),
      1,
    );
  };

  test('over a count ends at the millisecond', () => {
    const slot = times(3, 0, 30 * MINUTE);
    expect(slotValue(slot, NOON + 30 * MINUTE - 1)).toBe(2);
    expect(slotValue(slot, NOON + 30 * MINUTE)).toBe(1);
    expect(slotValue(slot, NOON + HOUR)).toBe(0);
  });

  test('over a count changes the result of a comparison when enough events have left it, not before', () => {
    const slot = times(4, 1 * MINUTE, 2 * MINUTE, 3 * MINUTE, 3 * MINUTE);
    expect(nextFlip(slot, NOON, (count) => count >= 2)).toBe(NOON + HOUR - 2 * MINUTE);
    expect(nextFlip(slot, NOON, (count) => count >= 4)).toBe(NOON + HOUR - 3 * MINUTE);
    expect(nextFlip(slot, NOON, (count) => count === 3)).toBeUndefined();
    expect(nextLeaving(slot, NOON)).toBe(NOON + HOUR - 3 * MINUTE);
  });

  test('over a count is exact up to 64 events and goes on by the hour beyond', () => {
    const shape: SlotShape = { window: 'times', within: 2 * HOUR, keep: 65, buckets: true };
    const slot = collect(
      shape,
      Array.from({ length: 100 }, (_, i) => sample(1, NOON + i * MINUTE)),
      1,
    );
    expect(slotValue(slot, NOON + 100 * MINUTE)).toBe(100);
    // The first 60 lie in the hour of noon, which leaves at three o'clock as a whole.
    expect(slotValue(slot, NOON + 2 * HOUR + 10 * MINUTE)).toBe(100);
    expect(slotValue(slot, NOON + 2 * HOUR + 35 * MINUTE)).toBe(64);
    expect(slotValue(slot, NOON + 3 * HOUR)).toBe(39);
  });

  test('over a sum lets an event go with the whole hour in which it turns too old', () => {
    const shape: SlotShape = { window: 'buckets', within: 2 * HOUR, reduction: 'sum' };
    const slot = collect(shape, [sample(5, NOON + MINUTE), sample(7, NOON + 61 * MINUTE)], 1);
    expect(nextLeaving(slot, NOON + 2 * HOUR)).toBe(NOON + 3 * HOUR);
    expect(slotValue(slot, NOON + 3 * HOUR - 1)).toBe(12);
    expect(slotValue(slot, NOON + 3 * HOUR)).toBe(7);
    expect(slotValue(slot, NOON + 4 * HOUR)).toBeUndefined();
  });

  test('keeps nothing that can never count again', () => {
    const late = collect(
      { window: 'buckets', within: DAY, reduction: 'mode' },
      [sample('a', NOON), sample('a', NOON - 3 * DAY)],
      1,
    );
    const never = collect({ window: 'buckets', within: DAY, reduction: 'mode' }, [sample('a', NOON)], 1);
    expect(late).toEqual(never);
    expect(times(5, 0, 3 * HOUR)).toEqual(times(5, 0));
  });
});

let made = 0;
function sample(value: string | number | boolean, at: Time = NOON): Sample {
  return { at, messageId: `m${++made}`, value };
}

function reduce(reduction: (typeof REDUCTIONS)[number], values: readonly (string | number | boolean)[]) {
  return slotValue(
    collect(
      { window: 'none', reduction },
      values.map((value) => sample(value)),
      1,
    ),
    NOON,
  );
}

/** Spreads samples in a random order over three profiles, which are merged at random moments. */
function collect(shape: SlotShape, samples: readonly Sample[], seed: number): SlotState {
  const random = randomBelow(seed);
  const left = [...samples];
  const slots = [emptySlot(shape), emptySlot(shape), emptySlot(shape)];
  const merge = () => {
    const [from] = slots.splice(random(slots.length), 1);
    const into = random(slots.length);
    slots[into] = stored(mergeSlot(slots[into]!, from!));
  };
  while (left.length > 0) {
    const [next] = left.splice(random(left.length), 1);
    if (isCounted(shape, next!)) addToSlot(slots[random(slots.length)]!, next!);
    if (slots.length > 1 && random(10) === 0) merge();
  }
  while (slots.length > 1) merge();
  return slots[0]!;
}

function bytes(slot: SlotState): Uint8Array {
  const writer = new ByteWriter();
  writeSlot(writer, slot);
  return writer.finish(1);
}

function stored(slot: SlotState): SlotState {
  return readSlot(new ByteReader(bytes(slot)));
}

/** A linear congruential generator. */
function randomBelow(seed: number): (limit: number) => number {
  let state = seed >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}
