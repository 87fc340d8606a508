import { cpSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Disk, type PowerCut } from '../support/disk-faults/disk.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { type Chance, chanceOf } from '../support/disk-faults/random.ts';
import { type Recorded, readRecording } from '../support/disk-faults/recording.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { roundsOf, SEED } from '../support/runs.ts';
import { audit, deadOf, lost } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint, OLDEST_REPEAT } from './endpoint.ts';
import { endAll, type Instance, start } from './instance.ts';
import { largest, passed } from './passed.ts';
import { Traffic } from './traffic.ts';
import { lasting } from './waiting.ts';

/** Most calls that a life takes before the moment comes at which the power is cut. */
const MOST_CALLS = 400;

/** Number of power cuts at earlier moments of each round, whose folders are only inspected. */
const MOMENTS = 2;

sayWhatIsLeftOut('power cuts');

describe.runIf(HAS_DISK_FAULTS)('a power cut', () => {
  let place: Place;
  let endpoint: Endpoint;
  let disk: DiskFaults;
  let calls: Calls;

  beforeEach(async () => {
    calls = new Calls('cut');
    endpoint = new Endpoint(await freePort(), chanceOf(SEED), calls);
    place = makePlace(oneDestination([`http://127.0.0.1:${endpoint.port}/in`]));
    disk = new DiskFaults(place.data, { record: true });
  });

  afterEach(async () => {
    await endAll();
    await endpoint.stop();
    disk.remove();
    place.remove();
  });

  it('at any moment loses nothing acknowledged, whatever unsynced writes reached the disk', async () => {
    const tally = { rounds: 0, moments: 0, unsynced: 0 };
    await endpoint.be('up');

    for (const { nth, seed, chance } of roundsOf('power cut', { gate: 3, long: 100 })) {
      const before = certainly(place);
      const live = await start(place, { env: disk.env });
      const life = await traffic(live, chance);
      const recorded = readRecording(disk.recording);
      const early = life.momentsDrawn(chance);
      for (const { acknowledged, moment } of early) {
        const image = join(place.folder, 'image');
        const then = new Disk(before, chance);
        then.live(recorded, moment);
        then.cutPower(image, cutOf(chance));
        expect(lost(acknowledged, await audit(image)), `at byte ${moment} of the recording`).toEqual([]);
      }
      const end = new Disk(before, chance);
      end.live(recorded);
      const cut = cutOf(chance);
      end.cutPower(place.data, cut);
      disk.forget();
      tally.rounds++;
      tally.moments += early.length + 1;
      tally.unsynced += unsynced(recorded);
      console.log(
        `power cut ${nth}, seed ${seed}: ${life.acknowledged} acknowledged, then the power was cut; ` +
          `${Math.round(cut.reached * 100)} % of the unsynced sectors of ${cut.sector} bytes reached the disk`,
      );
    }
    expect(disk.attached).toBeGreaterThanOrEqual(tally.rounds);
    // There must have been unsynced writes for the power cuts to take.
    expect(tally.unsynced).toBeGreaterThan(0);
    expect(calls.acknowledged.size).toBeGreaterThan(tally.rounds * 10);

    const last = await start(place);
    const next = () => (calls.open > 0 ? calls.retry(100) : undefined);
    await new Traffic(last.url, { calls, chance: chanceOf(SEED), connections: 2, next }).ended();
    await endpoint.drain(calls.acknowledged);
    expect(await last.stop()).toMatchObject({ code: 0 });
    const { source, destination, ...books } = await audit(place.data);
    const missing = lost(calls.acknowledged, { source, destination, ...books });
    expect(missing).toEqual([]);
    expect(source.accepted).toBe(calls.made);
    expect(destination).toMatchObject({ owed: calls.made, pending: 0, delivered: endpoint.accepted.size });
    expect(deadOf(destination)).toBe(endpoint.refused.size);
    const { byCrash, oldest, unexplained } = endpoint.repeats;
    expect(unexplained).toEqual([]);
    expect(oldest).toBeLessThan(OLDEST_REPEAT);
    passed('power cut', {
      rounds: tally.rounds,
      'moments looked at': tally.moments,
      acknowledged: calls.acknowledged.size,
      lost: missing.length,
      'duplicates, most per crash': largest(byCrash.values()),
      'oldest repeated, answers before the cut': oldest,
      'unsynced writes at the cuts': tally.unsynced,
    });
  });

  it('at any moment of the very first start leaves a folder that can be started on', async () => {
    const before = certainly(place);
    const live = await start(place, { env: disk.env });
    await live.kill();
    const recorded = readRecording(disk.recording);
    let [rounds, opened] = [0, 0];
    for (const { nth, seed, chance } of roundsOf('first start', { gate: 4, long: 200 })) {
      const { moment } = chance.one(recorded);
      const image = join(place.folder, 'image');
      const then = new Disk(before, chance);
      then.live(recorded, moment);
      then.cutPower(image, cutOf(chance));
      if (existsSync(join(image, 'millrace.db'))) opened++;
      const { stored } = await audit(image).catch((error: unknown) => {
        throw new Error(`round ${nth}, seed ${seed}, byte ${moment}: ${String(error)}`, { cause: error });
      });
      expect(stored.size).toBe(0);
      rounds++;
    }
    // Cuts before the file exists prove little: enough of them must come later.
    expect(opened).toBeGreaterThan(rounds / 4);
    passed('power cut in the first start', { rounds, 'with a file': opened });
  });

  /** Sends calls until the process dies; notes by which moment of the recording each was acknowledged. */
  async function traffic(live: Instance & { url: string }, chance: Chance): Promise<Life> {
    const before = calls.acknowledged.size;
    const notes: Note[] = [];
    const note = () => notes.push({ moment: disk.moment(), acknowledged: [...calls.acknowledged] });
    const running = new Traffic(live.url, { calls, chance, connections: chance.between(1, 12) });
    const noting = setInterval(note, 20);
    const enough = before + chance.between(1, MOST_CALLS);
    await running.until(() => calls.acknowledged.size >= enough);
    await lasting(chance.between(0, 30));
    clearInterval(noting);
    note();
    expect(running.inFlight).toBeGreaterThan(0);
    await live.kill();
    endpoint.crashed();
    await running.stop();
    expect(running.wrong).toEqual([]);
    return {
      acknowledged: calls.acknowledged.size - before,
      momentsDrawn: (lot) => Array.from({ length: Math.min(MOMENTS, notes.length) }, () => lot.one(notes)),
    };
  }
});

interface Note {
  readonly moment: number;
  /** Calls acknowledged before that moment, which the folder must hold. */
  readonly acknowledged: readonly string[];
}

interface Life {
  readonly acknowledged: number;
  momentsDrawn(chance: Chance): Note[];
}

function cutOf(chance: Chance): PowerCut {
  return { chance, reached: chance.one([0, 0.1, 0.5, 0.9, 1]), sector: chance.one([512, 4096]) };
}

/** A copy of the disk before a round; all of it is durable, since the last power cut left it. */
function certainly({ folder, data }: Place): string {
  const copy = join(folder, 'before');
  rmSync(copy, { recursive: true, force: true });
  if (existsSync(data)) cpSync(data, copy, { recursive: true });
  else mkdirSync(copy);
  return copy;
}

/** The writes at the end of a recording that no sync followed, except those to mapped files. */
function unsynced(recorded: readonly Recorded[]): number {
  const mapped = new Set<number>();
  const pending = new Map<number, number>();
  for (const { change } of recorded) {
    if (change.what === 'named' && change.name.endsWith('-shm')) mapped.add(change.file);
    if (change.what === 'written' && !mapped.has(change.file))
      pending.set(change.file, (pending.get(change.file) ?? 0) + 1);
    if (change.what === 'sync-done') pending.set(change.file, 0);
  }
  return [...pending.values()].reduce((sum, n) => sum + n, 0);
}
