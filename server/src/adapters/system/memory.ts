import { DatabaseSync } from 'node:sqlite';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Duration } from '../../model/time.ts';

/** How often the thread's processor time is read. */
const INTERVAL: Duration = 5000;
/** A thread that ran more than this share of the time leaves garbage that V8 collects only when it needs the room. */
const BUSY = 0.1;
/** Below this nobody notices a pause of some ten milliseconds. */
const QUIET = 0.03;
/** Intervals in a row that must be quiet. */
const QUIET_INTERVALS = 2;

/**
 * Gives back what a busy time leaves in the memory of this thread, once, when it has become quiet. V8 collects garbage when something is
 * allocated, so without calls everything stays: tens of megabytes of dead objects and of buffers that belong to them. glibc's `malloc` in turn
 * keeps what was freed between blocks that are still used: a hundred megabytes, of all threads.
 */
export class IdleCollector {
  readonly #collect: () => void;
  readonly #trim: () => void;
  readonly #timer: NodeJS.Timeout;
  #last = process.threadCpuUsage();
  #wasBusy = false;
  #quiet = 0;
  #wasCollected = false;

  constructor(collect: () => void = collectGarbage, trim: () => void = trimAllocator) {
    this.#collect = collect;
    this.#trim = trim;
    this.#timer = setInterval(() => {
      // Processor time: on a busy machine a thread that waits for its turn is not idle, and yet does nothing.
      const { user, system } = process.threadCpuUsage(this.#last);
      this.#last = process.threadCpuUsage();
      this.used((user + system) / 1000 / INTERVAL);
    }, INTERVAL);
    this.#timer.unref();
  }

  /** Takes the share of an interval in which the thread ran. */
  used(utilization: number): void {
    this.#wasBusy ||= utilization > BUSY;
    this.#quiet = utilization < QUIET ? this.#quiet + 1 : 0;
    if (this.#quiet < QUIET_INTERVALS) return;
    if (this.#wasBusy) {
      this.#wasBusy = false;
      this.#wasCollected = true;
      this.#collect();
    } else if (this.#wasCollected) {
      // An interval later: V8 frees the buffers of dead objects on another thread.
      this.#wasCollected = false;
      this.#trim();
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Collects everything, also code that has not run for long, and gives free pages back to the system. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

/**
 * Lets `malloc` of the whole process give its free pages back to the system: some ten milliseconds for a hundred megabytes. Node has no call
 * for it, so SQLite calls `malloc_trim` of glibc as if it were the entry point of an extension. Its argument, the bytes to keep at the top of
 * the heap, is then the address of the database, so the top stays; its result 1, for "memory was released", is SQLite's code of an error.
 * Other libraries and systems do not have the function, and nothing happens. docs/decisions/0032-idle-memory.md says why it is done so.
 */
function trimAllocator(): void {
  if (process.platform !== 'linux') return;
  const database = new DatabaseSync(':memory:', { allowExtension: true });
  try {
    database.loadExtension('libc.so.6', 'malloc_trim');
  } catch {
    // It was called, or it is not there.
  } finally {
    database.close();
  }
}
