import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';

/** How often the loop is looked at, in milliseconds. */
const LOOKED_AT_EVERY = 20;

/** A reading covers at least so long, however often it is asked for: two who ask must not halve what the other sees. */
const WINDOW = 10 * SECOND;

const NANOSECONDS = 1e9;

/** How late what is due runs in the main thread, in seconds. */
export interface LoopDelay {
  readonly p50: number;
  readonly p99: number;
}

/** Watches the event loop from `start` to `stop`; it costs a timer. */
export class EventLoop {
  readonly #clock: Clock;
  readonly #delays = monitorEventLoopDelay({ resolution: LOOKED_AT_EVERY });
  #since: Monotonic = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  start(): void {
    this.#since = this.#clock.monotonic();
    this.#delays.enable();
  }

  stop(): void {
    this.#delays.disable();
  }

  /** Since the last reading that is at least ten seconds old. */
  delay(): LoopDelay {
    const reading = { p50: this.#percentile(50), p99: this.#percentile(99) };
    if (this.#clock.monotonic() - this.#since >= WINDOW) {
      this.#delays.reset();
      this.#since = this.#clock.monotonic();
    }
    return reading;
  }

  /** What Node measures is from one look to the next, of which the pause between them is no delay. */
  #percentile(percent: number): number {
    const seconds = this.#delays.percentile(percent) / NANOSECONDS;
    return Math.max(0, seconds - LOOKED_AT_EVERY / SECOND);
  }
}

export interface DiskUse {
  /** Of the files in the data folder. */
  readonly used: number;
  /** Left to this process on the file system of the data folder. */
  readonly free: number;
  readonly size: number;
}

/** Bytes. Rejects where the folder cannot be read. */
export async function diskUse(folder: string): Promise<DiskUse> {
  const { bsize, blocks, bavail } = await statfs(folder);
  let used = 0;
  for (const file of await readdir(folder)) {
    // A file of a moment ago may be gone; others are directories, of which there are none of ours.
    used += await stat(join(folder, file)).then(
      (facts) => (facts.isFile() ? facts.size : 0),
      () => 0,
    );
  }
  return { used, free: bavail * bsize, size: blocks * bsize };
}
