import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DAY, HOUR, MINUTE } from '../../model/time.ts';
import { systemClock } from './clock.ts';

test('tells the time in whole milliseconds', () => {
  const before = Date.now();
  const now = systemClock.now();
  expect(Number.isInteger(now)).toBe(true);
  expect(now).toBeGreaterThanOrEqual(before);
  expect(now).toBeLessThanOrEqual(Date.now());
});

test('wakes no earlier than asked', async () => {
  for (const delay of [-1000, 0, 1, 7, 20]) {
    const at = systemClock.now() + delay;
    await new Promise<void>((resolve) => systemClock.at(at, resolve));
    expect(systemClock.now()).toBeGreaterThanOrEqual(at);
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
    systemClock.at(systemClock.now() + 30 * DAY, wake);
    vi.advanceTimersByTime(30 * DAY - 1);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(DAY);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  test('can be called off at any step', () => {
    const wake = vi.fn();
    const soon = systemClock.at(systemClock.now() + 10, wake);
    const late = systemClock.at(systemClock.now() + HOUR, wake);
    soon();
    vi.advanceTimersByTime(10 * MINUTE);
    late();
    vi.advanceTimersByTime(DAY);
    expect(wake).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('notices within a minute that the wall clock was put forward', () => {
    const wake = vi.fn();
    systemClock.at(systemClock.now() + 3 * HOUR, wake);
    vi.setSystemTime(Date.now() + 3 * HOUR);
    vi.advanceTimersByTime(MINUTE);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  test('does not wake when the wall clock was put back', () => {
    const wake = vi.fn();
    systemClock.at(systemClock.now() + MINUTE, wake);
    vi.setSystemTime(Date.now() - HOUR);
    vi.advanceTimersByTime(HOUR);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(MINUTE);
    expect(wake).toHaveBeenCalledTimes(1);
  });
});
