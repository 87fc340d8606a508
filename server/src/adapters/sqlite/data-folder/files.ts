import {
  closeSync,
  constants,
  fsyncSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Names of the database file and of its write-ahead log. */
export const DATABASE_FILE = 'millrace.db';
export const WAL_FILE = 'millrace.db-wal';
/** Name of the file of profiles, which has a thread of its own (docs/decisions/0020-users.md). */
export const USERS_FILE = 'users.db';

/**
 * Flag of `open` for what Millrace writes: a link that somebody has put in the place of a file leads to a
 * file of somebody else.
 */
export const NO_LINK = constants.O_NOFOLLOW ?? 0;

/**
 * Writes a file anew and renames it, so that a crash leaves the old one or the new one, and no link is
 * followed. Its content is synced unless `flush` is false; its name is not.
 */
export function writeAnew(
  path: string,
  text: string,
  { flush = true }: { readonly flush?: boolean } = {},
): void {
  const unfinished = `${path}.new`;
  rmSync(unfinished, { force: true });
  try {
    writeFileSync(unfinished, text, { mode: 0o600, flag: 'wx', flush });
    renameSync(unfinished, path);
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
}

/** Device and inode identify a file while it is open. */
export interface FileIdentity {
  readonly device: bigint;
  readonly inode: bigint;
}

/** The file that a path leads to; undefined when there is none. */
export function fileAt(path: string): FileIdentity | undefined {
  try {
    const found = statSync(path, { bigint: true, throwIfNoEntry: false });
    return found === undefined ? undefined : { device: found.dev, inode: found.ino };
  } catch {
    // A path that cannot be followed leads to no file.
    return undefined;
  }
}

export function isSameFile(one: FileIdentity | undefined, other: FileIdentity | undefined): boolean {
  return one !== undefined && one.device === other?.device && one.inode === other.inode;
}

/**
 * Memory for the identity of the file that the writer has open: device and inode, which other threads
 * compare.
 */
export function sharedIdentity(): SharedArrayBuffer {
  return new SharedArrayBuffer(16);
}

/** Whether the database file of a folder is the one that the writer has open. */
export function isWritersFile(folder: string, identity: SharedArrayBuffer): boolean {
  const [device, inode] = new BigUint64Array(identity);
  return isSameFile({ device: device!, inode: inode! }, fileAt(join(folder, DATABASE_FILE)));
}

/** The path of the write-ahead log: beside the real database file, also when a symbolic link leads there. */
export function walPath(folder: string, file = DATABASE_FILE): string {
  try {
    return `${realpathSync(join(folder, file))}-wal`;
  } catch {
    return join(folder, `${file}-wal`);
  }
}

/**
 * The URI of the database file, for every connection of the server. Only the mode `rwc` creates a missing
 * file, so that a store that has vanished is not replaced by an empty one.
 *
 * The VFS `unix-excl` keeps the index of the write-ahead log in the memory of the process and keeps other
 * processes out. By default the index is a file. SQLite 3.53 then loses the content of the log when it cannot
 * open that file, neither for writing nor for reading; and also when it can open it only for reading and the
 * connection is closed. In both cases it takes the log for empty and deletes it. See
 * docs/decisions/0008-write-ahead-log.md.
 */
export function databaseUri(folder: string, mode: 'ro' | 'rw' | 'rwc' = 'rw', file = DATABASE_FILE): string {
  return `${urlOf(folder, file)}?${process.platform === 'win32' ? '' : 'vfs=unix-excl&'}mode=${mode}`;
}

/**
 * The URI for a read-only connection while nobody else has the file open. It leaves no trace. `withLog`:
 * reads the log too.
 */
export function readOnlyUri(folder: string, withLog: boolean, file = DATABASE_FILE): string {
  if (!withLog) return `${urlOf(folder, file)}?immutable=1`;
  // Without locks: a read-only connection cannot get the lock that keeps the index of the log in memory.
  return process.platform === 'win32' ? urlOf(folder, file) : `${urlOf(folder, file)}?vfs=unix-none`;
}

function urlOf(folder: string, file = DATABASE_FILE): string {
  return pathToFileURL(join(folder, file)).href;
}

/** Sizes of the log's format: sqlite.org/fileformat2.html#walformat. */
const HEADER = 32;
const FRAME_HEADER = 24;
const SMALLEST_PAGE = 512;
const LARGEST_PAGE = 65536;
/** The first bytes of a log. The last bit gives the byte order of its checksums. */
export const WAL_MAGIC = Buffer.from('377f0682', 'hex');
const MAGIC = WAL_MAGIC.readUInt32BE(0);

/**
 * Whether a write-ahead log begins with a whole transaction. SQLite takes any other log for empty and deletes
 * it on close.
 */
export function startsWithTransaction(path: string): boolean {
  let handle: number;
  try {
    handle = openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  try {
    return readTransaction(handle);
  } finally {
    closeSync(handle);
  }
}

function readTransaction(handle: number): boolean {
  const header = Buffer.alloc(HEADER);
  if (!readFully(header, handle, 0)) return false;
  const magic = header.readUInt32BE(0);
  const page = header.readUInt32BE(8);
  if ((magic & ~1) >>> 0 !== MAGIC || page < SMALLEST_PAGE || page > LARGEST_PAGE) return false;
  const isBigEndian = (magic & 1) === 1;
  let sum = walChecksum(header.subarray(0, 24), [0, 0], isBigEndian);
  if (!matchesAt(sum, header, 24)) return false;
  const frame = Buffer.alloc(FRAME_HEADER + page);
  for (let at = HEADER; readFully(frame, handle, at); at += frame.length) {
    if (!frame.subarray(8, 16).equals(header.subarray(16, 24))) return false;
    sum = walChecksum(
      frame.subarray(FRAME_HEADER),
      walChecksum(frame.subarray(0, 8), sum, isBigEndian),
      isBigEndian,
    );
    if (!matchesAt(sum, frame, 16)) return false;
    // Only the last frame of a transaction says how large the file is after it.
    if (frame.readUInt32BE(4) !== 0) return true;
  }
  return false;
}

/** False when the file is shorter. */
function readFully(bytes: Buffer, handle: number, at: number): boolean {
  return readSync(handle, bytes, 0, bytes.length, at) === bytes.length;
}

type WalChecksum = readonly [number, number];

/** The log's checksum, continued from `before`. The bytes are a whole number of pairs of words. */
function walChecksum(bytes: Buffer, before: WalChecksum, isBigEndian: boolean): WalChecksum {
  let [first, second] = before;
  const word = (at: number) => (isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at));
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    first = (first + word(at) + second) >>> 0;
    second = (second + word(at + 4) + first) >>> 0;
  }
  return [first, second];
}

function matchesAt([first, second]: WalChecksum, bytes: Buffer, at: number): boolean {
  return bytes.readUInt32BE(at) === first && bytes.readUInt32BE(at + 4) === second;
}

/** Puts a file, or the names of the files in a folder, on stable storage. New files need both. */
export function syncPath(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
