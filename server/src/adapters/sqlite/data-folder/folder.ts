import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { distrustOf, type FileRights } from '../../../model/file-rights.ts';
import { StorageError } from '../../../ports/event-log.ts';
import type { Logger } from '../../../ports/logger.ts';
import { errorCode } from '../database.ts';
import { writeAnew } from './files.ts';
import { MARK_FILE } from './high-water-mark.ts';

/** Rights of a data folder. It holds personal data, so only its owner may read it. */
export const OWNER_ONLY = 0o700;
const GROUP_AND_OTHERS = 0o077;

/**
 * Names of Millrace's files in a data folder, and of what file systems and orchestrators put into an empty
 * one.
 */
const OUR_NAMES =
  /^(millrace\.db.*|users\.db.*|lock\.db.*|owner(\.new)?|high-water-mark.*|admin-token.*|token-uses.*|restore\.unfinished.*|migration\.unfinished.*|moved\.json.*|regulations\.journal|manifest\.json.*|backups\.list|timeline-.*|lost\+found)$/;

/** Makes the data folder and the folders above it, if they are missing. Throws a `StorageError`. */
export function makeFolder(folder: string): void {
  try {
    makeOne(resolve(folder));
  } catch (error) {
    throw new StorageError(
      `cannot make the data folder ${folder} (${errorCode(error)}): choose another one with --data`,
      { cause: error },
    );
  }
}

/**
 * Makes one folder at a time. Node's `recursive` never ends where the system refuses although the parent
 * exists (/proc).
 */
function makeOne(path: string): void {
  const parent = dirname(path);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (parent !== path && statSync(parent, { throwIfNoEntry: false }) === undefined) makeOne(parent);
  mkdirSync(path, { mode: OWNER_ONLY });
  // `mkdir` applies the umask; this does not.
  chmodSync(path, OWNER_ONLY);
}

/** Takes the rights of others from an existing empty folder, if the system allows it. */
function restrictToOwner(folder: string): void {
  try {
    chmodSync(folder, OWNER_ONLY);
  } catch {
    // The folder belongs to another user. The files in it have rights of their own.
  }
}

/**
 * Refuses a folder that others have prepared: what stands in it would be taken for Millrace's own, and a link
 * in it would lead what is written to another file. A folder that is empty and this user's is only taken from
 * the others. Throws a `StorageError`.
 */
function refuseForeignFolder(folder: string): void {
  const user = process.getuid?.();
  const names = namesIn(folder);
  // What cannot be looked into cannot be opened either, and the error of that says what to do.
  if (user === undefined || names === undefined) return;
  if (names.length === 0 && statSync(folder).uid === user) restrictToOwner(folder);
  const mend = `chown ${user} ${folder} && chmod 700 ${folder}`;
  refuseDistrusted(folder, statSync(folder), `${mend}, or choose another folder, such as a new one in it`);
  for (const name of names.filter((one) => OUR_NAMES.test(one))) {
    const path = join(folder, name);
    const advice = `look who has put it there, and remove it or give it to this user (chown ${user}), or choose another folder`;
    // Of a link first whoever has made it. One of this user may lead to the store on another disk.
    const found = [lstatSync(path, { throwIfNoEntry: false }), statSync(path, { throwIfNoEntry: false })];
    for (const rights of found.filter((one) => one !== undefined))
      refuseDistrusted(path, { uid: rights.uid, mode: 0 }, advice);
    const mode = TOKEN_NAMES.test(name) ? (found[1]?.mode ?? 0) : 0;
    refuseDistrusted(path, { uid: user, mode }, advice);
  }
}

function namesIn(folder: string): string[] | undefined {
  try {
    return readdirSync(folder);
  } catch {
    return undefined;
  }
}

/** A file that gives every right to whoever has written it. */
const TOKEN_NAMES = /^admin-token/;

function refuseDistrusted(path: string, rights: FileRights, advice: string): void {
  const problem = distrustOf(rights, process.getuid?.());
  if (problem !== undefined) throw new StorageError(`${path} ${problem}: ${advice}`);
}

/** Bytes that may still be written to the disk of a folder. */
export function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

/**
 * Takes a new or an empty folder for a copy of the store, for its owner alone. `make` makes the folder and
 * says whether it did; `refusal` says what to do about a folder that holds these names. True when the folder
 * was made.
 */
export function takeEmptyFolder(
  folder: string,
  make: (folder: string) => boolean,
  refusal: (names: readonly string[]) => string,
): boolean {
  if (make(folder)) return true;
  const names = readdirSync(folder);
  if (names.length > 0) throw new StorageError(refusal(names));
  refuseForeignFolder(folder);
  return false;
}

/**
 * Stands in a folder that is being restored, until the regulations that are newer than the backup are done
 * again.
 */
export const RESTORE_MARK = 'restore.unfinished';

/**
 * Throws a `StorageError` for a folder whose restore did not come to its end: deleted users may still be in
 * it.
 */
export function refuseUnfinishedRestore(folder: string): void {
  if (!existsSync(join(folder, RESTORE_MARK))) return;
  throw new StorageError(
    `the restore into ${folder} did not come to its end, and users deleted since the backup may still be in it: remove the folder, ` +
      'and restore again',
  );
}

/** Rights that are too loose and could not be changed. */
export interface LoosePermissions {
  readonly path: string;
  /** As `chmod` takes it. */
  readonly mode: string;
  readonly problem: string;
}

/**
 * Takes the rights of others from a data folder and from Millrace's files in it. A folder with foreign files
 * keeps its rights, because it may be a shared one such as /tmp.
 */
function tightenPermissions(folder: string): readonly LoosePermissions[] {
  const user = process.getuid?.();
  if (user === undefined) return [];
  const names = readdirSync(folder);
  const other = names.find((name) => !OUR_NAMES.test(name));
  const loose: LoosePermissions[] = [];
  const tightenOne = (path: string, reason?: string) => {
    const { mode, uid } = statSync(path);
    if ((mode & GROUP_AND_OTHERS) === 0) return;
    const problem =
      reason ??
      (uid === user ? tryTo(() => chmodSync(path, mode & OWNER_ONLY)) : `it belongs to user ${uid}`);
    if (problem !== undefined) loose.push({ path, mode: (mode & 0o777).toString(8), problem });
  };
  tightenOne(folder, other === undefined ? undefined : `${other} is in it, which Millrace did not put there`);
  for (const name of names) if (OUR_NAMES.test(name) && name !== 'lost+found') tightenOne(join(folder, name));
  return loose;
}

function tryTo(change: () => void): string | undefined {
  try {
    change();
    return undefined;
  } catch (error) {
    return errorCode(error);
  }
}

const SILENT = { info: () => {}, warn: () => {}, error: () => {} };

/** Logs the state of the data folder and keeps its current problem. */
export class FolderStatus {
  readonly #folder: string;
  readonly #logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  #problem: string | undefined;

  constructor(folder: string, logger: Pick<Logger, 'info' | 'warn' | 'error'> = SILENT) {
    this.#folder = folder;
    this.#logger = logger;
  }

  /** Call when the store is open. */
  opened(isMarkDamaged: boolean): void {
    if (isMarkDamaged) this.#logger.warn({ path: join(this.#folder, MARK_FILE) }, 'storage.mark_renewed');
    for (const loose of tightenPermissions(this.#folder))
      this.#logger.warn({ ...loose }, 'storage.rights_loose');
  }

  /** Takes the problem of the open files; undefined when they are those of the folder again. */
  readonly changed = (problem: string | undefined): void => {
    this.#problem = problem;
    if (problem === undefined) this.#logger.info({}, 'storage.intact');
    else this.#logger.error({ reason: problem }, 'storage.amiss');
  };

  readonly problems = (): readonly string[] => (this.#problem === undefined ? [] : [this.#problem]);
}

export interface FolderLock {
  release(): void;
}

/**
 * Locks a data folder for this process, by a file lock that SQLite holds on an empty database. The system
 * releases it with the process, however that ends. A lock is therefore never stale, and process numbers,
 * which repeat in containers, do not matter. Throws a `StorageError` when another process has the folder, and
 * for a folder that `refuseForeignFolder` refuses.
 */
export function lockFolder(folder: string): FolderLock {
  refuseForeignFolder(folder);
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
  writeAnew(owner, `${process.pid}\n`, { flush: false });
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
 * Whether a process has locked the folder, and its number if it is known. Takes no lock that could prevent a
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

/** The process that wrote the file `owner`, for messages only. */
function readOwner(file: string): string {
  try {
    return ` (process ${readFileSync(file, 'utf8').trim()})`;
  } catch {
    return '';
  }
}
