import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { restoreBackup } from '../../src/adapters/sqlite/backup/backup.ts';
import { openLogReader } from '../../src/adapters/sqlite/log/log-reader.ts';
import { openFolderSource } from '../../src/adapters/sqlite/migration/source.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import { verifyFolder } from '../../src/adapters/sqlite/upkeep/verification.ts';
import { DAY, HOUR, MINUTE } from '../../src/model/time.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, CRM, duplicatesOf, event, events, idsAt, owedBatch, SITE } from '../conformance/batches.ts';
import { expectBalanced, START } from '../conformance/harness.ts';
import { ALL, delivered, type Holding, hold, settle } from '../conformance/holdings.ts';
import { erase, FOR_EVER, keepUp } from '../conformance/upkeep.ts';
import { amountOf, SEED } from '../support/runs.ts';
import { seeded } from '../support/seeded.ts';
import { crashStore, openStore } from '../support/shared-writer.ts';
import { until } from '../support/until.ts';

/** Number of lives that end by a crash. */
const ROUNDS = amountOf({ gate: 6, long: 200 });

/** Small transactions of the SQLite store, which are written down before they are carried out. */
describe('the redo log', () => {
  let root: string;
  let folder: string;
  let store: SqliteStore;
  let folders = 0;

  beforeEach(async () => {
    root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'millrace-redo-'));
    folder = join(root, 'data');
    store = await openStore({ folder });
  });
  afterEach(async () => {
    await expectBalanced(store);
    await store.stop();
    rmSync(root, { recursive: true });
  });

  /** Goes on with the files as a SIGKILL would leave them, changed by `change`. */
  async function crash(change: (folder: string) => void = () => {}): Promise<void> {
    const left = join(root, `left-${++folders}`);
    await crashStore(folder, left);
    change(left);
    folder = left;
    store = await openStore({ folder });
  }

  const sql = (text: string, of = folder): Record<string, unknown>[] => {
    const database = new DatabaseSync(join(of, 'millrace.db'));
    try {
      return database.prepare(text).all() as Record<string, unknown>[];
    } finally {
      database.close();
    }
  };
  /** Beside an open store, whose write-ahead log has its index in the memory of this process. */
  const count = (table: string): number => numberOf(`select count(*) as n from ${table}`);
  const numberOf = (text: string): number => {
    const address = `file:${join(folder, 'millrace.db')}?vfs=unix-excl`;
    const database = new DatabaseSync(address, { readOnly: true });
    try {
      return (database.prepare(text).get() as { n: number }).n;
    } finally {
      database.close();
    }
  };
  const append = (id: string, fields = {}) => store.log.append(batch([event(id, SITE, fields)]));

  it('takes a single call and its delivery, and leaves the tables as they are', async () => {
    const held = await hold(store, 1, 'one');
    await settle(store, [delivered(held[0]!)]);
    expect([count('chunk'), count('pending'), count('accepted_attempt')]).toEqual([0, 0, 0]);
    expect(await idsAt(store, [0])).toEqual(['one0']);
    expect([count('chunk'), count('pending'), count('accepted_attempt')]).toEqual([1, 0, 1]);
  });

  it('takes a few results with the call that comes next, and without one soon', async () => {
    const commits = () => numberOf('select max(number) as n from redo');
    let n = 0;
    // On a busy machine the call may come too late for some of them.
    await until('results were stored with the call after them', async () => {
      const [held] = await hold(store, 1, `m${++n}-`);
      const before = commits();
      const settling = settle(store, [delivered(held!)]);
      await new Promise((passed) => setTimeout(passed, 3));
      await append(`next${n}`);
      await settling;
      return commits() === before + 1;
    });
    const [held] = await hold(store, 1);
    await settle(store, [delivered(held!)]);
  });

  it.each<[string, (store: Store) => Promise<unknown>]>([
    ['a search', async ({ log }) => (await log.find({ messageId: 'one' })).positions],
    ['a history', async ({ history }) => (await history.read([0]))[0]?.deliveries.length],
    ['the size', async ({ log }) => (await log.size()).events],
    ['a claim', async ({ queue }) => (await queue.claim(CRM, ALL, START)).deliveries.length],
    ['the statistics', async ({ queue }) => (await queue.stats())[0]?.onDisk],
    ['what is due next', async ({ queue }) => (await queue.nextDue())[0]?.destination],
    ['what expires', ({ queue }) => queue.expire(CRM, START + 5 * DAY, 'retries_exhausted')],
    ['the ledger', async ({ queue }) => (await queue.ledger()).destinations.get(CRM)?.pending],
    ['an erasure', (store) => erase(store, 'u1')],
    ['a duplicate', async ({ log }) => duplicatesOf(await log.append(batch([event('one')])))],
  ])('is seen by %s', async (_, ask) => {
    await store.log.append(owedBatch([event('one', SITE, { userId: 'u1' })], 'parked'));
    expect(count('chunk')).toBe(0);
    const answer = await ask(store);
    expect(answer).toEqual(Array.isArray(answer) ? [0] : 1);
    expect(count('chunk')).toBe(1);
  });

  it('is carried out after a crash, whatever waits, and again after the next one', async () => {
    const random = seeded(SEED);
    const owed = new Map<string, Holding>();
    const answered: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      for (let n = Math.floor(random() * 90); n > 0; n--) {
        const id = `r${round}n${n}-`;
        const [held] = await hold(store, 1, id);
        answered.push(`${id}0`);
        owed.set(`${id}0`, held!);
        if (random() < 0.8) {
          await settle(store, [delivered(held!)]);
          owed.delete(`${id}0`);
        }
        if (random() < 0.01) await store.log.append(batch(events(40, `${id}many`)));
      }
      await crash();
      // Two crashes without a look in between.
      if (round % 4 === 0) await crash();
      if (round % 3 !== 0) continue;
      expect(await store.queue.recoverOrphans()).toBe(owed.size);
      const { deliveries } = await store.queue.claim(CRM, ALL, START + HOUR);
      const ids = await idsAt(
        store,
        deliveries.map(({ delivery }) => delivery.position),
      );
      expect(ids.sort()).toEqual([...owed.keys()].sort());
      await settle(
        store,
        deliveries.map((one) => delivered({ ...one, destination: CRM })),
      );
      owed.clear();
      await expectBalanced(store);
    }
    const again = batch(answered.map((id) => event(id)));
    expect(duplicatesOf(await store.log.append(again))).toHaveLength(answered.length);
  });

  it.each([1, 500, 900, 1900, 3000, 5000, 50_000])('takes an event of %i bytes', async (bytes) => {
    for (let n = 0; n < 70; n++) await append(`m${n}`, { pad: 'p'.repeat(bytes) });
    await crash();
    const stored = await store.log.read(Array.from({ length: 70 }, (_, n) => n));
    expect(stored.map((one) => one?.event.messageId)).toEqual(Array.from({ length: 70 }, (_, n) => `m${n}`));
    const pads = stored.map((one) => (one!.event as unknown as { pad: string }).pad.length);
    expect(new Set(pads)).toEqual(new Set([bytes]));
  });

  it('is empty after a stop, and what a crash has left waits for a start', async () => {
    await append('one');
    const left = join(root, 'left');
    const stopped = folder;
    await crashStore(folder, left);
    expect(verifyFolder(stopped)).toEqual({});
    // The write-ahead log is copied into the file.
    sql('select count(*) from chunk', left);
    expect(verifyFolder(left)).toBe('later');
    folder = left;
    store = await openStore({ folder });
    expect(await idsAt(store, [0])).toEqual(['one']);
  });

  it('is part of a backup', async () => {
    await store.log.append(owedBatch([event('one'), event('two')], 'parked'));
    const backup = join(root, 'backup');
    await append('three');
    expect(count('chunk')).toBe(0);
    expect(await store.backup(backup)).toEqual({ events: 3, bytes: expect.any(Number) });
    expect(sql('select count(*) as n from chunk', backup)).toEqual([{ n: 2 }]);
    const restored = join(root, 'restored');
    restoreBackup(backup, restored);
    const copy = await openStore({ folder: restored });
    expect(await idsAt(copy, [0, 1, 2])).toEqual(['one', 'two', 'three']);
    await expectBalanced(copy);
    await copy.stop();
  });

  it('of a server that was killed is carried out before the installation is moved', async () => {
    await store.log.append(owedBatch([event('one')], 'parked'));
    const left = join(root, 'left');
    await crashStore(folder, left);
    const source = openFolderSource(left);
    expect(await source.size()).toMatchObject({ events: 1, waiting: 1 });
    await source.stop();
    store = await openStore({ folder: left });
  });

  it('is read by other threads without a gap while calls are stored', async () => {
    const reader = openLogReader(folder);
    let [at, stored] = [0, 0];
    const writing = (async () => {
      for (; stored < 500; stored++) {
        await append(`m${stored}`);
        // Some of them carry out what waits.
        if (stored % 37 === 0) await store.log.size();
      }
    })();
    try {
      while (at < 500) {
        const known = stored;
        const { first, next } = await reader.page(at, 50);
        expect(first).toBe(at);
        expect(next).toBeGreaterThanOrEqual(Math.min(known, at + 50));
        expect((await reader.bounds()).end).toBeGreaterThanOrEqual(next);
        at = next;
        await new Promise(setImmediate);
      }
      await writing;
    } finally {
      await reader.stop();
    }
  });

  it('holds no byte of an erased event, and of no event for longer than an hour', async () => {
    const inFile = (text: string) =>
      ['millrace.db', 'millrace.db-wal'].some((name) => readFileSync(join(folder, name)).includes(text));
    await append('secret-one', { userId: 'gone' });
    await append('other');
    expect(inFile('secret-one')).toBe(true);
    await erase(store, 'gone');
    await store.regulations.scrub();
    expect(inFile('secret-one')).toBe(false);
    await append('other-two');
    await store.log.maintain(START, FOR_EVER, 4);
    await store.log.maintain(START + 59 * MINUTE, FOR_EVER, 4);
    expect(sql("select count(*) as n from redo where instr(bytes, 'other-two') > 0")).toEqual([{ n: 1 }]);
    await store.log.maintain(START + HOUR, FOR_EVER, 4);
    expect(sql("select count(*) as n from redo where instr(bytes, 'other-two') > 0")).toEqual([{ n: 0 }]);
  });

  describe('that is damaged', () => {
    const others = async () => (await store.log.size()).damage?.others;

    it('loses the transactions whose slots are, and no other', async () => {
      for (const id of ['one', 'two', 'three']) await append(id);
      await crash((left) =>
        sql("update redo set bytes = cast(replace(bytes, 'two', 'owt') as blob) where slot = 2", left),
      );
      expect(await idsAt(store, [0, 1, 2])).toEqual(['one', undefined, 'three']);
      expect(await others()).toEqual(['the redo log']);
      await append('four');
      expect(await idsAt(store, [3])).toEqual(['four']);
      await crash();
      expect(await idsAt(store, [0, 2, 3])).toEqual(['one', 'three', 'four']);
      expect(await others()).toBeUndefined();
    });

    it('is not carried out again when only its mark is', async () => {
      await append('gone', { userId: 'gone' });
      for (const id of ['one', 'two']) await append(id);
      await erase(store, 'gone');
      await keepUp(store, START + HOUR, FOR_EVER);
      await crash((left) => sql('update redo set bytes = zeroblob(968) where slot = 0', left));
      expect(await idsAt(store, [0, 1, 2])).toEqual([undefined, 'one', 'two']);
      expect(await others()).toEqual(['the redo log']);
    });

    it('leaves out what a damaged page of a table does not take, and says so', async () => {
      for (let n = 0; n < 5; n++) await append(`first${n}`);
      await store.log.size();
      await store.log.append(owedBatch([event('waiting')], 'parked'));
      await crash((left) => {
        // Void slots hold the same bytes as the table.
        sql('update redo set number = 0, bytes = zeroblob(968) where slot > 1', left);
        const file = join(left, 'millrace.db');
        const bytes = readFileSync(file);
        const { page_size: size } = sql('pragma page_size', left)[0] as { page_size: number };
        // The page of the table's last row, which the waiting one would follow.
        for (let at = 0; at < bytes.length; at += size) {
          const page = bytes.subarray(at, at + size);
          if (page.includes('first4')) page[0] = 99;
        }
        writeFileSync(file, bytes);
      });
      expect(await idsAt(store, [0, 5])).toEqual(['first0', undefined]);
      expect((await store.log.size()).damage?.events).toBeGreaterThan(0);
      const { deliveries } = await store.queue.claim(CRM, ALL, START);
      expect(deliveries).toHaveLength(1);
      await settle(
        store,
        deliveries.map((one) => delivered({ ...one, destination: CRM })),
      );
    });
  });
});
