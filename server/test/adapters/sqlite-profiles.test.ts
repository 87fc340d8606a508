import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { databaseUri } from '../../src/adapters/sqlite/data-folder/files.ts';
import { clearProfiles, openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { hasRemnants, SlackWiper } from '../../src/adapters/sqlite/users/remnants.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { ProfileStore } from '../../src/ports/profile-store.ts';
import { slice, state, textIn } from '../conformance/profile-store.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { SEED } from '../support/runs.ts';
import { seeded } from '../support/seeded.ts';

/** Writes a text into the unused space of a leaf of a table, where there is room. */
function plant(path: string, text: Buffer): void {
  const bytes = readFileSync(path);
  for (let page = 4096; page < bytes.length; page += 4096) {
    const gap = page + 8 + 2 * bytes.readUInt16BE(page + 3);
    const content = page + bytes.readUInt16BE(page + 5);
    if (bytes[page] !== 13 || content - gap < 2 * text.length) continue;
    const handle = openSync(path, 'r+');
    writeSync(handle, text, 0, text.length, gap + 4);
    closeSync(handle);
    return;
  }
  throw new Error('no page has room');
}

/** Reads the file as a backup does, says so, and ends after a while. */
const BACKUP = `
  const { DatabaseSync } = require('node:sqlite');
  const { parentPort, workerData } = require('node:worker_threads');
  const reader = new DatabaseSync(workerData.uri);
  reader.exec('begin');
  reader.prepare('select count(*) from profile').get();
  parentPort.postMessage('begun');
  setTimeout(() => {
    Atomics.store(workerData.hasEnded, 0, 1);
    reader.exec('commit');
    reader.close();
  }, 150);`;

/** Promises of the SQLite store of profiles beyond the port: its file, damage, deleted bytes, crashes. */
describe('users.db', () => {
  let folder: string;
  let store: ProfileStore;
  const file = () => join(folder, 'users.db');
  const open = (log = 'a-log') => openProfileStore({ folder, log, cache: 256 * 1024 });

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-users-'));
    store = open();
  });
  afterEach(async () => {
    await store.stop();
    rmSync(folder, { recursive: true });
  });

  /** Runs SQL on the file while no store has it open. */
  async function behindItsBack(sql: string): Promise<void> {
    await store.stop();
    const database = new DatabaseSync(file());
    database.exec(sql);
    database.close();
    store = open();
  }

  async function threeProfiles(): Promise<void> {
    await store.commit(
      slice(10, {
        put: [1, 2, 3].map((id) => ({ id, state: state(`profile ${id}`) })),
        bind: [1, 2, 3].map((id) => ({ key: id * 100, profile: id })),
        outbox: [1, 2, 3].map((sequence) => ({ sequence, profile: sequence, json: `{"n":${sequence}}` })),
        documents: { one: 1, two: 2 },
      }),
    );
  }

  it('is for its owner alone, has small pages, and says what it is', async () => {
    await threeProfiles();
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    expect(statSync(`${file()}-wal`).mode & 0o777).toBe(0o600);
    await store.stop();
    const head = readFileSync(file());
    expect(head.readUInt16BE(16)).toBe(1024);
    expect(head.toString('latin1', 68, 72)).toBe('MILU');
    store = open();
  });

  it.each([
    ['a file of another program', 'drop table outbox; pragma application_id = 7', 'did not write'],
    ['a newer format', 'pragma user_version = 99', 'newer Millrace'],
    [
      'a trigger',
      'create trigger spy after insert on profile begin select 1; end',
      'holds the trigger "spy"',
    ],
    ['a table of another', 'create table spy(a)', 'holds the table "spy"'],
    [
      'a damaged cursor',
      `update installation set value = value + 1 where name = 'position'`,
      'cursor cannot be read',
    ],
    [
      'a fact of another type',
      `update installation set value = x'00' where name = 'clock'`,
      'cursor cannot be read',
    ],
  ])('refuses %s, with what to do', async (_, sql, said) => {
    await threeProfiles();
    await expect(behindItsBack(sql)).rejects.toThrow(said);
    clearProfiles({ folder, log: 'a-log' });
    store = open();
    expect((await store.cursor()).position).toBe(0);
  });

  it('opens a file of the first format with everything in it, which the version before refuses from then on', async () => {
    await threeProfiles();
    await behindItsBack('pragma user_version = 1');
    expect((await store.cursor()).position).toBe(10);
    expect((await store.scan(0, 10)).map(({ id }) => id)).toEqual([1, 2, 3]);
    await store.stop();
    expect(readFileSync(file()).readUInt32BE(60)).toBe(2);
    store = open();
  });

  it('loses nothing when its file is removed under it: the file is there again', async () => {
    await threeProfiles();
    await store.commit(slice(11, { put: [{ id: 4, state: state('profile 4') }] }));
    for (const rest of ['', '-wal', '-shm']) rmSync(join(folder, `users.db${rest}`), { force: true });
    await store.commit(slice(12, { put: [{ id: 5, state: state('profile 5') }] }));
    expect((await store.get([1, 4, 5])).map(textIn)).toEqual(['profile 1', 'profile 4', 'profile 5']);
    await store.stop();
    store = open();
    expect((await store.get([1, 4, 5])).map(textIn)).toEqual(['profile 1', 'profile 4', 'profile 5']);
    expect((await store.cursor()).position).toBe(12);
    expect(statSync(join(folder, 'users.db')).mode & 0o777).toBe(0o600);
  });

  it('takes no other file that is put in the place of its own', async () => {
    await threeProfiles();
    const path = join(folder, 'users.db');
    copyFileSync(path, `${path}.old`);
    renameSync(path, `${path}.used`);
    renameSync(`${path}.old`, path);
    await expect(store.commit(slice(11, {}))).rejects.toThrow(/put that one back/);
    renameSync(`${path}.used`, path);
    await store.commit(slice(11, {}));
    expect((await store.cursor()).position).toBe(11);
  });

  it('refuses profiles of another log, and takes them again when it is back', async () => {
    await threeProfiles();
    await store.stop();
    expect(() => open('another-log')).toThrow(/made from another log/);
    store = open();
    expect((await store.size()).profiles).toBe(3);
  });

  it.each([
    ['a flipped bit', `update profile set state = zeroblob(length(state)) where id = 2`],
    [
      'a state of another profile',
      'update profile set state = (select state from profile where id = 1) where id = 2',
    ],
  ])('reads a profile with %s as gone, and all others', async (_, sql) => {
    await threeProfiles();
    await behindItsBack(sql);
    expect((await store.get([1, 2, 3])).map(textIn)).toEqual(['profile 1', undefined, 'profile 3']);
    expect((await store.scan(0, 10)).map(({ id }) => id)).toEqual([1, 3]);
    expect((await store.size()).damaged).toBe(1);
    await store.commit(slice(11, { put: [{ id: 2, state: state('new') }] }));
    expect((await store.get([2])).map(textIn)).toEqual(['new']);
  });

  it('reads an identity, an entry and a document whose bytes have changed as unknown', async () => {
    await threeProfiles();
    await behindItsBack(`
      update identity set owner = owner + 4096 where key = 200;
      update outbox set json = '{"n":7}' where sequence = 1;
      update document set body = '3' where name = 'two';
    `);
    expect(await store.resolve([100, 200, 300])).toEqual([1, undefined, 3]);
    expect((await store.outbox(0, 10)).map(({ sequence }) => sequence)).toEqual([2, 3]);
    expect([await store.document('one'), await store.document('two')]).toEqual([1, undefined]);
    expect((await store.size()).damaged).toBe(3);
  });

  it('names a destroyed page with what to do, and can be cleared', async () => {
    await store.commit(
      slice(1, { put: Array.from({ length: 400 }, (_, n) => ({ id: n + 1, state: state(`p${n}`, 3) })) }),
    );
    await store.stop();
    const bytes = readFileSync(file());
    writeFileSync(file(), bytes.fill(0xee, 40 * 1024, 200 * 1024));
    store = open();
    const all = Array.from({ length: 400 }, (_, n) => n + 1);
    await expect(store.get(all)).rejects.toThrow(/users\.db is damaged.*profiles rebuild/);
    await store.clear();
    expect(await store.get(all)).toEqual(all.map(() => undefined));
  });

  it('forgets a slice that cannot be stored, and stores the next', async () => {
    await threeProfiles();
    const twice = [1, 2].map((sequence) => ({ sequence, profile: 1, json: '{}' }));
    await expect(
      store.commit(slice(20, { put: [{ id: 1, state: state('lost') }], outbox: twice })),
    ).rejects.toThrow(StorageError);
    expect((await store.cursor()).position).toBe(10);
    expect((await store.get([1])).map(textIn)).toEqual(['profile 1']);
    await store.commit(slice(21, { put: [{ id: 1, state: state('kept') }] }));
    expect((await store.get([1])).map(textIn)).toEqual(['kept']);
    expect((await store.size()).profiles).toBe(3);
  });

  /** Every byte of the folder as one text. */
  const bytesOfFolder = () => Buffer.concat(['', '-wal'].map((rest) => readFileSync(`${file()}${rest}`)));

  it.each([
    ['padded states', 128],
    ['states of any length, which need a VACUUM', 1],
  ])('leaves no byte of erased users, with %s', async (_, unit) => {
    const random = seeded(7);
    const N = 3000;
    const stateOf = (id: number) => {
      const text = `${id % 5 === 0 ? 'MARKER' : 'other'}-${id}-`.repeat(6 + Math.floor(random() * 30));
      return Buffer.from(text.padEnd(Math.ceil(text.length / unit) * unit, '\0'));
    };
    const ids = Array.from({ length: N }, (_, n) => n + 1);
    await store.commit(slice(1, { put: ids.map((id) => ({ id, state: stateOf(id) })) }));
    for (let round = 2; round < 12; round++) {
      const some = [...new Set(Array.from({ length: N / 5 }, () => 1 + Math.floor(random() * N)))];
      await store.commit(slice(round, { put: some.map((id) => ({ id, state: stateOf(id) })) }));
    }
    const gone = ids.filter((id) => id % 5 === 0);
    await store.erase(
      gone,
      gone.map((id) => `MARKER-${id}-`),
    );
    expect(bytesOfFolder().includes('MARKER-')).toBe(false);
    const left = await store.get(ids);
    expect(left.filter((one) => one !== undefined)).toHaveLength(N - gone.length);
    expect(textIn(left[0])).toMatch(/^other-1-/);
  });

  it('finishes an erasure at the next start when its process died in the middle of it', async () => {
    await store.commit(slice(1, { put: [{ id: 1, state: state('kept') }], documents: { marker: 'UNDEAD' } }));
    await store.stop();
    const database = new DatabaseSync(file());
    database.exec(`pragma secure_delete = off; delete from document; insert into installation(name, value, sum)
      values ('scrub', 1, 0)`);
    database.close();
    expect(readFileSync(file()).includes('UNDEAD')).toBe(true);
    store = open();
    expect(bytesOfFolder().includes('UNDEAD')).toBe(false);
    expect((await store.get([1])).map(textIn)).toEqual(['kept']);
  });

  it('waits with an erasure for the end of a backup', async () => {
    await store.commit(slice(1, { put: [{ id: 1, state: state('MARKER') }] }));
    // On a thread of its own: the erasure waits with this one.
    const hasEnded = new Int32Array(new SharedArrayBuffer(4));
    const workerData = { uri: databaseUri(folder, 'rw', 'users.db'), hasEnded };
    const backup = new Worker(BACKUP, { eval: true, workerData });
    await once(backup, 'message');
    await store.erase([1], ['MARKER']);
    expect(Atomics.load(hasEnded, 0)).toBe(1);
    await once(backup, 'exit');
    expect(bytesOfFolder().includes('MARKER')).toBe(false);
  });

  it('finds a deleted text in the unused space of a page, and not in a row', async () => {
    await store.commit(slice(1, { put: [{ id: 1, state: state('a-live-text') }] }));
    await store.stop();
    expect(hasRemnants(file(), [Buffer.from('a-live-text')])).toBe(false);
    const bytes = readFileSync(file());
    const page = Math.floor(bytes.indexOf('a-live-text') / 1024) * 1024;
    // Behind the header and the one pointer of a leaf.
    bytes.write('a-dead-text', page + 8 + 2 + 40);
    writeFileSync(file(), bytes);
    expect(hasRemnants(file(), [Buffer.from('a-dead-text')])).toBe(true);
    store = open();
  });

  it('overwrites the unused space of pages without touching a row', async () => {
    const path = join(folder, 'other.db');
    const database = new DatabaseSync(path);
    database.exec('pragma auto_vacuum = incremental; pragma journal_mode = wal; pragma secure_delete = fast');
    database.exec(
      'create table row(owner integer not null, body text not null); create index row_owner on row(owner)',
    );
    const insert = database.prepare('insert into row(owner, body) values (?, ?)');
    const random = seeded(7);
    const body = (owner: number) => `owner-${owner}-here ${'x'.repeat(Math.floor(random() * 300))}`;
    for (let nth = 0; nth < 4000; nth++) insert.run(nth % 10, body(nth % 10));
    const wiper = new SlackWiper(path);
    const gone: Buffer[] = [];
    for (let owner = 0; owner < 9; owner++) {
      database.prepare('delete from row where owner = ?').run(owner);
      gone.push(Buffer.from(`owner-${owner}-here`));
      database.exec('pragma incremental_vacuum; pragma wal_checkpoint(truncate)');
      // As SQLite leaves it there when it moves rows from page to page.
      plant(path, Buffer.from(`owner-${owner}-here`));
      expect(hasRemnants(path, gone)).toBe(true);
      const rows = database.prepare('select rowid, * from row').all();
      wiper.restart();
      while (!wiper.wipe().isDone);
      database.exec('pragma shrink_memory');
      expect([owner, hasRemnants(path, gone)]).toEqual([owner, false]);
      expect(database.prepare('pragma integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
      expect(database.prepare('select rowid, * from row').all()).toEqual(rows);
      // What is written next does not bring the bytes back.
      for (let nth = 0; nth < 50; nth++) insert.run(9, body(9));
    }
    database.close();
  });

  it('agrees with its cursor wherever its process is killed', async () => {
    await store.stop();
    const chance = chanceOf(SEED);
    let last = 0;
    for (let round = 0; round < 6; round++) {
      const child = spawn(
        process.execPath,
        [join(import.meta.dirname, '../support/profile-writer.ts'), folder],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      let told = last;
      const started = Promise.withResolvers<void>();
      child.stdout.on('data', (data: Buffer) => {
        told = Number(data.toString().trim().split('\n').at(-1));
        started.resolve();
      });
      await started.promise;
      await new Promise((resolve) => setTimeout(resolve, chance.between(0, 60)));
      child.kill('SIGKILL');
      await once(child, 'exit');
      const opened = openProfileStore({ folder, log: 'a-log' });
      const { position } = await opened.cursor();
      // What was told was stored, and nothing is stored in part.
      expect(position).toBeGreaterThanOrEqual(told);
      const states = await opened.get(Array.from({ length: 50 }, (_, n) => n + 1));
      expect(new Set(states.map(textIn))).toEqual(new Set([`at ${position}`]));
      expect(await opened.resolve([position, position - 1])).toEqual([1, undefined]);
      expect((await opened.outbox(0, 10)).map(({ sequence }) => sequence)).toEqual([position]);
      await opened.stop();
      last = position;
    }
    store = open();
  });
});
