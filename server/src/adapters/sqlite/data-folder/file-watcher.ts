import { type BigIntStats, closeSync, openSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Checkpoints } from '../wal/checkpoints.ts';
import { DATABASE_FILE, WAL_FILE, WAL_MAGIC, walPath } from './files.ts';
import type { HighWaterMark } from './high-water-mark.ts';

/** Milliseconds between two looks at the folder. Commits go on for at most so long without one. */
const CHECK_INTERVAL = 250;

export interface FileWatcherDependencies {
  readonly mark: HighWaterMark;
  readonly checkpoints: Checkpoints;
  /** Whether the writer has a handle. Without one the next request opens the files anew, and looks whether they are ours. */
  readonly isOpen: () => boolean;
  /** Told why the open files are no longer those of the folder, and `undefined` when they are again. */
  readonly report: (problem: string | undefined) => void;
}

/** Sees to it that nothing is written and nothing read while the files that are open are not those in the folder. */
export class FileWatcher {
  readonly #files: OpenFiles;
  readonly #dependencies: FileWatcherDependencies;
  readonly #timer: NodeJS.Timeout;
  #checkedAt = performance.now();
  #problem: string | undefined;

  /** Begins, with files that have just been opened. */
  constructor(folder: string, tools: FileWatcherDependencies) {
    this.#files = new OpenFiles(folder);
    this.#dependencies = tools;
    this.#timer = setInterval(() => this.#check(), CHECK_INTERVAL);
    this.#files.opened();
  }

  /** Call before the files are opened anew, when nobody has them open. */
  pause(): void {
    this.#files.closed();
  }

  /** Call when they have been. */
  resume(): void {
    this.#files.opened();
  }

  /** Call before the log is emptied. */
  walTruncated(): void {
    this.#files.walTruncated();
  }

  /** Call when the files are closed for good. */
  stop(): void {
    clearInterval(this.#timer);
    this.#files.closed();
  }

  /** Why nothing can be stored or read now. */
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

/** What tells one file from every other for as long as it is open. */
interface FileIdentity {
  readonly device: bigint;
  readonly inode: bigint;
}

/** What became of a file that is open. */
type FileChange = 'removed' | 'replaced' | 'emptied';

/** What is wrong with the open files; absent: nothing. */
export interface FileProblem {
  readonly reason: string;
  /** Everything the store holds can be copied into its file: only the name of the log is gone. */
  readonly isRecoverable: boolean;
}

const DATABASE_MAGIC = Buffer.from('SQLite format 3\0');

/**
 * Notices that the files that are open are no longer those in the folder, or were emptied. Commits into them would succeed
 * and be gone with the process.
 */
export class OpenFiles {
  readonly #folder: string;
  readonly #path: string;
  #logPath: string;
  #database: FileIdentity | undefined;
  #log: FileIdentity | undefined;
  /**
   * The file once more, to read its first bytes. Opened after the handles of SQLite and closed after them: the locks of a
   * process on a file end with the first close of it, by whomever.
   */
  #handle: number | undefined;
  /** Nothing has been in the log since we emptied it. */
  #isWalEmpty = true;

  constructor(folder: string) {
    this.#folder = folder;
    this.#path = join(folder, DATABASE_FILE);
    this.#logPath = walPath(folder);
  }

  /** Call when SQLite has just opened the files. */
  opened(): void {
    this.#logPath = walPath(this.#folder);
    this.#database = identityOf(statsOf(this.#path));
    this.#log = identityOf(statsOf(this.#logPath));
    this.#isWalEmpty = true;
    try {
      this.#handle = openSync(this.#path, 'r');
    } catch {
      // The file is watched by its name alone.
    }
  }

  /** Call when SQLite has closed them. */
  closed(): void {
    if (this.#handle !== undefined) closeSync(this.#handle);
    this.#handle = undefined;
  }

  /** Call before the log is emptied. */
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

  /** It may have grown again since: what is written goes to where it would have stood. */
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
      // Too many open files, say: the next look tells more.
    }
    if (beginning === undefined) return undefined;
    if (beginning.length === 0) return this.#isWalEmpty ? undefined : 'emptied';
    this.#isWalEmpty = false;
    // The last bit differs between machines.
    return beginning.subarray(0, -1).equals(WAL_MAGIC.subarray(0, -1)) ? undefined : 'emptied';
  }
}

function fileChange(path: string, open: FileIdentity | undefined): FileChange | undefined {
  if (open === undefined) return undefined;
  const found = statsOf(path);
  if (found === undefined) return 'removed';
  return found.dev === open.device && found.ino === open.inode ? undefined : 'replaced';
}

function statsOf(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    // A path that cannot be walked any more leads to no file.
    return undefined;
  }
}

/** Fewer bytes when the file ends before; nothing when the disk does not say. */
function firstBytes(handle: number, length: number): Buffer | undefined {
  const bytes = Buffer.alloc(length);
  try {
    return bytes.subarray(0, readSync(handle, bytes, 0, length, 0));
  } catch {
    return undefined;
  }
}

function identityOf(stats: BigIntStats | undefined): FileIdentity | undefined {
  return stats === undefined ? undefined : { device: stats.dev, inode: stats.ino };
}
