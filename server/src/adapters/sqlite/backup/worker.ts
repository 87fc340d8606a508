import { chmodSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { StorageError } from '../../../ports/event-log.ts';
import type { Backup } from '../../../ports/store.ts';
import { databaseUri, syncPath } from '../data-folder/files.ts';
import { freeBytes, OWNER_ONLY, takeEmptyFolder } from '../data-folder/folder.ts';
import { verifyFile } from '../upkeep/verification.ts';

export interface BackupWorkerOptions {
  /** The data folder. */
  readonly folder: string;
  /** Where the copy goes. */
  readonly into: string;
  /** One shared word. Any value but 0 breaks the copy off. */
  readonly cancelFlag: Int32Array;
}

export type BackupWorkerMessage =
  | { readonly kind: 'progress'; readonly written: number; readonly of: number }
  | { readonly kind: 'done'; readonly backup: Backup }
  | { readonly kind: 'failed'; readonly reason: string };

/** Pages copied in one step: a quarter of a megabyte. The thread hears nothing while a step runs. */
const STEP_PAGES = 64;

/**
 * Bytes between two syncs of the copy. After each sync the copy pauses for as long as these bytes took. Without syncs,
 * gigabytes of unsynced pages delay the next commit: with a gigabyte copied in one go, the slowest hundredth of all commits
 * took 440 ms; in pieces of one megabyte with pauses 4 ms, as without a backup.
 */
const BYTES_PER_SYNC = 1024 * 1024;

/** Bytes left free on the disk of the copy. */
const FREE_SPACE_MARGIN = 16 * 1024 * 1024;

/** Name of the file until it is whole and on stable storage. */
const UNFINISHED = 'millrace.db.unfinished';

/**
 * Makes a backup on a thread of its own. One transaction of a separate connection reads everything, so the copy shows the
 * store at one moment, whatever is committed meanwhile. Until the end the write-ahead log cannot restart from its beginning
 * and grows with each commit. The connection is read-only, so it never checkpoints, not even as the last to close.
 */
async function copy(
  { folder, into, cancelFlag }: BackupWorkerOptions,
  report: (message: BackupWorkerMessage) => void,
): Promise<Backup> {
  const isNew = takeEmptyFolder(into, makeFolder, (names) => refusalOf(into, names));
  const unfinished = join(into, UNFINISHED);
  const source = new DatabaseSync(databaseUri(folder, 'ro'), { readOnly: true });
  try {
    source.exec('pragma cache_size = -1024; begin');
    const size = sizeOfSource(source);
    refuseWithoutRoom(into, size.bytes);
    report({ kind: 'progress', written: 0, of: size.bytes });
    // The rights are set before anything is written.
    writeFileSync(unfinished, '', { mode: 0o600, flag: 'wx' });
    chmodSync(unfinished, 0o600);
    await copyPages(source, { unfinished, cancelFlag, bytes: size.bytes, report });
    const damage = verifyFile(unfinished);
    syncPath(unfinished);
    renameSync(unfinished, join(into, 'millrace.db'));
    syncPath(into);
    syncPath(dirname(into));
    return damage === undefined ? size : { ...size, damage };
  } catch (error) {
    rmSync(unfinished, { force: true });
    rmSync(`${unfinished}-journal`, { force: true });
    if (isNew) rmSync(into, { recursive: true, force: true });
    throw error;
  } finally {
    source.close();
  }
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
  return names.includes(UNFINISHED)
    ? `${into} holds a backup that came to no end: remove it, or name another folder`
    : `${into} is not empty: name a folder that does not exist yet`;
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
  const missing = bytes + FREE_SPACE_MARGIN - freeBytes(into);
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
  readonly report: (message: BackupWorkerMessage) => void;
}

async function copyPages(
  source: DatabaseSync,
  { unfinished, cancelFlag, bytes, report }: PageCopy,
): Promise<void> {
  let synced = 0;
  let since = performance.now();
  await backup(source, unfinished, {
    rate: STEP_PAGES,
    progress: ({ totalPages, remainingPages }) => {
      // An error thrown here rejects the backup.
      if (Atomics.load(cancelFlag, 0) !== 0)
        throw new StorageError('the server is being stopped: make it again later');
      const written = Math.round(((totalPages - remainingPages) / totalPages) * bytes);
      if (written - synced < BYTES_PER_SYNC) return;
      syncPath(unfinished);
      report({ kind: 'progress', written, of: bytes });
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
