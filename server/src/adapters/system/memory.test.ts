import { afterEach, expect, test, vi } from 'vitest';
import { IdleCollector } from './memory.ts';

const collectors: IdleCollector[] = [];
afterEach(() => {
  for (const collector of collectors.splice(0)) collector.stop();
});

function collectorWith(collect?: () => void): IdleCollector {
  const collector = new IdleCollector(collect);
  collectors.push(collector);
  return collector;
}

test('collects once after a busy time, and not before it is over', () => {
  const collect = vi.fn();
  const collector = collectorWith(collect);
  const counts = [0, 0, 0.5, 0, 0.5, 0.01, 0.01, 0.01, 0, 0].map((utilization) => {
    collector.used(utilization);
    return collect.mock.calls.length;
  });
  expect(counts).toEqual([0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
  for (const utilization of [0.2, 0, 0]) collector.used(utilization);
  expect(collect).toHaveBeenCalledTimes(2);
});

test('leaves a thread alone that is never quiet, or never busy', () => {
  const collect = vi.fn();
  const collector = collectorWith(collect);
  for (let nth = 0; nth < 100; nth++) collector.used(nth % 2 === 0 ? 0.01 : 0.5);
  expect(collect).not.toHaveBeenCalled();
  for (let nth = 0; nth < 100; nth++) collectorWith(collect).used(0.05);
  expect(collect).not.toHaveBeenCalled();
});

test('gives back objects that nothing refers to any more', () => {
  const collector = collectorWith();
  const gone = new WeakRef({});
  const buffers = Array.from({ length: 100 }, () => new ArrayBuffer(1024 * 1024));
  const before = process.memoryUsage().arrayBuffers;
  expect(buffers.splice(0)).toHaveLength(100);
  return new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
    for (const utilization of [1, 0, 0]) collector.used(utilization);
    expect(gone.deref()).toBeUndefined();
    expect(process.memoryUsage().arrayBuffers).toBeLessThan(before - 90 * 1024 * 1024);
  });
});
