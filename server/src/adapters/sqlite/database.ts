import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../ports/event-log.ts';
import { databaseUri, syncPath, walPath } from './data-folder/files.ts';
import { migrate, refuseForeign, refuseOtherTables } from './schema.ts';

/**
 * Older versions could lose a commit when two connections of a file wrote and checkpointed at the same
 * moment.
 */
const OLDEST_SQLITE = '3.51.3';

/**
 * Bytes of a page of a new file. A commit writes each page that it changes, however little of it: where calls
 * come one by one, pages of 4 kB write twice as many bytes. docs/decisions/0030-page-size.md
 */
const PAGE_SIZE = 1024;

export interface OpenOptions {
  /** Makes the file if there is none. Otherwise a missing file is an error. */
  readonly isNew?: boolean;
  /** Called before anything in the file is changed. Throws an error to refuse the file. */
  readonly check?: (database: DatabaseSync) => void;
}

/**
 * Opens the store's file and brings it to the current format. The folder must exist, be writable and be
 * locked by this process. Throws a `StorageError` that says what to do.
 */
export function openDatabase(folder: string, { isNew = false, check }: OpenOptions = {}): DatabaseSync {
  checkSqliteVersion(process.versions.sqlite ?? '0');
  let database: DatabaseSync | undefined;
  try {
    rewriteAndSync(walPath(folder));
    database = new DatabaseSync(databaseUri(folder, isNew ? 'rwc' : 'rw'));
    refuseForeign(database);
    check?.(database);
    // Before the first table: later each would take a VACUUM, which blocks everything. Older files keep their
    // pages of 4 kB.
    database.exec(`pragma page_size = ${PAGE_SIZE}`);
    database.exec('pragma auto_vacuum = incremental');
    database.exec('pragma journal_mode = wal');
    // In WAL mode only FULL syncs at every commit, as the event log promises.
    database.exec('pragma synchronous = full');
    // On macOS a plain fsync leaves data in the drive's cache; elsewhere these two do nothing.
    database.exec('pragma fullfsync = on; pragma checkpoint_fullfsync = on');
    database.exec('pragma cache_size = -16384; pragma temp_store = memory; pragma trusted_schema = off');
    // Overwrites deleted rows on pages that are written anyway. Erasing a user gives free pages back too.
    database.exec('pragma secure_delete = fast');
    // The checkpointer does this on its own thread: inline it stalls some commits by 16 to 47 ms.
    database.exec('pragma wal_autocheckpoint = 0');
    migrate(database);
    refuseOtherTables(database);
    syncPath(folder);
    return database;
  } catch (error) {
    database?.close();
    throw asStorageError(error, folder);
  }
}

export function checkSqliteVersion(version: string): void {
  if (version.localeCompare(OLDEST_SQLITE, 'en', { numeric: true }) >= 0) return;
  throw new StorageError(
    `this Node (${process.version}) carries SQLite ${version}, which may lose stored events: ` +
      `use Node 24.15 or newer, with SQLite ${OLDEST_SQLITE} or newer`,
  );
}

/**
 * Brings the write-ahead log of an earlier handle or process to stable storage, whatever became of its syncs.
 *
 * After a failed sync the pages stay in the page cache, marked as clean: they can be read, and the next sync
 * skips them. A commit in such a log looks durable and would be gone after a power cut; worse, a checkpoint
 * cut in the middle would damage the file. Pages that are written once more are synced for certain.
 */
export function rewriteAndSync(path: string): void {
  let handle: number;
  try {
    handle = openSync(path, 'r+');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  try {
    const piece = Buffer.allocUnsafe(1024 * 1024);
    let at = 0;
    for (;;) {
      const read = readSync(handle, piece, 0, piece.length, at);
      if (read === 0) break;
      for (let written = 0; written < read; ) {
        written += writeSync(handle, piece, written, read - written, at + written);
      }
      at += read;
    }
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** An error of SQLite or of the system as a `StorageError`, whose reason is one line that says what to do. */
export function asStorageError(error: unknown, folder: string, adviceOnDamage = DAMAGED_LOG): StorageError {
  if (error instanceof StorageError) return error;
  const { message, errstr } = error as { message?: string; errstr?: string };
  const said = errstr ?? message ?? String(error);
  const advice =
    ADVICE.find(([pattern]) => pattern.test(`${said} ${message}`))?.[1] ??
    (DAMAGE.test(`${said} ${message}`) ? adviceOnDamage : 'see the log, then the disk');
  return new StorageError(`cannot use the data folder ${folder} (${said}): ${advice}`, { cause: error });
}

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/full|ENOSPC/i, 'free some space on its disk'],
  [
    /unable to open|EACCES|EPERM|readonly|read-only|EROFS/i,
    'make it writable for this user, or choose another one with --data',
  ],
  // The folder's own lock keeps every other Millrace out.
  [/database is locked/i, 'another program, such as sqlite3 or Litestream, has millrace.db open: end it'],
  [/I\/O|EIO/i, 'the disk reports errors: check it before you start again'],
];

/**
 * A destroyed page of a table without checksums gives a length that no memory can hold. A column is missing
 * where its name in the schema has changed: a file of an older format is brought forward before anything asks
 * for its columns.
 */
const DAMAGE =
  /not a database|malformed|corrupt|allocation failed|invalid .*length|no such column|has no column named/i;
const DAMAGED_LOG = 'its millrace.db is damaged: restore a backup, or choose another one with --data';

export function errorCode(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}
