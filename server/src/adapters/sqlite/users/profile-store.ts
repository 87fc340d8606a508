import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import type { Json } from '../../../model/json.ts';
import { StorageError } from '../../../ports/event-log.ts';
import type {
  OutboxEntry,
  ProfileChanges,
  ProfileId,
  ProfileStore,
  UsersCursor,
} from '../../../ports/profile-store.ts';
import { syncPath, USERS_FILE } from '../data-folder/files.ts';
import { asStorageError } from '../database.ts';
import { hasRemnants } from './remnants.ts';
import { openUsersFile, REBUILD_ADVICE } from './schema.ts';
import { UsersTables } from './users-tables.ts';

/** Bytes of cache: enough for the profiles that most events touch, of a million. */
const CACHE_BYTES = 192 * 1024 * 1024;

/** The name of a file that takes the place of the old one, until it is whole. */
const NEW_FILE = 'users.db.new';

/** Milliseconds before the next try to empty the write-ahead log while a backup uses it. */
const BUSY_RETRY = 50;

/** Free pages given back in one transaction: by an erasure, and by one slice of work between others. */
const VACUUM_PAGES = 4096;
const SLICE_PAGES = 1024;

/**
 * Free pages that stay for new rows, at least and as a share of the file. Otherwise it would shrink and grow.
 */
const KEEP_PAGES = 1024;
const KEEP_SHARE = 0.05;

export interface ProfileStoreOptions {
  readonly folder: string;
  /** The log that is applied, as `LogReader` names it. A file that was made from another log is refused. */
  readonly log: string;
  /** Bytes of SQLite's cache. Default: 192 MB. */
  readonly cache?: number;
}

/**
 * The store of profiles in a file of its own, on the calling thread. The folder must be locked by this
 * process. Throws a `StorageError` whose reason says what to do when the file cannot be used; `clearProfiles`
 * can still replace it.
 */
export function openProfileStore(options: ProfileStoreOptions): ProfileStore {
  return new SqliteProfileStore(options);
}

/** Whether profiles were kept in a data folder before. */
export function hasProfiles(folder: string): boolean {
  return existsSync(join(folder, USERS_FILE));
}

/**
 * The parts that an empty file takes over from the one before: its counters go on, so that no number is given
 * twice.
 */
interface CarriedOver extends Pick<UsersCursor, 'nextProfile' | 'nextOutbox'> {
  readonly outbox?: readonly OutboxEntry[];
  readonly documents?: Readonly<Record<string, Json>>;
}

/** Puts an empty file in the place of one, which need not be readable. */
export function clearProfiles(
  { folder, log, cache = CACHE_BYTES }: ProfileStoreOptions,
  { outbox = [], documents = {}, ...counters }: CarriedOver = { nextProfile: 1, nextOutbox: 1 },
): void {
  removeFile(folder, NEW_FILE);
  const database = openUsersFile({ folder, cache, file: NEW_FILE });
  database.exec('begin immediate');
  const tables = new UsersTables(database);
  tables.begin(log, counters);
  tables.carry(outbox, documents);
  database.exec('commit');
  // Closing it empties its write-ahead log.
  database.close();
  putInPlace(folder);
}

/** The new file becomes the file of profiles. */
function putInPlace(folder: string): void {
  for (const rest of ['-wal', '-shm', '-journal'])
    rmSync(join(folder, `${USERS_FILE}${rest}`), { force: true });
  renameSync(join(folder, NEW_FILE), join(folder, USERS_FILE));
  syncPath(folder);
}

/** The number of the file of profiles; undefined when there is none. */
function inodeIn(folder: string): number | undefined {
  return statSync(join(folder, USERS_FILE), { throwIfNoEntry: false })?.ino;
}

function removeFile(folder: string, file: string): void {
  for (const rest of ['', '-wal', '-shm', '-journal'])
    rmSync(join(folder, `${file}${rest}`), { force: true });
}

/**
 * An open handle. It is given up after every failure of a write: neither it nor what it keeps in memory can
 * be trusted.
 */
interface Handle {
  readonly database: DatabaseSync;
  readonly tables: UsersTables;
  /** Number of the file that it has open. */
  readonly inode: number;
}

class SqliteProfileStore implements ProfileStore {
  readonly #options: Required<ProfileStoreOptions>;
  #handle: Handle | undefined;
  /** Commits that are known to be in the file. A file with fewer has lost some. */
  #commits = 0;
  #isStopped = false;

  constructor({ folder, log, cache = CACHE_BYTES }: ProfileStoreOptions) {
    this.#options = { folder, log, cache };
    try {
      if (!hasProfiles(folder)) clearProfiles(this.#options);
      this.#open();
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async cursor() {
    return this.#do(({ tables }) => tables.cursor!);
  }

  async resolve(keys: readonly number[]) {
    return this.#do(({ tables }) => tables.resolve(keys));
  }

  async get(profiles: readonly ProfileId[]) {
    return this.#do(({ tables }) => tables.get(profiles));
  }

  async commit(changes: ProfileChanges) {
    this.#do((handle) => this.#transact(handle, (tables) => tables.apply(changes)));
  }

  async due(now: number, max: number) {
    return this.#do(({ tables }) => tables.due(now, max));
  }

  async scan(after: ProfileId, max: number) {
    return this.#do(({ tables }) => tables.scan(after, max));
  }

  async outbox(after: number, max: number) {
    return this.#do(({ tables }) => tables.outbox(after, max));
  }

  async merges(profile: ProfileId, max: number) {
    return this.#do(({ tables }) => tables.merges(profile, max));
  }

  async document(name: string) {
    return this.#do(({ tables }) => tables.document(name));
  }

  async erase(
    profiles: readonly ProfileId[],
    texts: readonly string[],
    documents: Readonly<Record<string, Json>> = {},
  ) {
    this.#do((handle) => this.#transact(handle, (tables) => tables.erase(profiles, documents)));
    // A backup reads the write-ahead log until it is made.
    while (!this.#do(({ database }) => truncateLog(database))) await delay(BUSY_RETRY);
    const path = join(this.#options.folder, USERS_FILE);
    this.#do(({ database, tables }) => {
      while (tables.freePages() > 0) database.exec(`pragma incremental_vacuum(${VACUUM_PAGES})`);
    });
    while (!this.#do(({ database }) => truncateLog(database))) await delay(BUSY_RETRY);
    const isRewritten = hasRemnants(path, wanted(texts));
    if (isRewritten) this.#do(({ database }) => database.exec('vacuum'));
    this.#do((handle) => this.#transact(handle, (tables) => tables.scrubbed()));
    while (isRewritten && !this.#do(({ database }) => truncateLog(database))) await delay(BUSY_RETRY);
  }

  async clear(documents: Readonly<Record<string, Json>> = {}) {
    this.#do(({ database, tables }) => {
      const { nextProfile, nextOutbox } = tables.cursor!;
      const outbox = tables.outbox(0, Number.MAX_SAFE_INTEGER);
      truncateLog(database);
      this.#close();
      this.#commits = 0;
      clearProfiles(this.#options, { nextProfile, nextOutbox, outbox, documents });
    });
  }

  async size() {
    return this.#do(({ tables }) => ({ ...tables.size(), bytes: tables.bytes() }));
  }

  async usedBytes() {
    return this.#do(({ tables }) => tables.usedBytes());
  }

  async giveBack() {
    return this.#do(({ database, tables }) => {
      const kept = Math.max(KEEP_PAGES, tables.pages() * KEEP_SHARE);
      if (tables.freePages() <= kept) return false;
      database.exec(`pragma incremental_vacuum(${SLICE_PAGES})`);
      if (tables.freePages() > kept) return true;
      // The pages that were moved stand in the write-ahead log too.
      truncateLog(database);
      return false;
    });
  }

  async stop() {
    this.#isStopped = true;
    this.#close();
  }

  /** Runs an operation on the open file. After a failure the next one opens it anew. */
  #do<Answer>(run: (handle: Handle) => Answer): Answer {
    if (this.#isStopped) throw new StorageError('the store of profiles is stopped');
    this.#refuseAnother();
    try {
      this.#bringBack();
      return run(this.#open());
    } catch (error) {
      this.#close();
      throw this.#failure(error);
    }
  }

  #transact({ database, tables }: Handle, change: (tables: UsersTables) => void): void {
    const before = tables.commits;
    database.exec('begin immediate');
    change(tables);
    try {
      database.exec('commit');
    } catch (error) {
      // The commit may have happened all the same. Only the file tells.
      this.#close();
      if (this.#open().tables.commits !== before + 1) throw error;
    }
    this.#commits = before + 1;
  }

  #open(): Handle {
    this.#handle ??= this.#openFile();
    return this.#handle;
  }

  /**
   * Another file stands in the place of the open one, whose write-ahead log is still beside it: neither is
   * touched.
   */
  #refuseAnother(): void {
    const { folder } = this.#options;
    const inode = inodeIn(folder);
    if (this.#handle === undefined || inode === undefined || inode === this.#handle.inode) return;
    throw new StorageError(
      `users.db in ${folder} is another file than the one in use: put that one back, or stop Millrace and restore a backup`,
    );
  }

  /**
   * When the file was removed from its folder, the open one still has everything, and is written there again:
   * what destinations were told would otherwise be forgotten with the end of this process.
   */
  #bringBack(): void {
    const { folder } = this.#options;
    if (this.#handle === undefined || hasProfiles(folder)) return;
    removeFile(folder, NEW_FILE);
    this.#handle.database.prepare('vacuum into ?').run(join(folder, NEW_FILE));
    putInPlace(folder);
    this.#close();
  }

  #openFile(): Handle {
    const { folder, log, cache } = this.#options;
    if (!hasProfiles(folder)) {
      throw new StorageError(
        `users.db is missing in ${folder}: put it back, or restart Millrace to make it anew`,
      );
    }
    const database = openUsersFile({ folder, cache });
    try {
      const tables = new UsersTables(database);
      this.#refuse(tables, log);
      this.#commits = tables.commits;
      if (tables.isScrubDue) finishErasure(database, tables);
      return { database, tables, inode: inodeIn(folder)! };
    } catch (error) {
      database.close();
      throw error;
    }
  }

  #refuse(tables: UsersTables, log: string): void {
    if (tables.cursor === undefined)
      throw new StorageError(`users.db is damaged (its cursor cannot be read): ${REBUILD_ADVICE}`);
    if (tables.log !== log)
      throw new StorageError(`users.db was made from another log than this millrace.db: ${REBUILD_ADVICE}`);
    if (tables.commits < this.#commits)
      throw new StorageError(`users.db has lost what was written last: ${REBUILD_ADVICE}`);
  }

  #close(): void {
    const handle = this.#handle;
    this.#handle = undefined;
    if (handle === undefined) return;
    try {
      handle.database.close();
    } catch {
      // A handle that cannot be closed stays until the end of the thread.
    }
  }

  #failure(error: unknown): StorageError {
    return asStorageError(error, this.#options.folder, `its users.db is damaged: ${REBUILD_ADVICE}`);
  }
}

/** Empties the write-ahead log. False while somebody else reads the file. */
function truncateLog(database: DatabaseSync): boolean {
  return (database.prepare('pragma wal_checkpoint(truncate)').get() as { busy: number }).busy === 0;
}

/**
 * The process died between deleting profiles and looking for their bytes: nobody knows the texts, so all is
 * written anew.
 */
function finishErasure(database: DatabaseSync, tables: UsersTables): void {
  database.exec('vacuum');
  if (!truncateLog(database)) return;
  database.exec('begin immediate');
  tables.scrubbed();
  database.exec('commit');
}

/** Texts as bytes: as they are, and as they stand inside of JSON where that differs. */
function wanted(texts: readonly string[]): Buffer[] {
  const forms = new Set(texts.flatMap((text) => [text, JSON.stringify(text).slice(1, -1)]));
  return [...forms].filter((text) => text !== '').map((text) => Buffer.from(text));
}
