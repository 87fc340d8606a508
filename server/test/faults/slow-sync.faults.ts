import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { memoryOf } from '../http/memory-of.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { amountOf, SEED } from '../support/runs.ts';
import { audit } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, start } from './instance.ts';
import { passed } from './passed.ts';
import { Traffic } from './traffic.ts';

/** MB by which the program may grow between a quarter of the syncs and all of them. */
const MOST_GROWTH = 48;

sayWhatIsLeftOut('slow syncs');

describe.runIf(HAS_DISK_FAULTS)('a disk that syncs slowly', () => {
  let endpoint: Endpoint;
  let place: Place;
  let disk: DiskFaults;

  beforeEach(async () => {
    endpoint = new Endpoint(await freePort(), chanceOf(SEED));
    await endpoint.be('up');
    place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
    disk = new DiskFaults(place.data);
  });

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    disk.remove();
    place.remove();
  });

  // How free it leaves the event loop is measured in slow-sync.timing.ts.
  it.each([
    { ms: 10, connections: 16, syncs: amountOf({ gate: 50, long: 5000 }) },
    { ms: 1000, connections: 40, syncs: amountOf({ gate: 3, long: 60 }) },
  ])(
    'of $ms ms holds back each answer until its sync, and no other work: the main thread makes no storage call',
    async ({ ms, connections, syncs }) => {
      const calls = new Calls(`slow-${ms}`);
      const live = await start(place, { env: disk.env });
      // Code is compiled and buffers have grown before the measurement.
      const before = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections: 16 });
      await before.until(() => calls.acknowledged.size >= 3000);
      await before.stop();
      disk.delay('sync', ms);
      const had = { syncs: disk.calls('sync'), onMainThread: disk.onMainThread };
      const traffic = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections });
      await traffic.until(() => disk.calls('sync') - had.syncs >= syncs / 4);
      const early = memoryOf(live.pid);
      await traffic.until(() => disk.calls('sync') - had.syncs >= syncs);
      const late = memoryOf(live.pid);
      await traffic.stop();
      expect(disk.onMainThread - had.onMainThread).toBe(0);
      expect(traffic.fastest).toBeGreaterThanOrEqual(ms);
      expect(late - early).toBeLessThan(MOST_GROWTH);
      disk.delay('sync', 0);
      expect(traffic.wrong).toEqual([]);
      expect([...traffic.statuses.keys()]).toEqual([200]);
      await endpoint.drain(calls.acknowledged);
      expect(await live.stop()).toMatchObject({ code: 0 });
      const { stored, source } = await audit(place.data);
      expect(stored).toEqual(calls.acknowledged);
      expect(source.accepted).toBe(calls.made);
      passed(`sync of ${ms} ms`, {
        syncs,
        acknowledged: calls.acknowledged.size,
        lost: 0,
        'fastest answer, ms': traffic.fastest.toFixed(1),
        'memory, MB': `${Math.round(early)} → ${Math.round(late)}`,
      });
    },
  );
});
