import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { connectTo, filesWith, findPostgres } from './postgres.ts';

/**
 * `MILLRACE_TEST_DATABASE=postgres` runs tests of the whole program on PostgreSQL: a program with a data
 * folder gets a database of its own for that folder, and finds it again after a restart. The project
 * `e2e-postgres` of vitest.config.ts names the files.
 */
const SWITCH = 'MILLRACE_TEST_DATABASE';

/** Where the server of the run is (test-database-server.ts). */
export const FOLDER = 'MILLRACE_TEST_DATABASE_FOLDER';

/**
 * A database that has the tables of this version. Others are copies of it, because a program makes its tables
 * for a tenth of a second.
 */
export const TABLES = 'tables';

/** One of so many databases is empty, and its program makes the tables. */
const EMPTY = 8;

/** Where the server of the run is; undefined in a run on the embedded engine. */
const serverFolder = () => (process.env[SWITCH] === 'postgres' ? process.env[FOLDER] : undefined);

/** Names of the databases that this process has made. */
const made = new Set<string>();

/** Environment of a program that is started with these arguments; empty in runs on the embedded engine. */
export function databaseOf(args: readonly string[]): Readonly<Record<string, string>> {
  const folder = serverFolder();
  const data = args[args.indexOf('--data') + 1];
  if (folder === undefined || !['start', 'dev'].includes(args[0]!) || !args.includes('--data')) return {};
  const name = databaseFor(data!);
  if (!made.has(name)) makeDatabase(folder, name);
  made.add(name);
  return { MILLRACE_DATABASE: addressOf(folder, data!) };
}

function makeDatabase(folder: string, name: string): void {
  // Stores tell each other apart by their ids.
  const identify = `update installation set value = replace(gen_random_uuid()::text, '-', '') where name = 'id'`;
  const isEmpty = made.size % EMPTY === 0;
  const statements = isEmpty
    ? [`create database ${name} strategy file_copy`]
    : [`create database ${name} template ${TABLES} strategy file_copy`, `\\c ${name}`, identify];
  psql(
    folder,
    'postgres',
    statements.flatMap((one) => ['-c', one]),
  );
}

/** Tests start programs without waiting, so this is a command that is waited for. */
function psql(folder: string, database: string, args: readonly string[], input = ''): void {
  run('psql', [...accessTo(folder, database), '-X', '-q', '-v', 'ON_ERROR_STOP=1', ...args], input);
}

const accessTo = (folder: string, database: string) => ['-h', folder, '-U', 'millrace', '-d', database];

function run(program: string, args: readonly string[], input = ''): string {
  const options = { encoding: 'utf8', input, maxBuffer: 2 ** 28 } as const;
  const { status, stdout, stderr } = spawnSync(join(findPostgres()!, program), args, options);
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

/**
 * Gives a data folder that has no database yet one with what `dumpStore` has said, or an empty one. Nothing
 * in runs on the embedded engine.
 */
export function loadStore(data: string, dump = ''): void {
  const folder = serverFolder();
  if (folder === undefined) return;
  const name = databaseFor(data);
  psql(folder, 'postgres', ['-c', `create database ${name} strategy file_copy`]);
  made.add(name);
  if (dump !== '') psql(folder, name, ['-f', '-'], dump);
}

/** The database of a data folder as statements; undefined in runs on the embedded engine. */
export function dumpStore(data: string): string | undefined {
  const folder = serverFolder();
  if (folder === undefined) return undefined;
  // Inserts are statements that a client of the database can run too.
  const options = ['--inserts', '--rows-per-insert=100', '--no-owner', '--no-privileges', '--no-comments'];
  const dump = run('pg_dump', [...options, ...accessTo(folder, databaseFor(data))]);
  // Lines for psql itself, of newer versions of pg_dump: earlier ones of psql do not know them.
  return dump.replaceAll(/^\\(un)?restrict .*\n/gm, '');
}

const databaseFor = (data: string) => `t${createHash('sha1').update(data).digest('hex').slice(0, 20)}`;

const addressOf = (folder: string, data: string) =>
  `postgres:///${databaseFor(data)}?host=${encodeURIComponent(folder)}&user=millrace`;

/**
 * The files or tables of the store of a data folder in which a text stands: what an operator's `grep` would
 * find.
 */
export async function storedIn(data: string, text: string): Promise<readonly string[]> {
  const folder = serverFolder();
  if (folder !== undefined) return await filesWith(addressOf(folder, data), text);
  return ['millrace.db', 'millrace.db-wal'].filter((name) => readFileSync(join(data, name)).includes(text));
}

/**
 * Changes the store of a data folder behind the back of the program, which is not running: in one way, or in
 * one for each engine.
 */
export async function alterStore(
  data: string,
  sql: string | { readonly sqlite: string; readonly postgres: string },
): Promise<void> {
  const folder = serverFolder();
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
