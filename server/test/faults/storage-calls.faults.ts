import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ErrorName, KINDS, type Kind } from '../support/disk-faults/control-page.ts';
import { Disk } from '../support/disk-faults/disk.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { type Chance, chanceOf } from '../support/disk-faults/random.ts';
import { type Recorded, readRecording } from '../support/disk-faults/recording.ts';
import { failuresOf, makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { amountOf, SEED } from '../support/runs.ts';
import { audit, lost } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, type Instance, launch, start } from './instance.ts';
import { passed } from './passed.ts';
import { everythingAccepted } from './recovery.ts';
import { Traffic } from './traffic.ts';

const APPENDS = 30;
/** Number of lives of the program whose calls are counted beforehand. */
const LIVES_COUNTED = amountOf({ gate: 1, long: 5 });
/** Number of lives with one fault each: all of the first calls, and so many others. */
const OTHERS = amountOf({ gate: 4, long: 150 });
/** Number of faults under one process, one after another. */
const FAULTS_OF_A_SERIES = amountOf({ gate: 12, long: 1000 });
const SERIES_KINDS = ['open', 'read', 'write', 'sync', 'truncate', 'unlink'] as const;
/** Number of power cuts looked at after a series. */
const CUTS = amountOf({ gate: 6, long: 200 });
/** Number of commits that nobody can know the end of. */
const IN_DOUBT = amountOf({ gate: 2, long: 60 });
/** One for each core; more would only wait for each other. */
const AT_ONCE = 2;
/** The first calls of each kind fail one by one in every run; the others are drawn by lot. */
const ALWAYS = amountOf({ gate: 2, long: 6 });

const ERRORS: Readonly<Record<Kind, readonly ErrorName[]>> = {
  open: ['EIO', 'EROFS', 'ENOSPC'],
  read: ['EIO'],
  write: ['EIO', 'ENOSPC', 'EROFS'],
  sync: ['EIO'],
  truncate: ['EIO', 'EROFS'],
  unlink: ['EIO', 'EROFS'],
  rename: ['EIO', 'EROFS'],
  mkdir: ['EIO', 'ENOSPC', 'EROFS'],
};

interface Fault {
  readonly kind: Kind;
  /** Counted from the start of the program. */
  readonly nth: number;
  readonly error: ErrorName;
  /** Number of calls that fail from there on; absent: all until the disk is healed. */
  readonly times?: number;
}

sayWhatIsLeftOut('failing storage calls');

describe.runIf(HAS_DISK_FAULTS)('a storage call that fails', () => {
  let endpoint: Endpoint;

  beforeEach(async () => {
    endpoint = new Endpoint(await freePort(), chanceOf(SEED));
    await endpoint.be('up');
  });

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
  });

  it('costs a 503 or a clear end at the start, whichever call it is, and nothing else', async () => {
    const { counts, syncsOfStart } = await countCallsOfAny();
    console.log(
      `storage calls of a life with ${APPENDS} appends: ${KINDS.map((kind) => `${counts[kind]} ${kind}`).join(', ')}`,
    );
    // The lot may fall on calls of the start alone, and on those that nobody waits for: one fault meets
    // appends in any case.
    const faults: Fault[] = [
      ...faultsOf(counts, chanceOf(SEED)),
      { kind: 'sync', nth: syncsOfStart + APPENDS / 6, error: 'EIO' },
    ];
    const tally = { rounds: 0, fired: 0, refusals: 0, ends: 0, slowest: 0, acknowledged: 0 };
    const beyond: Fault[] = [];
    const left = faults.values();
    const work = async () => {
      for (const fault of left) {
        const { fired, ended, refusals, recovery, acknowledged } = await oneLife(fault);
        tally.rounds++;
        if (fired) tally.fired++;
        else beyond.push(fault);
        if (ended) tally.ends++;
        tally.refusals += refusals;
        tally.acknowledged += acknowledged;
        tally.slowest = Math.max(tally.slowest, recovery);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(tally.fired).toBeGreaterThan(tally.rounds * 0.8);
    expect(tally.refusals).toBeGreaterThan(0);
    expect(tally.ends).toBeGreaterThan(0);
    passed('n-th storage call', {
      rounds: tally.rounds,
      of: faults.length,
      fired: tally.fired,
      acknowledged: tally.acknowledged,
      lost: 0,
      'calls turned away': tally.refusals,
      'clear ends at the start': tally.ends,
      'slowest recovery, ms': Math.round(tally.slowest),
    });
  });

  it('is got over by the same process, one fault after another', async () => {
    const place = placeFor();
    const disk = new DiskFaults(place.data);
    const calls = new Calls('series');
    const live = await start(place, { env: disk.env });
    const tally = await series(live.url, { disk, calls, kinds: SERIES_KINDS });
    await endpoint.drain(calls.acknowledged);
    expect(await live.stop()).toMatchObject({ code: 0 });
    await expectKept(place, calls, tally.refusals);
    disk.remove();
    place.remove();
    passed('storage calls that fail one after another', {
      rounds: tally.faults,
      fired: tally.fired,
      acknowledged: calls.acknowledged.size,
      lost: 0,
      'calls turned away': tally.refusals,
      'slowest recovery, ms': Math.round(tally.slowest),
    });
  });

  it('at a sync leaves nothing acknowledged to the page cache: the power may be cut at once', async () => {
    const place = placeFor();
    const disk = new DiskFaults(place.data, { record: true });
    const before = join(place.folder, 'before');
    const image = join(place.folder, 'image');
    mkdirSync(before);
    const calls = new Calls('synced');
    /** For each event, the moment of the recording by which it was acknowledged. */
    const moments = new Map<string, number>();
    calls.onAcknowledged = (id) => moments.set(id, disk.moment());
    const live = await start(place, { env: disk.env });
    const tally = await series(live.url, { disk, calls, kinds: ['sync'] });
    await live.kill();
    const recorded = readRecording(disk.recording);
    const chance = chanceOf(SEED);
    let cuts = 0;
    for (const moment of momentsAfterFailedSyncs(recorded, [...moments.values()], chance)) {
      const then = new Disk(before, chance);
      then.live(recorded, moment);
      then.cutPower(image, { chance, reached: chance.one([0, 0.5]), sector: 4096 });
      const acknowledged = [...moments].filter(([, at]) => at <= moment).map(([id]) => id);
      const missing = lost(acknowledged, await audit(image));
      expect(missing, `byte ${moment} of the recording, seed ${SEED}`).toEqual([]);
      cuts++;
    }
    disk.remove();
    place.remove();
    passed('power cut after a failed sync', {
      rounds: cuts,
      'failed syncs': tally.fired,
      acknowledged: calls.acknowledged.size,
      lost: 0,
    });
  });

  it('at a sync, with no way to open the file again at once, leaves a call either stored or turned away', async () => {
    const place = placeFor();
    const disk = new DiskFaults(place.data);
    const live = await start(place, { env: disk.env });
    const calls = new Calls('unknown');
    await append(live.url, calls);
    let refusals = 0;
    for (let round = 0; round < IN_DOUBT; round++) {
      disk.fail(['sync', 'open'], { with: 'EIO' });
      refusals += await append(live.url, calls, 1);
      disk.heal();
      await everythingAccepted(live.url, calls);
    }
    expect(refusals).toBe(IN_DOUBT);
    await endpoint.drain(calls.acknowledged);
    expect(await live.stop()).toMatchObject({ code: 0 });
    await expectKept(place, calls, refusals);
    disk.remove();
    place.remove();
  });

  const placeFor = () => makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));

  /**
   * The number of calls of each kind that every life makes at least; the sharing of commits is chance and
   * makes it vary.
   */
  async function countCallsOfAny(): Promise<Counted> {
    const lives: Counted[] = [];
    while (lives.length < LIVES_COUNTED) lives.push(await countCalls(`count-${lives.length}`));
    const least = (kind: Kind) => Math.min(...lives.map(({ counts }) => counts[kind]));
    const counts = Object.fromEntries(KINDS.map((kind) => [kind, least(kind)])) as Counted['counts'];
    return { counts, syncsOfStart: Math.max(...lives.map(({ syncsOfStart }) => syncsOfStart)) };
  }

  /** The number of calls of each kind a life makes without faults, until its disk would be healed. */
  async function countCalls(name: string): Promise<Counted> {
    const place = placeFor();
    const disk = new DiskFaults(place.data);
    const calls = new Calls(name);
    const live = await start(place, { env: disk.env });
    const syncsOfStart = disk.calls('sync');
    await append(live.url, calls);
    const counts = Object.fromEntries(KINDS.map((kind) => [kind, disk.calls(kind)])) as Counted['counts'];
    await endpoint.drain(calls.acknowledged);
    expect(await live.stop()).toMatchObject({ code: 0 });
    disk.remove();
    place.remove();
    return { counts, syncsOfStart };
  }

  /** The whole workload with one fault in it: start, appends, deliveries, stop. */
  async function oneLife(fault: Fault): Promise<Life> {
    const place = placeFor();
    const disk = new DiskFaults(place.data);
    const calls = new Calls(`${fault.kind}-${fault.nth}-${fault.error}-${fault.times ?? 'all'}`);
    try {
      disk.fail([fault.kind], {
        with: fault.error,
        nth: fault.nth,
        ...(fault.times === undefined ? {} : { times: fault.times }),
      });
      const instance = launch(place, { env: disk.env });
      const url = await instance.ready;
      if (url === undefined) return await endedAtStart(instance, { place, disk, calls });
      const refusals = await append(url, calls);
      disk.heal();
      const recovery = await everythingAccepted(url, calls);
      await endpoint.drain(calls.acknowledged);
      expect(await instance.stop()).toMatchObject({ code: 0 });
      expect(instance.said()).not.toMatch(/^ {4}at /m);
      await expectKept(place, calls, refusals);
      return {
        fired: disk.failed() > 0,
        ended: false,
        refusals,
        recovery,
        acknowledged: calls.acknowledged.size,
      };
    } catch (error) {
      throw new Error(`with ${JSON.stringify(fault)}, seed ${SEED}: ${String(error)}`, { cause: error });
    } finally {
      disk.remove();
      place.remove();
    }
  }

  /** The program said in one line what is wrong, and left nothing behind that stops the next start. */
  async function endedAtStart(
    instance: Instance,
    { place, disk, calls }: { place: Place; disk: DiskFaults; calls: Calls },
  ): Promise<Life> {
    expect(await instance.ended).toBe(1);
    const failures = failuresOf(instance.said());
    expect(failures, instance.said()).toHaveLength(1);
    expect(failures[0]).not.toMatch(/^ {4}at /m);
    expect(disk.failed()).toBeGreaterThan(0);
    const next = await start(place);
    await append(next.url, calls);
    expect(calls.acknowledged.size).toBe(APPENDS);
    expect(await next.stop()).toMatchObject({ code: 0 });
    await expectKept(place, calls);
    return { fired: true, ended: true, refusals: 0, recovery: 0, acknowledged: APPENDS };
  }

  /**
   * Each call answered 200 was stored and delivered once. A call answered 503 may have been stored as well:
   * the program cannot know while the disk neither syncs nor opens. Sent again, the call is then a duplicate.
   */
  async function expectKept(place: Place, calls: Calls, inDoubt = 0): Promise<void> {
    const { source, destination, stored } = await audit(place.data);
    expect([...stored].sort()).toEqual([...calls.acknowledged].sort());
    expect(source.accepted).toBe(calls.made);
    expect(source.received).toBe(calls.made + source.duplicates);
    expect(source.duplicates).toBeLessThanOrEqual(inDoubt);
    expect(destination.owed).toBe(calls.made);
    expect(destination.delivered + destination.pending).toBe(calls.made);
    expect(endpoint.repeats.unexplained).toEqual([]);
  }
});

interface Counted {
  readonly counts: Record<Kind, number>;
  /** Before it took calls. */
  readonly syncsOfStart: number;
}

interface Life {
  readonly fired: boolean;
  /** True when the program ended at its start. */
  readonly ended: boolean;
  readonly refusals: number;
  /** Milliseconds from the healing to the first call accepted. */
  readonly recovery: number;
  readonly acknowledged: number;
}

interface Series {
  readonly faults: number;
  readonly fired: number;
  readonly refusals: number;
  /** The longest time from a healing to the first call accepted, in milliseconds. */
  readonly slowest: number;
}

/** One fault after another under one process, each with appends while it lasts and recovery after it. */
async function series(
  url: string,
  { disk, calls, kinds }: { disk: DiskFaults; calls: Calls; kinds: readonly Kind[] },
): Promise<Series> {
  const chance = chanceOf(SEED);
  const tally = { faults: 0, fired: 0, refusals: 0, slowest: 0 };
  while (tally.faults < FAULTS_OF_A_SERIES) {
    const had = disk.failed();
    const drawn = kinds.length === 1 ? kinds : kinds.filter(() => chance.happens(0.4));
    const fault = {
      with: chance.one(['EIO', 'ENOSPC', 'EROFS'] as const),
      nth: chance.between(1, chance.one([3, 30])),
      times: chance.one([1, 2, 3, 5, 1000]),
    };
    disk.fail(drawn, fault);
    tally.refusals += await append(url, calls, 10);
    disk.heal();
    const recovery = await everythingAccepted(url, calls).catch((error: unknown) => {
      throw new Error(`with ${JSON.stringify({ drawn, fault })}, seed ${SEED}: ${String(error)}`, {
        cause: error,
      });
    });
    tally.faults++;
    if (disk.failed() > had) tally.fired++;
    tally.slowest = Math.max(tally.slowest, recovery);
  }
  expect(tally.fired).toBeGreaterThan(tally.faults / 4);
  expect(tally.refusals).toBeGreaterThan(0);
  return tally;
}

/**
 * Moments at which a failed sync would show: half of them at the first answer after one, when the least has
 * been synced since, the other half soon after one, while the program is still reacting to it.
 */
function momentsAfterFailedSyncs(
  recorded: readonly Recorded[],
  answers: readonly number[],
  chance: Chance,
): number[] {
  const failed = [...recorded.keys()].filter((nth) => recorded[nth]!.change.what === 'sync-failed');
  expect(failed.length).toBeGreaterThan(5);
  return Array.from({ length: CUTS }, (_, nth) => {
    const after = chance.one(failed);
    const soon = recorded[Math.min(recorded.length - 1, after + chance.between(1, 100))]!.moment;
    const answer = answers.find((at) => at >= recorded[after]!.moment);
    return nth % 2 === 0 ? (answer ?? soon) : soon;
  });
}

/** Sends the appends once each, from three connections. Resolves to the number turned away. */
async function append(url: string, calls: Calls, count = APPENDS): Promise<number> {
  let left = count;
  const next = () => (left-- > 0 ? calls.make(1) : undefined);
  const traffic = new Traffic(url, { calls, chance: chanceOf(1), connections: 3, next });
  await traffic.ended();
  expect(traffic.wrong).toEqual([]);
  expect(traffic.statuses.get('broken') ?? 0).toBe(0);
  return traffic.statuses.get(503) ?? 0;
}

/** The first calls of every kind, and of the others so many, drawn by lot. */
function faultsOf(counts: Readonly<Record<Kind, number>>, chance: Chance): Fault[] {
  const points = KINDS.flatMap((kind) =>
    Array.from({ length: counts[kind] }, (_, index): Fault => {
      const error = chance.one(ERRORS[kind]);
      const fault = { kind, nth: index + 1, error };
      return chance.happens(0.5) ? { ...fault, times: 1 } : fault;
    }),
  );
  const first = points.filter(({ nth }) => nth <= ALWAYS);
  const others = points.filter(({ nth }) => nth > ALWAYS);
  const drawn = others.map((fault) => ({ fault, lot: chance.next() })).sort((a, b) => a.lot - b.lot);
  return [...first, ...drawn.slice(0, OTHERS).map(({ fault }) => fault)];
}
