import { chmodSync, closeSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../../ports/event-log.ts';
import { databaseUri, syncPath, USERS_FILE, walPath } from '../data-folder/files.ts';
import { checkSqliteVersion, rewriteAndSync } from '../database.ts';
import { refuseOthers, refuseProgramsIn } from '../foreign-objects.ts';

/** "MILU": tells `file` and us that a database holds Millrace's profiles. */
export const USERS_APPLICATION_ID = 0x4d494c55;

/** Small pages: a changed profile writes the page it is on, and 4 KB pages write four times as much. */
const PAGE_SIZE = 1024;

/**
 * Pages in the write-ahead log before they are copied into the file: 16 MB. Only the users thread waits for
 * that.
 */
const CHECKPOINT_PAGES = 16_384;

/**
 * Numbered, never edited after release, like those of millrace.db. Their number is the format, in
 * `user_version`.
 */
const MIGRATIONS: readonly string[] = [
  `
  -- Facts about this file, each with a checksum (InstallationFacts): the cursor, the number of profiles, the log it belongs to.
  create table installation(name text primary key, value any, sum integer) strict, without rowid;

  -- The state is opaque to the store and has a checksum behind it. It is padded to 128 bytes by whoever makes it: so that
  -- SQLite leaves no piece of a deleted one behind (docs/decisions/0020-users.md).
  create table profile(id integer primary key, state blob not null) strict;

  -- Who an identity belongs to: the profile times 4096, plus twelve bits of checksum.
  create table identity(key integer primary key, owner integer not null) strict;

  -- Hints, so they have no checksum.
  create table timer(minute integer not null, profile integer not null, primary key(minute, profile)) strict, without rowid;

  create table outbox(
    sequence integer primary key,
    profile integer not null,
    json text not null,
    sum integer not null
  ) strict;

  -- The winner is the profile that lives now: a merge takes along the earlier merges of its loser.
  create table merge(
    winner integer not null,
    position integer not null,
    loser integer not null,
    body text not null,
    sum integer not null,
    primary key(winner, position, loser)
  ) strict, without rowid;

  create table document(name text primary key, body text not null, sum integer not null) strict, without rowid;
  `,
  // States say of each id whether a server source has named it, and whether it was named more than once.
  '',
];

/** The newest format that this version reads, and the one that it writes. */
export const USERS_FORMAT = MIGRATIONS.length;

/** Advice about a damaged file of profiles. Everything in it was made from the log. */
export const REBUILD_ADVICE = 'apply the log again with millrace profiles rebuild';

export interface UsersFileOptions {
  readonly folder: string;
  /** Bytes of SQLite's cache. */
  readonly cache: number;
  /** Name of the file in the folder. */
  readonly file?: string;
}

/**
 * Opens the file of profiles, makes it if there is none, and brings it to the current format. The folder must
 * be locked by this process. Throws an error that `asStorageError` explains.
 */
export function openUsersFile({ folder, cache, file = USERS_FILE }: UsersFileOptions): DatabaseSync {
  checkSqliteVersion(process.versions.sqlite ?? '0');
  makeOwned(join(folder, file));
  rewriteAndSync(walPath(folder, file));
  const database = new DatabaseSync(databaseUri(folder, 'rw', file), { timeout: 5000 });
  try {
    refuseForeign(database, file);
    // Both before the first table.
    database.exec(`pragma page_size = ${PAGE_SIZE}; pragma auto_vacuum = incremental`);
    database.exec('pragma journal_mode = wal; pragma synchronous = full');
    database.exec('pragma fullfsync = on; pragma checkpoint_fullfsync = on');
    database.exec(`pragma cache_size = -${Math.max(64, Math.floor(cache / 1024))}`);
    database.exec('pragma temp_store = memory; pragma trusted_schema = off; pragma secure_delete = on');
    database.exec(`pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    migrate(database);
    refuseOthers(database, `the ${file} of the data folder`, migrate);
    syncPath(folder);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Makes a missing file with rights for its owner alone; SQLite gives the same rights to the write-ahead log.
 */
function makeOwned(path: string): void {
  closeSync(openSync(path, 'a', 0o600));
  if (process.getuid?.() === statSync(path).uid) chmodSync(path, 0o600);
}

function refuseForeign(database: DatabaseSync, file: string): void {
  const application = pragma(database, 'application_id');
  if (application === USERS_APPLICATION_ID) {
    refuseProgramsIn(database, `the ${file} of the data folder`);
    return;
  }
  const { tables } = database.prepare('select count(*) as tables from sqlite_schema').get() as {
    tables: number;
  };
  if (application === 0 && pragma(database, 'user_version') === 0 && tables === 0) return;
  throw new StorageError(
    `the data folder holds a ${file} that Millrace did not write: move it away, or choose another data folder`,
  );
}

function migrate(database: DatabaseSync): void {
  const version = pragma(database, 'user_version');
  if (version > USERS_FORMAT) {
    throw new StorageError(
      `users.db was written by a newer Millrace (format ${version}, this one knows ${USERS_FORMAT}): start the newer ` +
        'version, or remove users.db and its users.db-wal, and all profiles are made from the log again',
    );
  }
  for (let step = version; step < USERS_FORMAT; step++) {
    database.exec('begin immediate');
    database.exec(MIGRATIONS[step]!);
    database.exec(`pragma application_id = ${USERS_APPLICATION_ID}`);
    database.exec(`pragma user_version = ${step + 1}`);
    database.exec('commit');
  }
}

function pragma(database: DatabaseSync, name: string): number {
  const row = database.prepare(`pragma ${name}`).get() as Record<string, number>;
  return row[name]!;
}
