import { Database } from '../../src/adapters/postgres/database.ts';
import { migrate } from '../../src/adapters/postgres/schema.ts';
import { findPostgres, nameOf, type Postgres, startPostgres } from './postgres.ts';
import { FOLDER, TABLES } from './test-database.ts';

/**
 * Starts the server of a run of the whole program on PostgreSQL, before any test. The databases of the tests
 * go with it.
 */
export async function setup(): Promise<() => Promise<void>> {
  const bin = findPostgres();
  if (bin === undefined) throw new Error('no PostgreSQL 15 or newer is installed');
  const server = await startPostgres(bin, { fsync: 'off', settings: { max_connections: '300' } });
  try {
    await makeTables(server);
  } catch (error) {
    await server.stop();
    throw error;
  }
  process.env[FOLDER] = server.folder;
  return async () => {
    delete process.env[FOLDER];
    await server.stop();
  };
}

async function makeTables(server: Postgres): Promise<void> {
  const url = await server.makeDatabase();
  const database = new Database({ url });
  await database.session(migrate);
  await database.stop();
  await server.administrate(`alter database ${nameOf(url)} rename to ${TABLES}`);
  await server.administrate(`alter database ${TABLES} with is_template true allow_connections false`);
}
