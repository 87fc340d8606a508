import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { arrivalOf } from '../../ingest/commit-queue.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../model/time.ts';
import { elapsedSince, wallTimeOf } from '../../ports/clock.ts';
import { createSystemClock, downtimeSince, systemClock } from './clock.ts';

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
    createSystemClock().after(30 * DAY, wake);
    vi.advanceTimersByTime(30 * DAY - 1);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(DAY);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  test('can be called off at any step', () => {
    const wake = vi.fn();
    const clock = createSystemClock();
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
    createSystemClock().after(MINUTE, wake);
    vi.setSystemTime(Date.now() + by);
    vi.advanceTimersByTime(MINUTE - 1);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  test.each([-DAY, -HOUR, HOUR, DAY])(
    'counts the time that passed when the wall clock is set by %i ms',
    (by) => {
      const clock = createSystemClock();
      const start = clock.monotonic();
      vi.advanceTimersByTime(SECOND);
      vi.setSystemTime(Date.now() + by);
      vi.advanceTimersByTime(SECOND);
      expect(clock.monotonic() - start).toBe(2 * SECOND);
      expect(clock.now()).toBe(Date.parse('2026-01-01T00:00:02Z') + by);
      expect(elapsedSince(Date.parse('2026-01-01T00:00:00Z'), clock)).toBe(2 * SECOND);
      expect(elapsedSince(clock.now(), clock)).toBe(0);
      // Before it was set, it showed what it showed.
      expect(wallTimeOf(start, clock)).toBe(Date.parse('2026-01-01T00:00:00Z'));
      expect(wallTimeOf(start + 8 * SECOND, clock)).toBe(Date.parse('2026-01-01T00:00:08Z') + by);
      expect(clock.steps()).toHaveLength(2);
    },
  );

  test('takes a wall clock that is slewed for one that is not set, as long as it is less than a second off', () => {
    const clock = createSystemClock();
    for (let second = 0; second < 100; second++) {
      vi.advanceTimersByTime(SECOND);
      vi.setSystemTime(Date.now() + 5);
      clock.steps();
    }
    expect(clock.steps()).toHaveLength(1);
  });

  test('dates an arrival of a moment ago, also where the wall clock was set since', () => {
    const clock = createSystemClock();
    const receivedAt = clock.now();
    vi.advanceTimersByTime(20 * SECOND);
    expect(clock.monotonic() - arrivalOf(receivedAt, clock)).toBe(20 * SECOND);
    for (const by of [-DAY, 3 * DAY]) {
      vi.setSystemTime(Date.now() + by);
      expect(arrivalOf(receivedAt, clock)).toBe(clock.monotonic());
    }
  });
});

describe('over a restart', () => {
  const NOW = Date.parse('2026-01-01T00:00:00Z');
  const boot = (id: string, uptime: number) => ({ id, uptime });
  const last = { now: NOW, monotonic: NOW - HOUR, steps: [{ at: 0, ahead: HOUR }], boot: boot('a', HOUR) };

  afterEach(() => {
    vi.useRealTimers();
  });

  test('the monotonic clock goes on where it stood, and knows how the wall clock was set before', () => {
    vi.useFakeTimers();
    const clock = createSystemClock({ now: Date.now(), monotonic: 5 * SECOND, steps: [{ at: 0, ahead: 7 }] });
    expect(clock.monotonic()).toBe(5 * SECOND);
    vi.advanceTimersByTime(SECOND);
    expect(clock.monotonic()).toBe(6 * SECOND);
    expect(clock.steps()).toEqual([
      { at: 0, ahead: 7 },
      { at: expect.any(Number), ahead: expect.any(Number) },
    ]);
    expect(clock.mark()).toMatchObject({ monotonic: expect.any(Number), steps: clock.steps() });
  });

  test.each([
    ['as long as the wall clock says', boot('b', SECOND), NOW + 10 * MINUTE, 10 * MINUTE],
    ['no time where the wall clock was set back', boot('b', SECOND), NOW - HOUR, 0],
    ['a day where the wall clock says a year', boot('b', SECOND), NOW + 365 * DAY, DAY],
    [
      'what the machine knows, whatever the wall clock says',
      boot('a', HOUR + MINUTE),
      NOW + 365 * DAY,
      MINUTE,
    ],
    ['what the machine knows when the clock was set back', boot('a', HOUR + MINUTE), NOW - DAY, MINUTE],
    ['as the wall clock says where the machine does not tell', undefined, NOW + MINUTE, MINUTE],
  ])('the time without a process is %s', (_, now, wall, rest) => {
    expect(downtimeSince(last, now, wall)).toBe(rest);
  });
});
