import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';
import type { SecretKeys } from '../../../model/secret-keys.ts';
import { type Damage, StorageError } from '../../../ports/event-log.ts';
import type { Backup } from '../../../ports/store.ts';
import { SecretSeal } from '../../encoding/secret-seal.ts';
import { isDamageError } from '../damage.ts';
import { DATABASE_FILE, databaseUri, isWritersFile, syncPath, USERS_FILE } from '../data-folder/files.ts';
import { freeBytes, OWNER_ONLY, takeEmptyFolder } from '../data-folder/folder.ts';
import { verifyFile } from '../upkeep/verification.ts';
import { describeFile, MANIFEST_FILE, type ManifestFile, writeManifest } from './manifest.ts';

export interface BackupWorkerOptions {
  /** The data folder. */
  readonly folder: string;
  /** As `WriterOptions.file`. */
  readonly file: SharedArrayBuffer;
  /** Where the copy goes. */
  readonly into: string;
  /** One shared word. Any value but 0 breaks the copy off. */
  readonly cancelFlag: Int32Array;
  /** The current one proves the manifest. */
  readonly secretKeys: SecretKeys;
}

export type BackupWorkerMessage =
  | { readonly kind: 'progress'; readonly written: number; readonly of: number }
  | { readonly kind: 'done'; readonly backup: Backup }
  | { readonly kind: 'failed'; readonly reason: string };

/** Bytes copied in one step. The thread hears nothing while a step runs. */
const STEP_BYTES = 256 * 1024;

/**
 * Bytes between two syncs of the copy. After each sync the copy pauses for as long as these bytes took.
 * Without syncs, gigabytes of unsynced pages delay the next commit: with a gigabyte copied in one go, the
 * slowest hundredth of all commits took 440 ms; in pieces of one megabyte with pauses 4 ms, as without a
 * backup.
 */
const BYTES_PER_SYNC = 1024 * 1024;

/** Bytes left free on the disk of the copy. */
const FREE_SPACE_MARGIN = 16 * 1024 * 1024;

/** Behind the name of a file until it is whole and on stable storage. */
const UNFINISHED = '.unfinished';

/** The damage entry of profiles that a backup leaves out. */
const PROFILES = 'the profiles in users.db, which are made from the log again';

/**
 * Makes a backup on a thread of its own. One transaction of a separate connection reads all of a file, so the
 * copy shows it at one moment, whatever is committed meanwhile. The transaction on the profiles begins before
 * the one on the log: profiles that had seen more events than the log holds would be refused. Until the end
 * the write-ahead logs cannot restart from their beginning and grow with each commit.
 */
async function copy(
  { folder, file, into, cancelFlag, secretKeys }: BackupWorkerOptions,
  report: (message: BackupWorkerMessage) => void,
): Promise<Backup> {
  const isNew = takeEmptyFolder(into, makeFolder, (names) => refusalOf(into, names));
  let sources: Sources | undefined;
  try {
    sources = openSources(folder, file);
    const size = sizeOfSource(sources.log);
    const users = sources.users === undefined ? 0 : bytesOf(sources.users);
    const of = size.bytes + users;
    refuseWithoutRoom(into, of);
    report({ kind: 'progress', written: 0, of });
    const terms = { into, cancelFlag, of, report, manifest: [] as ManifestFile[] };
    const at = new Date().toISOString();
    const hasUsers =
      sources.users !== undefined &&
      (await copyUsers(sources.users, { ...terms, file: USERS_FILE, bytes: users, before: 0 }));
    const damage = withoutProfiles(
      await copyFile(
        sources.log,
        { ...terms, file: DATABASE_FILE, bytes: size.bytes, before: users },
        verifyFile,
      ),
      existsSync(join(folder, USERS_FILE)) && !hasUsers,
    );
    writeManifest(into, { at, files: terms.manifest }, new SecretSeal(secretKeys));
    syncPath(into);
    syncPath(dirname(into));
    const bytes = terms.manifest.reduce((sum, { size }) => sum + size, 0);
    const copied = { ...size, bytes };
    return damage === undefined ? copied : { ...copied, damage };
  } catch (error) {
    for (const file of [USERS_FILE, DATABASE_FILE])
      for (const rest of ['', '-journal', '-wal'])
        rmSync(join(into, `${file}${UNFINISHED}${rest}`), { force: true });
    // Without its manifest nobody takes what is left for a backup.
    for (const name of [USERS_FILE, DATABASE_FILE, `${MANIFEST_FILE}.new`])
      rmSync(join(into, name), { force: true });
    if (isNew) rmSync(into, { recursive: true, force: true });
    throw error;
  } finally {
    sources?.users?.close();
    sources?.log.close();
  }
}

interface Sources {
  readonly log: DatabaseSync;
  /** Absent when there are no profiles, or their file cannot be opened. */
  readonly users?: DatabaseSync;
}

/**
 * Both files, each at one moment. Neither connection writes. The one to the log cannot checkpoint, not even
 * as the last to close.
 */
function openSources(folder: string, file: SharedArrayBuffer): Sources {
  const users = openUsers(folder, file);
  let log: DatabaseSync | undefined;
  try {
    log = new DatabaseSync(databaseUri(folder, 'ro'), { readOnly: true });
    refuseAnother(folder, file);
    log.exec('pragma cache_size = -1024');
    beginReading(log);
    return users === undefined ? { log } : { log, users };
  } catch (error) {
    log?.close();
    users?.close();
    throw error;
  }
}

/**
 * For reading and writing: no other connection need be open, and a first one that only reads finds no index
 * of the log.
 */
function openUsers(folder: string, file: SharedArrayBuffer): DatabaseSync | undefined {
  if (!existsSync(join(folder, USERS_FILE))) return undefined;
  let users: DatabaseSync | undefined;
  try {
    users = new DatabaseSync(databaseUri(folder, 'rw', USERS_FILE), { timeout: 5000 });
    refuseAnother(folder, file);
    users.exec('pragma cache_size = -1024; pragma query_only = on');
    beginReading(users);
    return users;
  } catch (error) {
    users?.close();
    if (isDamageError(error)) return undefined;
    throw error;
  }
}

/**
 * Throws when another store stands in the folder than the one that the writer has open. Asked when a
 * connection is open and has read nothing: closed then, it does nothing to that other one, where a first
 * connection to profiles would write their log into their file.
 */
function refuseAnother(folder: string, file: SharedArrayBuffer): void {
  if (isWritersFile(folder, file)) return;
  throw new StorageError(
    `another store is in the place of the open one in ${folder}: move back the very same files, and make the backup then`,
  );
}

/** The moment that a transaction shows is that of its first read. */
function beginReading(database: DatabaseSync): void {
  database.exec('begin');
  database.prepare('select count(*) from sqlite_schema').get();
}

/** False when the profiles are damaged and left out. */
async function copyUsers(source: DatabaseSync, page: FileCopy): Promise<boolean> {
  try {
    await copyFile(source, page, refuseDamagedPages);
    return true;
  } catch (error) {
    if (!isDamageError(error)) throw error;
    rmSync(join(page.into, `${USERS_FILE}${UNFINISHED}`), { force: true });
    return false;
  }
}

function refuseDamagedPages(path: string): undefined {
  // Immutable: SQLite makes no file beside it.
  const database = new DatabaseSync(`${pathToFileURL(path).href}?immutable=1`, { readOnly: true });
  try {
    const [row] = database.prepare('pragma quick_check(1)').all() as { quick_check: string }[];
    if (row?.quick_check !== 'ok') throw Object.assign(new Error(row?.quick_check), { errcode: 11 });
  } finally {
    database.close();
  }
}

function withoutProfiles(damage: Damage | undefined, isWithout: boolean): Damage | undefined {
  if (!isWithout) return damage;
  const { others = [] } = damage ?? {};
  return { events: 0, deliveries: 0, ...damage, others: [...others, PROFILES] };
}

/** Copies one file and checks the copy. */
async function copyFile<Found>(
  source: DatabaseSync,
  file: FileCopy,
  check: (path: string) => Found,
): Promise<Found> {
  const unfinished = join(file.into, `${file.file}${UNFINISHED}`);
  // The rights are set before anything is written.
  writeFileSync(unfinished, '', { mode: 0o600, flag: 'wx' });
  chmodSync(unfinished, 0o600);
  await copyPages(source, unfinished, file);
  const found = check(unfinished);
  syncPath(unfinished);
  file.manifest.push(describeFile(unfinished, file.file, () => refuseWhenCancelled(file.cancelFlag)));
  renameSync(unfinished, join(file.into, file.file));
  return found;
}

/** Not the folders above it: a path with a typing error is better refused than made. */
function makeFolder(into: string): boolean {
  try {
    mkdirSync(into, { mode: OWNER_ONLY });
    chmodSync(into, OWNER_ONLY);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') {
      throw new StorageError(`${dirname(into)} does not exist on the machine of the server: make it first`);
    }
    if (code !== 'EEXIST') throw error;
  }
  if (!statSync(into).isDirectory())
    throw new StorageError(`${into} is no folder: name one that does not exist yet`);
  return false;
}

function refusalOf(into: string, names: readonly string[]): string {
  return names.some((name) => name.endsWith(UNFINISHED))
    ? `${into} holds a backup that came to no end: remove it, or name another folder`
    : `${into} is not empty: name a folder that does not exist yet`;
}

function sizeOfSource(source: DatabaseSync): Backup {
  const { end, retained } = source
    .prepare(
      `select coalesce((select first + n from chunk order by first desc limit 1), 0) as end,
        coalesce((select value from installation where name = 'retained_from'), 0) as retained`,
    )
    .get() as { end: number; retained: number };
  return { events: end - retained, bytes: bytesOf(source) };
}

function bytesOf(database: DatabaseSync): number {
  const sql =
    'select (select page_count from pragma_page_count) * (select page_size from pragma_page_size) as bytes';
  return (database.prepare(sql).get() as { bytes: number }).bytes;
}

function refuseWithoutRoom(into: string, bytes: number): void {
  const missing = bytes + FREE_SPACE_MARGIN - freeBytes(into);
  if (missing <= 0) return;
  throw new StorageError(
    `the disk of ${into} has no room for it: ${Math.ceil(missing / 1024 / 1024)} MB are missing of ` +
      `${Math.ceil(bytes / 1024 / 1024)} MB; free some space, or name a folder on another disk`,
  );
}

interface FileCopy {
  readonly into: string;
  readonly file: string;
  readonly cancelFlag: Int32Array;
  /** Bytes of this file, of those before it, and of all. */
  readonly bytes: number;
  readonly before: number;
  readonly of: number;
  readonly report: (message: BackupWorkerMessage) => void;
  /** Gets what each whole file is. */
  readonly manifest: ManifestFile[];
}

function refuseWhenCancelled(cancelFlag: Int32Array): void {
  if (Atomics.load(cancelFlag, 0) !== 0)
    throw new StorageError('the server is being stopped: make it again later');
}

async function copyPages(
  source: DatabaseSync,
  unfinished: string,
  { cancelFlag, bytes, before, of, report }: FileCopy,
): Promise<void> {
  const { page_size: pageSize } = source.prepare('pragma page_size').get() as { page_size: number };
  let synced = 0;
  let since = performance.now();
  await backup(source, unfinished, {
    rate: Math.max(1, Math.floor(STEP_BYTES / pageSize)),
    progress: ({ totalPages, remainingPages }) => {
      // An error thrown here rejects the backup.
      refuseWhenCancelled(cancelFlag);
      const written = Math.round(((totalPages - remainingPages) / totalPages) * bytes);
      if (written - synced < BYTES_PER_SYNC) return;
      syncPath(unfinished);
      report({ kind: 'progress', written: before + written, of });
      Atomics.wait(cancelFlag, 0, 0, performance.now() - since);
      synced = written;
      since = performance.now();
    },
  });
}

function reasonOf(error: unknown, into: string): string {
  if (error instanceof StorageError) return error.reason;
  const { message, errstr } = error as { message?: string; errstr?: string };
  const said = errstr ?? message ?? String(error);
  const advice = /full|ENOSPC/i.test(said)
    ? 'free some space, or name a folder on another disk'
    : 'name a folder that the user of the server may write to';
  return `cannot write the backup to ${into} (${said}): ${advice}`;
}

if (parentPort !== null) {
  const port = parentPort;
  const options = workerData as BackupWorkerOptions;
  const report = (message: BackupWorkerMessage) => port.postMessage(message);
  try {
    report({ kind: 'done', backup: await copy(options, report) });
  } catch (error) {
    report({ kind: 'failed', reason: reasonOf(error, options.into) });
  }
}
