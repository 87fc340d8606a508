import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { READ_ONLY } from '../support/disk-faults/control-page.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { failuresOf, makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { roundsOf, SEED } from '../support/runs.ts';
import { until } from '../support/until.ts';
import { audit } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, type Instance, launch, start } from './instance.ts';
import { passed } from './passed.ts';
import { everythingAccepted } from './recovery.ts';
import { HAS_SMALL_DISK, makeSmallDisk, type SmallDisk } from './small-disk.ts';
import { Traffic } from './traffic.ts';
import { lasting } from './waiting.ts';

/** Makes a disk refuse writes, and accept them again. */
interface Refusing {
  readonly env: Readonly<Record<string, string>>;
  refuse(): void;
  relent(): void;
}

let endpoint: Endpoint;
let place: Place;

beforeEach(async () => {
  endpoint = new Endpoint(await freePort(), chanceOf(SEED));
  await endpoint.be('up');
  place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
});

afterEach(async () => {
  await endAll();
  await endpoint.stop();
});

if (!HAS_SMALL_DISK) console.log('left out: a full disk, because nothing can be mounted or compiled here');

describe.runIf(HAS_SMALL_DISK)('a full disk', () => {
  let disk: SmallDisk;

  beforeEach(() => {
    disk = makeSmallDisk(place.folder);
  });

  afterEach(() => {
    disk.remove();
    place.remove();
  });

  it('turns calls away until there is space again, and loses nothing', async () => {
    const { fill, free, env, data, kind } = disk;
    await outlive(`full disk (${kind})`, { ...place, data }, { env, refuse: fill, relent: free });
  });

  it('lets the program stop in order, and stops it from starting with a line that says what to do', async () => {
    const { fill, free, env, data } = disk;
    await stopAndStart({ ...place, data }, { env, refuse: fill, relent: free }, /free some space/);
  });
});

sayWhatIsLeftOut('a read-only disk');

describe.runIf(HAS_DISK_FAULTS)('a disk that turns read-only', () => {
  let disk: DiskFaults;
  let refusing: Refusing;

  beforeEach(() => {
    disk = new DiskFaults(place.data);
    refusing = {
      env: disk.env,
      refuse: () => disk.fail(READ_ONLY, { with: 'EROFS' }),
      relent: () => disk.heal(),
    };
  });

  afterEach(() => {
    expect(disk.failed()).toBeGreaterThan(0);
    disk.remove();
    place.remove();
  });

  it('turns calls away until it can be written again, and loses nothing', () =>
    outlive('read-only disk', place, refusing));

  it('lets the program stop in order, and stops it from starting with a line that says what to do', () =>
    stopAndStart(place, refusing, /make it writable/));
});

/** Runs traffic while the disk refuses and relents a few times. */
async function outlive(kind: string, on: Place, { env, refuse, relent }: Refusing): Promise<void> {
  const calls = new Calls('outlive');
  const live = await start(on, { env });
  const tally = { rounds: 0, refusals: 0, slowest: 0 };
  for (const { nth, seed, chance } of roundsOf(kind, { gate: 2, long: 20 })) {
    const traffic = new Traffic(live.url, { calls, chance, connections: 4 });
    await lasting(chance.between(50, 200));
    refuse();
    const refusals = () => traffic.statuses.get(503) ?? 0;
    await traffic.until(() => refusals() >= 20);
    await becomes(live.url, 503);
    await lasting(chance.between(50, 300));
    await traffic.stop();
    expect(traffic.wrong).toEqual([]);
    expect(traffic.statuses.get('broken') ?? 0).toBe(0);
    relent();
    const recovery = await everythingAccepted(live.url, calls);
    await becomes(live.url, 200);
    tally.rounds++;
    tally.refusals += refusals();
    tally.slowest = Math.max(tally.slowest, recovery);
    console.log(
      `${kind} ${nth}, seed ${seed}: ${refusals()} turned away, accepted again after ${Math.round(recovery)} ms`,
    );
  }
  await endpoint.drain(calls.acknowledged);
  expect(await live.stop()).toMatchObject({ code: 0 });
  await expectKept(on, calls);
  passed(kind, {
    rounds: tally.rounds,
    acknowledged: calls.acknowledged.size,
    lost: 0,
    'calls turned away': tally.refusals,
    'slowest recovery, ms': Math.round(tally.slowest),
  });
}

/** Waits until `/readyz` answers so, as a load balancer would. */
async function becomes(url: string, status: number): Promise<void> {
  await until(`/readyz answers ${status}`, async () => {
    const answer = await fetch(`${url}/readyz`);
    await answer.text();
    return answer.status === status;
  });
}

/** Stops while the disk refuses, tries to start, and starts again when it relents. */
async function stopAndStart(on: Place, { env, refuse, relent }: Refusing, advice: RegExp): Promise<void> {
  const calls = new Calls('stop');
  const live = await start(on, { env });
  const traffic = new Traffic(live.url, { calls, chance: chanceOf(SEED), connections: 4 });
  await traffic.until(() => calls.acknowledged.size >= 100);
  refuse();
  await traffic.until(() => (traffic.statuses.get(503) ?? 0) > 0);
  const stopped = await live.stop();
  await traffic.stop();
  endpoint.crashed();
  expect(stopped).toMatchObject({ code: 0 });
  await expectClearEnd(launch(on, { env }), advice);
  relent();
  const again = await start(on, { env });
  await everythingAccepted(again.url, calls);
  await endpoint.drain(calls.acknowledged);
  expect(await again.stop()).toMatchObject({ code: 0 });
  const { source, destination } = await audit(on.data);
  expect(source.accepted).toBe(calls.made);
  expect(destination).toMatchObject({ owed: calls.made, pending: 0 });
}

async function expectClearEnd(instance: Instance, advice: RegExp): Promise<void> {
  expect(await instance.ready, 'it started on a disk that refuses').toBeUndefined();
  expect(await instance.ended).toBe(1);
  expect(failuresOf(instance.said()), instance.said()).toEqual([expect.stringMatching(advice)]);
}

/** Calls answered 200 were stored, calls answered 503 were not, and each was delivered once. */
async function expectKept(on: Place, calls: Calls): Promise<void> {
  const { source, destination, stored } = await audit(on.data);
  expect(stored).toEqual(calls.acknowledged);
  expect(source).toMatchObject({ accepted: calls.made, duplicates: calls.repeated });
  expect(destination).toMatchObject({ owed: calls.made, pending: 0 });
  expect(endpoint.repeats.unexplained).toEqual([]);
}
