import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { until, within } from './until.ts';

/** The oldest PostgreSQL that the store runs on. */
const OLDEST = 15;

/**
 * The folder of `initdb` and `postgres`: that of MILLRACE_TEST_POSTGRES, or the newest of Debian, or one in
 * PATH; undefined when no PostgreSQL is recent enough.
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

/** Databases on a server that is reached over a socket in its folder only. */
export interface Databases {
  /** Where the server has its files and its socket. */
  readonly folder: string;
  /**
   * Makes a database, empty or as the template of an address; resolves to its address, as `pg` and the
   * configuration take it.
   */
  makeDatabase(template?: string): Promise<string>;
  /** Removes it, and cuts its clients off. */
  dropDatabase(url: string): Promise<void>;
  /**
   * Resolves when so many statements in the database of this address wait for a lock; one, if nothing is
   * said.
   */
  isBlocked(url: string, statements?: number): Promise<void>;
  /** Runs statements as the owner of the server; resolves to the rows of the last one. */
  administrate(sql: string): Promise<Record<string, unknown>[]>;
}

/** A real server in a folder of its own. */
export interface Postgres extends Databases {
  /** Kills all its processes with SIGKILL, as a crash of the machine does; its files stay. */
  crash(): Promise<void>;
  /**
   * Stops all its processes where they are, as a machine that stands still does: connections stay open and
   * nothing is answered.
   */
  freeze(): void;
  /** Ends `freeze`. */
  thaw(): void;
  /** Starts it again after `crash`. */
  restart(): Promise<void>;
  /**
   * Resolves to a copy that follows it and confirms each commit from now on. It stops with this one, if it
   * has not before.
   */
  makeStandby(): Promise<Postgres>;
  /** Makes a standby a primary. */
  promote(): Promise<void>;
  /** Stops the server, disconnects all clients, and removes its folder. Idempotent. */
  stop(): Promise<void>;
}

/**
 * A connection of its own, beside those of what is tested. When it breaks, what is asked over it fails, and
 * nothing else.
 */
export async function connectTo(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** The name of the database in an address, which may have several hosts. */
export function nameOf(url: string): string {
  return /^[a-z]+:\/\/[^/]*\/([^?]+)/.exec(url)![1]!;
}

/**
 * The tables and indexes of a database in whose files a text stands, when its server has written everything
 * out.
 */
export async function filesWith(url: string, text: string): Promise<string[]> {
  const client = await connectTo(url);
  await client.query('checkpoint');
  const { rows } = await client.query<{ folder: string }>(
    `select current_setting('data_directory') || '/base/' || oid as folder from pg_database where datname = current_database()`,
  );
  const { folder } = rows[0]!;
  const files = readdirSync(folder).filter((name) => contentOf(join(folder, name)).includes(text));
  const relation = `select coalesce(pg_filenode_relation(0, nullif($1, '')::oid)::regclass::text, $2) as name`;
  const names: string[] = [];
  for (const file of files) {
    const node = /^\d+/.exec(file)?.[0] ?? '';
    names.push((await client.query<{ name: string }>(relation, [node, file])).rows[0]!.name);
  }
  await client.end();
  return names;
}

/** Empty where the server has removed the file since it was listed: it throws caches away at any moment. */
function contentOf(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}

/**
 * The data folder of a server that has never run: servers may be copies of it, which cost less than `initdb`.
 */
export interface ServerFiles {
  readonly folder: string;
  remove(): void;
}

export interface PostgresSettings {
  /**
   * Off where the server is never ended together with its machine: what a kill leaves is in the memory of the
   * system. Its files are there from the beginning then, where there is room.
   */
  readonly fsync?: 'on' | 'off';
  /** Further settings of the server. */
  readonly settings?: Readonly<Record<string, string>>;
  /** The folder of `ServerFiles` that the server begins with. Without it `initdb` makes them. */
  readonly files?: string;
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
  { fsync = 'on', settings = {}, files }: PostgresSettings = {},
): Promise<Postgres> {
  return await inHome(bin, { fsync, ...settings }, async (home) => {
    if (files === undefined) await initialize(home);
    else await runToEnd(home, 'cp', ['-a', `${dataOf({ folder: files })}/.`, dataOf(home)]);
    return new Server(home, await launchServer(home));
  });
}

export async function makeServerFiles(bin: string): Promise<ServerFiles> {
  return await inHome(bin, { fsync: 'off' }, async (home) => {
    await initialize(home);
    return { folder: home.folder, remove: () => removeHome(home) };
  });
}

async function initialize(home: Home): Promise<void> {
  const options = ['-U', 'millrace', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'];
  await runToEnd(home, join(home.bin, 'initdb'), ['-D', dataOf(home), ...options]);
}

/** Does something in a new folder, which goes again when that fails. */
async function inHome<Made>(
  bin: string,
  settings: Home['settings'],
  work: (home: Home) => Promise<Made>,
): Promise<Made> {
  const home = makeHome(bin, settings);
  try {
    return await work(home);
  } catch (error) {
    removeHome(home);
    throw error;
  }
}

function makeHome(bin: string, settings: Home['settings']): Home {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pg-'));
  const home = { bin, folder, user: unprivileged(folder), settings };
  if (settings['fsync'] !== 'off' || !hasMemory()) mkdirSync(dataOf(home), { mode: 0o700 });
  else symlinkSync(mkdtempSync(join(MEMORY, 'millrace-pg-')), dataOf(home));
  const { uid, gid } = statSync(folder);
  chownSync(dataOf(home), uid, gid);
  return home;
}

function removeHome(home: Pick<Home, 'folder'>): void {
  if (existsSync(dataOf(home))) rmSync(realpathSync(dataOf(home)), { recursive: true, force: true });
  rmSync(home.folder, { recursive: true, force: true });
}

/** A disk in memory: making and dropping a database is making and removing hundreds of files. */
const MEMORY = '/dev/shm';

/** Bytes that the servers of a suite come to need at the same time. */
const ENOUGH = 4 * 1024 ** 3;

function hasMemory(): boolean {
  if (!existsSync(MEMORY)) return false;
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize > ENOUGH;
}

const dataOf = ({ folder }: Pick<Home, 'folder'>) => join(folder, 'data');

function run({ folder, user }: Home, program: string, args: readonly string[]) {
  const [command, ...rest] = [...user, program, ...args];
  return spawn(command!, rest, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
}

async function runToEnd(home: Home, program: string, args: readonly string[]): Promise<void> {
  const command = run(home, program, args);
  const said: string[] = [];
  command.stderr.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const [code] = (await once(command, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${said.join('')}`);
}

/** Characters at the end of a server's log that an error may quote. */
const LOG_TAIL = 8000;

async function launchServer(home: Home): Promise<ChildProcess> {
  const options = {
    listen_addresses: '',
    unix_socket_directories: home.folder,
    synchronous_commit: 'on',
    // In the data folder: a server that is killed leaves it.
    dynamic_shared_memory_type: 'mmap',
    ...home.settings,
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = run(home, join(home.bin, 'postgres'), ['-D', dataOf(home), ...flags]);
  let log = '';
  const started = new Promise<void>((ready, fail) => {
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-LOG_TAIL);
      if (/ready to accept (read-only )?connections/.test(log)) ready();
    });
    server.once('exit', () => fail(new Error(`postgres did not start: ${log}`)));
  });
  await within('the server of PostgreSQL takes connections', started, () => log);
  return server;
}

/** A client of the server. */
class Connected implements Databases {
  readonly folder: string;
  readonly #prefix: string;
  /** Copying files is quicker than writing them to the log, where nothing is synced. */
  readonly #strategy: 'file_copy' | 'wal_log';
  #made = 0;

  constructor(folder: string, { prefix, isSynced }: { readonly prefix: string; readonly isSynced: boolean }) {
    this.folder = folder;
    this.#prefix = prefix;
    this.#strategy = isSynced ? 'wal_log' : 'file_copy';
  }

  readonly administrate = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = new pg.Client({ host: this.folder, user: 'millrace', database: 'postgres' });
    await client.connect();
    try {
      const { rows } = [await client.query(sql)].flat().at(-1) as { rows: Record<string, unknown>[] };
      return rows;
    } finally {
      await client.end();
    }
  };

  async makeDatabase(template?: string): Promise<string> {
    const name = `${this.#prefix}_${++this.#made}`;
    const copied = template === undefined ? '' : `template ${nameOf(template)}`;
    await this.administrate(`create database ${name} ${copied} strategy ${this.#strategy}`);
    return `postgres:///${name}?host=${encodeURIComponent(this.folder)}&user=millrace`;
  }

  async dropDatabase(url: string): Promise<void> {
    await this.administrate(`drop database ${nameOf(url)} with (force)`);
  }

  async isBlocked(url: string, statements = 1): Promise<void> {
    const client = await connectTo(url);
    const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    const look = async () => (await client.query(waiting)).rows.length >= statements;
    try {
      await until(`${statements} statements wait for a lock`, look, { pause: 5 });
    } finally {
      await client.end();
    }
  }
}

/**
 * Databases of a server without syncs that runs already. Their names begin with `prefix`, and no other
 * process gives the same ones.
 */
export function databasesIn(folder: string, prefix = 'millrace'): Databases {
  return new Connected(folder, { prefix: `${prefix}_${randomUUID().slice(0, 8)}`, isSynced: false });
}

class Server extends Connected implements Postgres {
  readonly #home: Home;
  #server: ChildProcess;
  readonly #standbys: Postgres[] = [];
  #isFrozen = false;

  constructor(home: Home, launched: ChildProcess) {
    super(home.folder, { prefix: 'millrace', isSynced: home.settings['fsync'] !== 'off' });
    this.#home = home;
    this.#server = launched;
  }

  async crash(): Promise<void> {
    const ended = once(this.#server, 'exit');
    killServer(this.#server.pid!);
    await ended;
  }

  freeze(): void {
    freezeServer(this.#server.pid!);
    this.#isFrozen = true;
  }

  thaw(): void {
    const { pid } = this.#server;
    if (!this.#isFrozen) return;
    this.#isFrozen = false;
    for (const one of [...childrenOf(pid!), pid!]) process.kill(one, 'SIGCONT');
  }

  async restart(): Promise<void> {
    this.#server = await launchServer(this.#home);
  }

  async makeStandby(): Promise<Postgres> {
    const standby = await startCopy(this.#home);
    this.#standbys.push(standby);
    await this.administrate(`alter system set synchronous_standby_names = '*'`);
    await this.administrate('select pg_reload_conf()');
    const followers = `select from pg_stat_replication where sync_state = 'sync'`;
    await until('the standby confirms commits', async () => (await this.administrate(followers)).length > 0);
    return standby;
  }

  async promote(): Promise<void> {
    await this.administrate('select pg_promote(true)');
  }

  async stop(): Promise<void> {
    for (const standby of this.#standbys.splice(0)) await standby.stop();
    if (this.#server.exitCode === null && this.#server.signalCode === null) {
      const ended = once(this.#server, 'exit');
      this.thaw();
      // A fast stop: clients are cut off, and nothing of the server stays in the memory of the system.
      this.#server.kill('SIGINT');
      await ended;
    } else releaseMemory(dataOf(this.#home));
    removeHome(this.#home);
  }
}

/** Starts a server that follows this one. */
async function startCopy({ bin, folder, settings }: Home): Promise<Postgres> {
  return await inHome(bin, settings, async (copy) => {
    const options = ['-R', '--checkpoint=fast', '--no-sync'];
    const args = ['-h', folder, '-U', 'millrace', '-D', dataOf(copy), ...options];
    await runToEnd(copy, join(bin, 'pg_basebackup'), args);
    return new Server(copy, await launchServer(copy));
  });
}

/**
 * Kills a server at once, and its children with it: they would outlive it for a moment, and the next start
 * would find their memory in use. The server is stopped first. It then starts no child that would be missed,
 * and the number of a child that ends by itself stays taken, because nobody has asked for its exit.
 */
export function killServer(pid: number): void {
  stopProcess(pid);
  for (const child of childrenOf(pid)) process.kill(child, 'SIGKILL');
  process.kill(pid, 'SIGKILL');
}

/**
 * Gives back the memory of a server that was killed, and does not start again: the system keeps it under a
 * number.
 */
export function releaseMemory(data: string): void {
  const file = join(data, 'postmaster.pid');
  if (!existsSync(file)) return;
  const [, number] = readFileSync(file, 'utf8').split('\n')[6]?.trim().split(/\s+/) ?? [];
  if (number !== undefined) spawnSync('ipcrm', ['-m', number]);
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
 * Command that runs another one as the user to whom a folder is given: PostgreSQL refuses to run as root. The
 * server ends with the test, however the test ends.
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
