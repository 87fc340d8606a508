import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { StorageError } from '../../../ports/event-log.ts';
import { asStorageError, syncFolder } from '../database.ts';
import { type ObservedProgress, readProgress } from '../installation.ts';
import { refuseForeign } from '../schema.ts';
import { DATABASE_FILE, readOnlyUri, startsWithTransaction, walPath } from './files.ts';

/** The file in the data folder. */
export const MARK_FILE = 'high-water-mark';

/** Which store belongs in a data folder, and how far it has come. */
export interface StoreProgress {
  /** As in the table `installation`. */
  readonly id: string;
  /** Commits that were acknowledged: those of an intact store are at least as many. */
  readonly commits: number;
}

/** Bytes that a disk writes whole: the parts of the file stand in blocks of their own, so that a torn write harms one. */
const BLOCK = 512;
/** The number stands in two places by turns: while one is written the other holds the number before. */
const PLACES = 2;
/** Milliseconds between two syncs while there are commits. */
const SYNC_EVERY = 1000;

/**
 * The mark that tells a store that is whole from one that has lost commits, whatever became of its files.
 *
 * The number of commits is written here after every commit and before its answer, and without a sync: it survives the
 * process as the page cache does. It is written after the commit is on stable storage, so it can be too low (by what came
 * within the last second before a power cut) and never too high, and a store that is whole is never taken for another.
 */
export class HighWaterMark {
  readonly #folder: string;
  readonly #id: string;
  #handle: number;
  #written = -1;
  #cancelSync: NodeJS.Timeout | undefined;
  #isSyncing = false;
  #isClosed = false;

  private constructor(folder: string, id: string) {
    this.#folder = folder;
    this.#id = id;
    this.#handle = openSync(join(folder, MARK_FILE), 'r+');
  }

  /** Opens the mark of a folder; makes it, on stable storage, where there is none or another. */
  static open(folder: string, standing: StoreProgress): HighWaterMark {
    const found = readMark(folder);
    if (found === undefined || found === 'damaged' || found.id !== standing.id) writeMark(folder, standing);
    const mark = new HighWaterMark(folder, standing.id);
    mark.record(standing.commits);
    return mark;
  }

  /** The number that stands in it, or would if the disk had taken it. */
  get commits(): number {
    return this.#written;
  }

  /** So many commits are on stable storage. */
  record(commits: number): void {
    if (commits === this.#written) return;
    this.#written = commits;
    try {
      writeSync(this.#handle, commitsBlock(commits), 0, BLOCK, BLOCK * (1 + (commits % PLACES)));
    } catch {
      // A number that is too low does no harm, and a disk that takes no write says so at the next commit.
    }
    this.#syncSoon();
  }

  /** Makes it anew if somebody has taken it away. */
  restoreIfMissing(): void {
    if (this.#isSyncing) return;
    try {
      const found = statSync(join(this.#folder, MARK_FILE), { bigint: true, throwIfNoEntry: false });
      if (found?.ino === fstatSync(this.#handle, { bigint: true }).ino) return;
      writeMark(this.#folder, { id: this.#id, commits: this.#written });
      const handle = openSync(join(this.#folder, MARK_FILE), 'r+');
      closeSync(this.#handle);
      this.#handle = handle;
    } catch {
      // The next look tries again.
    }
  }

  #syncSoon(): void {
    if (this.#isSyncing || this.#cancelSync !== undefined) return;
    this.#cancelSync = setTimeout(() => {
      this.#cancelSync = undefined;
      const synced = this.#written;
      this.#isSyncing = true;
      fdatasync(this.#handle, () => {
        this.#isSyncing = false;
        if (this.#isClosed) closeSync(this.#handle);
        else if (this.#written !== synced) this.#syncSoon();
      });
    }, SYNC_EVERY);
    this.#cancelSync.unref();
  }

  close(): void {
    clearTimeout(this.#cancelSync);
    this.#isClosed = true;
    try {
      fdatasyncSync(this.#handle);
    } catch {
      // As above.
    }
    // The sync under way still needs it, and closes it.
    if (!this.#isSyncing) closeSync(this.#handle);
  }
}

/** What the mark of a folder says; `damaged` when there is one that cannot be read as such, nothing when there is none. */
function readMark(folder: string): StoreProgress | 'damaged' | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(join(folder, MARK_FILE));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const id = readBlock(bytes, 0, HEAD);
  if (id === undefined) return 'damaged';
  const numbers = Array.from({ length: PLACES }, (_, nth) => Number(readBlock(bytes, 1 + nth, COMMITS) ?? 0));
  return { id, commits: Math.max(...numbers) };
}

/** Writes a new mark, beside and renamed, so that a crash leaves the whole of it or what was there before. */
export function writeMark(folder: string, { id, commits }: StoreProgress): void {
  const path = join(folder, MARK_FILE);
  const unfinished = `${path}.new`;
  rmSync(unfinished, { force: true });
  const handle = openSync(unfinished, 'wx', 0o600);
  try {
    const bytes = Buffer.concat([encodeBlock(HEAD, id), ...Array(PLACES).fill(commitsBlock(commits))]);
    for (let at = 0; at < bytes.length; ) at += writeSync(handle, bytes, at);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  renameSync(unfinished, path);
  syncFolder(dirname(path));
}

const HEAD = 'millrace high-water mark 1';
const COMMITS = 'commits';

/** A line of a name, a value and a checksum, filled up with line feeds. */
function encodeBlock(name: string, value: string): Buffer {
  const said = `${name} ${value}`;
  const bytes = Buffer.alloc(BLOCK, '\n');
  bytes.write(`${said} ${crc32(said)}`, 'latin1');
  return bytes;
}

function commitsBlock(commits: number): Buffer {
  return encodeBlock(COMMITS, String(commits));
}

function readBlock(bytes: Buffer, nth: number, name: string): string | undefined {
  const line = bytes.toString('latin1', nth * BLOCK, (nth + 1) * BLOCK).split('\n', 1)[0]!;
  const [, said, value, sum] = new RegExp(`^(${name} (\\S+)) (\\d+)$`).exec(line) ?? [];
  return said !== undefined && Number(sum) === crc32(said) ? value : undefined;
}

/** What a start may do with a folder. */
export interface Inspection {
  /** There is nothing in it yet. */
  readonly isNew: boolean;
  /** Its mark is damaged and has to be made anew. */
  readonly isMarkDamaged: boolean;
}

/**
 * Looks at the files of a data folder that nobody uses, before anybody opens them to write, and changes nothing in them.
 * Throws a `StorageError` when what was committed there is not there any more, or when it is no store of ours.
 */
export function inspectFolder(folder: string): Inspection {
  try {
    const mark = readMark(folder);
    const file = fileSize(join(folder, DATABASE_FILE));
    const log = fileSize(walPath(folder)) ?? 0;
    if (!file) {
      if (mark !== undefined || log > 0)
        throw goneError(folder, file === undefined ? 'missing' : 'empty', mark);
      return { isNew: true, isMarkDamaged: false };
    }
    // Left by a start that was cut off in its very first moment. A read-only connection could not undo it.
    const isUnfinished = mark === undefined && (fileSize(join(folder, `${DATABASE_FILE}-journal`)) ?? 0) > 0;
    if (!isUnfinished) refuseLostCommits(folder, mark, readStored(folder));
    return { isNew: false, isMarkDamaged: mark === 'damaged' };
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

/** Throws when the file that was open is missing or empty. */
export function refuseMissingFile(folder: string, standing: StoreProgress): void {
  const size = fileSize(join(folder, DATABASE_FILE));
  if (!size) throw goneError(folder, size === undefined ? 'missing' : 'empty', standing);
}

/** Throws when a store that was found is not the one that the mark speaks of, or an earlier state of it. */
export function refuseLostCommits(
  folder: string,
  mark: StoreProgress | 'damaged' | undefined,
  found: ObservedProgress,
): void {
  if (mark === undefined || mark === 'damaged') return;
  const { commits } = found;
  if (found.id === undefined && commits === 0) {
    // Nothing was ever committed, or everything is in a log that is gone.
    if (mark.commits > 0) throw lostError(folder, mark, 0);
    return;
  }
  if (found.id !== mark.id && found.id !== 'damaged') {
    throw new StorageError(
      `the millrace.db in the data folder ${folder} is of another installation than the one that ran there: bring back its ` +
        `own, or choose another folder with --data; to use this one, restore it: millrace restore ${folder} --data NEW`,
    );
  }
  if (commits < mark.commits) throw lostError(folder, mark, commits);
}

function readStored(folder: string): ObservedProgress {
  // A log that SQLite would take for empty is not shown to it.
  const database = new DatabaseSync(readOnlyUri(folder, startsWithTransaction(walPath(folder))), {
    readOnly: true,
  });
  try {
    // Keeps the index of the log in memory.
    database.exec('pragma locking_mode = exclusive');
    refuseForeign(database);
    return readProgress(database);
  } catch (error) {
    if (!/not a database/i.test(String(error))) throw error;
    throw goneError(folder, 'no database', readMark(folder));
  } finally {
    database.close();
  }
}

function goneError(
  folder: string,
  what: 'missing' | 'empty' | 'no database',
  mark: StoreProgress | 'damaged' | undefined,
) {
  const held = typeof mark === 'object' ? `, and it held ${commitsText(mark.commits)}` : '';
  const state = what === 'no database' ? 'is damaged from its first byte on' : `is ${what}`;
  return new StorageError(
    `the store of the data folder ${folder} is gone: millrace.db ${state}${held}. Bring the file back, or ${ADVICE}; ` +
      'to begin anew with nothing, move the folder away',
  );
}

function lostError(folder: string, { commits }: StoreProgress, found: number): StorageError {
  const log = walPath(folder);
  const size = fileSize(log);
  const why =
    size === undefined
      ? 'its write-ahead log, millrace.db-wal, is missing'
      : size === 0
        ? 'its write-ahead log, millrace.db-wal, is empty'
        : 'its write-ahead log, millrace.db-wal, is damaged, or millrace.db is an older copy';
  const aside = size ? `move ${log} away, and ` : '';
  return new StorageError(
    `the store of the data folder ${folder} has lost its last ${commitsText(commits - found)} of ${commits}: ${why}. ` +
      `Bring back what was there, or ${ADVICE}; to go on without them, ${aside}check and copy the rest: ` +
      `millrace restore ${folder} --data NEW`,
  );
}

const ADVICE = 'restore a backup into another folder (millrace restore)';

function commitsText(commits: number): string {
  return commits === 1 ? '1 commit' : `${commits} commits`;
}

/** Nothing when there is no such file. */
function fileSize(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}
