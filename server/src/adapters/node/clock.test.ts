import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DAY, HOUR, MINUTE, SECOND } from '../../model/time.ts';
import { wallTimeOf } from '../../ports/clock.ts';
import { clockFrom, systemClock } from './clock.ts';

test('tells the time in whole milliseconds', () => {
  const before = Date.now();
  const now = systemClock.now();
  expect(Number.isInteger(now)).toBe(true);
  expect(now).toBeGreaterThanOrEqual(before);
  expect(now).toBeLessThanOrEqual(Date.now());
});

test('wakes no earlier than asked', async () => {
  for (const delay of [-1000, 0, 1, 7, 20]) {
    const end = performance.now() + delay;
    await new Promise<void>((resolve) => systemClock.after(delay, resolve));
    expect(performance.now()).toBeGreaterThanOrEqual(end);
  }
});

describe('over a long time', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.parse('2026-01-01T00:00:00Z') });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('waits longer than a timer of Node can', () => {
    const wake = vi.fn();
    clockFrom(0).after(30 * DAY, wake);
    vi.advanceTimersByTime(30 * DAY - 1);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(DAY);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  test('can be called off at any step', () => {
    const wake = vi.fn();
    const clock = clockFrom(0);
    const soon = clock.after(10, wake);
    const late = clock.after(3 * DAY, wake);
    soon();
    vi.advanceTimersByTime(2 * DAY);
    late();
    vi.advanceTimersByTime(2 * DAY);
    expect(wake).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  test.each([-DAY, -HOUR, HOUR, DAY])('waits as long as asked when the wall clock is set by %i ms', (by) => {
    const wake = vi.fn();
    clockFrom(0).after(MINUTE, wake);
    vi.setSystemTime(Date.now() + by);
    vi.advanceTimersByTime(MINUTE - 1);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  test.each([-DAY, -HOUR, HOUR, DAY])(
    'counts the time that passed when the wall clock is set by %i ms',
    (by) => {
      const clock = clockFrom(5 * SECOND);
      vi.advanceTimersByTime(SECOND);
      vi.setSystemTime(Date.now() + by);
      vi.advanceTimersByTime(SECOND);
      expect(clock.monotonic()).toBe(7 * SECOND);
      expect(clock.now()).toBe(Date.parse('2026-01-01T00:00:02Z') + by);
      expect(wallTimeOf(8 * SECOND, clock)).toBe(Date.parse('2026-01-01T00:00:03Z') + by);
    },
  );
});
