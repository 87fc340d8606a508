import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import { defined } from '../../../model/json.ts';
import { NO_SECRET_KEYS, type SecretKeys } from '../../../model/secret-keys.ts';
import { type Damage, StorageError } from '../../../ports/event-log.ts';
import type { Backup, BackupProgress } from '../../../ports/store.ts';
import { SecretSeal } from '../../encoding/secret-seal.ts';
import { DATABASE_FILE, syncPath, USERS_FILE, writeAnew } from '../data-folder/files.ts';
import { freeBytes, makeFolder, RESTORE_MARK, takeEmptyFolder } from '../data-folder/folder.ts';
import { writeMark } from '../data-folder/high-water-mark.ts';
import { movedTo } from '../data-folder/moved.ts';
import { refuseProgramsIn } from '../foreign-objects.ts';
import { type ObservedProgress, readProgress } from '../installation.ts';
import { APPLICATION_ID, FORMAT } from '../schema.ts';
import { storedKeyName } from '../settings/secret-keys.ts';
import { verifyFile } from '../upkeep/verification.ts';
import { USERS_APPLICATION_ID } from '../users/schema.ts';
import { differencesFrom, MANIFEST_FILE, proofOf, readManifest } from './manifest.ts';
import type { BackupWorkerMessage, BackupWorkerOptions } from './worker.ts';

export interface BackupRunnerOptions {
  readonly folder: string;
  /** As `WriterOptions.file`. */
  readonly file: SharedArrayBuffer;
  /**
   * Says why the files in the folder are not the open store, a moment after that is so; empty while they are.
   */
  readonly problems: () => readonly string[];
  readonly secretKeys: SecretKeys;
}

/** Makes copies of the file while it is in use, one at a time, each on a thread of its own. */
export class BackupRunner {
  readonly #options: BackupRunnerOptions;
  /** The copy under way, and the shared word that breaks it off. */
  #current: { readonly made: Promise<Backup>; readonly cancelFlag: Int32Array } | undefined;
  #isStopped = false;

  constructor(options: BackupRunnerOptions) {
    this.#options = options;
  }

  async make(into: string, progress?: BackupProgress): Promise<Backup> {
    if (this.#isStopped) throw new StorageError('the store is stopped');
    const { folder, file, problems, secretKeys } = this.#options;
    const [problem] = problems();
    if (problem !== undefined) throw new StorageError(problem);
    if (this.#current !== undefined) {
      throw new StorageError(
        'another backup is being made: wait for its end, or look at it with GET /api/v1/backups',
      );
    }
    const cancelFlag = new Int32Array(new SharedArrayBuffer(4));
    const made = runWorker({ folder, file, into, cancelFlag, secretKeys }, progress);
    this.#current = { made, cancelFlag };
    try {
      return await made;
    } finally {
      this.#current = undefined;
    }
  }

  /** Breaks off the copy under way: many gigabytes must not hold up the end of the program. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#current === undefined) return;
    const { made, cancelFlag } = this.#current;
    Atomics.store(cancelFlag, 0, 1);
    Atomics.notify(cancelFlag, 0);
    await made.catch(() => {});
  }
}

function runWorker(options: BackupWorkerOptions, progress?: BackupProgress): Promise<Backup> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const thread = new Worker(new URL(`./worker.${extension}`, import.meta.url), {
    workerData: options,
    name: 'millrace-backup',
  });
  return new Promise((resolve, reject) => {
    let result: BackupWorkerMessage | undefined;
    thread.on('message', (message: BackupWorkerMessage) => {
      if (message.kind === 'progress') progress?.(message.written, message.of);
      else result = message;
    });
    thread.on('error', (error) => reject(new StorageError(error.message, { cause: error })));
    // The thread has closed every file only when it has ended.
    thread.on('exit', () => {
      if (result?.kind === 'done') resolve(result.backup);
      else reject(new StorageError(result?.kind === 'failed' ? result.reason : 'the backup was broken off'));
    });
  });
}

/** Name of the file until it has been checked and is on stable storage. */
const UNFINISHED = 'millrace.db.restoring';

const HEADER_BYTES = 100;
const MAGIC = 'SQLite format 3\0';

export interface RestoreOptions {
  /** Takes a backup in which some events cannot be read; otherwise it is refused. */
  readonly acceptDamage?: boolean;
  /** `reapplyRegulations` follows. Until it has come to its end no start takes the folder. */
  readonly awaitsRegulations?: boolean;
  /**
   * Prove the manifest. Without them the backup is restored all the same, and it is said what could not be
   * checked.
   */
  readonly secretKeys?: SecretKeys;
}

/** A backup that was restored. */
export interface Restored {
  readonly bytes: number;
  readonly damage?: Damage;
  /** Checks that could not be made, and differences that were accepted; each a sentence. */
  readonly notes?: readonly string[];
}

/**
 * Copies a backup to a data folder that does not exist yet or is empty, and checks the copy: its pages, every
 * checksum, and by its manifest that it is what was made. Throws a `StorageError` whose reason says what to
 * do, and then removes what was written.
 */
export function restoreBackup(
  from: string,
  folder: string,
  { acceptDamage = false, awaitsRegulations = false, secretKeys = NO_SECRET_KEYS }: RestoreOptions = {},
): Restored {
  const file = join(from, 'millrace.db');
  const bytes = checkBackup(from, file);
  const isNew = takeEmptyFolder(
    folder,
    makeIfMissing,
    () =>
      `the data folder ${folder} is not empty: name one that does not exist yet with --data, or move this one away`,
  );
  const unfinished = join(folder, UNFINISHED);
  try {
    refuseWithoutRoom(folder, bytes);
    copyFileSync(file, unfinished);
    chmodSync(unfinished, 0o600);
    const progress = checkPages(unfinished, from);
    const damage = verifyFile(unfinished);
    if (damage !== undefined && !acceptDamage) throw damageError(damage, from);
    // Without its profiles a log makes them again; profiles without their log are of no use.
    const users = restoreUsers(from, folder, acceptDamage);
    const seal = new SecretSeal(secretKeys);
    const copies = { [DATABASE_FILE]: unfinished, [USERS_FILE]: join(folder, USERS_FILE) };
    const notes = [
      ...compareWithManifest(from, { copies, seal, acceptDamage }),
      ...neededKey(unfinished, seal),
    ];
    syncPath(unfinished);
    if (awaitsRegulations) writeAnew(join(folder, RESTORE_MARK), '');
    renameSync(unfinished, join(folder, 'millrace.db'));
    syncPath(folder);
    // A backup of an earlier version has no id. Its first start writes the mark.
    if (typeof progress.id === 'string') writeMark(folder, { id: progress.id, commits: progress.commits });
    return { bytes: bytes + users, ...defined({ notes: notes.length === 0 ? undefined : notes, damage }) };
  } catch (error) {
    for (const rest of ['', '-wal', '-shm']) rmSync(`${unfinished}${rest}`, { force: true });
    for (const name of [USERS_FILE, RESTORE_MARK]) rmSync(join(folder, name), { force: true });
    if (isNew) rmSync(folder, { recursive: true, force: true });
    if (error instanceof StorageError) throw error;
    const { message } = error as Error;
    throw new StorageError(`cannot restore into ${folder} (${message}): see its disk and its rights`, {
      cause: error,
    });
  }
}

interface Comparison {
  /** Where the copy of each file is, if it has one. */
  readonly copies: Readonly<Record<string, string>>;
  readonly seal: SecretSeal;
  readonly acceptDamage: boolean;
}

/** Returns what the person who restores should know. */
function compareWithManifest(from: string, { copies, seal, acceptDamage }: Comparison): readonly string[] {
  const manifest = readManifest(from);
  if (manifest === undefined)
    return [
      `${from} has no ${MANIFEST_FILE}, as backups of earlier versions: that its files are as they were made could not be checked`,
    ];
  const proof = typeof manifest === 'string' ? undefined : proofOf(manifest, seal);
  const unchecked = proof?.kind === 'unknown' ? [proof.why] : [];
  const differences =
    typeof manifest === 'string'
      ? [manifest]
      : [
          ...(proof?.kind === 'forged' ? [proof.why] : []),
          ...differencesFrom(manifest, (name) => (existsSync(copies[name]!) ? copies[name] : undefined)),
        ];
  if (differences.length === 0 || acceptDamage) return [...differences, ...unchecked];
  throw new StorageError(
    `the backup in ${from} is not as it was made (${differences.join('; ')}): restore another one, or take this one as it is with --accept-damage`,
  );
}

/** Names the key that the start of a restored store will ask for, where it was not given here. */
function neededKey(path: string, seal: SecretSeal): readonly string[] {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const name = storedKeyName(database);
    if (name === undefined || name === seal.current) return [];
    const where = seal.has(name)
      ? 'leave it under secrets.previousKeys for the first start, which encrypts them with secrets.key'
      : 'the start needs it as secrets.key, or under secrets.previousKeys beside a newer one';
    return [`its secrets are encrypted with the key ${name}: ${where}`];
  } finally {
    database.close();
  }
}

/**
 * Copies the profiles of a backup, if it has any. Returns their bytes; 0 for damaged ones, which are left out
 * if accepted.
 */
function restoreUsers(from: string, folder: string, acceptDamage: boolean): number {
  const file = join(from, USERS_FILE);
  if (!existsSync(file)) return 0;
  const path = join(folder, USERS_FILE);
  const { size } = statSync(file);
  refuseWithoutRoom(folder, size);
  copyFileSync(file, path);
  chmodSync(path, 0o600);
  const isOurs = readHeader(path).readUInt32BE(68) === USERS_APPLICATION_ID;
  const found = isOurs ? brokenPages(path) : 'it was not written by Millrace';
  if (found === undefined) {
    syncPath(path);
    return size;
  }
  rmSync(path, { force: true });
  if (acceptDamage) return 0;
  throw new StorageError(
    `the profiles in ${file} are damaged (${found}): restore an older backup, or take this one without them with ` +
      '--accept-damage; profiles are then made from the log again',
  );
}

/** The first fault of a file's pages; undefined when they are whole. */
function brokenPages(path: string): string | undefined {
  try {
    const database = new DatabaseSync(path);
    try {
      const [row] = database.prepare('pragma quick_check(1)').all() as { quick_check: string }[];
      return row?.quick_check === 'ok' ? undefined : (row?.quick_check ?? 'nothing');
    } finally {
      database.close();
    }
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Reads the file's header only, so that a mistake shows before gigabytes are copied. Returns the file's size
 * in bytes.
 */
function checkBackup(from: string, file: string): number {
  const move = movedTo(from);
  if (move !== undefined)
    throw new StorageError(
      `${from} is a data folder that was moved to ${move.to}, which delivers what it holds: name a folder that millrace backup has written`,
    );
  if (!existsSync(file)) {
    const found = existsSync(from) ? readdirSync(from) : [];
    const why = found.includes('millrace.db.unfinished') ? 'a backup that came to no end' : 'no backup';
    throw new StorageError(`${from} holds ${why}: name the folder that millrace backup has written`);
  }
  const log = statSync(`${file}-wal`, { throwIfNoEntry: false });
  if (log !== undefined && log.size > 0) {
    throw new StorageError(
      `${from} is a data folder that was in use and no backup: start Millrace with --data ${from}, or back it up while it runs`,
    );
  }
  const head = readHeader(file);
  if (head.toString('latin1', 0, MAGIC.length) !== MAGIC || head.readUInt32BE(68) !== APPLICATION_ID) {
    throw new StorageError(`the millrace.db in ${from} was not written by Millrace: name another folder`);
  }
  const format = head.readUInt32BE(60);
  if (format > FORMAT) {
    throw new StorageError(
      `the backup in ${from} was made by a newer Millrace (format ${format}, this one knows ${FORMAT}): restore it with that version`,
    );
  }
  return statSync(file).size;
}

function damageError({ events, deliveries, others = [] }: Damage, from: string): StorageError {
  const parts = [
    ...(events > 0 ? [`${events} events`] : []),
    ...(deliveries > 0 ? [`${deliveries} deliveries`] : []),
    ...others,
  ];
  return new StorageError(
    `${parts.join(', ')} in the backup in ${from} cannot be read: restore an older one, or take this one as it is with ` +
      '--accept-damage; what cannot be read is then a dead letter',
  );
}

function readHeader(file: string): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  const handle = openSync(file, 'r');
  try {
    readSync(handle, head, 0, HEADER_BYTES, 0);
    return head;
  } finally {
    closeSync(handle);
  }
}

function makeIfMissing(folder: string): boolean {
  if (existsSync(folder)) return false;
  makeFolder(folder);
  return true;
}

function refuseWithoutRoom(folder: string, bytes: number): void {
  if (freeBytes(folder) > bytes) return;
  throw new StorageError(
    `the disk of ${folder} has no room for the ${Math.ceil(bytes / 1024 / 1024)} MB of it: free some space`,
  );
}

/** Checks the pages of a copy. Returns which store it is and how far it has come. */
function checkPages(file: string, from: string): ObservedProgress {
  let found: string;
  let progress: ObservedProgress = { commits: 0 };
  try {
    const database = new DatabaseSync(file);
    try {
      refuseProgramsIn(database, `the millrace.db in ${from}`);
      const rows = database.prepare('pragma quick_check(1)').all() as { quick_check: string }[];
      found = rows[0]?.quick_check ?? 'nothing';
      progress = readProgress(database);
    } finally {
      database.close();
    }
  } catch (error) {
    if (error instanceof StorageError) throw error;
    found = (error as Error).message;
  }
  if (found !== 'ok') {
    throw new StorageError(`the backup in ${from} is damaged (${found}): restore an older one`);
  }
  return progress;
}
