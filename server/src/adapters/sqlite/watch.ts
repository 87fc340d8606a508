import { type BigIntStats, closeSync, openSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DATABASE, LOG, logOf } from './file.ts';
import { LOG_MAGIC } from './log-head.ts';

/** What tells one file from every other for as long as it is open. */
interface Identity {
  readonly device: bigint;
  readonly inode: bigint;
}

/** What became of a file that is open. */
type Fate = 'removed' | 'replaced' | 'emptied';

/** What is wrong with the open files; absent: nothing. */
export interface Amiss {
  readonly reason: string;
  /** Everything the store holds can be copied into its file: only the name of the log is gone. */
  readonly canBeSaved: boolean;
}

const DATABASE_MAGIC = Buffer.from('SQLite format 3\0');

/**
 * Notices that the files that are open are no longer those in the folder, or were emptied. Commits into them would succeed
 * and be gone with the process.
 */
export class Watch {
  readonly #folder: string;
  readonly #path: string;
  #logPath: string;
  #database: Identity | undefined;
  #log: Identity | undefined;
  /**
   * The file once more, to read its first bytes. Opened after the handles of SQLite and closed after them: the locks of a
   * process on a file end with the first close of it, by whomever.
   */
  #handle: number | undefined;
  /** Nothing has been in the log since we emptied it. */
  #isLogEmpty = true;

  constructor(folder: string) {
    this.#folder = folder;
    this.#path = join(folder, DATABASE);
    this.#logPath = logOf(folder);
  }

  /** Call when SQLite has just opened the files. */
  begin(): void {
    this.#logPath = logOf(this.#folder);
    this.#database = identityOf(statsOf(this.#path));
    this.#log = identityOf(statsOf(this.#logPath));
    this.#isLogEmpty = true;
    try {
      this.#handle = openSync(this.#path, 'r');
    } catch {
      // The file is watched by its name alone.
    }
  }

  /** Call when SQLite has closed them. */
  end(): void {
    if (this.#handle !== undefined) closeSync(this.#handle);
    this.#handle = undefined;
  }

  /** Call before the log is emptied. */
  logEmptied(): void {
    this.#isLogEmpty = true;
  }

  look(): Amiss | undefined {
    const ofDatabase = fateOf(this.#path, this.#database) ?? this.#fateOfDatabase();
    const ofLog = fateOf(this.#logPath, this.#log) ?? this.#fateOfLog();
    if (ofDatabase === undefined && ofLog === undefined) return undefined;
    const said = [
      ...(ofDatabase === undefined ? [] : [`${DATABASE} was ${ofDatabase}`]),
      ...(ofLog === undefined ? [] : [`${LOG} was ${ofLog}`]),
    ].join(', and ');
    const canBeSaved = ofDatabase === undefined && ofLog !== 'emptied';
    const advice = canBeSaved
      ? 'move it back, or restart Millrace, which has copied what was in it into millrace.db'
      : 'move back the very same files, and calls are accepted again; if they are gone, see "Files are removed under the server" in ' +
        'docs/operations/runbook.md before you stop this process, which still holds them open';
    return {
      reason: `the data folder ${this.#folder} was changed under the running server (${said}): ${advice}`,
      canBeSaved,
    };
  }

  /** It may have grown again since: what is written goes to where it would have stood. */
  #fateOfDatabase(): Fate | undefined {
    if (this.#handle === undefined) return undefined;
    const beginning = beginningOf(this.#handle, DATABASE_MAGIC.length);
    return beginning === undefined || beginning.equals(DATABASE_MAGIC) ? undefined : 'emptied';
  }

  #fateOfLog(): Fate | undefined {
    if (this.#log === undefined) return undefined;
    let beginning: Buffer | undefined;
    try {
      const handle = openSync(this.#logPath, 'r');
      beginning = beginningOf(handle, LOG_MAGIC.length);
      closeSync(handle);
    } catch {
      // Too many open files, say: the next look tells more.
    }
    if (beginning === undefined) return undefined;
    if (beginning.length === 0) return this.#isLogEmpty ? undefined : 'emptied';
    this.#isLogEmpty = false;
    // The last bit differs between machines.
    return beginning.subarray(0, -1).equals(LOG_MAGIC.subarray(0, -1)) ? undefined : 'emptied';
  }
}

function fateOf(path: string, open: Identity | undefined): Fate | undefined {
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
function beginningOf(handle: number, length: number): Buffer | undefined {
  const bytes = Buffer.alloc(length);
  try {
    return bytes.subarray(0, readSync(handle, bytes, 0, length, 0));
  } catch {
    return undefined;
  }
}

function identityOf(stats: BigIntStats | undefined): Identity | undefined {
  return stats === undefined ? undefined : { device: stats.dev, inode: stats.ino };
}
