import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { Checkpoints } from '../wal/checkpoints.ts';
import {
  DATABASE_FILE,
  type FileIdentity,
  fileAt,
  isSameFile,
  WAL_FILE,
  WAL_MAGIC,
  walPath,
} from './files.ts';
import type { HighWaterMark } from './high-water-mark.ts';

/** Milliseconds between two checks of the folder. Commits go on for at most this long without a check. */
const CHECK_INTERVAL = 250;

export interface FileWatcherDependencies {
  readonly mark: HighWaterMark;
  readonly checkpoints: Checkpoints;
  /**
   * Whether the writer has a handle. Without one, the next request opens the files and checks them itself.
   */
  readonly isOpen: () => boolean;
  /**
   * Called with the problem when the open files are no longer those in the folder, and with undefined when
   * they are again.
   */
  readonly report: (problem: string | undefined) => void;
}

/**
 * Watches whether the open files are still those in the folder. While they are not, nothing may be read or
 * written.
 */
export class FileWatcher {
  readonly #files: OpenFiles;
  readonly #dependencies: FileWatcherDependencies;
  readonly #timer: NodeJS.Timeout;
  #checkedAt = performance.now();
  #problem: string | undefined;

  /** Starts watching. SQLite must have just opened the files. */
  constructor(folder: string, dependencies: FileWatcherDependencies) {
    this.#files = new OpenFiles(folder);
    this.#dependencies = dependencies;
    this.#timer = setInterval(() => this.#check(), CHECK_INTERVAL);
    this.#files.opened();
  }

  /** Call after SQLite has closed the files and before it opens them again. */
  pause(): void {
    this.#files.closed();
  }

  /** Call after SQLite has opened them again. */
  resume(): void {
    this.#files.opened();
  }

  /** Call before the write-ahead log is truncated. */
  walTruncated(): void {
    this.#files.walTruncated();
  }

  /** Call after the files were closed for good. */
  stop(): void {
    clearInterval(this.#timer);
    this.#files.closed();
  }

  /** Why nothing can be stored or read now; undefined when all is well. */
  problem(): string | undefined {
    if (performance.now() - this.#checkedAt > CHECK_INTERVAL) this.#check();
    return this.#problem;
  }

  #check(): void {
    this.#checkedAt = performance.now();
    const { mark, checkpoints, isOpen, report } = this.#dependencies;
    if (!isOpen()) return;
    const problem = this.#files.check();
    if (problem === undefined) mark.restoreIfMissing();
    if (problem?.isRecoverable === true) checkpoints.copyPages();
    if (problem?.reason === this.#problem) return;
    this.#problem = problem?.reason;
    report(this.#problem);
  }
}

/** A change to an open file. */
type FileChange = 'removed' | 'replaced' | 'emptied';

/** A problem with the open files. */
export interface FileProblem {
  readonly reason: string;
  /** Only the name of the write-ahead log is gone: its pages can still be copied into the database file. */
  readonly isRecoverable: boolean;
}

const DATABASE_MAGIC = Buffer.from('SQLite format 3\0');

/**
 * Detects that the open files were removed, replaced or emptied. Commits into them would succeed and be lost
 * with the process.
 */
export class OpenFiles {
  readonly #folder: string;
  readonly #path: string;
  #logPath: string;
  #database: FileIdentity | undefined;
  #log: FileIdentity | undefined;
  /**
   * A second handle of the database file, to read its first bytes. It is opened and closed after the handles
   * of SQLite, because the first close of a file releases all locks of the process on it.
   */
  #handle: number | undefined;
  /** Whether the log has been empty since the last truncation. */
  #isWalEmpty = true;

  constructor(folder: string) {
    this.#folder = folder;
    this.#path = join(folder, DATABASE_FILE);
    this.#logPath = walPath(folder);
  }

  /** Call after SQLite has opened the files. */
  opened(): void {
    this.#logPath = walPath(this.#folder);
    this.#database = fileAt(this.#path);
    this.#log = fileAt(this.#logPath);
    this.#isWalEmpty = true;
    try {
      this.#handle = openSync(this.#path, 'r');
    } catch {
      // Without the handle, the file is watched by its name alone.
    }
  }

  /** Call after SQLite has closed the files. */
  closed(): void {
    if (this.#handle !== undefined) closeSync(this.#handle);
    this.#handle = undefined;
  }

  /** Call before the write-ahead log is truncated. */
  walTruncated(): void {
    this.#isWalEmpty = true;
  }

  check(): FileProblem | undefined {
    const ofDatabase = fileChange(this.#path, this.#database) ?? this.#databaseChange();
    const ofLog = fileChange(this.#logPath, this.#log) ?? this.#walChange();
    if (ofDatabase === undefined && ofLog === undefined) return undefined;
    const said = [
      ...(ofDatabase === undefined ? [] : [`${DATABASE_FILE} was ${ofDatabase}`]),
      ...(ofLog === undefined ? [] : [`${WAL_FILE} was ${ofLog}`]),
    ].join(', and ');
    const canBeSaved = ofDatabase === undefined && ofLog !== 'emptied';
    const advice = canBeSaved
      ? 'move it back, or restart Millrace, which has copied what was in it into millrace.db'
      : 'move back the very same files, and calls are accepted again; if they are gone, see "Files are removed under the server" in ' +
        'docs/operations/runbook.md before you stop this process, which still holds them open';
    return {
      reason: `the data folder ${this.#folder} was changed under the running server (${said}): ${advice}`,
      isRecoverable: canBeSaved,
    };
  }

  /**
   * An emptied file may have grown again: SQLite writes pages at their old places. Its first bytes are then
   * zero.
   */
  #databaseChange(): FileChange | undefined {
    if (this.#handle === undefined) return undefined;
    const beginning = firstBytes(this.#handle, DATABASE_MAGIC.length);
    return beginning === undefined || beginning.equals(DATABASE_MAGIC) ? undefined : 'emptied';
  }

  #walChange(): FileChange | undefined {
    if (this.#log === undefined) return undefined;
    let beginning: Buffer | undefined;
    try {
      const handle = openSync(this.#logPath, 'r');
      beginning = firstBytes(handle, WAL_MAGIC.length);
      closeSync(handle);
    } catch {
      // A passing error, such as too many open files. The next check tells more.
    }
    if (beginning === undefined) return undefined;
    if (beginning.length === 0) return this.#isWalEmpty ? undefined : 'emptied';
    this.#isWalEmpty = false;
    // The last bit differs with the byte order of the machine.
    return beginning.subarray(0, -1).equals(WAL_MAGIC.subarray(0, -1)) ? undefined : 'emptied';
  }
}

function fileChange(path: string, open: FileIdentity | undefined): FileChange | undefined {
  if (open === undefined) return undefined;
  const found = fileAt(path);
  if (found === undefined) return 'removed';
  return isSameFile(open, found) ? undefined : 'replaced';
}

/** Fewer bytes when the file is shorter; undefined when it cannot be read. */
function firstBytes(handle: number, length: number): Buffer | undefined {
  const bytes = Buffer.alloc(length);
  try {
    return bytes.subarray(0, readSync(handle, bytes, 0, length, 0));
  } catch {
    return undefined;
  }
}
