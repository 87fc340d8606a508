import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { Position } from '../../src/model/event.ts';
import { DAY, HOUR } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import {
  batch,
  CRM,
  countsOfDestination,
  duplicatesOf,
  event,
  events,
  idsAt,
  owedBatch,
  WAREHOUSE,
} from '../conformance/batches.ts';
import { expectBalanced, START } from '../conformance/harness.ts';
import { ALL, claim, delivered, idsOf, MUCH_LATER, retried, settle } from '../conformance/holdings.ts';
import { erase, FOR_EVER, findAll, keepUp } from '../conformance/upkeep.ts';
import { amountOf } from '../support/runs.ts';
import { openStore } from '../support/shared-writer.ts';

/** In memory, where the system has such a folder: nothing here depends on a sync. */
const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** Bytes of a page of the store's file. */
const PAGE = 1024;

/** Damaged bytes of the file are found, contained, and never taken for what was stored. */
describe('a damaged store', () => {
  let folder: string;
  let store: SqliteStore;
  const file = () => join(folder, 'millrace.db');

  beforeEach(async () => {
    folder = mkdtempSync(join(FOLDERS, 'millrace-damage-'));
    store = await openStore({ folder });
  });
  afterEach(async () => {
    await store.stop();
    rmSync(folder, { recursive: true });
  });

  /** A copy of the stopped store's folder with another content of its file. */
  function copyWith(bytes: Buffer): string {
    const place = mkdtempSync(join(FOLDERS, 'millrace-damage-'));
    cpSync(folder, place, { recursive: true, filter: (path) => path !== file() });
    writeFileSync(join(place, 'millrace.db'), bytes);
    return place;
  }

  /** Runs SQL on the file while no store has it open. */
  async function behindItsBack(change: (database: DatabaseSync) => void): Promise<void> {
    await store.stop();
    const database = new DatabaseSync(file());
    change(database);
    database.close();
    store = await openStore({ folder });
  }

  /** Flips one bit in the middle of a blob. */
  function flipBlob(database: DatabaseSync, table: string, column: string, where: string): void {
    const row = database.prepare(`select ${column} as bytes from ${table} where ${where}`).get();
    const bytes = Buffer.from((row as { bytes: Uint8Array }).bytes);
    bytes[bytes.length >> 1]! ^= 0x10;
    database.prepare(`update ${table} set ${column} = ? where ${where}`).run(bytes);
  }

  /** Three chunks: compressed, raw, compressed. All parked for the destination. */
  async function threeChunks(): Promise<Position[]> {
    const positions: Position[] = [];
    for (const [n, prefix] of [
      [40, 'a'],
      [5, 'b'],
      [40, 'c'],
    ] as const) {
      const answer = await store.log.append(owedBatch(events(n, prefix), 'parked'));
      for (const position of answer.positions) positions.push(position!);
    }
    return positions;
  }

  const ID = (nth: number) => (nth < 40 ? `a${nth}` : nth < 45 ? `b${nth - 40}` : `c${nth - 45}`);
  const MIDDLE = Array.from({ length: 5 }, (_, n) => 40 + n);

  it.each(['body', 'sources', 'n', 'at', 'until', 'codec', 'json', 'stage', 'batch'])(
    'whose chunk has a flipped bit in "%s" never reads its events as others, and reads all others',
    async (column) => {
      const positions = await threeChunks();
      await behindItsBack((database) => {
        if (column === 'body' || column === 'sources') flipBlob(database, 'chunk', column, 'first = 40');
        else if (column === 'batch') database.exec(`update chunk set batch = 'x' || batch where first = 40`);
        else database.exec(`update chunk set ${column} = ${column} + 4 where first = 40`);
      });
      const ids = await idsAt(store, positions);
      expect(ids).toEqual(positions.map((_, nth) => (MIDDLE.includes(nth) ? undefined : ID(nth))));
      expect(await store.log.damaged(positions)).toEqual(MIDDLE);
      expect((await store.log.size()).damage).toMatchObject({ events: 5, deliveries: 0 });
      const all = await claim(store, MUCH_LATER);
      expect(all.map(({ delivery }) => delivery.position)).toEqual(positions);
      await settle(
        store,
        all.map((one) => delivered(one)),
      );
      await expectBalanced(store);
    },
  );

  it.each(['keys', 'users'])(
    'whose chunk has a flipped bit in "%s" has them made anew from its events',
    async (column) => {
      const positions = await threeChunks();
      await behindItsBack((database) => flipBlob(database, 'chunk', column, 'first = 40'));
      expect(await idsAt(store, positions)).toEqual(positions.map((_, nth) => ID(nth)));
      expect(await store.log.damaged(positions)).toEqual([]);
      expect(duplicatesOf(await store.log.append(batch([event('b2'), event('b9')])))).toEqual([0]);
      expect(await findAll(store, { userId: 'u1' })).toHaveLength(86);
      await keepUp(store, START + HOUR, FOR_EVER);
      await behindItsBack(() => {});
      expect((await store.log.size()).damage).toBeUndefined();
    },
  );

  it('reads what it accepts after any page of the log was zeroed', async () => {
    for (let nth = 0; nth < 30; nth++) await store.log.append(owedBatch(events(40, `${nth}-`), 'parked'));
    // So many keys and users that they stand on pages of their own.
    await store.log.append(owedBatch(events(1000, 'many-'), 'parked'));
    await store.stop();
    const database = new DatabaseSync(file(), { readOnly: true });
    const pages = database.prepare(`select pageno from dbstat where name = 'chunk'`).all();
    database.close();
    let accepted = 0;
    const whole = readFileSync(file());
    for (const { pageno } of pages as { pageno: number }[]) {
      const place = copyWith(Buffer.from(whole).fill(0, (pageno - 1) * PAGE, pageno * PAGE));
      const opened = await openStore({ folder: place });
      await claim(opened, MUCH_LATER);
      const answer = await opened.log.append(owedBatch([event('new')], 'parked')).catch(() => undefined);
      if (answer !== undefined) {
        accepted++;
        // Damage is not believed the first time.
        const upkeep = () => keepUp(opened, START + HOUR, FOR_EVER);
        await upkeep().catch(upkeep);
        expect(await idsAt(opened, answer.positions as Position[]), `page ${pageno}`).toEqual(['new']);
      }
      await opened.stop();
      rmSync(place, { recursive: true });
    }
    expect(accepted).toBeGreaterThan(pages.length / 2);
    store = await openStore({ folder });
  });

  it('accepts a call whose messageId lies in a damaged chunk, with everything that shares its commit', async () => {
    await threeChunks();
    await behindItsBack((database) => flipBlob(database, 'chunk', 'body', 'first = 40'));
    const answers = await Promise.all([
      store.log.append(batch([event('b3'), event('a1')])),
      store.log.append(batch([event('new')])),
    ]);
    expect(answers.map((answer) => duplicatesOf(answer))).toEqual([[1], []]);
  });

  it('goes on with upkeep, search and retention around a damaged chunk, and counts it until it is gone', async () => {
    await threeChunks();
    for (let n = 0; n < 70; n++) await store.log.append(batch([event(`later${n}`)]));
    await behindItsBack((database) => flipBlob(database, 'chunk', 'body', 'first = 40'));
    await keepUp(store, START + 2 * HOUR, FOR_EVER);
    expect(await findAll(store, { from: START, to: START + 1 })).toHaveLength(40 + 40 + 70);
    expect((await store.log.size()).damage).toMatchObject({ events: 5, foundAt: START + 2 * HOUR });
    await behindItsBack(() => {});
    expect((await store.log.size()).damage).toMatchObject({ events: 5, foundAt: START + 2 * HOUR });
    await keepUp(store, START + 40 * DAY, { events: DAY, deadLetters: DAY });
    expect((await store.log.size()).damage).toBeUndefined();
    expect(await countsOfDestination(store, CRM)).toMatchObject({ pending: 0, dead: { retention_over: 85 } });
    await expectBalanced(store);
  });

  it('erases what it cannot read when a user of it is erased', async () => {
    await threeChunks();
    await behindItsBack((database) => flipBlob(database, 'chunk', 'body', 'first = 40'));
    expect(await erase(store, 'u1')).toBe(80);
    await behindItsBack((database) => {
      const row = database.prepare('select body from chunk where first = 40').get() as { body: Uint8Array };
      expect(Buffer.from(row.body).toString().trim()).toBe('');
    });
  });

  it('makes a damaged set of deliveries that follow each other anew, and loses none', async () => {
    await threeChunks();
    await behindItsBack((database) => flipBlob(database, 'pending', 'refs', 'true'));
    const all = await claim(store, MUCH_LATER);
    expect(await idsOf(store, all)).toHaveLength(85);
    await settle(
      store,
      all.map((one) => delivered(one)),
    );
    expect(await countsOfDestination(store, CRM)).toMatchObject({ delivered: 85, pending: 0, dead: {} });
  });

  it('gives up any other damaged set, says so, and goes on behind it', async () => {
    await threeChunks();
    const held = await claim(store, MUCH_LATER, 10);
    await settle(
      store,
      held.map((one) => retried(one, START + HOUR, { firstFailedAt: START })),
    );
    await behindItsBack((database) => flipBlob(database, 'pending', 'refs', 'tried > 0'));
    const left = await claim(store, MUCH_LATER);
    expect(left).toHaveLength(75);
    await settle(
      store,
      left.map((one) => delivered(one)),
    );
    const counts = { delivered: 75, pending: 0, dead: { event_damaged: 10 } };
    expect(await countsOfDestination(store, CRM)).toMatchObject(counts);
    expect((await store.log.size()).damage).toMatchObject({ events: 0, deliveries: 10 });
    await expectBalanced(store);
  });

  it('never hands a set to another destination than it was owed to', async () => {
    await threeChunks();
    await store.log.append(
      batch([event('x')], { owed: [{ destination: WAREHOUSE, state: 'parked', indexes: [0] }] }),
    );
    await behindItsBack((database) => {
      // The set has two runs of positions: it cannot be made anew.
      database.exec(`update pending set destination = ${WAREHOUSE}, n = n + 1 where destination = ${CRM}`);
    });
    const { deliveries } = await store.queue.claim(WAREHOUSE, ALL, MUCH_LATER);
    expect(await idsOf(store, deliveries)).toEqual(['x']);
  });

  it('sends nothing by a destination of which a bit has turned over, and says what to do', async () => {
    await store.settings.apply({
      sources: [],
      destinations: [
        {
          name: 'crm',
          type: 'webhooks',
          sources: [],
          enabled: true,
          settings: {
            endpoints: [{ url: 'https://crm.example/in', headers: {} }],
            format: 'documented',
          },
        },
      ],
    });
    await behindItsBack((database) => {
      database.exec(`update record set document = replace(document, 'crm.example', 'crn.example')`);
    });
    await expect(store.settings.load()).rejects.toThrow(StorageError);
    await expect(store.settings.load()).rejects.toThrow(/destination "crm".*damaged.*millrace restore/);
  });

  it('is refused where the ledger cannot be read, and says what to do', async () => {
    await store.log.append(owedBatch(events(2, 'a'), 'parked'));
    await store.stop();
    const database = new DatabaseSync(file());
    const { pageno } = database
      .prepare(`select pageno from dbstat where name = 'ledger' and pagetype = 'leaf'`)
      .get() as { pageno: number };
    database.close();
    const whole = readFileSync(file());
    writeFileSync(file(), Buffer.from(whole).fill(0xa5, (pageno - 1) * PAGE, pageno * PAGE));
    await expect(openStore({ folder })).rejects.toThrow(/is damaged: restore a backup/);
    writeFileSync(file(), whole);
    store = await openStore({ folder });
    expect(await idsAt(store, [0, 1])).toEqual(['a0', 'a1']);
  });

  it('is refused where the name of a column is damaged, and says what to do', async () => {
    await store.log.append(owedBatch(events(2, 'a'), 'parked'));
    await store.stop();
    const whole = readFileSync(file());
    for (const name of ['latency_ms', 'facts']) {
      const bytes = Buffer.from(whole);
      bytes[bytes.indexOf(name) + name.length - 1]! ^= 1;
      const place = copyWith(bytes);
      await expect(openStore({ folder: place })).rejects.toThrow(
        /is damaged: restore a backup, or choose another one/,
      );
      rmSync(place, { recursive: true });
    }
    store = await openStore({ folder });
  });

  it('answers no question wrongly whichever bit of the file turns over', async () => {
    const random = seeded(20260711);
    const right: string[] = [];
    // Incompressible text: most of the file is then events.
    for (let nth = 0; nth < 60; nth++) {
      const some = Array.from({ length: 10 }, (_, n) => {
        const noise = Array.from({ length: 40 }, () => random().toString(36)).join('');
        return event(`${nth}-${n}`, 1, { properties: { noise } });
      });
      for (const { messageId } of some) right.push(messageId);
      await store.log.append(owedBatch(some, 'parked'));
    }
    await store.stop();
    const whole = readFileSync(file());
    const seen = { same: 0, damaged: 0, refused: 0 };
    const rounds = amountOf({ gate: 12, long: 250 });
    for (let round = 0; round < rounds; round++) {
      const bytes = Buffer.from(whole);
      const at = Math.floor(random() * bytes.length);
      bytes[at]! ^= 1 << Math.floor(random() * 8);
      const place = copyWith(bytes);
      const what = `bit in byte ${at}`;
      try {
        const opened = await openStore({ folder: place });
        try {
          await expectNothingWrong(opened, right, what);
          const isDamaged = (await opened.log.size()).damage !== undefined;
          seen[isDamaged ? 'damaged' : 'same']++;
        } finally {
          await opened.stop();
        }
      } catch (error) {
        expect(error, what).toBeInstanceOf(StorageError);
        seen.refused++;
      }
      rmSync(place, { recursive: true });
    }
    console.log(`${rounds} flipped bits: ${JSON.stringify(seen)}`);
    expect(seen.damaged).toBeGreaterThan(rounds / 3);
    store = await openStore({ folder });
  });

  /** Every event read is the one stored at its position; every missing one is called damaged. */
  async function expectNothingWrong(opened: SqliteStore, right: readonly string[], what: string) {
    const positions = right.map((_, position) => position);
    const ids = await idsAt(opened, positions);
    for (const [position, id] of ids.entries()) expect([right[position], undefined], what).toContain(id);
    const missing = positions.filter((position) => ids[position] === undefined);
    expect(await opened.log.damaged(missing), what).toEqual(missing);
    await opened.queue.recoverOrphans();
    const { deliveries } = await opened.queue.claim(CRM, ALL, MUCH_LATER);
    for (const { delivery } of deliveries) expect(positions, what).toContain(delivery.position);
  }
});

/** Random numbers from 0 to 1, the same for the same seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
