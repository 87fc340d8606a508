import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { audit } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, type Instance, start } from './instance.ts';
import { passed } from './passed.ts';
import { SEED, timesLonger } from './rounds.ts';
import { Traffic } from './traffic.ts';
import { lasting } from './waiting.ts';

const MEASURED_MS = 5000;
/**
 * Number of windows in which the delay is measured; the calmest counts. Another program on the machine disturbs some of
 * them, a sync on the main thread would disturb every one (the last test shows it).
 */
const WINDOWS = 6;
const MONITOR = fileURLToPath(new URL('./event-loop.mjs', import.meta.url));

sayWhatIsLeftOut('slow syncs');

describe.runIf(HAS_DISK_FAULTS)('a disk that syncs slowly', () => {
  let endpoint: Endpoint;
  let place: Place;
  let disk: DiskFaults;
  let delays: string;

  beforeEach(async () => {
    endpoint = new Endpoint(await freePort(), chanceOf(SEED));
    await endpoint.be('up');
    place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
    disk = new DiskFaults(place.data);
    delays = join(place.folder, 'delays');
  });

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    disk.remove();
    place.remove();
  });

  it('of 10 ms leaves the event loop free: its 99th percentile stays under 5 ms, and no answer comes before its sync', async () => {
    const { eventLoop, onMainThread, memory, fastest, calls } = await underLoad({
      syncMs: 10,
      connections: 16,
    });
    expect(fastest).toBeGreaterThanOrEqual(10);
    expect(eventLoop).toBeLessThan(5);
    expect(onMainThread).toBe(0);
    expect(memory.grownBy).toBeLessThan(48 * 1024);
    passed('sync of 10 ms', {
      rounds: 1,
      acknowledged: calls.acknowledged.size,
      lost: 0,
      'event loop p99, ms': eventLoop.toFixed(2),
      'fastest answer, ms': fastest.toFixed(1),
      'memory, MB': `${Math.round(memory.early / 1024)} → ${Math.round(memory.late / 1024)}`,
    });
  });

  it('of a second delays answers by a second and nothing else', async () => {
    const { eventLoop, onMainThread, memory, fastest, calls } = await underLoad({
      syncMs: 1000,
      connections: 40,
    });
    expect(fastest).toBeGreaterThanOrEqual(1000);
    expect(eventLoop).toBeLessThan(5);
    expect(onMainThread).toBe(0);
    expect(memory.grownBy).toBeLessThan(48 * 1024);
    passed('sync of 1 s', {
      rounds: 1,
      acknowledged: calls.acknowledged.size,
      lost: 0,
      'event loop p99, ms': eventLoop.toFixed(2),
      'fastest answer, ms': fastest.toFixed(0),
      'memory, MB': `${Math.round(memory.early / 1024)} → ${Math.round(memory.late / 1024)}`,
    });
  });

  it('on the main thread would be seen by the instrument that says it is free', async () => {
    // A one-line program does what the server must not do, on the same disk and under the same monitor.
    mkdirSync(place.data);
    const script = `
      const { openSync, writeSync, fsyncSync } = await import('node:fs');
      const file = openSync(${JSON.stringify(join(place.data, 'file'))}, 'w');
      setInterval(() => { writeSync(file, 'x'); fsyncSync(file); }, 1);
      console.log('ready on http://nowhere');`;
    const live = await start(place, { env: environment(), instead: script });
    disk.delay('sync', 10);
    expect(await eventLoopDelay(live, 1000)).toBeGreaterThan(8);
    expect(disk.onMainThread).toBeGreaterThan(0);
    await live.kill();
  });

  const environment = () => ({
    ...disk.env,
    MILLRACE_FAULT_DELAYS: delays,
    NODE_OPTIONS: `--import ${MONITOR}`,
  });

  async function underLoad({
    syncMs,
    connections,
  }: {
    syncMs: number;
    connections: number;
  }): Promise<Measured> {
    const calls = new Calls(`slow-${syncMs}`);
    const live = await start(place, { env: environment() });
    await warmUp(live, calls);
    disk.delay('sync', syncMs);
    const syncs = disk.calls('sync');
    const onMainThread = disk.onMainThread;
    const traffic = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections });
    await lasting(2 * syncMs);
    const measured = MEASURED_MS * timesLonger();
    await eventLoopDelay(live, 0);
    await lasting(measured / 4);
    const early = memoryOf(live);
    const windows: number[] = [];
    while (windows.length < WINDOWS) windows.push(await eventLoopDelay(live, (measured * 3) / 4 / WINDOWS));
    const late = memoryOf(live);
    await traffic.stop();
    const onMainThreadSince = disk.onMainThread - onMainThread;
    expect(disk.calls('sync') - syncs).toBeGreaterThan(2);
    disk.delay('sync', 0);
    expect(traffic.wrong).toEqual([]);
    expect([...traffic.statuses.keys()]).toEqual([200]);
    await endpoint.drain(calls.acknowledged, 20_000);
    expect(await live.stop()).toMatchObject({ code: 0 });
    const { stored, source } = await audit(place.data);
    expect(stored).toEqual(calls.acknowledged);
    expect(source.accepted).toBe(calls.made);
    const eventLoop = Math.min(...windows);
    return {
      eventLoop,
      onMainThread: onMainThreadSince,
      memory: { early, late, grownBy: late - early },
      fastest: traffic.fastest,
      calls,
    };
  }

  /** The 99th percentile of the delay over a time, in milliseconds, as the program itself measured it. */
  async function eventLoopDelay(live: Instance, ms: number): Promise<number> {
    await lasting(ms);
    const before = linesOf(delays).length;
    process.kill(live.pid, 'SIGUSR2');
    while (linesOf(delays).length === before) await lasting(5);
    const [percentile, count] = linesOf(delays).at(-1)!.split(' ').map(Number) as [number, number];
    if (ms > 0) expect(count).toBeGreaterThan(ms / 20);
    return percentile;
  }
});

interface Measured {
  /** 99th percentile of the main thread's delay, in milliseconds. */
  readonly eventLoop: number;
  /** Number of storage calls the program made. */
  readonly onMainThread: number;
  /** Resident memory in kilobytes, after a quarter of the time and at its end. */
  readonly memory: { readonly early: number; readonly late: number; readonly grownBy: number };
  /** The shortest time to a 200, in milliseconds. */
  readonly fastest: number;
  readonly calls: Calls;
}

/** Warms the program up: code is compiled and buffers have grown before the measurement. */
async function warmUp({ url }: { url: string }, calls: Calls): Promise<void> {
  const traffic = new Traffic(url, { calls, chance: chanceOf(SEED), connections: 16 });
  await traffic.until(() => calls.acknowledged.size >= 3000);
  await traffic.stop();
}

function linesOf(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
}

/** Resident memory in kilobytes. */
function memoryOf({ pid }: Instance): number {
  const [, kilobytes] = readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+) kB/)!;
  return Number(kilobytes);
}
