import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { InvariantError } from '../model/invariant.ts';
import { type Duration, MINUTE, type Time } from '../model/time.ts';

export { InvariantError } from '../model/invariant.ts';

/** Crash files that a data folder has at most; the oldest goes. */
const MOST_FILES = 10;

/** After three ends within ten minutes the next start holds deliveries back. */
const ENDS = 3;
const WITHIN: Duration = 10 * MINUTE;

/** `-seen`: an operator has let deliveries go on since. Colons are no part of a file name everywhere. */
const NAME = /^crash-(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d\.\d{3}Z)(-seen)?\.json$/;

interface CrashFile {
  readonly name: string;
  readonly at: Time;
  readonly isSeen: boolean;
}

/**
 * The files `crash-<time>.json` of a data folder: one for each end of the process by an invariant. They hold
 * what somebody needs who mends the program, and nothing of an event: names of operations, numbers, places in
 * the code.
 */
export class CrashFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Writes what has happened at a time. Returns the path; undefined where the folder takes no file. */
  write({ message, stack = '', facts }: InvariantError, version: string, at: Time): string | undefined {
    const time = new Date(at).toISOString();
    const path = join(this.#folder, `crash-${time.replaceAll(':', '-')}.json`);
    const crash = {
      at: time,
      version,
      invariant: message,
      facts: withoutIds(facts),
      stack: stack.split('\n'),
    };
    try {
      // Not with its parents: in a folder that takes no files, such as /proc, Node would try for ever.
      if (!existsSync(this.#folder)) mkdirSync(this.#folder, { mode: 0o700 });
      writeFileSync(path, `${JSON.stringify(crash, undefined, 2)}\n`, { mode: 0o600, flush: true });
      for (const { name } of this.#files().slice(MOST_FILES))
        rmSync(join(this.#folder, name), { force: true });
      return path;
    } catch {
      return undefined;
    }
  }

  /** Whether the last ends came so fast that the next start is to hold deliveries back, until `see`. */
  isHolding(): boolean {
    const [last, ...earlier] = this.#files().filter(({ isSeen }) => !isSeen);
    const third = earlier[ENDS - 2];
    return last !== undefined && third !== undefined && last.at - third.at <= WITHIN;
  }

  /** An operator lets deliveries go on: what has happened so far holds nothing back any more. */
  see(): void {
    for (const { name, isSeen } of this.#files()) {
      const path = join(this.#folder, name);
      if (!isSeen) renameSync(path, path.replace(/\.json$/, '-seen.json'));
    }
  }

  /** The newest first. */
  #files(): CrashFile[] {
    let names: string[];
    try {
      names = readdirSync(this.#folder);
    } catch {
      return [];
    }
    return names
      .flatMap((name): CrashFile[] => {
        const [, hour, minute, second, seen] = NAME.exec(name) ?? [];
        if (hour === undefined) return [];
        return [{ name, at: Date.parse(`${hour}:${minute}:${second}`), isSeen: seen !== undefined }];
      })
      .sort((one, other) => other.at - one.at);
  }
}

/**
 * Names of operations and phases are words; whatever else is text may be an id, and only its hash is kept.
 */
function withoutIds(facts: Readonly<Record<string, unknown>>): unknown {
  return JSON.parse(
    JSON.stringify(facts, (_, value: unknown) =>
      typeof value === 'string' && !/^[A-Za-z_]{1,40}$/.test(value)
        ? `sha256:${createHash('sha256').update(value).digest('hex').slice(0, 16)}`
        : value,
    ),
  );
}
