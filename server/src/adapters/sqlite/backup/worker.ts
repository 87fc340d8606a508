import {
  chmodSync,
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { StorageError } from '../../../ports/event-log.ts';
import type { Backup } from '../../../ports/store.ts';
import { databaseUri } from '../data-folder/files.ts';
import { OWNER_ONLY, restrictToOwner } from '../data-folder/folder.ts';
import { verifyFile } from '../upkeep/verification.ts';

export interface BackupWorkerOptions {
  /** The data folder. */
  readonly folder: string;
  /** Where the copy goes. */
  readonly into: string;
  /** One shared word: anything but 0 breaks the copy off. */
  readonly cancelFlag: Int32Array;
}

export type BackupWorkerMessage =
  | { readonly kind: 'progress'; readonly written: number; readonly of: number }
  | { readonly kind: 'done'; readonly backup: Backup }
  | { readonly kind: 'failed'; readonly reason: string };

/** Pages copied in one step, in which the thread cannot be told anything: a quarter of a megabyte. */
const STEP_PAGES = 64;

/**
 * Bytes after which the copy is synced, and the disk left alone for as long as they took. Unsynced, gigabytes of it stand
 * before the next commit's sync: while a gigabyte was copied in one go, the slowest hundredth of all commits took 440 ms, in
 * pieces of one megabyte with pauses 4 ms, as without a backup.
 */
const BYTES_PER_SYNC = 1024 * 1024;

/** Room that is to be left on the disk of the copy. */
const FREE_SPACE_MARGIN = 16 * 1024 * 1024;

/** What the file is called until it is whole and on stable storage. */
const UNFINISHED = 'millrace.db.unfinished';

/**
 * The thread that makes a backup. Everything is read in one transaction of a connection of its own, so the copy is the
 * store at one moment, whatever is committed meanwhile. The write-ahead log cannot start again from its beginning until
 * then and grows by what is committed. The connection is read-only and so never checkpoints, not even as the last to close.
 */
async function copy(
  { folder, into, cancelFlag: wish }: BackupWorkerOptions,
  report: (said: BackupWorkerMessage) => void,
): Promise<Backup> {
  const isNew = makeEmpty(into);
  const unfinished = join(into, UNFINISHED);
  const source = new DatabaseSync(databaseUri(folder, 'ro'), { readOnly: true });
  try {
    source.exec('pragma cache_size = -1024; begin');
    const facts = sizeOfSource(source);
    refuseWithoutRoom(into, facts.bytes);
    report({ kind: 'progress', written: 0, of: facts.bytes });
    // With its rights before there is anything in it.
    writeFileSync(unfinished, '', { mode: 0o600, flag: 'wx' });
    chmodSync(unfinished, 0o600);
    await copyPages(source, { unfinished, cancelFlag: wish, bytes: facts.bytes, report });
    const damage = verifyFile(unfinished);
    sync(unfinished);
    renameSync(unfinished, join(into, 'millrace.db'));
    sync(into);
    sync(dirname(into));
    return damage === undefined ? facts : { ...facts, damage };
  } catch (error) {
    rmSync(unfinished, { force: true });
    rmSync(`${unfinished}-journal`, { force: true });
    if (isNew) rmSync(into, { recursive: true, force: true });
    throw error;
  } finally {
    source.close();
  }
}

/** Makes the folder, or finds it empty; whether it was made. */
function makeEmpty(into: string): boolean {
  try {
    // Not the folders above it: a path with a typing error is better refused than made.
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
  const found = readdirSync(into);
  if (found.includes(UNFINISHED)) {
    throw new StorageError(`${into} holds a backup that came to no end: remove it, or name another folder`);
  }
  if (found.length > 0) throw new StorageError(`${into} is not empty: name a folder that does not exist yet`);
  restrictToOwner(into);
  return false;
}

function sizeOfSource(source: DatabaseSync): Backup {
  const { events, bytes } = source
    .prepare(
      `select
        coalesce((select first + n from chunk order by first desc limit 1), 0) -
          coalesce((select value from installation where name = 'retained_from'), 0) as events,
        (select page_count from pragma_page_count) * (select page_size from pragma_page_size) as bytes`,
    )
    .get() as unknown as Backup;
  return { events, bytes };
}

function refuseWithoutRoom(into: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(into);
  const missing = bytes + FREE_SPACE_MARGIN - bavail * bsize;
  if (missing <= 0) return;
  throw new StorageError(
    `the disk of ${into} has no room for it: ${Math.ceil(missing / 1024 / 1024)} MB are missing of ` +
      `${Math.ceil(bytes / 1024 / 1024)} MB; free some space, or name a folder on another disk`,
  );
}

interface PageCopy {
  readonly unfinished: string;
  readonly cancelFlag: Int32Array;
  readonly bytes: number;
  readonly report: (said: BackupWorkerMessage) => void;
}

async function copyPages(
  source: DatabaseSync,
  { unfinished, cancelFlag: wish, bytes, report }: PageCopy,
): Promise<void> {
  let synced = 0;
  let since = performance.now();
  await backup(source, unfinished, {
    rate: STEP_PAGES,
    progress: ({ totalPages, remainingPages }) => {
      // What is thrown here is what the backup is rejected with.
      if (Atomics.load(wish, 0) !== 0)
        throw new StorageError('the server is being stopped: make it again later');
      const written = Math.round(((totalPages - remainingPages) / totalPages) * bytes);
      if (written - synced < BYTES_PER_SYNC) return;
      sync(unfinished);
      report({ kind: 'progress', written, of: bytes });
      Atomics.wait(wish, 0, 0, performance.now() - since);
      synced = written;
      since = performance.now();
    },
  });
}

function sync(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
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
  const report = (said: BackupWorkerMessage) => port.postMessage(said);
  try {
    report({ kind: 'done', backup: await copy(options, report) });
  } catch (error) {
    report({ kind: 'failed', reason: reasonOf(error, options.into) });
  }
}
