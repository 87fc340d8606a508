import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { connectTo, filesWith, findPostgres, startPostgres } from './postgres.ts';

/**
 * `MILLRACE_TEST_DATABASE=postgres` runs tests of the whole program on PostgreSQL: a program with a data folder gets a database of its
 * own for that folder, and finds it again after a restart. vitest.e2e-postgres.config.ts names the files.
 */
const SWITCH = 'MILLRACE_TEST_DATABASE';

/** Where the server of the run is. */
const FOLDER = 'MILLRACE_TEST_DATABASE_FOLDER';

/** Starts the server of the run, before any test. */
export async function setup(): Promise<() => Promise<void>> {
  if (process.env[SWITCH] !== 'postgres')
    throw new Error(`${SWITCH}=postgres runs these tests on PostgreSQL`);
  const bin = findPostgres();
  if (bin === undefined) throw new Error('no PostgreSQL 15 or newer is installed');
  const server = await startPostgres(bin, { fsync: 'off' });
  process.env[FOLDER] = server.folder;
  return () => server.stop();
}

/** What a program that is started with these arguments reads from its environment; nothing in runs on the embedded engine. */
export function databaseOf(args: readonly string[]): Readonly<Record<string, string>> {
  const folder = process.env[FOLDER];
  const data = args[args.indexOf('--data') + 1];
  if (folder === undefined || !['start', 'dev'].includes(args[0]!) || !args.includes('--data')) return {};
  const made = spawnSync(join(findPostgres()!, 'createdb'), ['-h', folder, '-U', 'millrace', nameOf(data!)], {
    encoding: 'utf8',
  });
  if (made.status !== 0 && !made.stderr.includes('already exists')) throw new Error(made.stderr);
  return { MILLRACE_DATABASE: addressOf(folder, data!) };
}

const nameOf = (data: string) => `t${createHash('sha1').update(data).digest('hex').slice(0, 20)}`;

const addressOf = (folder: string, data: string) =>
  `postgres:///${nameOf(data)}?host=${encodeURIComponent(folder)}&user=millrace`;

/** The files or tables of the store of a data folder in which a text stands: what an operator's `grep` would find. */
export async function storedIn(data: string, text: string): Promise<readonly string[]> {
  const folder = process.env[FOLDER];
  if (folder !== undefined) return await filesWith(addressOf(folder, data), text);
  return ['millrace.db', 'millrace.db-wal'].filter((name) => readFileSync(join(data, name)).includes(text));
}

/** Changes the store of a data folder behind the back of the program, which is not running: in one way, or in one for each engine. */
export async function alterStore(
  data: string,
  sql: string | { readonly sqlite: string; readonly postgres: string },
): Promise<void> {
  const folder = process.env[FOLDER];
  if (folder === undefined) {
    const database = new DatabaseSync(join(data, 'millrace.db'));
    database.exec(typeof sql === 'string' ? sql : sql.sqlite);
    database.close();
  } else {
    const client = await connectTo(addressOf(folder, data));
    await client.query(typeof sql === 'string' ? sql : sql.postgres);
    await client.end();
  }
}
