import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';

/** The oldest PostgreSQL that the statements are written for. */
const OLDEST = 15;

/** The folder of `initdb`, `postgres` and `psql`; undefined when no PostgreSQL is recent enough. */
export function findPostgres(): string | undefined {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((one) => join(debian, one, 'bin')),
    ...(process.env['PATH'] ?? '').split(':'),
  ];
  return folders.find((folder) => {
    if (!['initdb', 'postgres', 'psql'].every((name) => existsSync(join(folder, name)))) return false;
    const { stdout } = spawnSync(join(folder, 'postgres'), ['--version'], { encoding: 'utf8' });
    return Number(/(\d+)/.exec(stdout)?.[1]) >= OLDEST;
  });
}

/** A real server in a folder of its own, reached over a socket in that folder only. */
export interface Postgres {
  readonly folder: string;
  /** Makes a database, empty or as the template of an address; resolves to its address, as `pg` and the configuration take it. */
  makeDatabase(template?: string): Promise<string>;
  /** Removes it, and cuts its clients off. */
  dropDatabase(url: string): Promise<void>;
  /** Resolves when so many statements in the database of this address wait for a lock; one, if nothing is said. */
  isBlocked(url: string, statements?: number): Promise<void>;
  /** To the database that every server has. */
  connect(): Promise<Session>;
  /** Stops the server, disconnects all clients, and removes its folder. */
  stop(): Promise<void>;
}

export interface PostgresSettings {
  /** Off for tests that open hundreds of databases and never end the server in the middle. */
  readonly fsync?: 'on' | 'off';
}

export async function startPostgres(bin: string, { fsync = 'on' }: PostgresSettings = {}): Promise<Postgres> {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pg-'));
  const user = unprivileged(folder);
  const run = (name: string, args: readonly string[]) => {
    const [command, ...rest] = [...user, join(bin, name), ...args];
    return spawn(command!, rest, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  };
  const data = join(folder, 'data');
  const made = run('initdb', [
    '-D',
    data,
    '-U',
    'millrace',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--no-locale',
    '--no-sync',
  ]);
  const said: string[] = [];
  made.stderr.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const [code] = (await once(made, 'close')) as [number | null];
  if (code !== 0) throw new Error(`initdb ended with ${code}: ${said.join('')}`);
  const options = {
    listen_addresses: '',
    unix_socket_directories: folder,
    fsync,
    synchronous_commit: 'on',
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = run('postgres', ['-D', data, ...flags]);
  await new Promise<void>((ready, fail) => {
    let log = '';
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      log += text;
      if (log.includes('ready to accept connections')) ready();
    });
    server.once('exit', () => fail(new Error(`postgres did not start: ${log}`)));
  });
  let databases = 0;
  const administrate = async (sql: string) => {
    const client = new pg.Client({ host: folder, user: 'millrace', database: 'postgres' });
    await client.connect();
    await client.query(sql);
    await client.end();
  };
  return {
    folder,
    makeDatabase: async (template) => {
      const name = `millrace_${++databases}`;
      const copied = template === undefined ? '' : `template ${/millrace_\d+/.exec(template)![0]}`;
      await administrate(`create database ${name} ${copied} strategy wal_log`);
      return `postgres:///${name}?host=${encodeURIComponent(folder)}&user=millrace`;
    },
    dropDatabase: (url) => administrate(`drop database ${/millrace_\d+/.exec(url)![0]} with (force)`),
    isBlocked: async (url, statements = 1) => {
      const client = new pg.Client(url);
      await client.connect();
      const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
      while ((await client.query(waiting)).rows.length < statements)
        await new Promise((next) => setTimeout(next, 5));
      await client.end();
    },
    connect: () => openSession(join(bin, 'psql'), folder),
    stop: async () => {
      const ended = once(server, 'exit');
      // A fast stop: clients are cut off, the files are left in order.
      server.kill('SIGINT');
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

/** PostgreSQL refuses to run as root. The server ends with the test, however the test ends. */
function unprivileged(folder: string): string[] {
  const dies = ['setpriv', '--pdeathsig', 'INT'];
  if (process.getuid?.() !== 0) return spawnSync('setpriv', ['--version']).status === 0 ? dies : [];
  const idOf = (flag: string, name: string) => spawnSync('id', [flag, name], { encoding: 'utf8' });
  const name = idOf('-u', 'postgres').status === 0 ? 'postgres' : 'nobody';
  const [uid, gid] = [Number(idOf('-u', name).stdout), Number(idOf('-g', name).stdout)];
  chownSync(folder, uid, gid);
  return [...dies, '--reuid', String(uid), '--regid', String(gid), '--clear-groups'];
}

export type Row = Readonly<Record<string, string | null>>;

/** One connection, in which one statement runs at a time. */
export interface Session {
  /** The rows of the last statement that has any. Rejects with a `PostgresError`. */
  run(sql: string): Promise<Row[]>;
  end(): Promise<void>;
}

/** The server refused a statement. */
export class PostgresError extends Error {
  /** SQLSTATE, such as `23505`. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'PostgresError';
    this.code = code;
  }
}

const FIELD = '\x1f';
const RECORD = '\x1e';
const NULL = '\x1d';
const END = '\x1c';

async function openSession(psql: string, folder: string): Promise<Session> {
  const settings = ['-v', 'VERBOSITY=verbose', '-P', `null=${NULL}`, '-P', 'footer=off'];
  const format = ['-X', '-q', '-A', '-F', FIELD, '-R', RECORD, ...settings];
  const args = [psql, ...format, '-h', folder, '-U', 'millrace', '-d', 'postgres'];
  // Errors come on the same stream as rows: each one can be matched to its statement.
  const child = spawn('sh', ['-c', 'exec "$@" 2>&1', 'sh', ...args]);
  const ended = once(child, 'exit');
  const turns = answersOf(child);
  await turns('set client_min_messages = error');
  return {
    run: async (sql) => rowsOf(await turns(sql)),
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

/** Sends statements one after the other; resolves to the answer of each. */
function answersOf(child: ChildProcessWithoutNullStreams): (sql: string) => Promise<string> {
  let text = '';
  const waiting: { resolve: (text: string) => void; reject: (error: Error) => void }[] = [];
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
    for (let end = text.indexOf(END); end >= 0; end = text.indexOf(END)) {
      waiting.shift()?.resolve(text.slice(0, end));
      text = text.slice(end + 2);
    }
  });
  child.once('exit', () => {
    for (const { reject } of waiting.splice(0)) reject(new PostgresError('08006', `psql ended: ${text}`));
  });
  return (sql) =>
    new Promise((resolve, reject) => {
      waiting.push({ resolve, reject });
      child.stdin.write(`${sql}\n;\n\\echo ${END}\n`);
    });
}

function rowsOf(text: string): Row[] {
  const error = /^(?:ERROR|FATAL): +(\w{5}): (.*)$/m.exec(text);
  if (error) throw new PostgresError(error[1]!, error[2]!);
  const [names, ...records] = text.replace(/\n$/, '').split(RECORD);
  const columns = names!.split(FIELD);
  return records.map((record) => {
    const values = record.split(FIELD);
    return Object.fromEntries(columns.map((name, at) => [name, values[at] === NULL ? null : values[at]!]));
  });
}

export type Value = string | number | bigint | Uint8Array | null | readonly Value[];

/** A value as a literal that the server reads for a parameter of any type. */
export function literal(value: Value): string {
  if (value === null) return 'null';
  return `'${textOf(value).replaceAll("'", "''")}'`;
}

function textOf(value: Exclude<Value, null>): string {
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`;
  if (typeof value !== 'object') return String(value);
  const elements = value.map((one) =>
    one === null ? 'null' : `"${textOf(one).replaceAll(/["\\]/g, '\\$&')}"`,
  );
  return `{${elements.join(',')}}`;
}

/** The statements of a page by name: each begins with a line `-- part.name` in a block of SQL. */
export function statementsIn(page: string): Map<string, string> {
  const statements = new Map<string, string>();
  for (const [, block] of page.matchAll(/^```sql\n(.*?)^```$/gms)) {
    for (const part of block!.split(/^(?=-- [a-z]+\.[a-z]+)/m)) {
      const name = /^-- ([a-z]+(?:\.[a-z]+)?)/.exec(part)?.[1];
      if (name === undefined || statements.has(name)) throw new Error(`a statement without a name: ${part}`);
      statements.set(
        name,
        part
          .slice(part.indexOf('\n') + 1)
          .trim()
          .replace(/;$/, ''),
      );
    }
  }
  return statements;
}
