import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StorageError } from '../../../ports/event-log.ts';
import type { InstallationReader, InstallationSource } from '../../../ports/installation.ts';
import { Quarantine } from '../damage.ts';
import { DATABASE_FILE } from '../data-folder/files.ts';
import { lockFolder, refuseUnfinishedRestore } from '../data-folder/folder.ts';
import { inspectFolder } from '../data-folder/high-water-mark.ts';
import { isBeingFilled, markMoved, movedTo, refuseMoved } from '../data-folder/moved.ts';
import { asStorageError, openDatabase } from '../database.ts';
import { isRedoWaiting, recoverRedo } from '../redo/redo-log.ts';
import { BACKUPS_FILE } from '../regulations/journal.ts';
import { FORMAT } from '../schema.ts';
import { openReader, openReadOnly } from './opening.ts';
import type { FolderReader } from './reader.ts';

/**
 * Opens a data folder as the source of a migration. Its files stay as they are, the write-ahead log included, unless its server was
 * killed: then what waits in the redo log is carried out first, as a start does. No server can start on it until `stop`. Throws a `StorageError`.
 */
export function openFolderSource(folder: string): InstallationSource {
  if (!existsSync(join(folder, DATABASE_FILE)))
    throw new StorageError(`${folder} holds no installation: name the data folder of a server with --from`);
  refuseUnfinishedRestore(folder);
  if (isBeingFilled(folder)) refuseMoved(folder);
  let lock: ReturnType<typeof lockFolder> | undefined;
  try {
    lock = lockFolder(folder);
    inspectFolder(folder);
    finishRedo(folder);
    return new FolderSource(folder, openReader(folder), lock);
  } catch (error) {
    lock?.release();
    throw asStorageError(error, folder);
  }
}

/** Readers know nothing of the redo log. */
function finishRedo(folder: string): void {
  const found = openReadOnly(folder, DATABASE_FILE);
  try {
    const { user_version: format } = found.prepare('pragma user_version').get() as { user_version: number };
    if (format !== FORMAT || !isRedoWaiting(found)) return;
  } finally {
    found.close();
  }
  const database = openDatabase(folder);
  try {
    recoverRedo(database, new Quarantine());
  } finally {
    database.close();
  }
}

class FolderSource implements InstallationSource {
  readonly place: string;
  readonly identity: InstallationReader['identity'];
  readonly lastClockMark?: NonNullable<InstallationReader['lastClockMark']>;
  readonly state: InstallationReader['state'];
  readonly size: InstallationReader['size'];
  readonly marks: InstallationReader['marks'];
  readonly page: InstallationReader['page'];
  readonly #reader: FolderReader;
  readonly #lock: { release(): void };

  constructor(folder: string, reader: FolderReader, lock: { release(): void }) {
    this.place = folder;
    this.identity = reader.identity;
    if (reader.lastClockMark !== undefined) this.lastClockMark = reader.lastClockMark;
    this.state = () => reader.state();
    this.size = () => reader.size();
    this.marks = () => reader.marks();
    this.page = (part, after) => reader.page(part, after);
    this.#reader = reader;
    this.#lock = lock;
  }

  get unreadableRows(): number {
    return this.#reader.unreadableRows;
  }

  leftBehind(): readonly string[] {
    const files =
      'admin-token, token-uses.json and the timeline are files of a node: keep this folder as its "data", or copy them to the one that is';
    const backups = backupsOf(this.place);
    if (backups === 0) return [files];
    return [
      files,
      `${backups} backups of this folder do not learn of users who are deleted from now on: remove them when the database has backups`,
    ];
  }

  async movedTo(): Promise<string | undefined> {
    return movedTo(this.place)?.to;
  }

  async markMoved(to: string): Promise<void> {
    try {
      if (movedTo(this.place) === undefined)
        markMoved(this.place, { to, at: new Date().toISOString().replace(/\.\d+Z$/, 'Z') });
    } catch (error) {
      throw asStorageError(error, this.place);
    }
  }

  async stop(): Promise<void> {
    await this.#reader.stop();
    this.#lock.release();
  }
}

function backupsOf(folder: string): number {
  const path = join(folder, BACKUPS_FILE);
  if (!existsSync(path)) return 0;
  return new Set(
    readFileSync(path, 'utf8')
      .split('\n')
      .filter((one) => existsSync(join(one, DATABASE_FILE))),
  ).size;
}
