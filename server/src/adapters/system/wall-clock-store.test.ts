import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DAY, HOUR, MINUTE } from '../../model/time.ts';
import { type ClockStep, wallTimeOf } from '../../ports/clock.ts';
import { arrivalRange, monotonicRange } from './wall-clock-store.ts';

const NEVER_SET: readonly ClockStep[] = [{ at: 0, ahead: 0 }];

describe('a range of the wall clock', () => {
  test('is the same on the monotonic clock where the wall clock was never set', () => {
    expect(monotonicRange({ from: 5, to: 10 }, NEVER_SET)).toEqual({ from: 5, to: 10 });
  });

  test('is moved by as much as the wall clock was set since', () => {
    const steps = [
      { at: 0, ahead: 0 },
      { at: 10 * DAY, ahead: DAY },
    ];
    expect(monotonicRange({ from: 20 * DAY, to: 21 * DAY }, steps)).toEqual({ from: 19 * DAY, to: 20 * DAY });
    expect(monotonicRange({ from: 2 * DAY, to: 3 * DAY }, steps)).toEqual({ from: 2 * DAY, to: 3 * DAY });
  });

  test('without ends is everything', () => {
    const all = { from: 0, to: Number.MAX_SAFE_INTEGER };
    const steps = [
      { at: 0, ahead: 5 * DAY },
      { at: DAY, ahead: -5 * DAY },
    ];
    expect(monotonicRange(all, steps)).toEqual(all);
  });

  const step = fc.record({
    after: fc.integer({ min: 0, max: 500 * HOUR }),
    ahead: fc.integer({ min: -400 * HOUR, max: 400 * HOUR }),
  });
  const moment = fc.integer({ min: 0, max: 1000 * HOUR });

  test('has everything that shows a time within', () => {
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 1, maxLength: 4 }),
        moment,
        moment,
        moment,
        (list, from, length, at) => {
          const steps = stepsOf(list);
          const shown = wallTimeOf(at, { steps: () => steps });
          const isWithin = shown >= from && shown < from + length;
          const range = monotonicRange({ from, to: from + length }, steps);
          const isFound = at >= range.from && at < range.to;
          expect(isFound || !isWithin).toBe(true);
          if (steps.length === 1) expect(isFound).toBe(isWithin);
        },
      ),
      { numRuns: 2000 },
    );
  });

  test('has every event that arrived in it, with a slewed clock and in a commit of many events too', () => {
    fc.assert(
      fc.property(
        moment,
        moment,
        moment,
        fc.integer({ min: -999, max: 999 }),
        fc.integer({ min: 0, max: MINUTE }),
        (from, length, receivedAt, slewed, commitLater) => {
          const range = arrivalRange({ from, to: from + length }, NEVER_SET);
          const stored = receivedAt + slewed + commitLater;
          const isWithin = receivedAt >= from && receivedAt < from + length;
          expect(!isWithin || (stored >= range.from && stored < range.to)).toBe(true);
        },
      ),
    );
  });
});

function stepsOf(list: readonly { readonly after: number; readonly ahead: number }[]): ClockStep[] {
  let at = 0;
  return list.map(({ after, ahead }) => {
    at += after;
    return { at, ahead };
  });
}
