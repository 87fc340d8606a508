import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import type { Duration } from '../../../src/model/time.ts';

const WORD = 8;

/** The wall clock of separate programs, set by a test. The control file has the layout of clock.c. */
export class SettableClock {
  /** The variables a program must be started with. */
  readonly env: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync(join(tmpdir(), 'millrace-clock-'));
  readonly #control: number;
  #ahead: Duration = 0;

  /** `shim`: the compiled clock.c, where the run has not compiled it. */
  constructor(shim: string = inject('clockShim')) {
    const path = join(this.#folder, 'control');
    writeFileSync(path, Buffer.alloc(2 * WORD));
    this.#control = openSync(path, 'r+');
    this.env = { LD_PRELOAD: shim, MILLRACE_CLOCK_CONTROL: path };
  }

  /** The number of programs that have loaded the shim; at 0 the clock has no effect. */
  get attached(): number {
    const word = Buffer.alloc(WORD);
    readSync(this.#control, word, 0, WORD, WORD);
    return Number(word.readBigInt64LE());
  }

  /** The time that its programs see now. */
  now(): number {
    return Date.now() + this.#ahead;
  }

  /** Sets it forward, or back where `by` is negative; in force at once. */
  step(by: Duration): void {
    this.#ahead += by;
    const word = Buffer.alloc(WORD);
    word.writeBigInt64LE(BigInt(this.#ahead));
    writeSync(this.#control, word, 0, WORD, 0);
  }

  remove(): void {
    closeSync(this.#control);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
