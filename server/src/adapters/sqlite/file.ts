import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The store's file, and its write-ahead log. */
export const DATABASE = 'millrace.db';
export const LOG = 'millrace.db-wal';

/** Where the log is: beside the file itself, also when that is reached by a symbolic link. */
export function logOf(folder: string): string {
  try {
    return `${realpathSync(join(folder, DATABASE))}-wal`;
  } catch {
    return join(folder, LOG);
  }
}

/**
 * The store's file, for every connection of the process that works on it. It is made where there is none only in the
 * mode `rwc`: a store that has vanished is not to be replaced by an empty one.
 *
 * With this way of reaching files (`unix-excl`) the index of the write-ahead log is in the memory of the process, and other
 * processes are kept out. By default it is a file of its own. SQLite 3.53 then loses what is in the log when that file can
 * be opened neither for writing nor for reading, and once again for reading only when the connection is closed: the log
 * is taken for empty and deleted. See docs/decisions/0008-write-ahead-log.md.
 */
export function fileOf(folder: string, mode: 'ro' | 'rw' | 'rwc' = 'rw'): string {
  return `${urlOf(folder)}?${process.platform === 'win32' ? '' : 'vfs=unix-excl&'}mode=${mode}`;
}

/** The same for a look by a read-only connection that is alone and leaves no trace, with its write-ahead log or without. */
export function inspectedFileOf(folder: string, withLog: boolean): string {
  if (!withLog) return `${urlOf(folder)}?immutable=1`;
  // No locks: a read-only connection could not have the one that keeps the index of the log in memory.
  return process.platform === 'win32' ? urlOf(folder) : `${urlOf(folder)}?vfs=unix-none`;
}

function urlOf(folder: string): string {
  return pathToFileURL(join(folder, DATABASE)).href;
}
