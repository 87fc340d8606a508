import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Disk } from '../support/disk-faults/disk.ts';
import { DiskFaults, HAS_DISK_FAULTS, sayWhatIsLeftOut } from '../support/disk-faults/faults.ts';
import { type Chance, chanceOf } from '../support/disk-faults/random.ts';
import { readRecording } from '../support/disk-faults/recording.ts';
import { makePlace, type Place } from '../support/program.ts';
import { SEED } from '../support/runs.ts';
import { endAll, launch } from './instance.ts';

sayWhatIsLeftOut('the instruments of the fault suite');

/** Tests of the instruments: the suite proves nothing unless its faults really happen. */
describe.runIf(HAS_DISK_FAULTS)('a disk made to fail', () => {
  let place: Place;
  let disk: DiskFaults;
  let before: string;

  beforeEach(() => {
    place = makePlace('');
    before = join(place.folder, 'before');
    for (const folder of [place.data, before]) mkdirSync(folder);
    disk = new DiskFaults(place.data, { record: true });
  });

  afterEach(async () => {
    await endAll();
    disk.remove();
    place.remove();
  });

  /**
   * Runs a script on the disk, which has `fs` and `at` (makes paths in the folder). Resolves to its output.
   */
  async function run(script: string): Promise<string> {
    const prologue = `import fs from 'node:fs'; const at = (name) => ${JSON.stringify(`${place.data}/`)} + name;`;
    const instance = launch(place, { env: disk.env, instead: `${prologue}\n${script}` });
    expect(await instance.ended, instance.said()).toBe(0);
    expect(disk.attached).toBeGreaterThan(0);
    return instance.said();
  }

  function after(reached: number, { chance = chanceOf(SEED), until = Number.POSITIVE_INFINITY } = {}) {
    const folder = join(place.folder, 'after');
    const found = new Disk(before, chance);
    found.live(readRecording(disk.recording), until);
    found.cutPower(folder, { chance, reached, sector: 512 });
    return (name: string) =>
      existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : undefined;
  }

  const WRITES = `
    const file = fs.openSync(at('file'), 'w');
    for (let nth = 1; nth <= 6; nth++) {
      try { fs.writeSync(file, 'x'); console.log('wrote', nth); } catch ({ code }) { console.log(code, nth); }
    }`;

  it('fails the n-th call and as many after it as it was told, and counts them', async () => {
    disk.fail(['write'], { with: 'ENOSPC', nth: 3, times: 2 });
    expect(await run(WRITES)).toBe('wrote 1\nwrote 2\nENOSPC 3\nENOSPC 4\nwrote 5\nwrote 6\n');
    expect(disk.calls('write')).toBe(6);
    expect(disk.failed('write')).toBe(2);
    expect(disk.failed()).toBe(2);
  });

  it('fails until it is healed, and leaves other folders alone', async () => {
    disk.fail(['write'], { with: 'EIO' });
    expect(await run(`${WRITES}\nfs.writeFileSync(${JSON.stringify(`${before}/other`)}, 'x');`)).toMatch(
      /^(EIO \d\n){6}$/,
    );
    disk.heal();
    expect(await run(WRITES)).toMatch(/^(wrote \d\n){6}$/);
  });

  it('harms nothing that runs unharmed, and does not count it', () => {
    disk.fail(['write'], { with: 'EIO', nth: 2 });
    const script = `require('node:fs').writeFileSync(${JSON.stringify(join(place.data, 'file'))}, 'x');`;
    const write = () => {
      execFileSync(process.execPath, ['--eval', script.repeat(3)], {
        env: { ...process.env, ...disk.env },
        stdio: 'pipe',
      });
    };
    disk.unharmed(write);
    expect(disk.calls('write')).toBe(0);
    expect(write).toThrow('EIO');
    expect(disk.failed('write')).toBe(1);
  });

  it('keeps what was synced through a power cut, and of the rest what is drawn by lot', async () => {
    await run(`
      const folder = fs.openSync(at('.'), 'r');
      const file = fs.openSync(at('file'), 'w');
      fs.writeSync(file, 'a'.repeat(1024), 0);
      fs.fsyncSync(file); fs.fsyncSync(folder);
      fs.writeSync(file, 'b'.repeat(1024), 0);
      fs.writeSync(fs.openSync(at('unsynced'), 'w'), 'c');`);
    expect(after(0)('file')).toBe('a'.repeat(1024));
    expect(after(1)('file')).toBe('b'.repeat(1024));
    expect(after(0)('unsynced')).toBeUndefined();
    const seen = new Set(seeds().map((chance) => after(0.5, { chance })('file')));
    // Each of two sectors is old or new on its own: the writes are torn and reordered.
    expect(seen.size).toBe(4);
  });

  it('takes back names that no sync of the folder followed', async () => {
    writeFileSync(join(before, 'old'), 'old');
    writeFileSync(join(place.data, 'old'), 'old');
    await run(`fs.renameSync(at('old'), at('new')); fs.writeFileSync(at('owner'), 'x');`);
    expect([after(0)('old'), after(0)('new')]).toEqual(['old', undefined]);
    await run(`fs.fsyncSync(fs.openSync(at('.'), 'r'));`);
    expect([after(0)('old'), after(0)('new')]).toEqual([undefined, 'old']);
  });

  it('forgets what a failed sync covered, tells every descriptor of the file once, and then syncs without it', async () => {
    disk.fail(['sync'], { with: 'EIO', nth: 2, times: 1 });
    const said = await run(`
      const sync = (file) => { try { fs.fsyncSync(file); console.log('ok'); } catch ({ code }) { console.log(code); } };
      const [file, other] = ['w', 'r+'].map((flags) => fs.openSync(at('file'), flags));
      fs.fsyncSync(fs.openSync(at('.'), 'r'));
      fs.writeSync(file, 'a'.repeat(512));
      sync(file); sync(file); sync(other); sync(other);`);
    expect(said).toBe('EIO\nok\nEIO\nok\n');
    const seen = new Set(seeds().map((chance) => after(0, { chance })('file')?.at(0)));
    expect(seen).toEqual(new Set(['a', undefined]));
  });

  const seeds = (): Chance[] => Array.from({ length: 40 }, (_, nth) => chanceOf(SEED + nth));
});
