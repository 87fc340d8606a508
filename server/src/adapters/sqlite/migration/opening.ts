import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../../ports/event-log.ts';
import {
  DATABASE_FILE,
  readOnlyUri,
  startsWithTransaction,
  USERS_FILE,
  walPath,
} from '../data-folder/files.ts';
import { FORMAT } from '../schema.ts';
import { USERS_FORMAT } from '../users/schema.ts';
import { FolderReader } from './reader.ts';

/** Reads the files of a folder that is locked by this process. */
export function openReader(folder: string): FolderReader {
  const database = openReadOnly(folder, DATABASE_FILE, FORMAT);
  let users: DatabaseSync | undefined;
  try {
    users = existsSync(join(folder, USERS_FILE)) ? openReadOnly(folder, USERS_FILE, USERS_FORMAT) : undefined;
    return new FolderReader({ folder, database, users });
  } catch (error) {
    users?.close();
    database.close();
    throw error;
  }
}

/** A file of a folder that is locked by this process, which is left as it is. It must be of this format, if one is named. */
export function openReadOnly(folder: string, file: string, format?: number): DatabaseSync {
  // SQLite would take a log without a whole transaction for empty.
  const withLog = startsWithTransaction(walPath(folder, file));
  const database = new DatabaseSync(readOnlyUri(folder, withLog, file), { readOnly: true });
  try {
    // The index of the log stays in memory.
    database.exec('pragma locking_mode = exclusive; pragma cache_size = -16384; pragma temp_store = memory');
    const { user_version: found } = database.prepare('pragma user_version').get() as { user_version: number };
    if (format === undefined) return database;
    if (found < format)
      throw new StorageError(
        `${join(folder, file)} is of an earlier version (format ${found}, this one writes ${format}): start this Millrace with it once, ` +
          'stop it, and move it then',
      );
    if (found > format)
      throw new StorageError(
        `${join(folder, file)} was written by a newer Millrace (format ${found}, this one knows ${format}): move it with that version`,
      );
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}
