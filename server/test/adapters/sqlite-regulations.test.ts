import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { restoreBackup } from '../../src/adapters/sqlite/backup/backup.ts';
import { JOURNAL_FILE, readJournal } from '../../src/adapters/sqlite/regulations/journal.ts';
import { reapplyRegulations } from '../../src/adapters/sqlite/regulations/reapply.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { RegulationType } from '../../src/model/regulation.ts';
import { batch, event, owedBatch } from '../conformance/batches.ts';
import { START } from '../conformance/harness.ts';
import { FOR_EVER, findAll, keepUp } from '../conformance/upkeep.ts';
import { openStore } from '../support/shared-writer.ts';

let root: string;
let store: SqliteStore;
const data = () => join(root, 'data');

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'millrace-regulations-'));
  store = await openStore({ folder: data() });
  const of = ['gone', 'stays', 'gone', 'hushed'].map((userId, n) => event(`${userId}-${n}`, 1, { userId }));
  const anonymous = event('anonymous', 1, { userId: undefined as never, anonymousId: 'anon' });
  await store.log.append(owedBatch([...of, anonymous], 'parked'));
});
afterEach(async () => {
  await store.stop();
  rmSync(root, { recursive: true });
});

let made = 0;
async function regulate(
  type: RegulationType,
  userId: string,
  anonymousIds: readonly string[] = [],
): Promise<string> {
  const id = `reg-${++made}`;
  await store.regulations.create({ id, type, createdAt: START, by: 'admin', userIds: [userId] });
  if (type === 'UNSUPPRESS') return id;
  const subject = { userId, formerUserIds: [], anonymousIds, sources: [] };
  await store.regulations.advance(id, { step: 'clean', subjects: [subject] });
  await store.regulations.advance(id, { step: 'done', overallStatus: 'FINISHED', finishedAt: START });
  return id;
}

let copies = 0;
/** The restored folder as a store. */
async function restored<Answer>(
  look: (store: SqliteStore) => Promise<Answer>,
  files: string[] = [],
): Promise<Answer> {
  const folder = join(root, `restored-${++copies}`);
  restoreBackup(join(root, 'backup'), folder);
  const reapplied = await reapplyRegulations(join(root, 'backup'), folder, files);
  const opened = await openStore({ folder });
  try {
    expect(reapplied).toMatchObject({ dropsProfiles: false });
    return await look(opened);
  } finally {
    await opened.stop();
  }
}

describe('a backup from before a regulation', () => {
  it('is made to heed it when it is restored: users are erased by hash, and suppressions are in force', async () => {
    const before = await regulate('SUPPRESS_ONLY', 'before');
    await store.backup(join(root, 'backup'));
    const id = await regulate('SUPPRESS_WITH_DELETE', 'gone', ['anon']);
    await regulate('SUPPRESS_ONLY', 'hushed');
    await regulate('UNSUPPRESS', 'before');
    for (const name of [data(), join(root, 'backup')]) {
      const journal = readFileSync(join(name, JOURNAL_FILE), 'utf8');
      expect(journal).not.toMatch(/gone|anon|hushed|before/);
    }
    await restored(async (copy) => {
      for (const query of [{ userId: 'gone' }, { anonymousId: 'anon' }])
        expect(await findAll(copy, query)).toEqual([]);
      expect(await findAll(copy, { userId: 'stays' })).toHaveLength(1);
      expect(await findAll(copy, { userId: 'hushed' })).toHaveLength(1);
      expect(await copy.regulations.get(id)).toMatchObject({
        erased: { events: 3, deliveries: 3 },
        by: 'restore',
      });
      expect(await copy.regulations.get(before)).toMatchObject({ by: 'admin' });
      expect(await copy.regulations.suppression('gone')).toMatchObject({ regulation: id });
      expect(await copy.regulations.suppression('hushed')).toBeDefined();
      expect(await copy.regulations.suppression('before')).toBeUndefined();
      const again = await copy.log.append(batch([event('later', 1, { userId: 'stays' })]));
      expect(again.positions).toEqual([5]);
    });
    // A second restore finds the regulations of the first in the journal, and the backup is as it was.
    await restored(async (copy) => expect(await findAll(copy, { userId: 'gone' })).toEqual([]));
  });

  it('heeds what was said of visitors, and leaves those who belong to users', async () => {
    const seen = (messageId: string, anonymousId: string) =>
      event(messageId, 1, { userId: undefined as never, anonymousId });
    await store.log.append(batch([seen('v1', 'visitor'), seen('v2', 'joined'), seen('v3', 'device')]));
    await store.backup(join(root, 'backup'));
    const id = 'reg-visitors';
    const anonymousIds = ['visitor', 'device'];
    await store.regulations.create({
      ...{ id, type: 'SUPPRESS_WITH_DELETE', createdAt: START, by: 'admin', userIds: [], anonymousIds },
    });
    const nothing = { formerUserIds: [], anonymousIds: [], sources: [] };
    const subjects = [
      { ...nothing, anonymousId: 'visitor', anonymousIds: ['visitor', 'joined'] },
      { ...nothing, anonymousId: 'device', belongsToUser: true },
    ];
    await store.regulations.advance(id, { step: 'clean', subjects });
    await restored(async ({ regulations, ...copy }) => {
      const found = async (anonymousId: string) =>
        (await findAll({ ...copy, regulations }, { anonymousId })).length;
      expect([await found('visitor'), await found('joined'), await found('device')]).toEqual([0, 0, 1]);
      expect(await regulations.suppression('visitor', 'anonymous')).toMatchObject({ regulation: id });
      expect(await regulations.suppression('joined', 'anonymous')).toMatchObject({ regulation: id });
      expect(await regulations.suppression('device', 'anonymous')).toBeUndefined();
    });
  });

  it('heeds regulations whose receipts are gone by now, and carries none out again that it knows', async () => {
    await store.backup(join(root, 'backup'));
    await regulate('DELETE_ONLY', 'gone');
    await regulate('SUPPRESS_ONLY', 'hushed');
    await keepUp(store, START, { ...FOR_EVER, regulationsBefore: START + 1 });
    expect(await store.regulations.list(10)).toEqual([]);
    const journal = readJournal(join(data(), JOURNAL_FILE));
    expect(journal).toHaveLength(2);
    await restored(async (copy) => {
      expect(await findAll(copy, { userId: 'gone' })).toEqual([]);
      expect(await copy.regulations.suppression('hushed')).toBeDefined();
    });
    // Both have come back since.
    await regulate('UNSUPPRESS', 'hushed');
    await store.log.append(batch([event('again', 1, { userId: 'gone' })]));
    await store.stop();
    store = await openStore({ folder: data() });
    expect(readJournal(join(data(), JOURNAL_FILE))).toHaveLength(3);
    rmSync(join(root, 'backup'), { recursive: true });
    await store.backup(join(root, 'backup'));
    await restored(async (copy) => {
      expect(await findAll(copy, { userId: 'gone' })).not.toEqual([]);
      expect(await copy.regulations.suppression('hushed')).toBeUndefined();
    });
  });

  it('leaves a folder that no start takes when the restore does not come to its end', async () => {
    await store.backup(join(root, 'backup'));
    await regulate('DELETE_ONLY', 'gone');
    const folder = join(root, 'restored');
    restoreBackup(join(root, 'backup'), folder, { awaitsRegulations: true });
    const advice = /did not come to its end, .*: remove the folder, and restore again/;
    // As after a crash.
    await expect(openStore({ folder })).rejects.toThrow(advice);
    const journal = join(root, 'no-journal');
    writeFileSync(journal, '{}');
    await expect(reapplyRegulations(join(root, 'backup'), folder, [journal])).rejects.toThrow(
      'restore again',
    );
    await expect(openStore({ folder })).rejects.toThrow(advice);
    await reapplyRegulations(join(root, 'backup'), folder);
    const opened = await openStore({ folder });
    expect(await findAll(opened, { userId: 'gone' })).toEqual([]);
    await opened.stop();
  });

  it('takes the journal of the lost folder, and what a crash has kept from it', async () => {
    await store.backup(join(root, 'backup'));
    rmSync(join(root, 'backup', 'millrace.db'));
    await regulate('DELETE_ONLY', 'gone');
    // The backup was elsewhere when the regulation was made.
    rmSync(join(data(), JOURNAL_FILE));
    await store.stop();
    store = await openStore({ folder: data() });
    await store.backup(join(root, 'other'));
    const journal = join(data(), JOURNAL_FILE);
    expect(readFileSync(journal, 'utf8')).toContain('DELETE_ONLY');
    appendFileSync(journal, '{"id":"cut');
    const folder = join(root, 'restored');
    restoreBackup(join(root, 'other'), folder);
    expect(await reapplyRegulations(join(root, 'other'), folder, [journal])).toMatchObject({
      regulations: 0,
    });
    appendFileSync(journal, '\n{}\n');
    await expect(reapplyRegulations(join(root, 'other'), folder, [journal])).rejects.toThrow(
      'is no regulation',
    );
  });
});

describe('the journal of regulations', () => {
  const journal = () => join(data(), JOURNAL_FILE);
  const ids = () => readJournal(journal()).map(({ id }) => id);
  const create = (id: string) =>
    store.regulations.create({
      ...{ id, type: 'SUPPRESS_WITH_DELETE', createdAt: START, by: 'admin', userIds: ['gone'] },
    });
  const restart = async () => {
    await store.stop();
    store = await openStore({ folder: data() });
  };

  it('that cannot be written refuses a regulation before anything of it is in force', async () => {
    mkdirSync(journal());
    await expect(create('first')).rejects.toThrow(/cannot use the data folder .*EISDIR/);
    expect(await store.regulations.list(10)).toEqual([]);
    expect(await store.regulations.suppression('gone')).toBeUndefined();
    rmSync(journal(), { recursive: true });
    await create('second');
    expect(ids()).toEqual(['second']);
  });

  it('takes back the line of a regulation that the store did not take', async () => {
    await create('first');
    await store.stop();
    // SQLite has no number left for the next one, and says that the disk is full.
    const number = (seq: string) =>
      alter(`update sqlite_sequence set seq = ${seq} where name = 'regulation'`);
    number('9223372036854775807');
    store = await openStore({ folder: data() });
    await expect(create('second')).rejects.toThrow('free some space');
    expect(ids()).toEqual(['first']);
    await store.stop();
    number('1');
    store = await openStore({ folder: data() });
    await create('third');
    expect(ids()).toEqual(['first', 'third']);
  });

  it('goes on behind a line that a crash or a full disk has cut, whatever its length', async () => {
    await create('first');
    for (const [nth, rest] of ['{"id":"cut","type":"DEL', `{"id":"${'long'.repeat(50_000)}`].entries()) {
      appendFileSync(journal(), rest);
      await create(`next-${nth}`);
      await create(`later-${nth}`);
      await restart();
    }
    expect(ids()).toEqual(['first', 'next-0', 'later-0', 'next-1', 'later-1']);
    expect(readFileSync(journal(), 'utf8')).not.toMatch(/cut|long/);
  });

  it('of an earlier version, with a line behind one that was cut, is read', async () => {
    await create('first');
    const text = readFileSync(journal(), 'utf8');
    const glued = `{"id":"cut","type":"DEL${text.replace('first', 'second')}`;
    writeFileSync(journal(), `${text}${glued}${text.replace('first', 'third')}`);
    expect(ids()).toEqual(['first', 'second', 'third']);
  });
});

describe('a damaged record of a regulation', () => {
  it('is named, and stops no other: neither those under way nor the list of all', async () => {
    for (const id of ['first', 'second', 'third', 'fourth'])
      await store.regulations.create({
        ...{ id, type: 'DELETE_ONLY', createdAt: START, by: 'admin', userIds: ['gone'] },
      });
    await store.stop();
    alter("update regulation set document = replace(document, 'admin', 'admim') where id = 'second'");
    alter(`update regulation_subject set subjects = zeroblob(9000)
      where number = (select number from regulation where id = 'third')`);
    store = await openStore({ folder: data() });
    const { regulations } = store;
    expect((await regulations.open()).map(({ id }) => id)).toEqual(['first', 'third', 'fourth']);
    expect((await regulations.list(2)).map(({ id }) => id)).toEqual(['fourth', 'third']);
    expect((await regulations.list(2, 3)).map(({ id }) => id)).toEqual(['first']);
    await expect(regulations.get('second')).rejects.toThrow('the record of regulation 2 is damaged');
    // The executor ends it: whom it is about is not known.
    expect(await regulations.subjects('third')).toEqual([]);
    await regulations.advance('third', { step: 'clean', reason: 'damaged' });
    const { damage } = await store.log.size();
    expect(damage?.others).toEqual(['the record of regulation 2', 'the user ids of regulation third']);
  });
});

/** Changes the store behind the back of the program, which is not running. */
function alter(sql: string): void {
  const database = new DatabaseSync(join(data(), 'millrace.db'));
  database.exec(sql);
  database.close();
}
