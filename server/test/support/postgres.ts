import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';

/** The oldest PostgreSQL that the store runs on. */
const OLDEST = 15;

/**
 * The folder of `initdb` and `postgres`: that of MILLRACE_TEST_POSTGRES, or the newest of Debian, or one in PATH; undefined when no
 * PostgreSQL is recent enough.
 */
export function findPostgres(): string | undefined {
  found ??= { bin: lookForPostgres() };
  return found.bin;
}

let found: { readonly bin: string | undefined } | undefined;

function lookForPostgres(): string | undefined {
  const named = process.env['MILLRACE_TEST_POSTGRES'];
  if (named) return named;
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
  /** Runs statements as the owner of the server; resolves to the rows of the last one. */
  administrate(sql: string): Promise<Record<string, unknown>[]>;
  /** Kills all its processes with SIGKILL, as a crash of the machine does; its files stay. */
  crash(): Promise<void>;
  /** Stops all its processes where they are, as a machine that stands still does: connections stay open and nothing is answered. */
  freeze(): void;
  /** Ends `freeze`. */
  thaw(): void;
  /** Starts it again after `crash`. */
  restart(): Promise<void>;
  /** Resolves to a copy that follows it and confirms each commit from now on. */
  makeStandby(): Promise<Postgres>;
  /** Makes a standby a primary. */
  promote(): Promise<void>;
  /** Stops the server, disconnects all clients, and removes its folder. */
  stop(): Promise<void>;
}

/** A connection of its own, beside those of what is tested. */
export async function connectTo(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  return client;
}

/** The tables and indexes of a database in whose files a text stands, when its server has written everything out. */
export async function filesWith(url: string, text: string): Promise<string[]> {
  const client = await connectTo(url);
  await client.query('checkpoint');
  const { rows } = await client.query<{ folder: string }>(
    `select current_setting('data_directory') || '/base/' || oid as folder from pg_database where datname = current_database()`,
  );
  const { folder } = rows[0]!;
  const files = readdirSync(folder).filter((name) => readFileSync(join(folder, name)).includes(text));
  const nameOf = `select coalesce(pg_filenode_relation(0, nullif($1, '')::oid)::regclass::text, $2) as name`;
  const names: string[] = [];
  for (const file of files) {
    const node = /^\d+/.exec(file)?.[0] ?? '';
    names.push((await client.query<{ name: string }>(nameOf, [node, file])).rows[0]!.name);
  }
  await client.end();
  return names;
}

export interface PostgresSettings {
  /** Off for tests that open hundreds of databases and never end the server in the middle. */
  readonly fsync?: 'on' | 'off';
  /** Further settings of the server. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** Where the commands of PostgreSQL are, and what runs them as a user who may. */
interface Home {
  readonly bin: string;
  readonly folder: string;
  readonly user: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
}

export async function startPostgres(
  bin: string,
  { fsync = 'on', settings = {} }: PostgresSettings = {},
): Promise<Postgres> {
  const home = makeHome(bin, { fsync, ...settings });
  const options = ['-U', 'millrace', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  await runToEnd(home, 'initdb', ['-D', dataOf(home), ...options]);
  return serverOf(home, await launchServer(home));
}

function makeHome(bin: string, settings: Home['settings']): Home {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pg-'));
  return { bin, folder, user: unprivileged(folder), settings };
}

const dataOf = ({ folder }: Home) => join(folder, 'data');

function run({ bin, folder, user }: Home, name: string, args: readonly string[]) {
  const [command, ...rest] = [...user, join(bin, name), ...args];
  return spawn(command!, rest, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
}

async function runToEnd(home: Home, name: string, args: readonly string[]): Promise<void> {
  const command = run(home, name, args);
  const said: string[] = [];
  command.stderr.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const [code] = (await once(command, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${name} ended with ${code}: ${said.join('')}`);
}

async function launchServer(home: Home): Promise<ChildProcess> {
  const options = {
    listen_addresses: '',
    unix_socket_directories: home.folder,
    synchronous_commit: 'on',
    ...home.settings,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = run(home, 'postgres', ['-D', dataOf(home), ...flags]);
  await new Promise<void>((ready, fail) => {
    let log = '';
    server.stderr!.setEncoding('utf8').on('data', (text: string) => {
      log += text;
      if (/ready to accept (read-only )?connections/.test(log)) ready();
    });
    server.once('exit', () => fail(new Error(`postgres did not start: ${log}`)));
  });
  return server;
}

function serverOf(home: Home, launched: ChildProcess): Postgres {
  const { folder } = home;
  let server = launched;
  let databases = 0;
  const administrate = async (sql: string) => {
    const client = new pg.Client({ host: folder, user: 'millrace', database: 'postgres' });
    await client.connect();
    try {
      const { rows } = [await client.query(sql)].flat().at(-1) as { rows: Record<string, unknown>[] };
      return rows;
    } finally {
      await client.end();
    }
  };
  return {
    folder,
    administrate,
    makeDatabase: async (template) => {
      const name = `millrace_${++databases}`;
      const copied = template === undefined ? '' : `template ${/millrace_\d+/.exec(template)![0]}`;
      await administrate(`create database ${name} ${copied} strategy wal_log`);
      return `postgres:///${name}?host=${encodeURIComponent(folder)}&user=millrace`;
    },
    dropDatabase: async (url) => {
      await administrate(`drop database ${/millrace_\d+/.exec(url)![0]} with (force)`);
    },
    isBlocked: async (url, statements = 1) => {
      const client = await connectTo(url);
      const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
      while ((await client.query(waiting)).rows.length < statements)
        await new Promise((next) => setTimeout(next, 5));
      await client.end();
    },
    crash: async () => {
      const ended = once(server, 'exit');
      killServer(server.pid!);
      await ended;
    },
    freeze: () => freezeServer(server.pid!),
    thaw: () => {
      for (const pid of [...childrenOf(server.pid!), server.pid!]) process.kill(pid, 'SIGCONT');
    },
    restart: async () => {
      server = await launchServer(home);
    },
    makeStandby: async () => {
      const copy = makeHome(home.bin, home.settings);
      const from = [
        '-h',
        folder,
        '-U',
        'millrace',
        '-D',
        dataOf(copy),
        '-R',
        '--checkpoint=fast',
        '--no-sync',
      ];
      await runToEnd(copy, 'pg_basebackup', from);
      const standby = serverOf(copy, await launchServer(copy));
      await administrate(`alter system set synchronous_standby_names = '*'`);
      await administrate('select pg_reload_conf()');
      const isFollowed = async () =>
        (await administrate(`select from pg_stat_replication where sync_state = 'sync'`)).length > 0;
      while (!(await isFollowed())) await new Promise((next) => setTimeout(next, 20));
      return standby;
    },
    promote: async () => {
      await administrate('select pg_promote(true)');
    },
    stop: async () => {
      if (server.exitCode === null && server.signalCode === null) {
        const ended = once(server, 'exit');
        // A fast stop: clients are cut off, the files are left in order.
        server.kill('SIGINT');
        await ended;
      }
      rmSync(folder, { recursive: true });
    },
  };
}

/**
 * Kills a server at once, and its children with it: they would outlive it for a moment, and the next start would find their memory in
 * use. The server is stopped first. It then starts no child that would be missed, and the number of a child that ends by itself stays
 * taken, because nobody has asked for its exit.
 */
export function killServer(pid: number): void {
  stopProcess(pid);
  for (const child of childrenOf(pid)) process.kill(child, 'SIGKILL');
  process.kill(pid, 'SIGKILL');
}

function freezeServer(pid: number): void {
  stopProcess(pid);
  for (const child of childrenOf(pid)) process.kill(child, 'SIGSTOP');
}

function stopProcess(pid: number): void {
  process.kill(pid, 'SIGSTOP');
  while (!/\) [TZ] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')));
}

function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return children.split(' ').filter(Boolean).map(Number);
}

/**
 * What runs a command as the user that a folder is given to: PostgreSQL refuses to run as root. The server ends with the test, however
 * the test ends.
 */
export function unprivileged(folder: string): string[] {
  const dies = ['setpriv', '--pdeathsig', 'INT'];
  if (process.getuid?.() !== 0) return spawnSync('setpriv', ['--version']).status === 0 ? dies : [];
  const idOf = (flag: string, name: string) => spawnSync('id', [flag, name], { encoding: 'utf8' });
  const name = idOf('-u', 'postgres').status === 0 ? 'postgres' : 'nobody';
  const [uid, gid] = [Number(idOf('-u', name).stdout), Number(idOf('-g', name).stdout)];
  chownSync(folder, uid, gid);
  return [...dies, '--reuid', String(uid), '--regid', String(gid), '--clear-groups'];
}
