import {
  closeSync,
  constants,
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
import { asStorageError } from '../database.ts';
import { type ObservedProgress, readProgress } from '../installation.ts';
import { refuseForeign } from '../schema.ts';
import { DATABASE_FILE, NO_LINK, readOnlyUri, startsWithTransaction, syncPath, walPath } from './files.ts';

/** The name of the file in the data folder. */
export const MARK_FILE = 'high-water-mark';

/** The identity of a store and its number of commits. */
export interface StoreProgress {
  /** As in the table `installation`. */
  readonly id: string;
  /** Acknowledged commits. An intact store has at least as many. */
  readonly commits: number;
}

/**
 * Bytes that a disk writes at once. Each part of the file has its own block, so that a torn write damages
 * only one.
 */
const BLOCK = 512;
/** The number alternates between two places. While one is written, the other holds the number before. */
const PLACES = 2;
/** Milliseconds between two syncs while there are commits. */
const SYNC_EVERY = 1000;

/**
 * The number of acknowledged commits, in a file of its own. It shows whether a store has lost commits,
 * whatever happened to its files.
 *
 * It is written after every commit and before its answer, without a sync, so it survives the process in the
 * page cache. A power cut may lose the numbers of the last second. The number is therefore sometimes too low
 * and never too high: an intact store is never refused.
 */
export class HighWaterMark {
  readonly #folder: string;
  readonly #id: string;
  /** The block that is written next: a new one for each commit would take as long as writing it. */
  readonly #block = Buffer.alloc(BLOCK, '\n');
  #handle: number;
  #written = -1;
  #cancelSync: NodeJS.Timeout | undefined;
  #isSyncing = false;
  #isClosed = false;

  private constructor(folder: string, id: string) {
    this.#folder = folder;
    this.#id = id;
    this.#handle = openSync(join(folder, MARK_FILE), constants.O_RDWR | NO_LINK);
  }

  /** Opens the mark of a folder. A missing, damaged or foreign mark is replaced, on stable storage. */
  static open(folder: string, progress: StoreProgress): HighWaterMark {
    const found = readMark(folder);
    if (found === undefined || found === 'damaged' || found.id !== progress.id) writeMark(folder, progress);
    const mark = new HighWaterMark(folder, progress.id);
    mark.record(progress.commits);
    return mark;
  }

  /** The last number recorded, also when the disk refused it. */
  get commits(): number {
    return this.#written;
  }

  /** Records that this many commits are on stable storage. */
  record(commits: number): void {
    if (commits === this.#written) return;
    this.#written = commits;
    this.#block.write(blockLine(COMMITS, String(commits)).padEnd(COMMITS_WIDTH, '\n'), 'latin1');
    try {
      writeSync(this.#handle, this.#block, 0, BLOCK, BLOCK * (1 + (commits % PLACES)));
    } catch {
      // A number that is too low does no harm, and a failing disk shows at the next commit.
    }
    this.#syncSoon();
  }

  /** Writes the mark again if its file was removed or replaced. */
  restoreIfMissing(): void {
    if (this.#isSyncing) return;
    try {
      const found = statSync(join(this.#folder, MARK_FILE), { bigint: true, throwIfNoEntry: false });
      if (found?.ino === fstatSync(this.#handle, { bigint: true }).ino) return;
      writeMark(this.#folder, { id: this.#id, commits: this.#written });
      const handle = openSync(join(this.#folder, MARK_FILE), constants.O_RDWR | NO_LINK);
      closeSync(this.#handle);
      this.#handle = handle;
    } catch {
      // The next check tries again.
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
      // As in `record`.
    }
    // A sync under way still needs the handle, and closes it.
    if (!this.#isSyncing) closeSync(this.#handle);
  }
}

/** The mark of a folder; undefined when there is none. */
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

/** Writes a new mark beside the old one and renames it, so that a crash leaves one of them whole. */
export function writeMark(folder: string, { id, commits }: StoreProgress): void {
  const path = join(folder, MARK_FILE);
  const unfinished = `${path}.new`;
  rmSync(unfinished, { force: true });
  const handle = openSync(unfinished, 'wx', 0o600);
  try {
    const bytes = Buffer.concat([
      encodeBlock(HEAD, id),
      ...Array(PLACES).fill(encodeBlock(COMMITS, String(commits))),
    ]);
    for (let at = 0; at < bytes.length; ) at += writeSync(handle, bytes, at);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  renameSync(unfinished, path);
  syncPath(dirname(path));
}

const HEAD = 'millrace high-water mark 1';
const COMMITS = 'commits';
/** No line of a number is longer. */
const COMMITS_WIDTH = 40;

/** A block: a line of name, value and checksum, padded with line feeds. */
function encodeBlock(name: string, value: string): Buffer {
  const bytes = Buffer.alloc(BLOCK, '\n');
  bytes.write(blockLine(name, value), 'latin1');
  return bytes;
}

function blockLine(name: string, value: string): string {
  const text = `${name} ${value}`;
  return `${text} ${crc32(text)}`;
}

function readBlock(bytes: Buffer, nth: number, name: string): string | undefined {
  const line = bytes.toString('latin1', nth * BLOCK, (nth + 1) * BLOCK).split('\n', 1)[0]!;
  const [, text, value, sum] = new RegExp(`^(${name} (\\S+)) (\\d+)$`).exec(line) ?? [];
  return text !== undefined && Number(sum) === crc32(text) ? value : undefined;
}

/** The result of `inspectFolder`. */
export interface Inspection {
  /** The folder has no store yet. */
  readonly isNew: boolean;
  /** The mark is damaged and must be written again. */
  readonly isMarkDamaged: boolean;
}

/**
 * Checks the files of a data folder before they are opened for writing, and changes nothing. No process may
 * use the folder. Throws a `StorageError` when commits were lost, or when the file is no store of Millrace.
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
    // A crash during the very first start leaves a journal, which a read-only connection cannot roll back.
    const isUnfinished = mark === undefined && (fileSize(join(folder, `${DATABASE_FILE}-journal`)) ?? 0) > 0;
    if (!isUnfinished) refuseLostCommits(folder, mark, readStored(folder));
    return { isNew: false, isMarkDamaged: mark === 'damaged' };
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

/** Throws a `StorageError` when the database file is missing or empty. */
export function refuseMissingFile(folder: string, progress: StoreProgress): void {
  const size = fileSize(join(folder, DATABASE_FILE));
  if (!size) throw goneError(folder, size === undefined ? 'missing' : 'empty', progress);
}

/** Throws a `StorageError` when a store is not the one of the mark, or an earlier state of it. */
export function refuseLostCommits(
  folder: string,
  mark: StoreProgress | 'damaged' | undefined,
  found: ObservedProgress,
): void {
  if (mark === undefined || mark === 'damaged') return;
  const { commits } = found;
  if (found.id === undefined && commits === 0) {
    // The store is new, or all its commits were in a lost log.
    if (mark.commits > 0) throw lostError(folder, mark, 0);
    return;
  }
  if (found.id !== mark.id && found.id !== 'damaged') {
    throw new StorageError(
      `the millrace.db in the data folder ${folder} is of another installation than the one that ran there: bring back its ` +
        `own, or choose another folder with --data; to use this one, restore it: millrace restore ${folder} --data NEW`,
    );
  }
  if (commits < mark.commits)
    throw found.isCountDamaged ? uncountedError(folder, mark) : lostError(folder, mark, commits);
}

function readStored(folder: string): ObservedProgress {
  // SQLite would take a log without a whole transaction for empty, so it is opened without that log.
  const database = new DatabaseSync(readOnlyUri(folder, startsWithTransaction(walPath(folder))), {
    readOnly: true,
  });
  try {
    // The index of the log stays in memory.
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

/**
 * Nothing else in the file tells a store that is whole but for this place from one that has lost commits too.
 */
function uncountedError(folder: string, { commits }: StoreProgress): StorageError {
  return new StorageError(
    `the store of the data folder ${folder} is damaged where it counts its commits, so nothing tells whether it holds all ` +
      `${commitsText(commits)}: ${ADVICE}`,
  );
}

const ADVICE = 'restore a backup into another folder (millrace restore)';

function commitsText(commits: number): string {
  return commits === 1 ? '1 commit' : `${commits} commits`;
}

/** Undefined when there is no such file. */
function fileSize(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}
