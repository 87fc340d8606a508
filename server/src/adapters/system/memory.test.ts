import { afterEach, expect, test, vi } from 'vitest';
import { IdleCollector } from './memory.ts';

const collectors: IdleCollector[] = [];
afterEach(() => {
  for (const collector of collectors.splice(0)) collector.stop();
});

function collectorWith(collect?: () => void, trim?: () => void): IdleCollector {
  const collector = new IdleCollector(collect, trim);
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

test('lets the allocator give back free pages once, after the collection, when the thread is still quiet', () => {
  const trim = vi.fn();
  const collector = collectorWith(() => {}, trim);
  const counts = [0, 0, 0, 0.5, 0, 0, 0.05, 0, 0, 0, 0].map((utilization) => {
    collector.used(utilization);
    return trim.mock.calls.length;
  });
  expect(counts).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
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

test.runIf(glibcVersion() !== undefined)('gives back memory that is free between blocks in use', async () => {
  const collector = collectorWith();
  // Below the size that `malloc` takes from the system by itself.
  const buffers = Array.from({ length: 12_000 }, () => Buffer.allocUnsafeSlow(9000).fill(1));
  const kept = buffers.filter((_, nth) => nth % 50 === 0);
  buffers.length = 0;
  const before = process.memoryUsage.rss();
  // V8 frees buffers on another thread, and tells nobody when it has.
  await vi.waitFor(() => {
    for (const utilization of [1, 0, 0, 0]) collector.used(utilization);
    expect(process.memoryUsage.rss()).toBeLessThan(before - 50 * 1024 * 1024);
  }, 4000);
  expect(kept).toHaveLength(240);
});

function glibcVersion(): string | undefined {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime;
}
