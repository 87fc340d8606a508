import { closeSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs';

/** Storage functions as the program calls them; the places are those of `enum kind` in shim.c. */
export const KINDS = ['open', 'read', 'write', 'sync', 'truncate', 'unlink', 'rename', 'mkdir'] as const;
export type Kind = (typeof KINDS)[number];

/** Numbers of errors, the same on every Linux. */
const ERRORS = { EIO: 5, ENOSPC: 28, EROFS: 30 } as const;
export type ErrorName = keyof typeof ERRORS;

export interface Failing {
  readonly with: ErrorName;
  /** The first call that fails; 1 is the next one. */
  readonly nth?: number;
  /** How many calls fail; all until `heal` when absent. */
  readonly times?: number;
}

/** The faults per kind of call that make a whole disk fail. */
export const FULL: readonly Kind[] = ['open', 'write', 'mkdir'];
export const READ_ONLY: readonly Kind[] = ['open', 'write', 'truncate', 'unlink', 'rename', 'mkdir'];

/** Words of the control page; see shim.c. */
const ATTACHED = 0;
const PAUSED = 1;
const KINDS_AT = 16;
const WORDS_OF_A_KIND = 8;
const [CALLS, FAILED, FAIL_FROM, FAIL_TIMES, FAIL_WITH, DELAY_US, ON_MAIN_THREAD] = [0, 1, 2, 3, 4, 5, 6];
const PAGE = 4096;
const FOR_EVER = 0xffff_ffff;

/** The page of words by which a running program's storage calls fail or dawdle: see shim.c. */
export class ControlPage {
  readonly #page: number;

  /** Makes the file anew. */
  constructor(path: string) {
    writeFileSync(path, Buffer.alloc(PAGE));
    this.#page = openSync(path, 'r+');
  }

  /** The number of programs that have loaded the shim; at 0 the other counts mean nothing. */
  get attached(): number {
    return this.#get(ATTACHED);
  }

  calls(kind: Kind): number {
    return this.#get(wordOf(kind, CALLS));
  }

  /** How many calls were made by the thread that also runs the event loop. */
  get onMainThread(): number {
    return KINDS.reduce((sum, kind) => sum + this.#get(wordOf(kind, ON_MAIN_THREAD)), 0);
  }

  /** The number of calls that failed by injection. */
  failed(kind?: Kind): number {
    if (kind === undefined) return KINDS.reduce((sum, one) => sum + this.failed(one), 0);
    return this.#get(wordOf(kind, FAILED));
  }

  fail(kinds: readonly Kind[], { with: error, nth = 1, times = FOR_EVER }: Failing): void {
    for (const kind of kinds) {
      this.#set(wordOf(kind, FAIL_WITH), ERRORS[error]);
      this.#set(wordOf(kind, FAIL_TIMES), times);
      // Written last, because this word puts the others in force.
      this.#set(wordOf(kind, FAIL_FROM), this.calls(kind) + nth);
    }
  }

  /** Delays every call by this many milliseconds. */
  delay(kind: Kind, ms: number): void {
    this.#set(wordOf(kind, DELAY_US), Math.round(ms * 1000));
  }

  heal(): void {
    for (const kind of KINDS) this.#set(wordOf(kind, FAIL_FROM), 0);
  }

  /** Runs something whose storage calls neither fail nor count. */
  unharmed<Result>(run: () => Result): Result {
    const before = this.#get(PAUSED);
    this.#set(PAUSED, before + 1);
    try {
      return run();
    } finally {
      this.#set(PAUSED, before);
    }
  }

  close(): void {
    closeSync(this.#page);
  }

  #get(word: number): number {
    const bytes = Buffer.alloc(4);
    readSync(this.#page, bytes, 0, 4, word * 4);
    return bytes.readUInt32LE();
  }

  #set(word: number, value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value);
    writeSync(this.#page, bytes, 0, 4, word * 4);
  }
}

function wordOf(kind: Kind, word: number): number {
  return KINDS_AT + KINDS.indexOf(kind) * WORDS_OF_A_KIND + word;
}
