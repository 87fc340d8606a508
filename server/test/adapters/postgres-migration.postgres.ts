import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
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
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, type PostgresFixture, usePostgres } from '../support/postgres-fixture.ts';
import { openStore } from '../support/shared-writer.ts';
import { until } from '../support/until.ts';

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

/** `role`: what is moved to is empty, and what is moved from has its tables and an id of its own before it is opened. */
function databases(postgres: PostgresFixture, role: 'source' | 'target'): MigrationEngine {
  const opened = new WeakMap<Store, { url: string; store: PostgresStore }>();
  return {
    makePlace: async () => {
      if (role === 'target') return await postgres.makeDatabase();
      const url = await postgres.makeDatabaseWithTables();
      const client = await connectTo(url);
      await client.query(
        `update installation set value = replace(gen_random_uuid()::text, '-', '') where name = 'id'`,
      );
      await client.end();
      return url;
    },
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

describe.runIf(HAS_POSTGRES)('an installation', () => {
  const postgres = usePostgres();

  it('keeps what it was never asked about, in either place and back', async () => {
    const [folder, database] = [folders(), databases(postgres, 'target')];
    const [place, url, back] = [
      await folder.makePlace(),
      await database.makePlace(),
      await folder.makePlace(),
    ];
    await (await folder.open(place)).stop();
    const file = new DatabaseSync(join(place, 'millrace.db'));
    file.exec("delete from installation where name = 'bounded'");
    file.close();
    const [source, target] = [openFolderSource(place), await openDatabaseTarget(url)];
    const clock = { now: Date.now(), monotonic: Date.now(), steps: [{ at: 0, ahead: 0 }] };
    await migrate({ source, target, ofEvents: 0, clock });
    await target.stop();
    await source.stop();
    const store = await openPostgresStore({ url, node: 'a' });
    expect(store.isBounded).toBe(false);
    await store.stop();
    const [again, last] = [await openDatabaseSource(url), openFolderTarget(back)];
    await migrate({ source: again, target: last, ofEvents: 0, clock: again.lastClockMark! });
    await last.stop();
    await again.stop();
    const moved = await folder.open(back);
    expect(moved.isBounded).toBe(false);
    await moved.stop();
  });

  it('keeps the time of its folder, whatever the clock of the database shows', async () => {
    const [folder, database] = [folders(), databases(postgres, 'target')];
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
    // As if it had taken a minute to read the marks of the source.
    const clock = { now: now - 60 * SECOND, monotonic: now - 60 * SECOND + 2 * HOUR, steps };
    await migrate({ source, target, ofEvents: 0, clock });
    await target.stop();
    await source.stop();
    const client = await connectTo(url);
    expect((await client.query('select from process')).rows).toEqual([]);
    await client.end();
    const before = Date.now();
    const { sharedClock, ...store } = await openPostgresStore({ url, node: 'a' });
    // The database has the clock of this machine.
    expect(sharedClock.monotonic).toBeGreaterThan(before + 2 * HOUR - SECOND);
    expect(sharedClock.monotonic).toBeLessThan(Date.now() + 2 * HOUR + SECOND);
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
    const [folder, database] = [folders(), databases(postgres, 'source')];
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
    await until('the node says why it cannot join', () => expect(reasons[0]).toMatch(/was moved to/));
    expect(frozen.problems()).not.toEqual([]);
    expect((await client.query('select from process where expires > clock_timestamp()')).rows).toEqual([]);
    await client.end();
    await frozen.stop();
    await folder.removeAll();
  });

  migrationConformance('moved from a folder to a database', {
    from: folders(),
    to: databases(postgres, 'target'),
  });
  migrationConformance('moved from a database to a folder', {
    from: databases(postgres, 'source'),
    to: folders(),
  });
});
