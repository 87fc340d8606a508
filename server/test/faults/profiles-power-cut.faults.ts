import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { textIn } from '../conformance/profile-store.ts';
import { Disk, type PowerCut } from '../support/disk-faults/disk.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import type { Chance } from '../support/disk-faults/random.ts';
import { readRecording } from '../support/disk-faults/recording.ts';
import { roundsOf } from '../support/runs.ts';
import { passed } from './passed.ts';
import { lasting } from './waiting.ts';

const WRITER = join(import.meta.dirname, '../support/profile-writer.ts');

/** Power cuts in one recording, whose folders are only inspected. */
const MOMENTS = 6;

sayWhatIsLeftOut('power cuts of profiles');

describe.runIf(HAS_DISK_FAULTS)('a power cut while profiles are written', () => {
  let folder: string;
  let data: string;
  let disk: DiskFaults;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-profile-cuts-'));
    data = join(folder, 'data');
    mkdirSync(data);
    disk = new DiskFaults(data, { record: true });
  });
  afterEach(() => {
    disk.remove();
    rmSync(folder, { recursive: true });
  });

  it('leaves states, identities, outbox and cursor of one and the same slice, the last one that was told or a later one', async () => {
    let [cuts, opened, last] = [0, 0, 0];
    for (const { chance, seed } of roundsOf('power cut of profiles', { gate: 2, long: 100 })) {
      const before = join(folder, 'before');
      rmSync(before, { recursive: true, force: true });
      cpSync(data, before, { recursive: true });
      const notes = await liveAndDie(chance);
      const recorded = readRecording(disk.recording);
      for (let nth = 0; nth < MOMENTS; nth++) {
        const { moment, told } = chance.one(notes);
        const image = join(folder, 'image');
        rmSync(image, { recursive: true, force: true });
        const then = new Disk(before, chance);
        then.live(recorded, moment);
        then.cutPower(image, cutOf(chance));
        await expectWhole(image, told).catch((error: unknown) => {
          throw new Error(`seed ${seed}, byte ${moment}: ${String(error)}`, { cause: error });
        });
        cuts++;
        if (told > 0) opened++;
      }
      const end = new Disk(before, chance);
      end.live(recorded);
      end.cutPower(data, cutOf(chance));
      disk.forget();
      last = await expectWhole(data, notes.at(-1)!.told);
    }
    expect(opened).toBeGreaterThan(cuts / 2);
    passed('power cut of profiles', { cuts, 'slices in the end': last });
  });

  /**
   * Runs the writer for a while and kills it. Notes which position it had told by which moment of the
   * recording.
   */
  async function liveAndDie(chance: Chance): Promise<Note[]> {
    const child = spawn(process.execPath, [WRITER, data], {
      env: { ...process.env, ...disk.env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const notes: Note[] = [];
    const first = Promise.withResolvers<void>();
    child.stdout.on('data', (bytes: Buffer) => {
      const told = Number(bytes.toString().trim().split('\n').at(-1));
      notes.push({ moment: disk.moment(), told });
      first.resolve();
    });
    await first.promise;
    await lasting(chance.between(20, 200));
    child.kill('SIGKILL');
    await once(child, 'exit');
    return notes;
  }
});

interface Note {
  readonly moment: number;
  readonly told: number;
}

function cutOf(chance: Chance): PowerCut {
  return { chance, reached: chance.one([0, 0.1, 0.5, 0.9, 1]), sector: chance.one([512, 4096]) };
}

/** Resolves to the position of the slice that is whole. */
async function expectWhole(folder: string, told: number): Promise<number> {
  const store = openProfileStore({ folder, log: 'a-log', cache: 1024 * 1024 });
  try {
    const { position } = await store.cursor();
    expect(position).toBeGreaterThanOrEqual(told);
    const states = await store.get(Array.from({ length: 50 }, (_, n) => n + 1));
    expect(new Set(states.map(textIn))).toEqual(new Set([`at ${position}`]));
    expect(await store.resolve([position, position - 1])).toEqual([1, undefined]);
    expect((await store.outbox(0, 10)).map(({ sequence }) => sequence)).toEqual([position]);
    expect((await store.size()).damaged).toBe(0);
    return position;
  } finally {
    await store.stop();
  }
}
