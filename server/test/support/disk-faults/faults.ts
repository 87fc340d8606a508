import {
  closeSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';

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

/** Whether disk faults work here: only on Linux with a C compiler. See compile.ts. */
export const HAS_DISK_FAULTS = inject('shim') !== '';

/** Reports the tests that a run without disk faults leaves out. */
export function sayWhatIsLeftOut(what: string): void {
  if (!HAS_DISK_FAULTS)
    console.log(`left out: ${what}, because that needs Linux and a C compiler (cc or gcc)`);
}

/** Words of the control page; see shim.c. */
const ATTACHED = 0;
const KINDS_AT = 16;
const WORDS_OF_A_KIND = 8;
const [CALLS, FAILED, FAIL_FROM, FAIL_TIMES, FAIL_WITH, DELAY_US, ON_MAIN_THREAD] = [0, 1, 2, 3, 4, 5, 6];
const PAGE = 4096;
const FOR_EVER = 0xffff_ffff;

/**
 * A moment at which the program is to die: when it says `text` on stderr, or before a storage call after
 * that.
 */
export interface Death {
  readonly text: string;
  readonly call?: {
    /** Name in the data folder. */
    readonly file: string;
    readonly kind: 'write' | 'sync' | 'truncate';
    /** 1 is the first call after the text. */
    readonly nth: number;
  };
}

/** The variable that makes a program die there, besides those of `DiskFaults`. */
export function dyingAt({ text, call }: Death): Readonly<Record<string, string>> {
  const place = call === undefined ? [] : [call.file, KINDS.indexOf(call.kind), call.nth];
  return { MILLRACE_FAULT_KILL: [text, ...place].join('|') };
}

/**
 * The disk under one data folder, as the programs started with `env` see it. Changes take effect at the next
 * storage call of the running programs.
 */
export class DiskFaults {
  /** The variables a program must be started with. */
  readonly env: Readonly<Record<string, string>>;
  /** The recording of file operations, for `readRecording`; written only when asked for. */
  readonly recording: string;
  readonly #folder: string;
  readonly #page: number;

  /** `data` need not exist yet. Its path must be absolute and without links. */
  constructor(data: string, { record = false }: { record?: boolean } = {}) {
    this.#folder = mkdtempSync(join(tmpdir(), 'millrace-disk-'));
    const control = join(this.#folder, 'control');
    this.recording = join(this.#folder, 'recording');
    writeFileSync(control, Buffer.alloc(PAGE));
    this.#page = openSync(control, 'r+');
    this.env = {
      LD_PRELOAD: inject('shim'),
      MILLRACE_FAULT_DIR: data,
      MILLRACE_FAULT_CONTROL: control,
      ...(record ? { MILLRACE_FAULT_RECORDING: this.recording } : {}),
    };
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

  /** Bytes recorded so far: a moment to which the disk can be taken back. */
  moment(): number {
    return statSync(this.recording, { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Discards the recording; call only while no program runs. */
  forget(): void {
    rmSync(this.recording, { force: true });
  }

  remove(): void {
    closeSync(this.#page);
    rmSync(this.#folder, { recursive: true, force: true });
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
