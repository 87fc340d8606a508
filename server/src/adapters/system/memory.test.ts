import { execFileSync } from 'node:child_process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { IdleCollector, type OtherThreads, type ProcessMemory } from './memory.ts';

const GARBAGE = fileURLToPath(new URL('./garbage.ts', import.meta.url));

const collectors: IdleCollector[] = [];
afterEach(() => {
  for (const collector of collectors.splice(0)) collector.stop();
});

function collectorOf(others?: OtherThreads, ofProcess?: ProcessMemory): IdleCollector {
  const collector = new IdleCollector(others, ofProcess);
  collectors.push(collector);
  return collector;
}

/** A collector that only notes its steps. */
function notingCollector() {
  const steps: string[] = [];
  const note = (step: string) => () => void steps.push(step);
  const asked = (step: string) => async () => void steps.push(step);
  const collector = collectorOf(
    {
      store: { shrink: asked('shrink'), release: asked('release') },
      httpClient: { release: note('sent') },
    },
    { collect: note('collect'), trim: note('trim') },
  );
  /** The steps that each of these intervals leads to. */
  const stepsAfter = (...utilizations: number[]) =>
    utilizations.map((utilization) => {
      collector.used(utilization);
      return steps.splice(0).join(' ');
    });
  return { stepsAfter };
}

test('takes one step after the other when a busy time is over, and each once', () => {
  const { stepsAfter } = notingCollector();
  expect(stepsAfter(0, 0, 0.5, 0, 0.5, 0.01, 0.01, 0.01, 0, 0, 0)).toEqual([
    ...['', '', '', '', '', '', 'collect shrink sent', 'release', 'trim', '', ''],
  ]);
  expect(stepsAfter(0.2, 0, 0, 0, 0, 0)).toEqual(['', '', 'collect shrink sent', 'release', 'trim', '']);
});

test('waits with the next step while the thread is not quiet, and begins again after a busy time', () => {
  const { stepsAfter } = notingCollector();
  expect(stepsAfter(0.5, 0, 0, 0.05, 0, 0, 0.05, 0, 0, 0)).toEqual([
    ...['', '', 'collect shrink sent', '', '', 'release', '', '', 'trim', ''],
  ]);
  expect(stepsAfter(0.5, 0, 0, 0, 0.5, 0, 0, 0, 0, 0)).toEqual([
    ...['', '', 'collect shrink sent', 'release', '', '', 'collect shrink sent', 'release', 'trim', ''],
  ]);
});

test('leaves a thread alone that is never quiet, or never busy', () => {
  for (const steady of [
    [0.01, 0.5],
    [0.05, 0.05],
    [0.02, 0.02],
    [0.09, 0.01, 0.01, 0.01, 0.01],
  ]) {
    const { stepsAfter } = notingCollector();
    const times = Array.from({ length: 100 }, (_, nth) => steady[nth % steady.length]!);
    expect(stepsAfter(...times).join('')).toBe('');
  }
});

test('goes on when the store cannot give anything back, or has nothing to give', async () => {
  const fails = () => Promise.reject(new Error('the store is stopped'));
  const ofProcess = { collect: vi.fn(), trim: vi.fn() };
  for (const store of [{ shrink: fails, release: fails }, undefined]) {
    const collector = collectorOf({ store }, ofProcess);
    for (const utilization of [1, 0, 0, 0, 0]) collector.used(utilization);
  }
  await new Promise((resolve) => setImmediate(resolve));
  expect(ofProcess.collect).toHaveBeenCalledTimes(2);
  expect(ofProcess.trim).toHaveBeenCalledTimes(2);
});

test('gives back objects that nothing refers to any more', () => {
  const collector = collectorOf();
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

test('also those of another thread, in a process that was started without --expose-gc', () => {
  const script = `
    const { Worker, isMainThread } = await import('node:worker_threads');
    const { collectGarbage } = await import(${JSON.stringify(pathToFileURL(GARBAGE).href)});
    const gone = new WeakRef({});
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    console.log(isMainThread, gone.deref(), typeof globalThis.gc);
    if (isMainThread) new Worker(new URL('data:text/javascript,' + encodeURIComponent(process.env.SCRIPT)));
  `;
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    env: { ...process.env, SCRIPT: script },
  });
  expect(out).toBe('true undefined undefined\nfalse undefined undefined\n');
});

test.runIf(glibcVersion() !== undefined)('gives back memory that is free between blocks in use', async () => {
  const collector = collectorOf();
  // Below the size that `malloc` takes from the system by itself.
  const buffers = Array.from({ length: 12_000 }, () => Buffer.allocUnsafeSlow(9000).fill(1));
  const kept = buffers.filter((_, nth) => nth % 50 === 0);
  buffers.length = 0;
  const before = process.memoryUsage.rss();
  // V8 frees buffers on another thread, and tells nobody when it has.
  await until('the memory is given back', () => {
    for (const utilization of [1, 0, 0, 0, 0]) collector.used(utilization);
    return process.memoryUsage.rss() < before - 50 * 1024 * 1024;
  });
  expect(kept).toHaveLength(240);
});

function glibcVersion(): string | undefined {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime;
}
