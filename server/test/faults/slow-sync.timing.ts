import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { SEED } from '../support/runs.ts';
import { until } from '../support/until.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, type Instance, start } from './instance.ts';
import { passed } from './passed.ts';
import { Traffic } from './traffic.ts';
import { lasting } from './waiting.ts';

const MONITOR = fileURLToPath(new URL('./event-loop.mjs', import.meta.url));

/**
 * Number and milliseconds of the windows in which the delay is measured; the calmest counts. Another program
 * on the machine disturbs some of them, a sync on the main thread would disturb every one.
 */
const WINDOWS = 4;
const WINDOW = 600;

sayWhatIsLeftOut('the event loop beside slow syncs');

describe.runIf(HAS_DISK_FAULTS)('the event loop beside a disk that syncs slowly', () => {
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

  const environment = () => ({
    ...disk.env,
    MILLRACE_FAULT_DELAYS: delays,
    NODE_OPTIONS: `--import ${MONITOR}`,
  });

  it.each([
    { ms: 10, connections: 16 },
    { ms: 1000, connections: 40 },
  ])('is as free with syncs of $ms ms as without them', async ({ ms, connections }) => {
    const calls = new Calls(`slow-${ms}`);
    const live = await start(place, { env: environment() });
    const traffic = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections });
    await traffic.until(() => calls.acknowledged.size >= 3000);
    const reference = await calmest(live);
    disk.delay('sync', ms);
    const slow = await calmest(live);
    await traffic.stop();
    passed(`event loop beside syncs of ${ms} ms`, {
      'p99, ms': slow.toFixed(2),
      'without slow syncs, ms': reference.toFixed(2),
      ratio: (slow / Math.max(reference, 0.1)).toFixed(2),
    });
    expect(slow).toBeLessThan(Math.max(5, 3 * reference));
  });

  it('would not be free with syncs on the main thread', async () => {
    // A program of one line does what the server must not do, on the same disk and under the same monitor.
    mkdirSync(place.data);
    const script = `
      const { openSync, writeSync, fsyncSync } = await import('node:fs');
      const file = openSync(${JSON.stringify(join(place.data, 'file'))}, 'w');
      setInterval(() => { writeSync(file, 'x'); fsyncSync(file); }, 1);
      console.log('ready on http://nowhere');`;
    const live = await start(place, { env: environment(), instead: script });
    disk.delay('sync', 10);
    expect(await calmest(live)).toBeGreaterThan(8);
    expect(disk.onMainThread).toBeGreaterThan(0);
    await live.kill();
  });

  /**
   * The 99th percentile of the delay in the calmest window, in milliseconds, as the program itself measured
   * it.
   */
  async function calmest(live: Instance): Promise<number> {
    const windows: number[] = [];
    await delayOf(live, 0);
    while (windows.length < WINDOWS) windows.push(await delayOf(live, WINDOW));
    return Math.min(...windows);
  }

  async function delayOf(live: Instance, ms: number): Promise<number> {
    await lasting(ms);
    const before = linesOf(delays).length;
    process.kill(live.pid, 'SIGUSR2');
    await until('the program has told its delay', () => linesOf(delays).length > before, { pause: 5 });
    return Number(linesOf(delays).at(-1)!.split(' ')[0]);
  }
});

function linesOf(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
}
