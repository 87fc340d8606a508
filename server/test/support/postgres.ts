import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';

/** The oldest PostgreSQL that the store runs on. */
const OLDEST = 15;

/** The folder of `initdb` and `postgres`; undefined when no PostgreSQL is recent enough. */
export function findPostgres(): string | undefined {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((one) => join(debian, one, 'bin')),
    ...(process.env['PATH'] ?? '').split(':'),
  ];
  return folders.find((folder) => {
    if (!['initdb', 'postgres'].every((name) => existsSync(join(folder, name)))) return false;
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
  /** Stops the server, disconnects all clients, and removes its folder. */
  stop(): Promise<void>;
}

/** A connection of its own, beside those of what is tested. */
export async function connectTo(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  return client;
}

export interface PostgresSettings {
  /** Off for tests that open hundreds of databases and never end the server in the middle. */
  readonly fsync?: 'on' | 'off';
  /** Further settings of the server. */
  readonly settings?: Readonly<Record<string, string>>;
}

export async function startPostgres(
  bin: string,
  { fsync = 'on', settings = {} }: PostgresSettings = {},
): Promise<Postgres> {
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
    ...settings,
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
      const client = await connectTo(url);
      const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
      while ((await client.query(waiting)).rows.length < statements)
        await new Promise((next) => setTimeout(next, 5));
      await client.end();
    },
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
