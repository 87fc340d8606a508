import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TimelineFiles } from '../../src/adapters/files/timeline-files.ts';
import { TokenUseFile } from '../../src/adapters/files/token-use-file.ts';
import { restoreBackup } from '../../src/adapters/sqlite/backup/backup.ts';
import { event, events, owedBatch } from '../conformance/batches.ts';
import { openStore } from '../support/shared-writer.ts';

const DB = 'millrace.db';
const WAL = 'millrace.db-wal';
const MARK = 'high-water-mark';

let place: string;
beforeEach(() => {
  place = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'millrace-vanished-'));
});
afterEach(() => rmSync(place, { recursive: true }));

const inPlace = (...names: string[]) => join(place, ...names);

/** A folder as a crash leaves it: twenty commits, the first ten in the file and all of them in the log. */
async function crashed(name = 'data', commits = 20): Promise<string> {
  const folder = inPlace(`${name}-live`);
  const store = await openStore({ folder });
  for (let n = 0; n < commits; n++) {
    await store.log.append(owedBatch([event(`${name}-${n}`)], 'parked'));
    if (n === commits / 2) await store.regulations.scrub();
  }
  cpSync(folder, inPlace(name), { recursive: true });
  await store.stop();
  return inPlace(name);
}

async function stopped(name = 'data'): Promise<string> {
  const folder = inPlace(name);
  const store = await openStore({ folder });
  await store.log.append(owedBatch(events(20, name), 'parked'));
  await store.stop();
  return folder;
}

/** The number of events a start on the folder finds. */
async function eventsIn(folder: string): Promise<number> {
  const store = await openStore({ folder });
  try {
    return (await store.log.size()).events;
  } finally {
    await store.stop();
  }
}

/** Every file with its contents, except the lock. */
function contentsOf(folder: string): Record<string, string> {
  const names = readdirSync(folder).filter((name) => name !== 'lock.db' && name !== 'owner');
  return Object.fromEntries(
    names.map((name) => [
      name,
      createHash('sha1')
        .update(readFileSync(join(folder, name)))
        .digest('hex'),
    ]),
  );
}

async function expectRefused(folder: string, reason: RegExp): Promise<void> {
  const before = contentsOf(folder);
  await expect(openStore({ folder })).rejects.toThrow(reason);
  // The rest must stay as it was, for an operator who brings back the missing file.
  expect(contentsOf(folder)).toEqual(before);
}

describe('a data folder whose store has vanished', () => {
  const flip = (path: string, at: number) => {
    const bytes = readFileSync(path);
    bytes[at]! ^= 1;
    writeFileSync(path, bytes);
  };
  const FRAME = 24 + 1024;

  it.each<[string, (folder: string) => unknown]>([
    ['the file is missing', (folder) => rmSync(join(folder, DB))],
    ['the file is empty', (folder) => truncateSync(join(folder, DB))],
    ['the file has lost its header', (folder) => writeFileSync(join(folder, DB), Buffer.alloc(8192))],
    [
      'file and log are missing',
      (folder) => [rmSync(join(folder, DB)), rmSync(join(folder, WAL), { force: true })],
    ],
  ])('is refused after a crash and after a stop when %s, and is left as it is', async (_, damage) => {
    for (const folder of [await crashed('crashed'), await stopped('stopped')]) {
      damage(folder);
      await expectRefused(folder, /restore a backup/);
    }
  });

  it.each<[string, (log: string) => void]>([
    ['is missing', (log) => rmSync(log)],
    ['is empty', (log) => truncateSync(log)],
    ['has lost its header', (log) => writeFileSync(log, readFileSync(log).fill(0, 0, 32))],
    ['has a flipped bit in its header', (log) => flip(log, 17)],
    ['has a flipped bit in its first frame', (log) => flip(log, 32 + 100)],
    ['has a flipped bit in its middle', (log) => flip(log, 32 + 3 * FRAME + 500)],
    ['is cut off in its middle', (log) => truncateSync(log, 32 + 3 * FRAME)],
    ['is of an earlier time', (log) => writeFileSync(log, readFileSync(log).subarray(0, 32 + FRAME))],
  ])('is refused after a crash when the log %s, and is left as it is', async (_, damage) => {
    const folder = await crashed();
    damage(join(folder, WAL));
    await expectRefused(folder, /has lost its last \d+ commits.*restore a backup/s);
  });

  it('of a newer version says so, also where this version counts fewer commits in it', async () => {
    const folder = await stopped();
    cpSync(join(folder, DB), inPlace('older'));
    const store = await openStore({ folder });
    await store.log.append(owedBatch(events(1, 'later'), 'parked'));
    await store.stop();
    cpSync(inPlace('older'), join(folder, DB));
    const newer = new DatabaseSync(join(folder, DB));
    newer.exec('pragma user_version = 99');
    newer.close();
    await expectRefused(folder, /written by a newer Millrace \(format 99.*start the newer version/);
  });

  it('says how many commits are lost, and opens as it was when the log is brought back', async () => {
    const folder = await crashed();
    renameSync(join(folder, WAL), inPlace('away'));
    await expectRefused(folder, /lost its last 9 commits of 21/);
    renameSync(inPlace('away'), join(folder, WAL));
    expect(await eventsIn(folder)).toBe(20);
  });

  it('is refused when its file is an older copy, or of another installation', async () => {
    const folder = await stopped();
    cpSync(join(folder, DB), inPlace('older'));
    const store = await openStore({ folder });
    await store.log.append(owedBatch(events(1, 'later'), 'parked'));
    await store.stop();
    cpSync(inPlace('older'), join(folder, DB));
    await expectRefused(folder, /lost its last 1 commit of 2/);
    cpSync(join(await stopped('other'), DB), join(folder, DB));
    await expectRefused(folder, /another installation/);
  });

  it('is refused without a mark when only its log is left', async () => {
    const folder = await crashed();
    rmSync(join(folder, MARK));
    rmSync(join(folder, DB));
    await expectRefused(folder, /restore a backup/);
  });
});

describe('a data folder that is whole', () => {
  it('opens after a crash, after a stop, and after another program has emptied its log into the file', async () => {
    const folder = await crashed();
    const database = new DatabaseSync(join(folder, DB));
    database.exec('pragma wal_checkpoint(truncate)');
    database.close();
    expect(existsSync(join(folder, WAL))).toBe(false);
    expect(await eventsIn(folder)).toBe(20);
    expect(await eventsIn(folder)).toBe(20);
  });

  it('opens after a crash when its file is reached by a symbolic link, and is judged by the log beside the file', async () => {
    const folder = await crashed();
    mkdirSync(inPlace('disk'));
    for (const name of [DB, WAL]) renameSync(join(folder, name), inPlace('disk', name));
    symlinkSync(inPlace('disk', DB), join(folder, DB));
    cpSync(inPlace('disk'), inPlace('copy'), { recursive: true });
    expect(await eventsIn(folder)).toBe(20);
    cpSync(inPlace('copy'), inPlace('disk'), { recursive: true });
    rmSync(inPlace('disk', WAL));
    await expectRefused(folder, /has lost its last 9 commits/);
  });

  it('opens with a log that was begun anew and torn in its header, as everything before is in the file', async () => {
    const folder = await crashed();
    const log = readFileSync(join(folder, WAL));
    const database = new DatabaseSync(join(folder, DB));
    database.exec('pragma wal_checkpoint(truncate)');
    database.close();
    log[20]! ^= 1;
    writeFileSync(join(folder, WAL), log);
    expect(await eventsIn(folder)).toBe(20);
  });

  it('opens without a mark, as earlier versions left it, and gets one', async () => {
    const folder = await crashed();
    rmSync(join(folder, MARK));
    const database = new DatabaseSync(join(folder, DB));
    database.exec(`delete from installation where name = 'id'`);
    database.close();
    expect(await eventsIn(folder)).toBe(20);
    rmSync(join(folder, DB));
    await expectRefused(folder, /restore a backup/);
  });

  it('opens with a mark that is damaged, and gets a new one', async () => {
    const folder = await stopped();
    for (const damage of [Buffer.alloc(0), Buffer.from('garbage'), Buffer.alloc(1536)]) {
      writeFileSync(join(folder, MARK), damage);
      expect(await eventsIn(folder)).toBe(20);
    }
    writeFileSync(join(folder, MARK), 'garbage');
    rmSync(join(folder, DB));
    await expectRefused(folder, /restore a backup/);
  });

  it('opens when it is a copy of a backup, and restoring into an empty folder leaves one with its mark', async () => {
    const store = await openStore({ folder: inPlace('live') });
    await store.log.append(owedBatch(events(5, 'a'), 'parked'));
    await store.backup(inPlace('backup'));
    await store.log.append(owedBatch(events(5, 'b'), 'parked'));
    await store.stop();
    restoreBackup(inPlace('backup'), inPlace('restored'));
    rmSync(inPlace('restored', DB));
    await expectRefused(inPlace('restored'), /restore a backup/);
    rmSync(inPlace('restored'), { recursive: true });
    restoreBackup(inPlace('backup'), inPlace('restored'));
    expect(await eventsIn(inPlace('restored'))).toBe(5);
    expect(await eventsIn(inPlace('backup'))).toBe(5);
  });
});

describe('a millrace.db that Millrace did not write', () => {
  it.each(['delete', 'wal'])('is refused and left as it is (journal mode %s)', async (mode) => {
    const folder = inPlace('foreign');
    mkdirSync(folder);
    const database = new DatabaseSync(join(folder, DB));
    database.exec(`pragma journal_mode = ${mode}; create table mine(a); insert into mine values (1)`);
    cpSync(folder, inPlace('copy'), { recursive: true });
    database.close();
    await expectRefused(inPlace('copy'), /did not write/);
  });

  it('is refused when it is no database at all', async () => {
    writeFileSync(inPlace(DB), 'a diary');
    await expectRefused(place, /did not write|damaged/);
  });
});

describe('a millrace.db into which somebody has put', () => {
  it.each([
    ['a trigger', 'create trigger spy after insert on chunk begin delete from chunk; end', 'trigger "spy"'],
    ['a view', 'create view spy as select 1', 'view "spy"'],
    ['a table', 'create table spy(a)', 'table "spy"'],
    ['an index', 'create index spy on chunk(n)', 'index "spy"'],
    [
      'a view in the place of a table',
      'drop table skip_set; create view skip_set as select 1',
      'view "skip_set"',
    ],
  ])('%s is refused with its name', async (_, sql, name) => {
    const folder = await stopped();
    const database = new DatabaseSync(join(folder, DB));
    database.exec(sql);
    database.close();
    await expect(openStore({ folder })).rejects.toThrow(
      `the millrace.db of the data folder holds the ${name}, which Millrace did not make`,
    );
  });
});

it('a table that somebody has made in the place of one of ours is refused', async () => {
  const folder = await stopped();
  const database = new DatabaseSync(join(folder, DB));
  database.exec('drop table skip_set; create table skip_set(a)');
  database.close();
  await expect(openStore({ folder })).rejects.toThrow(
    /the table "skip_set" in .* is not as Millrace makes it/,
  );
});

describe('a millrace.db that another program has open', () => {
  it('is refused with what to do, and opens when that program has ended', async () => {
    const folder = await stopped();
    const script = `const { DatabaseSync } = require('node:sqlite');
      const database = new DatabaseSync(process.argv[1]);
      database.prepare('select * from sqlite_master').all();
      console.log('open');
      process.stdin.on('end', () => {}).resume();`;
    const other = spawn(process.execPath, ['-e', script, join(folder, DB)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    try {
      await once(other.stdout, 'data');
      await expect(openStore({ folder })).rejects.toThrow(/another program.*has millrace.db open.*end it/);
    } finally {
      other.stdin.end();
      await once(other, 'exit');
    }
    expect(await eventsIn(folder)).toBe(20);
  });
});

describe.runIf(process.platform !== 'win32')('rights', () => {
  const modeOf = (...names: string[]) => statSync(inPlace(...names)).mode & 0o777;

  it('that are too loose are tightened at every start', async () => {
    const folder = await crashed();
    chmodSync(folder, 0o755);
    // Files that other parts of the server put beside the store.
    for (const name of ['admin-token', 'token-uses.json', 'token-uses.json.new', 'timeline-minutes.jsonl'])
      writeFileSync(join(folder, name), '', { mode: 0o644 });
    for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644);
    const store = await openStore({ folder });
    try {
      expect(modeOf('data')).toBe(0o700);
      expect(readdirSync(folder)).toEqual(expect.arrayContaining([DB, WAL, MARK, 'admin-token', 'lock.db']));
      for (const name of readdirSync(folder)) expect([name, modeOf('data', name)]).toEqual([name, 0o600]);
    } finally {
      await store.stop();
    }
  });

  it('of a folder in which something else lies too are left alone, and spoken of', async () => {
    const folder = await stopped();
    writeFileSync(join(folder, 'diary'), 'mine', { mode: 0o644 });
    chmodSync(folder, 0o755);
    chmodSync(join(folder, DB), 0o644);
    const warnings: object[] = [];
    const logger = { info: () => {}, error: () => {}, warn: (facts: object) => warnings.push(facts) };
    await (await openStore({ folder, logger })).stop();
    expect([modeOf('data'), modeOf('data', 'diary'), modeOf('data', DB)]).toEqual([0o755, 0o644, 0o600]);
    expect(warnings).toEqual([{ path: folder, mode: '755', problem: expect.stringContaining('diary') }]);
  });

  it('of a folder that everybody may write refuse it as it is; an empty one is taken from the others', async () => {
    const folder = await crashed();
    chmodSync(folder, 0o777);
    const before = contentsOf(folder);
    await expectRefused(folder, /may be written by everybody on this machine: chown \d+ .* && chmod 700 /);
    expect([contentsOf(folder), modeOf('data')]).toEqual([before, 0o777]);
    chmodSync(folder, 0o700);
    writeFileSync(join(folder, 'admin-token'), 'of somebody');
    chmodSync(join(folder, 'admin-token'), 0o666);
    await expectRefused(folder, /admin-token may be written by everybody/);
    mkdirSync(inPlace('empty'));
    chmodSync(inPlace('empty'), 0o777);
    await (await openStore({ folder: inPlace('empty') })).stop();
    expect(modeOf('empty')).toBe(0o700);
    mkdirSync(inPlace('shared'));
    writeFileSync(inPlace('shared', 'something'), '');
    chmodSync(inPlace('shared'), 0o777);
    await expectRefused(inPlace('shared'), /may be written by everybody.*such as a new one in it/);
    await (await openStore({ folder: inPlace('shared', 'new') })).stop();
    expect(modeOf('shared', 'new')).toBe(0o700);
  });

  it('are looked at behind a link on the way to the folder', async () => {
    const folder = await stopped();
    symlinkSync(folder, inPlace('link'));
    expect(await eventsIn(inPlace('link'))).toBe(20);
    chmodSync(folder, 0o777);
    await expectRefused(inPlace('link'), /may be written by everybody/);
  });

  it('of files that Millrace writes are its own: a link in the place of one leads nowhere', async () => {
    const folder = await stopped();
    const victim = inPlace('victim');
    writeFileSync(victim, 'keep');
    const nothing = inPlace('nothing');
    writeFileSync(nothing, '');
    const names = ['owner', 'owner.new', 'token-uses.json.new', 'timeline-minute-1970-01-01.jsonl'];
    for (const name of [...names, 'regulations.journal']) rmSync(join(folder, name), { force: true });
    for (const name of names) symlinkSync(victim, join(folder, name));
    symlinkSync(nothing, join(folder, 'regulations.journal'));
    const store = await openStore({ folder });
    try {
      const suppress = {
        id: 'r1',
        type: 'SUPPRESS_ONLY',
        userIds: ['u1'],
        by: 'admin',
        createdAt: 0,
      } as const;
      await expect(store.regulations.create(suppress)).rejects.toThrow(/ELOOP/);
      await expect(new TimelineFiles(folder).append('minute', { at: 0 } as never)).rejects.toThrow(/ELOOP/);
      await new TokenUseFile(folder).save({ one: 1 });
      expect(lstatSync(join(folder, 'owner')).isSymbolicLink()).toBe(false);
      expect(readFileSync(join(folder, 'owner'), 'utf8')).toBe(`${process.pid}\n`);
    } finally {
      await store.stop();
    }
    expect([victim, nothing].map((file) => readFileSync(file, 'utf8'))).toEqual(['keep', '']);
  });

  it.runIf(process.getuid?.() === 0)(
    'of another user refuse a folder, a file in it, and a link',
    async () => {
      const folder = await stopped();
      chownSync(folder, 65_534, 65_534);
      await expectRefused(folder, /belongs to user 65534, and neither to this user \(0\) nor to root/);
      chownSync(folder, 0, 0);
      chownSync(join(folder, MARK), 65_534, 65_534);
      await expectRefused(folder, /high-water-mark belongs to user 65534.*look who has put it there/);
      chownSync(join(folder, MARK), 0, 0);
      symlinkSync(join(folder, MARK), join(folder, 'moved.json.new'));
      lchownSync(join(folder, 'moved.json.new'), 65_534, 65_534);
      await expectRefused(folder, /moved\.json\.new belongs to user 65534/);
    },
  );

  it('of a backup and of what is restored are for their owner alone, whatever the umask', async () => {
    const before = process.umask(0);
    try {
      const store = await openStore({ folder: inPlace('live') });
      mkdirSync(inPlace('backup'), { mode: 0o777 });
      await store.backup(inPlace('backup'));
      await store.stop();
      expect([modeOf('backup'), modeOf('backup', DB)]).toEqual([0o700, 0o600]);
      chmodSync(inPlace('backup', DB), 0o644);
      mkdirSync(inPlace('empty'), { mode: 0o777 });
      for (const into of ['empty', 'new']) {
        restoreBackup(inPlace('backup'), inPlace(into));
        expect([modeOf(into), modeOf(into, DB), modeOf(into, MARK)]).toEqual([0o700, 0o600, 0o600]);
      }
    } finally {
      process.umask(before);
    }
  });
});
