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
import { crc32 } from 'node:zlib';
import { syncFolder } from './database.ts';

/** The file in the data folder. */
export const MARK = 'high-water-mark';

/** Which store belongs in a data folder, and how far it has come. */
export interface Standing {
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
    this.#handle = openSync(join(folder, MARK), 'r+');
  }

  /** Opens the mark of a folder; makes it, on stable storage, where there is none or another. */
  static of(folder: string, standing: Standing): HighWaterMark {
    const found = readMark(folder);
    if (found === undefined || found === 'damaged' || found.id !== standing.id) writeMark(folder, standing);
    const mark = new HighWaterMark(folder, standing.id);
    mark.note(standing.commits);
    return mark;
  }

  /** The number that stands in it, or would if the disk had taken it. */
  get commits(): number {
    return this.#written;
  }

  /** So many commits are on stable storage. */
  note(commits: number): void {
    if (commits === this.#written) return;
    this.#written = commits;
    try {
      writeSync(this.#handle, numberBlock(commits), 0, BLOCK, BLOCK * (1 + (commits % PLACES)));
    } catch {
      // A number that is too low does no harm, and a disk that takes no write says so at the next commit.
    }
    this.#syncSoon();
  }

  /** Makes it anew if somebody has taken it away. */
  keep(): void {
    if (this.#isSyncing) return;
    try {
      const found = statSync(join(this.#folder, MARK), { bigint: true, throwIfNoEntry: false });
      if (found?.ino === fstatSync(this.#handle, { bigint: true }).ino) return;
      writeMark(this.#folder, { id: this.#id, commits: this.#written });
      const handle = openSync(join(this.#folder, MARK), 'r+');
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
export function readMark(folder: string): Standing | 'damaged' | undefined {
  let bytes: Buffer;
  try {
    bytes = readFileSync(join(folder, MARK));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const id = valueIn(bytes, 0, HEAD);
  if (id === undefined) return 'damaged';
  const numbers = Array.from({ length: PLACES }, (_, nth) => Number(valueIn(bytes, 1 + nth, NUMBER) ?? 0));
  return { id, commits: Math.max(...numbers) };
}

/** Writes a new mark, beside and renamed, so that a crash leaves the whole of it or what was there before. */
export function writeMark(folder: string, { id, commits }: Standing): void {
  const path = join(folder, MARK);
  const unfinished = `${path}.new`;
  rmSync(unfinished, { force: true });
  const handle = openSync(unfinished, 'wx', 0o600);
  try {
    const bytes = Buffer.concat([block(HEAD, id), ...Array(PLACES).fill(numberBlock(commits))]);
    for (let at = 0; at < bytes.length; ) at += writeSync(handle, bytes, at);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  renameSync(unfinished, path);
  syncFolder(dirname(path));
}

const HEAD = 'millrace high-water mark 1';
const NUMBER = 'commits';

/** A line of a name, a value and a checksum, filled up with line feeds. */
function block(name: string, value: string): Buffer {
  const said = `${name} ${value}`;
  const bytes = Buffer.alloc(BLOCK, '\n');
  bytes.write(`${said} ${crc32(said)}`, 'latin1');
  return bytes;
}

function numberBlock(commits: number): Buffer {
  return block(NUMBER, String(commits));
}

function valueIn(bytes: Buffer, nth: number, name: string): string | undefined {
  const line = bytes.toString('latin1', nth * BLOCK, (nth + 1) * BLOCK).split('\n', 1)[0]!;
  const [, said, value, sum] = new RegExp(`^(${name} (\\S+)) (\\d+)$`).exec(line) ?? [];
  return said !== undefined && Number(sum) === crc32(said) ? value : undefined;
}
