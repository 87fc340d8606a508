import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StorageError } from '../../../ports/event-log.ts';
import type { Logger } from '../../../ports/logger.ts';
import { errorCode } from '../database.ts';
import { MARK_FILE } from './high-water-mark.ts';

/** What stands in a data folder is people's data: it is for its owner alone. */
export const OWNER_ONLY = 0o700;
const GROUP_AND_OTHERS = 0o077;

/** Names that Millrace gives in a data folder, and what file systems and orchestrators put into an empty one. */
const OUR_NAMES = /^(millrace\.db.*|lock\.db.*|owner|high-water-mark.*|admin-token.*|lost\+found)$/;

/** Makes the data folder if need be, and the folders above it. */
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

/** One at a time: `recursive` of Node never ends where the system makes none though there is one above, such as in /proc. */
function makeOne(path: string): void {
  const parent = dirname(path);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (parent !== path && statSync(parent, { throwIfNoEntry: false }) === undefined) makeOne(parent);
  mkdirSync(path, { mode: OWNER_ONLY });
  // Whatever the umask.
  chmodSync(path, OWNER_ONLY);
}

/** An empty folder that somebody made beforehand is made theirs alone, where the system lets us. */
export function restrictToOwner(folder: string): void {
  try {
    chmodSync(folder, OWNER_ONLY);
  } catch {
    // It belongs to somebody else; what is put into it has rights of its own.
  }
}

/** Rights that are looser than they should be and could not be changed. */
export interface LoosePermissions {
  readonly path: string;
  /** As `chmod` takes it. */
  readonly mode: string;
  readonly problem: string;
}

/**
 * Takes from everybody but its owner the rights on a data folder and on what Millrace has put there. A folder in which
 * something else lies too is left as it is: somebody may have named /tmp.
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

/** What there is to tell of the data folder besides what is asked of the store in it. */
export class FolderStatus {
  readonly #folder: string;
  readonly #logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  #problem: string | undefined;

  constructor(folder: string, logger: Pick<Logger, 'info' | 'warn' | 'error'> = SILENT) {
    this.#folder = folder;
    this.#logger = logger;
  }

  /** The store is open. */
  opened(isMarkDamaged: boolean): void {
    if (isMarkDamaged) this.#logger.warn({ path: join(this.#folder, MARK_FILE) }, 'storage.mark_renewed');
    for (const loose of tightenPermissions(this.#folder))
      this.#logger.warn({ ...loose }, 'storage.rights_loose');
  }

  /** The open files are no longer those of the folder, and why; without a reason: they are again. */
  readonly changed = (amiss: string | undefined): void => {
    this.#problem = amiss;
    if (amiss === undefined) this.#logger.info({}, 'storage.intact');
    else this.#logger.error({ reason: amiss }, 'storage.amiss');
  };

  readonly problems = (): readonly string[] => (this.#problem === undefined ? [] : [this.#problem]);
}

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
