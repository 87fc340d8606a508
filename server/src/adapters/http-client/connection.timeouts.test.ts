import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type TimeoutEntry, TimeoutQueue } from './connection.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function entry(expire: () => void): TimeoutEntry {
  return { deadline: 0, list: undefined, previous: undefined, next: undefined, expire };
}

test('ends what is over, in order, none early and none more than two steps late', () => {
  const limits = new TimeoutQueue();
  const ended: [limit: number, after: number][] = [];
  const start = performance.now();
  for (const limit of [500, 100, 100, 300]) {
    limits.add(
      entry(() => ended.push([limit, performance.now() - start])),
      start,
      limit,
    );
  }
  vi.advanceTimersByTime(1000);
  expect(ended.map(([limit]) => limit)).toEqual([100, 100, 300, 500]);
  for (const [limit, after] of ended) {
    expect(after).toBeGreaterThanOrEqual(limit);
    // clock: the test itself lets this time pass.
    expect(after).toBeLessThanOrEqual(limit + 50);
  }
});

test.each([[0], [1], [2]])('what was taken out at place %i of three is left alone', (place) => {
  const limits = new TimeoutQueue();
  const ended: number[] = [];
  const entries = [0, 1, 2].map((i) => entry(() => ended.push(i)));
  for (const one of entries) limits.add(one, performance.now(), 100);
  limits.remove(entries[place]!);
  limits.remove(entries[place]!);
  vi.advanceTimersByTime(1000);
  expect(ended).toEqual([0, 1, 2].filter((i) => i !== place));
});

test('what begins while others end is ended in its own time', () => {
  const limits = new TimeoutQueue();
  let rounds = 0;
  const again = (): void => {
    rounds += 1;
    if (rounds < 5) limits.add(entry(again), performance.now(), 0);
  };
  limits.add(entry(again), performance.now(), 0);
  vi.advanceTimersByTime(60);
  expect(rounds).toBeLessThan(5);
  vi.advanceTimersByTime(1000);
  expect(rounds).toBe(5);
});

test('rests while there is nothing to end, and wakes again', () => {
  const limits = new TimeoutQueue();
  const expire = vi.fn();
  for (let i = 1; i <= 2; i++) {
    limits.add(entry(expire), performance.now(), 100);
    vi.advanceTimersByTime(1000);
    expect(expire).toHaveBeenCalledTimes(i);
    expect(vi.getTimerCount()).toBe(0);
  }
});
