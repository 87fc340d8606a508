import { chmodSync, existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../../ports/event-log.ts';
import type {
  EventRow,
  InstallationPart,
  InstallationReader,
  InstallationTables,
  InstallationTarget,
  MigrationOrigin,
  MigrationProgress,
} from '../../../ports/installation.ts';
import { type MigrationRecord, newRecord, refuseOtherOrigin } from '../../encoding/migration-record.ts';
import { DATABASE_FILE, syncPath, USERS_FILE } from '../data-folder/files.ts';
import { lockFolder, makeFolder, restrictToOwner } from '../data-folder/folder.ts';
import { beginFilling, endFilling, isBeingFilled } from '../data-folder/moved.ts';
import { asStorageError, openDatabase } from '../database.ts';
import { InstallationFacts, markBounded, Watermarks } from '../installation.ts';
import { openUsersFile } from '../users/schema.ts';
import { EventWriter } from './event-writer.ts';
import { openReader, openReadOnly } from './opening.ts';
import type { PartWriters, ProfilePart, StorePart } from './parts.ts';
import { profileWriters } from './profile-tables.ts';
import { storeWriters } from './store-tables.ts';

/** Files of a node, which may stand in the folder before, what file systems put there, and what a migration left that ended as it began. */
const OTHERS_NAMES =
  /^(lock\.db.*|owner(\.new)?|migration\.unfinished\.new|admin-token.*|token-uses.*|timeline-.*|lost\+found)$/;

/** The fact that holds the record of the migration. */
const RECORD = 'migration';

/** Pages in a write-ahead log before they are copied into the file. */
const CHECKPOINT_PAGES = 4096;

/** Bytes of cache for the file of profiles. */
const USERS_CACHE = 32 * 1024 * 1024;

const EMPTY = 'remove the folder';

/** Opens a data folder that does not exist yet, is empty, or is being filled. Throws a `StorageError`. */
export function openFolderTarget(folder: string): InstallationTarget {
  makeFolder(folder);
  refuseForeign(folder);
  try {
    return new FolderTarget(folder, lockFolder(folder));
  } catch (error) {
    throw asStorageError(error, folder);
  }
}

/** The open files, with what writes them. */
interface OpenFiles {
  readonly database: DatabaseSync;
  readonly facts: InstallationFacts;
  readonly watermarks: Watermarks;
  readonly events: EventWriter;
  readonly writers: PartWriters<StorePart>;
  users?: { readonly database: DatabaseSync; readonly writers: PartWriters<ProfilePart> };
}

class FolderTarget implements InstallationTarget {
  readonly place: string;
  readonly #lock: { release(): void };
  #origin: MigrationOrigin | undefined;
  #record: MigrationRecord | undefined;
  #files: OpenFiles | undefined;

  constructor(folder: string, lock: { release(): void }) {
    this.place = folder;
    this.#lock = lock;
  }

  async begin(origin: MigrationOrigin): Promise<MigrationProgress> {
    return this.#do(() => {
      this.#origin = origin;
      const place = { place: this.place, empty: EMPTY };
      if (!isBeingFilled(this.place)) {
        const ended = refuseFilled(this.place);
        if (ended !== undefined) {
          refuseOtherOrigin(ended, origin, place);
          return ended.progress;
        }
        restrictToOwner(this.place);
        beginFilling(this.place);
      }
      const { facts, database } = this.#open();
      const stored = facts.bytes(RECORD);
      const record =
        stored instanceof Uint8Array
          ? (JSON.parse(Buffer.from(stored).toString()) as MigrationRecord)
          : newRecord(origin);
      refuseOtherOrigin(record, origin, place);
      if (record.progress.phase === 'complete') endFilling(this.place);
      else this.#transact(database, () => this.#identify(origin, record));
      return record.progress;
    });
  }

  async write<Part extends InstallationPart>(
    part: Part,
    rows: readonly InstallationTables[Part][],
    progress: MigrationProgress,
  ): Promise<void> {
    const before = this.#record!.progress.rows[part] ?? 0;
    this.#do(() => {
      const files = this.#open();
      if (isOfProfiles(part)) {
        const users = this.#usersIn(files);
        this.#transact(users.database, () => writeEach(users.writers[part], rows, before));
      }
      this.#transact(files.database, () => {
        if (part === 'events') files.events.write(rows as readonly EventRow[]);
        else if (!isOfProfiles(part)) writeEach(files.writers[part as StorePart], rows, before);
        this.#note(progress);
      });
    });
  }

  async advance(progress: MigrationProgress): Promise<void> {
    this.#do(() => {
      const { database, events } = this.#open();
      const { marks, clock } = this.#origin!;
      this.#transact(database, () => {
        events.endAt(marks.end, clock.monotonic);
        this.#note(progress);
      });
    });
  }

  /** Reads the files as the next start will find them. */
  async openReader(): Promise<InstallationReader> {
    return this.#do(() => {
      this.#close();
      return openReader(this.place);
    });
  }

  async complete(progress: MigrationProgress): Promise<void> {
    this.#do(() => {
      const { database } = this.#open();
      this.#transact(database, () => this.#note(progress));
      this.#close();
      for (const file of [DATABASE_FILE, USERS_FILE])
        if (existsSync(join(this.place, file))) syncPath(join(this.place, file));
      endFilling(this.place);
    });
  }

  async stop(): Promise<void> {
    this.#close();
    this.#lock.release();
  }

  /** Writes which installation it is, and what belongs to no row. The clock is read anew by each run. */
  #identify({ id, keySecret, clock, marks }: MigrationOrigin, record: MigrationRecord): void {
    const { facts, watermarks } = this.#open();
    facts.put('id', Buffer.from(id, 'hex'));
    facts.put('key_secret', keySecret);
    facts.put('clocks', Buffer.from(JSON.stringify(clock)));
    watermarks.retainedFrom = marks.retainedFrom;
    watermarks.compactedTo = marks.mergedTo;
    if (marks.isBounded === true) markBounded(facts);
    this.#record = record;
    this.#note(record.progress);
  }

  #note(progress: MigrationProgress): void {
    const { origin } = this.#record!;
    this.#record = { origin, progress };
    this.#files!.facts.put(RECORD, Buffer.from(JSON.stringify(this.#record)));
  }

  #open(): OpenFiles {
    this.#files ??= this.#openFiles();
    return this.#files;
  }

  #openFiles(): OpenFiles {
    const isNew = !existsSync(join(this.place, DATABASE_FILE));
    const database = openDatabase(this.place, { isNew });
    try {
      // The write-ahead log gets the same rights when it is made.
      chmodSync(join(this.place, DATABASE_FILE), 0o600);
      database.exec(`pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
      const watermarks = new Watermarks(database);
      const events = new EventWriter(database, watermarks, this.#origin!.keySecret);
      const facts = new InstallationFacts(database);
      return { database, facts, watermarks, events, writers: storeWriters(database) };
    } catch (error) {
      database.close();
      throw error;
    }
  }

  #usersIn(files: OpenFiles): NonNullable<OpenFiles['users']> {
    if (files.users === undefined) {
      const database = openUsersFile({ folder: this.place, cache: USERS_CACHE });
      files.users = { database, writers: profileWriters(database, this.#origin!.id) };
    }
    return files.users;
  }

  #close(): void {
    const files = this.#files;
    this.#files = undefined;
    files?.users?.database.close();
    files?.database.close();
  }

  #transact(database: DatabaseSync, change: () => void): void {
    database.exec('begin immediate');
    try {
      change();
      database.exec('commit');
    } catch (error) {
      if (database.isTransaction) database.exec('rollback');
      throw error;
    }
  }

  #do<Answer>(run: () => Answer): Answer {
    try {
      return run();
    } catch (error) {
      // What is kept in memory is of a transaction that did not happen.
      this.#close();
      throw asStorageError(error, this.place);
    }
  }
}

const PROFILE_PARTS: ReadonlySet<InstallationPart> = new Set<ProfilePart>([
  'profileCursor',
  'profiles',
  'identities',
  'timers',
  'outbox',
  'merges',
  'profileDocuments',
]);

function isOfProfiles(part: InstallationPart): part is ProfilePart {
  return PROFILE_PARTS.has(part);
}

/** `before`: how many rows of the part were written earlier. */
function writeEach(
  writer: PartWriters<StorePart>[StorePart] | PartWriters<ProfilePart>[ProfilePart],
  rows: readonly InstallationTables[InstallationPart][],
  before: number,
): void {
  const write = writer as (row: InstallationTables[InstallationPart], nth: number) => void;
  for (const [nth, row] of rows.entries()) write(row, before + nth);
}

/** Throws a `StorageError` for a folder with files that are not ours, before anything in it is touched. */
function refuseForeign(folder: string): void {
  if (existsSync(join(folder, DATABASE_FILE)) || isBeingFilled(folder)) return;
  const other = readdirSync(folder).find((name) => !OTHERS_NAMES.test(name));
  if (other === undefined) return;
  throw new StorageError(
    `${folder} is not empty (${other}): name a folder that does not exist yet or is empty, or move this one away`,
  );
}

/** Throws a `StorageError` for a folder that holds an installation. Returns the record of a migration that has come to its end. */
function refuseFilled(folder: string): MigrationRecord | undefined {
  if (!existsSync(join(folder, DATABASE_FILE))) return undefined;
  const record = recordIn(folder);
  if (record?.progress.phase === 'complete') return record;
  throw new StorageError(
    `${folder} holds an installation already: name a folder that does not exist yet or is empty, or move this one away`,
  );
}

function recordIn(folder: string): MigrationRecord | undefined {
  const database = openReadOnly(folder, DATABASE_FILE);
  try {
    const stored = new InstallationFacts(database).bytes(RECORD);
    return stored instanceof Uint8Array ? JSON.parse(Buffer.from(stored).toString()) : undefined;
  } finally {
    database.close();
  }
}
