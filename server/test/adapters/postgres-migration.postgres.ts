import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { openDatabaseTarget } from '../../src/adapters/postgres/migration/target.ts';
import {
  openPostgresStore,
  openSharedProfiles,
  type PostgresStore,
} from '../../src/adapters/postgres/store.ts';
import { openFolderSource } from '../../src/adapters/sqlite/migration/source.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import { openProfileStore } from '../../src/adapters/sqlite/users/profile-store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { migrate } from '../../src/migration/migration.ts';
import { HOUR, SECOND } from '../../src/model/time.ts';
import type { Store } from '../../src/ports/store.ts';
import { migrationConformance, type SourceEngine, type TargetEngine } from '../conformance/migration.ts';
import { connectTo } from '../support/postgres.ts';
import { HAS_POSTGRES, type PostgresFixture, usePostgres } from '../support/postgres-fixture.ts';
import { openStore } from '../support/shared-writer.ts';

const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

function folders(): SourceEngine {
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

function databases(postgres: PostgresFixture): TargetEngine {
  const opened = new WeakMap<Store, { url: string; store: PostgresStore }>();
  return {
    makePlace: () => postgres.makeDatabase(),
    open: async (url) => {
      const store = await openPostgresStore({ clock: systemClock, url, node: 'a' });
      opened.set(store, { url, store });
      return store;
    },
    openProfiles: async (store) => {
      const { url, store: of } = opened.get(store)!;
      const { reader, openProfiles } = openSharedProfiles(
        { url, process: of.nodes.process, installation: of.identity.id },
        of.identity.keySecret,
      );
      await reader.stop();
      return openProfiles();
    },
    openTarget: openDatabaseTarget,
    removeAll: async () => {},
  };
}

describe.runIf(HAS_POSTGRES)('an installation', () => {
  const postgres = usePostgres();

  it('keeps what it was never asked about', async () => {
    const [folder, database] = [folders(), databases(postgres)];
    const [place, url] = [await folder.makePlace(), await database.makePlace()];
    await (await folder.open(place)).stop();
    const file = new DatabaseSync(join(place, 'millrace.db'));
    file.exec("delete from installation where name = 'bounded'");
    file.close();
    const [source, target] = [openFolderSource(place), await openDatabaseTarget(url)];
    const clock = { now: Date.now(), monotonic: Date.now(), steps: [{ at: 0, ahead: 0 }] };
    await migrate({ source, target, ofEvents: 0, clock });
    await target.stop();
    await source.stop();
    const store = await openPostgresStore({ clock: systemClock, url, node: 'a' });
    expect(store.isBounded).toBe(false);
    await store.stop();
  });

  it('keeps the time of its folder, whatever the clock of the database shows', async () => {
    const [folder, database] = [folders(), databases(postgres)];
    const [place, url] = [await folder.makePlace(), await database.makePlace()];
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
    const { sharedClock, ...store } = await openPostgresStore({ clock: systemClock, url, node: 'a' });
    // The database has the clock of this machine.
    expect(sharedClock.monotonic).toBeGreaterThan(before + 2 * HOUR - SECOND);
    expect(sharedClock.monotonic).toBeLessThan(Date.now() + 2 * HOUR + SECOND);
    expect(sharedClock.steps.slice(0, 2)).toEqual(steps);
    await store.stop();
    await folder.removeAll();
  });

  it('that an earlier version has moved out of the database is started by no node', async () => {
    const url = await postgres.makeDatabaseWithTables();
    const client = await connectTo(url);
    const mark = { to: '/var/lib/millrace/data', at: '2026-11-01T08:00:00Z' };
    await client.query(`insert into installation(name, value) values ('moved_to', $1)`, [
      JSON.stringify(mark),
    ]);
    await client.end();
    await expect(openPostgresStore({ clock: systemClock, url, node: 'a' })).rejects.toThrow(
      /was moved to \/var\/lib\/millrace\/data at 2026-11-01T08:00:00Z, and is delivered from there/,
    );
  });

  migrationConformance('moved from a folder to a database', {
    from: folders(),
    to: databases(postgres),
  });
});
