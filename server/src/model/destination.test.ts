import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Pause, pausedTimeWithin, recordSwitch, retryWindowStart } from './pause.ts';
import { HOUR, MINUTE } from './time.ts';

const NOON = Date.UTC(2026, 0, 1, 12);
const WINDOW = 4 * HOUR;

describe('a retry window', () => {
  it('is four hours long where nothing was paused', () => {
    expect(retryWindowStart([], WINDOW, NOON)).toBe(NOON - WINDOW);
  });

  it('leaves out a pause that has ended, one that lasts, and several', () => {
    const ended: Pause = { from: NOON - 9 * HOUR, to: NOON - 2 * HOUR };
    expect(retryWindowStart([ended], WINDOW, NOON)).toBe(NOON - 11 * HOUR);
    expect(retryWindowStart([{ from: NOON - 9 * HOUR }], WINDOW, NOON)).toBe(NOON - 13 * HOUR);
    expect(retryWindowStart([ended, { from: NOON - HOUR }], WINDOW, NOON)).toBe(NOON - 12 * HOUR);
  });

  it('begins where just as much of it was not paused, whatever the pauses were', () => {
    const steps = fc.array(fc.integer({ min: 1, max: 5 * HOUR }), { maxLength: 30 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 0, max: HOUR }), (lengths, rest) => {
        let pauses: readonly Pause[] = [];
        let at = NOON;
        let isServed = true;
        for (const length of lengths) {
          at += length;
          isServed = !isServed;
          pauses = recordSwitch(pauses, { isServed, at, window: WINDOW });
        }
        const now = at + rest;
        const start = retryWindowStart(pauses, WINDOW, now);
        expect(now - start - pausedTimeWithin(pauses, start, now)).toBe(WINDOW);
      }),
    );
  });
});

describe('the pauses of a destination', () => {
  it('are forgotten when no retry window reaches back to them', () => {
    const old: Pause = { from: NOON - 10 * HOUR, to: NOON - 9 * HOUR };
    const late = recordSwitch([old, { from: NOON - HOUR }], { isServed: true, at: NOON, window: WINDOW });
    expect(late).toEqual([{ from: NOON - HOUR, to: NOON }]);
    const lasting = recordSwitch([old, { from: NOON - 9 * HOUR + MINUTE }], {
      ...{ isServed: true, at: NOON, window: WINDOW },
    });
    expect(lasting).toHaveLength(2);
  });

  it('take no more than some records, however often somebody switches', () => {
    let pauses: readonly Pause[] = [];
    for (let second = 0; second < 10_000; second++) {
      const at = NOON + second * 1000;
      pauses = recordSwitch(pauses, { isServed: second % 2 === 1, at, window: WINDOW });
    }
    expect(pauses.length).toBeLessThanOrEqual(50);
  });

  it('count the whole past of a destination that an earlier version had disabled', () => {
    expect(recordSwitch([], { isServed: true, at: NOON, window: WINDOW })).toEqual([{ from: 0, to: NOON }]);
  });

  it('never count against a window after the clock was set back', () => {
    const pauses = recordSwitch([{ from: NOON + HOUR }], { isServed: true, at: NOON, window: WINDOW });
    expect(pausedTimeWithin(pauses, NOON - 5 * HOUR, NOON)).toBeGreaterThanOrEqual(0);
    expect(retryWindowStart(pauses, WINDOW, NOON)).toBeLessThanOrEqual(NOON - WINDOW);
    const ahead: Pause = { from: NOON, to: NOON + HOUR };
    expect(retryWindowStart([ahead], WINDOW, NOON)).toBe(NOON - WINDOW);
    expect(pausedTimeWithin([ahead], NOON - HOUR, NOON)).toBe(0);
  });
});
