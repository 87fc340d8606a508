import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe } from 'vitest';
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

  migrationConformance('moved from a folder to a database', {
    from: folders(),
    to: databases(() => server),
  });
  migrationConformance('moved from a database to a folder', {
    from: databases(() => server),
    to: folders(),
  });
});
