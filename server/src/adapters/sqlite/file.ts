import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * The store's file, for every connection of the process that works on it.
 *
 * With this way of reaching files (`unix-excl`) the index of the write-ahead log is in the memory of the process, and other
 * processes are kept out. By default it is a file of its own. SQLite 3.53 then loses what is in the log when that file can
 * be opened neither for writing nor for reading, and once again for reading only when the connection is closed: the log
 * is taken for empty and deleted. See docs/decisions/0008-write-ahead-log.md.
 */
export function fileOf(folder: string): string {
  const path = join(folder, 'millrace.db');
  return process.platform === 'win32' ? path : `${pathToFileURL(path).href}?vfs=unix-excl`;
}
