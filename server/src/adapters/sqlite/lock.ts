import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../ports/event-log.ts';

/**
 * Keeps a data folder to one process, as a file lock that SQLite holds for us on an empty database of its own. The system
 * drops it with the process, however that ends, so there is no stale lock and no guessing from process numbers, which
 * repeat in containers.
 */
export function lockFolder(folder: string): { release(): void } {
  const owner = join(folder, 'owner');
  const lock = openLock(folder);
  try {
    lock.exec('pragma locking_mode = exclusive; begin exclusive');
  } catch (error) {
    lock.close();
    if (!/locked|busy/i.test(String(error))) throw error;
    throw new StorageError(
      `the data folder ${folder} is in use by another running Millrace${readOwner(owner)}: ` +
        'stop that one, or choose another folder with --data',
      { cause: error },
    );
  }
  writeFileSync(owner, `${process.pid}\n`);
  return { release: () => lock.close() };
}

function openLock(folder: string): DatabaseSync {
  try {
    const lock = new DatabaseSync(join(folder, 'lock.db'), { timeout: 0 });
    lock.exec('pragma journal_mode = memory');
    return lock;
  } catch (error) {
    if (/locked|busy/i.test(String(error))) return new DatabaseSync(join(folder, 'lock.db'), { timeout: 0 });
    throw new StorageError(
      `the data folder ${folder} cannot be written (${(error as Error).message}): ` +
        'make it writable for this user, or choose another one with --data',
      { cause: error },
    );
  }
}

/**
 * Whether a process keeps the folder, and its number where it is known. Takes no lock that could be in the way of a
 * start, and makes no file.
 */
export function folderUser(folder: string): { readonly isInUse: boolean; readonly pid?: number } {
  const pid = Number(/\d+/.exec(readOwner(join(folder, 'owner')))?.[0]);
  const named = Number.isInteger(pid) ? { pid } : {};
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(join(folder, 'lock.db'), { readOnly: true, timeout: 0 });
    lock.prepare('select count(*) from sqlite_schema').get();
    return { isInUse: false };
  } catch (error) {
    return /locked|busy/i.test(String(error)) ? { isInUse: true, ...named } : { isInUse: false };
  } finally {
    lock?.close();
  }
}

/** Only to name the other process to the operator; nothing depends on it. */
function readOwner(file: string): string {
  try {
    return ` (process ${readFileSync(file, 'utf8').trim()})`;
  } catch {
    return '';
  }
}
