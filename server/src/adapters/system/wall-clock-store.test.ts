import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DAY, HOUR } from '../../model/time.ts';
import type { ClockStep } from '../../ports/clock.ts';
import { monotonicRange } from './wall-clock-store.ts';

const NEVER_SET: readonly ClockStep[] = [{ at: 0, ahead: 0 }];

describe('a range of the wall clock', () => {
  test('is the same on the monotonic clock where the wall clock was never set', () => {
    expect(monotonicRange({ from: 5, to: 10 }, NEVER_SET)).toEqual({
      bounds: { from: 5, to: 10 },
      isExact: true,
    });
  });

  test('is moved by as much as the wall clock was set since', () => {
    const steps = [
      { at: 0, ahead: 0 },
      { at: 10 * DAY, ahead: DAY },
    ];
    expect(monotonicRange({ from: 20 * DAY, to: 21 * DAY }, steps)).toEqual({
      bounds: { from: 19 * DAY, to: 20 * DAY },
      isExact: true,
    });
    expect(monotonicRange({ from: 2 * DAY, to: 3 * DAY }, steps)).toEqual({
      bounds: { from: 2 * DAY, to: 3 * DAY },
      isExact: true,
    });
  });

  test('is not exact around the time at which the clock was set', () => {
    const steps = [
      { at: 0, ahead: 0 },
      { at: 10 * DAY, ahead: -DAY },
    ];
    expect(monotonicRange({ from: 9 * DAY + HOUR, to: 9 * DAY + 2 * HOUR }, steps)).toMatchObject({
      isExact: false,
    });
  });

  test('without ends is everything', () => {
    const all = { from: 0, to: Number.MAX_SAFE_INTEGER };
    const steps = [
      { at: 0, ahead: 5 * DAY },
      { at: DAY, ahead: -5 * DAY },
    ];
    expect(monotonicRange(all, steps)).toEqual({ bounds: all, isExact: true });
  });

  test('has every event that shows a time within, and where it is exact no other', () => {
    const step = fc.record({
      after: fc.integer({ min: 0, max: 500 * HOUR }),
      ahead: fc.integer({ min: -400 * HOUR, max: 400 * HOUR }),
    });
    const moment = fc.integer({ min: 0, max: 1000 * HOUR });
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 1, maxLength: 4 }),
        moment,
        moment,
        moment,
        (list, from, length, event) => {
          let at = 0;
          const steps = list.map(({ after, ahead }) => {
            at += after;
            return { at, ahead };
          });
          const inForce = steps.findLast((one) => one.at <= event) ?? steps[0]!;
          const shown = event + inForce.ahead;
          const isWithin = shown >= from && shown < from + length;
          const { bounds, isExact } = monotonicRange({ from, to: from + length }, steps);
          const isFound = event >= bounds.from && event < bounds.to;
          expect(isExact ? isFound === isWithin : isFound || !isWithin).toBe(true);
        },
      ),
      { numRuns: 2000 },
    );
  });
});
