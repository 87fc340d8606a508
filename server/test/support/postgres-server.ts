import type { TestProject } from 'vitest/node';
import { Database } from '../../src/adapters/postgres/database.ts';
import { migrate } from '../../src/adapters/postgres/schema.ts';
import { chanceOf } from './disk-faults/random.ts';
import { findPostgres, makeServerFiles, nameOf, type Postgres, startPostgres } from './postgres.ts';
import { SEED } from './runs.ts';

/** Facts about the server of a run for its tests. */
export interface ServerOfRun {
  /** The folder of the programs of PostgreSQL. */
  readonly bin: string;
  /** Where the server has its socket. */
  readonly folder: string;
  /** The folder of `ServerFiles` of which servers of single tests are copies. */
  readonly files: string;
  /** The address of a database that has the tables of this version, and nothing else. */
  readonly tables: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    /** The server of the run; null where no PostgreSQL is installed. */
    readonly postgres: ServerOfRun | null;
  }
}

/**
 * Starts one server for all files of a run: with `initdb` and the tables of a store a server costs two
 * seconds, and a database of this one a tenth of it. What kills or freezes a server, or changes its settings,
 * starts its own (postgres-fixture.ts).
 */
export async function setup({ provide }: TestProject): Promise<(() => Promise<void>) | undefined> {
  const bin = findPostgres();
  if (bin === undefined) {
    console.log('left out: the store on PostgreSQL, because no PostgreSQL 15 or newer is installed');
    provide('postgres', null);
    return undefined;
  }
  const files = await makeServerFiles(bin);
  let server: Postgres | undefined;
  const stop = async () => {
    await server?.stop();
    files.remove();
  };
  try {
    server = await startPostgres(bin, {
      fsync: 'off',
      settings: { max_connections: '300' },
      files: files.folder,
    });
    const tables = await makeTables(server);
    provide('postgres', { bin, folder: server.folder, files: files.folder, tables });
    const running = server;
    return async () => {
      try {
        await refuseRemains(running);
      } finally {
        await stop();
      }
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * Makes the database that others are copies of. The hashes of keys are those of the run's seed, so that it
 * can be repeated.
 */
async function makeTables(server: Postgres): Promise<string> {
  const url = await server.makeDatabase();
  const database = new Database({ url });
  const secret = chanceOf(SEED).bytes(8).toString('hex');
  await database.session(async (session) => {
    await migrate(session);
    await session.query(`update installation set value = '${secret}' where name = 'key_secret'`);
  });
  await database.stop();
  // Nobody connects to it any more, the server's own vacuum included: a database with clients cannot be
  // copied.
  await server.administrate(`alter database ${nameOf(url)} with is_template true allow_connections false`);
  return url;
}

/**
 * Each test drops the databases that it has made, also when it fails. vitest prints what this throws, and
 * does not fail by itself.
 */
async function refuseRemains(server: Postgres): Promise<void> {
  const left = await server.administrate(
    `select datname as name from pg_database where not datistemplate and datname <> 'postgres' order by datname`,
  );
  if (left.length === 0) return;
  process.exitCode = 1;
  throw new Error(`databases that tests have left behind: ${left.map(({ name }) => name).join(', ')}`);
}
