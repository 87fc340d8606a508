import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Disk } from '../support/disk-faults/disk.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { type Chance, chanceOf } from '../support/disk-faults/random.ts';
import { type Recorded, readRecording } from '../support/disk-faults/recording.ts';
import { makePlace, oneDestination, type Place } from '../support/program.ts';
import { freePort } from '../support/receiver.ts';
import { roundsOf, SEED } from '../support/runs.ts';
import { audit, lost } from './books.ts';
import { Calls } from './calls.ts';
import { Endpoint } from './endpoint.ts';
import { endAll, start } from './instance.ts';
import { passed } from './passed.ts';
import { Client } from './traffic.ts';

const CALLS = 150;

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
  place.remove();
});

/**
 * Logs that a file system may leave beside the file after a crash. Each opens and holds every acknowledged
 * call.
 */
describe('a write-ahead log', () => {
  const wal = (folder: string) => join(folder, 'millrace.db-wal');
  const shm = (folder: string) => join(folder, 'millrace.db-shm');

  const DAMAGES: readonly [string, (folder: string, chance: Chance) => void][] = [
    [
      'with garbage after its last frame',
      (folder, chance) => behindLastFrame(wal(folder), chance.bytes(9000)),
    ],
    [
      'with a torn frame after its last one',
      (folder, chance) => behindLastFrame(wal(folder), chance.bytes(100)),
    ],
    [
      'with its last frames a second time',
      (folder) => behindLastFrame(wal(folder), readFileSync(wal(folder)).subarray(-2 * 4120)),
    ],
    ['with nothing after its last frame', (folder) => truncateSync(wal(folder), framesOf(wal(folder)).end)],
    // This program makes no such file; another tool may have left it.
    ['with an empty -shm', (folder) => writeFileSync(shm(folder), '')],
    ['with a -shm full of garbage', (folder, chance) => writeFileSync(shm(folder), chance.bytes(32768))],
    ['without its owner', (folder) => rmSync(join(folder, 'owner'))],
  ];

  it('opens and holds everything acknowledged, whatever stands behind it or is missing beside it', async () => {
    const calls = new Calls('damaged');
    const live = await start(place);
    await oneAfterAnother(live.url, calls);
    await live.kill();
    expect(framesOf(wal(place.data)).count).toBeGreaterThan(0);
    for (const [what, damage] of DAMAGES) {
      const folder = join(place.folder, 'damaged');
      rmSync(folder, { recursive: true, force: true });
      cpSync(place.data, folder, { recursive: true });
      damage(folder, chanceOf(SEED));
      const { stored, destination } = await audit(folder);
      expect(stored, what).toEqual(calls.acknowledged);
      expect(destination.owed, what).toBe(CALLS);
    }
    passed('damaged log', { rounds: DAMAGES.length, acknowledged: CALLS, lost: 0 });
  });
});

sayWhatIsLeftOut('a write-ahead log torn before it was synced');

describe.runIf(HAS_DISK_FAULTS)('a write-ahead log torn at any byte that was not synced yet', () => {
  it('opens, and holds everything acknowledged up to the last sync', async () => {
    const disk = new DiskFaults(place.data, { record: true });
    const before = join(place.folder, 'before');
    mkdirSync(before);
    const calls = new Calls('torn');
    const live = await start(place, { env: disk.env });
    /** For each call, the moment of the recording by which it was acknowledged. */
    const moments = new Map<string, number>();
    await oneAfterAnother(live.url, calls, (id) => moments.set(id, disk.moment()));
    await live.kill();
    const recorded = readRecording(disk.recording);
    const tearable = momentsBeforeSyncs(recorded).filter((moment) => moment > [...moments.values()][0]!);
    expect(tearable.length).toBeGreaterThan(CALLS / 2);
    const image = join(place.folder, 'image');
    let [rounds, bytes] = [0, 0];
    for (const { chance, nth, seed } of roundsOf('torn log', { gate: 6, long: 200 })) {
      const moment = chance.one(tearable);
      const torn = new Disk(before, chance);
      torn.live(recorded, moment);
      torn.cutPower(image, { chance, reached: 1, sector: 1 });
      bytes += existsSync(join(image, 'millrace.db-wal'))
        ? readFileSync(join(image, 'millrace.db-wal')).length
        : 0;
      const acknowledged = [...moments].filter(([, at]) => at <= moment).map(([id]) => id);
      const missing = lost(acknowledged, await audit(image));
      expect(missing, `round ${nth}, seed ${seed}, byte ${moment} of the recording`).toEqual([]);
      rounds++;
    }
    expect(bytes).toBeGreaterThan(0);
    passed('torn log', { rounds, acknowledged: calls.acknowledged.size, lost: 0 });
    disk.remove();
  });
});

/** One call at a time: each is a commit of its own. */
async function oneAfterAnother(url: string, calls: Calls, acknowledged: (id: string) => void = () => {}) {
  const client = new Client(url, 1);
  for (let nth = 0; nth < CALLS; nth++) {
    const request = calls.make(1);
    const answer = await client.send(request);
    calls.note(request, answer?.status);
    expect(answer?.status).toBe(200);
    acknowledged(request.ids[0]!);
  }
  client.close();
}

/** Moments at which the log has been written and its sync is under way. */
function momentsBeforeSyncs(recorded: readonly Recorded[]): number[] {
  const logs = new Set<number>();
  const moments: number[] = [];
  recorded.forEach(({ change }, nth) => {
    if (change.what === 'named' && change.name === 'millrace.db-wal') logs.add(change.file);
    if (change.what === 'sync-began' && logs.has(change.file)) moments.push(recorded[nth - 1]!.moment);
  });
  return moments;
}

/**
 * The number of frames in a log's present run, and the offset of their end:
 * sqlite.org/fileformat2.html#walformat.
 */
function framesOf(path: string): { count: number; end: number } {
  const bytes = readFileSync(path);
  const frame = 24 + bytes.readUInt32BE(8);
  const salts = bytes.subarray(16, 24);
  let count = 0;
  for (let at = 32; at + frame <= bytes.length && bytes.subarray(at + 8, at + 16).equals(salts); at += frame)
    count++;
  return { count, end: 32 + count * frame };
}

/** The bytes there are left over from an earlier run of the log and mean nothing. */
function behindLastFrame(path: string, garbage: Buffer): void {
  const bytes = readFileSync(path);
  writeFileSync(path, Buffer.concat([bytes.subarray(0, framesOf(path).end), garbage]));
}
