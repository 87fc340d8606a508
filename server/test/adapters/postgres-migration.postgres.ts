import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openDatabaseSource } from '../../src/adapters/postgres/migration/source.ts';
import { openDatabaseTarget } from '../../src/adapters/postgres/migration/target.ts';
import {
  openPostgresStore,
  openSharedProfiles,
  type PostgresStore,
} from '../../src/adapters/postgres/store.ts';
import { openFolderSource } from '../../src/adapters/sqlite/migration/source.ts';
import { openFolderTarget } from '../../src/adapters/sqlite/migration/target.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import { openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { migrate } from '../../src/migration/migration.ts';
import { HOUR, SECOND } from '../../src/model/time.ts';
import type { Store } from '../../src/ports/store.ts';
import { type MigrationEngine, migrationConformance } from '../conformance/migration.ts';
import { connectTo, findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';
import { openStore } from '../support/shared-writer.ts';

const bin = findPostgres();

const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

function folders(): MigrationEngine {
  const opened = new WeakMap<Store, { folder: string; store: SqliteStore }>();
  const made: string[] = [];
  return {
    makePlace: async () => {
      const place = join(mkdtempSync(join(FOLDERS, 'millrace-move-')), 'data');
      made.push(place);
      return place;
    },
    open: async (folder) => {
      const store = await openStore({ folder });
      opened.set(store, { folder, store });
      return store;
    },
    openProfiles: async (store) => {
      const { folder, store: of } = opened.get(store)!;
      return openProfileStore({ folder, log: of.identity.id });
    },
    openSource: async (folder) => openFolderSource(folder),
    openTarget: async (folder) => openFolderTarget(folder),
    damageFirstChunk: async (folder) => {
      const database = new DatabaseSync(join(folder, 'millrace.db'));
      database.exec(`update chunk set body = zeroblob(length(body)) where first = 0`);
      database.close();
    },
    removeAll: async () => {
      for (const place of made.splice(0)) rmSync(join(place, '..'), { recursive: true });
    },
  };
}

function databases(server: () => Postgres): MigrationEngine {
  const opened = new WeakMap<Store, { url: string; store: PostgresStore }>();
  return {
    makePlace: () => server().makeDatabase(),
    open: async (url) => {
      const store = await openPostgresStore({ url, node: 'a' });
      opened.set(store, { url, store });
      return store;
    },
    openProfiles: async (store) => {
      const { url, store: of } = opened.get(store)!;
      const { reader, openProfiles } = openSharedProfiles(
        { url, process: of.nodes.process },
        of.identity.keySecret,
      );
      await reader.stop();
      return openProfiles();
    },
    openSource: openDatabaseSource,
    openTarget: openDatabaseTarget,
    damageFirstChunk: async (url) => {
      const client = await connectTo(url);
      await client.query(`update chunk set body = decode(repeat('00', length(body)), 'hex') where first = 0`);
      await client.end();
    },
    removeAll: async () => {},
  };
}

if (bin === undefined)
  console.log('left out: moves to PostgreSQL and back, because no PostgreSQL 15 or newer is installed');

describe.runIf(bin !== undefined)('an installation', () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres(bin!, { fsync: 'off' });
  });
  afterAll(() => server.stop());

  it('keeps the time of its folder, whatever the clock of the database shows', async () => {
    const [folder, database] = [folders(), databases(() => server)];
    const [place, url, back] = [
      await folder.makePlace(),
      await database.makePlace(),
      await folder.makePlace(),
    ];
    await (await folder.open(place)).stop();
    const now = Date.now();
    const steps = [
      { at: now - HOUR, ahead: -HOUR },
      { at: now, ahead: -2 * HOUR },
    ];
    const source = openFolderSource(place);
    const target = await openDatabaseTarget(url);
    await migrate({ source, target, ofEvents: 0, clock: { now, monotonic: now + 2 * HOUR, steps } });
    await target.stop();
    await source.stop();
    const client = await connectTo(url);
    expect((await client.query('select from process')).rows).toEqual([]);
    await client.end();
    const { sharedClock, ...store } = await openPostgresStore({ url, node: 'a' });
    expect(sharedClock.monotonic - Date.now()).toBeGreaterThan(2 * HOUR - SECOND * 10);
    expect(sharedClock.monotonic - Date.now()).toBeLessThan(2 * HOUR + SECOND * 10);
    expect(sharedClock.steps.slice(0, 2)).toEqual(steps);
    await store.stop();
    const again = await openDatabaseSource(url);
    const last = openFolderTarget(back);
    await migrate({ source: again, target: last, ofEvents: 0, clock: again.lastClockMark! });
    await last.stop();
    await again.stop();
    const { lastClockMark, ...moved } = await openStore({ folder: back });
    expect(lastClockMark!.steps.slice(0, 2)).toEqual(steps);
    await moved.stop();
    await folder.removeAll();
  });

  it('is not taken up again by a node that stood still while it was moved away', async () => {
    const [folder, database] = [folders(), databases(() => server)];
    const [url, place] = [await database.makePlace(), await folder.makePlace()];
    const reasons: unknown[] = [];
    const note = (facts: { reason?: unknown }, name: string) => {
      if (name === 'database.not_joined') reasons.push(facts.reason);
    };
    const logger = { info: () => {}, warn: note, error: () => {} };
    const frozen = await openPostgresStore({ url, node: 'frozen', logger });
    const client = await connectTo(url);
    await client.query(`update process set expires = clock_timestamp() - interval '1 second'`);
    const source = await openDatabaseSource(url);
    const target = openFolderTarget(place);
    await migrate({ source, target, ofEvents: 0, clock: source.lastClockMark! });
    await target.stop();
    await source.stop();
    await vi.waitFor(() => expect(reasons[0]).toMatch(/was moved to/), 20_000);
    expect(frozen.problems()).not.toEqual([]);
    expect((await client.query('select from process where expires > clock_timestamp()')).rows).toEqual([]);
    await client.end();
    await frozen.stop();
    await folder.removeAll();
  });

  migrationConformance('moved from a folder to a database', {
    from: folders(),
    to: databases(() => server),
  });
  migrationConformance('moved from a database to a folder', {
    from: databases(() => server),
    to: folders(),
  });
});
