import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import { ControlPage, KINDS } from './control-page.ts';

/** Whether disk faults work here: only on Linux with a C compiler. See compile.ts. */
export const HAS_DISK_FAULTS = inject('shim') !== '';

/** Reports the tests that a run without disk faults leaves out. */
export function sayWhatIsLeftOut(what: string): void {
  if (!HAS_DISK_FAULTS)
    console.log(`left out: ${what}, because that needs Linux and a C compiler (cc or gcc)`);
}

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
export class DiskFaults extends ControlPage {
  /** The variables a program must be started with. */
  readonly env: Readonly<Record<string, string>>;
  /** The recording of file operations, for `readRecording`; written only when asked for. */
  readonly recording: string;
  readonly #folder: string;

  /** `data` need not exist yet. Its path must be absolute and without links. */
  constructor(data: string, { record = false }: { record?: boolean } = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-disk-'));
    const control = join(folder, 'control');
    super(control);
    this.#folder = folder;
    this.recording = join(folder, 'recording');
    this.env = {
      LD_PRELOAD: inject('shim'),
      MILLRACE_FAULT_DIR: data,
      MILLRACE_FAULT_CONTROL: control,
      ...(record ? { MILLRACE_FAULT_RECORDING: this.recording } : {}),
    };
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
    this.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
