import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { ControlPage } from '../support/disk-faults/control-page.ts';
import { Disk } from '../support/disk-faults/disk.ts';
import { chanceOf } from '../support/disk-faults/random.ts';
import { readRecording } from '../support/disk-faults/recording.ts';
import type { DiskFailing, PowerCut } from './scenario.ts';

/** The variables by which this process was started with the shim of the fault suites. */
export const DISK = {
  folder: 'MILLRACE_FAULT_DIR',
  control: 'MILLRACE_FAULT_CONTROL',
  recording: 'MILLRACE_FAULT_RECORDING',
} as const;

/** Whether every write and sync below one folder is recorded. */
export const HAS_DISK = process.env[DISK.recording] !== undefined;

/** The disk below the one folder whose writes and syncs are recorded. One world at a time has it. */
export class RecordedDisk {
  /** Where the data of the world is. */
  readonly folder = process.env[DISK.folder]!;
  readonly page = new ControlPage(process.env[DISK.control]!);
  readonly #recording = process.env[DISK.recording]!;
  readonly #staged = `${this.folder}-staged`;
  #disk: Disk | undefined;

  constructor() {
    clear(this.folder);
  }

  /** The files in the folder count as durable from here on. */
  begin(seed: number): void {
    this.#disk = new Disk(this.folder, chanceOf(seed));
    truncateSync(this.#recording);
  }

  /** Calls of the system fail from here on, until `heal`. */
  fail({ calls, error, nth, times }: DiskFailing): void {
    this.page.heal();
    this.page.fail(calls, { with: error, nth, ...(times !== undefined && { times }) });
  }

  heal(): void {
    this.page.heal();
  }

  /** Calls that have failed so far. */
  failures(): number {
    return this.page.failed();
  }

  /** Runs what is no work of the program: no call of it fails or counts. */
  readonly unharmed = <Result>(run: () => Result): Result => this.page.unharmed(run);

  /** Bytes of the recording so far. */
  moment(): number {
    return statSync(this.#recording).size;
  }

  /** Keeps the files as they are, or as the disk would have them if the power had failed at a moment. */
  stage(seed: number, cut?: { readonly how: PowerCut; readonly at: number }): void {
    rmSync(this.#staged, { recursive: true, force: true });
    if (cut === undefined) copyFiles(this.folder, this.#staged);
    else {
      this.#disk!.live(readRecording(this.#recording), cut.at);
      this.#disk!.cutPower(this.#staged, { ...cut.how, chance: chanceOf(seed) });
    }
  }

  /** Puts the kept files in the place of all others. */
  restore(): void {
    clear(this.folder);
    copyFiles(this.#staged, this.folder);
  }

  clean(): void {
    clear(this.folder);
    rmSync(this.#staged, { recursive: true, force: true });
    this.page.close();
  }
}

function clear(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { mode: 0o700 });
}

export function copyFiles(from: string, to: string): void {
  mkdirSync(to, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(from)) copyFileSync(join(from, name), join(to, name));
}
