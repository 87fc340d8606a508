import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { ClockMark } from '../../../ports/clock.ts';
import { StorageError } from '../../../ports/event-log.ts';
import type {
  InstallationPart,
  InstallationSize,
  InstallationSource,
  InstallationTables,
  LogMarks,
  PartCursor,
  PartPage,
} from '../../../ports/installation.ts';
import { keyHash } from '../../encoding/hashes.ts';
import { Quarantine } from '../damage.ts';
import {
  DATABASE_FILE,
  readOnlyUri,
  startsWithTransaction,
  USERS_FILE,
  walPath,
} from '../data-folder/files.ts';
import { lockFolder, refuseUnfinishedRestore } from '../data-folder/folder.ts';
import { inspectFolder } from '../data-folder/high-water-mark.ts';
import { isBeingFilled, markMoved, movedTo, refuseMoved } from '../data-folder/moved.ts';
import { asStorageError } from '../database.ts';
import { InstallationFacts, isBoundedIn, readClocks, Watermarks } from '../installation.ts';
import { LedgerReader, ledgerCommits } from '../ledger-table.ts';
import { Chunks } from '../log/chunks.ts';
import { BACKUPS_FILE } from '../regulations/journal.ts';
import { FORMAT } from '../schema.ts';
import { USERS_FORMAT } from '../users/schema.ts';
import { EventReader } from './event-reader.ts';
import type { PartReaders } from './parts.ts';
import { profileReaders } from './profile-tables.ts';
import { storeReaders } from './store-tables.ts';

/**
 * Opens a data folder as the source of a migration. Its files stay as they are, the write-ahead log included.
 * No server can start on it until `stop`. Throws a `StorageError`.
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
    return new FolderSource({ folder, ...openFiles(folder), lock });
  } catch (error) {
    lock?.release();
    throw asStorageError(error, folder);
  }
}

interface OpenFiles {
  readonly database: DatabaseSync;
  /** The file of profiles; absent where there is none. */
  readonly users?: DatabaseSync;
}

function openFiles(folder: string): OpenFiles {
  const database = openReadOnly(folder, DATABASE_FILE, FORMAT);
  try {
    if (!existsSync(join(folder, USERS_FILE))) return { database };
    return { database, users: openReadOnly(folder, USERS_FILE, USERS_FORMAT) };
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * A file of a folder that is locked by this process, which is left as it is. It must be of this format, if
 * one is named.
 */
function openReadOnly(folder: string, file: string, format?: number): DatabaseSync {
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

interface FolderSourceOptions extends OpenFiles {
  readonly folder: string;
  readonly lock: { release(): void };
}

class FolderSource implements InstallationSource {
  readonly place: string;
  readonly identity: { readonly id: string; readonly keySecret: Uint8Array };
  readonly lastClockMark?: ClockMark;
  readonly #options: FolderSourceOptions;
  readonly #chunks: Chunks;
  readonly #watermarks: Watermarks;
  readonly #readers: PartReaders;
  #unreadableRows = 0;

  constructor(options: FolderSourceOptions) {
    const { folder, database, users } = options;
    this.place = folder;
    this.#options = options;
    this.identity = identityIn(database, folder);
    const mark = readClocks(database);
    if (mark !== undefined) this.lastClockMark = mark;
    const watermarks = new Watermarks(database);
    const hash = keyHash(this.identity.keySecret);
    const chunks = new Chunks(database, {
      sumsFrom: watermarks.checksumsFrom,
      stored: new LedgerReader(database).total('source', 'accepted'),
      retainedFrom: () => watermarks.retainedFrom,
      hash,
      isReadOnly: true,
      quarantine: new Quarantine(),
      onDamage: () => {},
    });
    this.#chunks = chunks;
    this.#watermarks = watermarks;
    const leaveOut = (rows: number) => {
      this.#unreadableRows += rows;
    };
    this.#readers = {
      ...storeReaders(database, leaveOut),
      ...profileReaders(users, { log: this.identity.id, leaveOut }),
      events: new EventReader({ chunks, watermarks, hash }),
    };
  }

  get unreadableRows(): number {
    return this.#unreadableRows;
  }

  async state(): Promise<string> {
    return this.#do(({ database, users }) => {
      const epoch = new InstallationFacts(database).number('epoch');
      const commits = users === undefined ? 0 : new InstallationFacts(users).number('commits');
      return `start ${epoch}, commit ${ledgerCommits(database)}, profiles ${commits}`;
    });
  }

  async marks(): Promise<LogMarks> {
    const { retainedFrom, compactedTo } = this.#watermarks;
    const isBounded = this.#do(({ database }) => isBoundedIn(new InstallationFacts(database)));
    return { end: this.#chunks.next, retainedFrom, mergedTo: compactedTo, isBounded };
  }

  async size(): Promise<InstallationSize> {
    return this.#do(({ database, users }) => {
      const sum = (of: DatabaseSync, sql: string) => (of.prepare(sql).get() as { n: number }).n;
      const pages =
        'select (select page_count from pragma_page_count) * (select page_size from pragma_page_size) as n';
      return {
        events: sum(database, 'select coalesce(sum(n), 0) as n from chunk where stage < 2'),
        bytes: sum(database, pages) + (users === undefined ? 0 : sum(users, pages)),
        waiting: sum(database, 'select coalesce(sum(n), 0) as n from pending'),
        dead: sum(database, "select coalesce(sum(n), 0) as n from dead_letter where state = 'dead'"),
        profiles: users === undefined ? 0 : sum(users, 'select count(*) as n from profile'),
      };
    });
  }

  async page<Part extends InstallationPart>(
    part: Part,
    after?: PartCursor,
  ): Promise<PartPage<InstallationTables[Part]>> {
    return this.#do(() => this.#readers[part].page(after));
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
    const { database, users, lock } = this.#options;
    database.close();
    users?.close();
    lock.release();
  }

  #do<Answer>(run: (files: OpenFiles) => Answer): Answer {
    try {
      return run(this.#options);
    } catch (error) {
      throw asStorageError(error, this.place);
    }
  }
}

function identityIn(database: DatabaseSync, folder: string): InstallationSource['identity'] {
  const facts = new InstallationFacts(database);
  const [id, keySecret] = [facts.bytes('id'), facts.bytes('key_secret')];
  if (id instanceof Uint8Array && keySecret instanceof Uint8Array)
    return { id: Buffer.from(id).toString('hex'), keySecret };
  throw new StorageError(
    `the store of the data folder ${folder} does not say which one it is: start Millrace with it once, stop it, and try again`,
  );
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
