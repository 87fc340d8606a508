import { DatabaseSync } from 'node:sqlite';
import type { Duration } from '../../model/time.ts';
import type { HttpClient } from '../../ports/http-client.ts';
import type { StoreMemory } from '../../ports/store.ts';
import { collectGarbage } from './garbage.ts';

/** How often the thread's processor time is read. */
const INTERVAL: Duration = 5000;
/**
 * A thread that ran more than this share of the time leaves garbage that V8 collects only when it needs the
 * room.
 */
const BUSY = 0.1;
/** Below this nobody notices a pause of some ten milliseconds. */
const QUIET = 0.03;
/** Intervals in a row that must be quiet. */
const QUIET_INTERVALS = 2;

/**
 * Gives back what a busy time leaves in memory, once, when this thread has become quiet. V8 collects garbage
 * when something is allocated, so without calls everything stays: tens of megabytes of dead objects and of
 * buffers that belong to them. The store has caches and garbage on a thread of its own, and so have requests
 * where threads send them. glibc's `malloc` in turn keeps what was freed between blocks that are still used:
 * a hundred megabytes, of all threads.
 */
export class IdleCollector {
  /** One after the other, an interval apart, as long as the thread stays quiet. */
  readonly #steps: readonly (() => void)[];
  readonly #timer: NodeJS.Timeout;
  #last = process.threadCpuUsage();
  #wasBusy = false;
  #quiet = 0;
  /** The step to do next; none is left when it is the number of steps. */
  #next: number;

  constructor({ store, httpClient }: OtherThreads = {}, { collect, trim }: ProcessMemory = PROCESS) {
    this.#steps = [
      () => {
        collect();
        ignoreFailure(store?.shrink());
        httpClient?.release?.();
      },
      // What the store had in memory is on its disk by now.
      () => ignoreFailure(store?.release()),
      // V8 frees the buffers of dead objects on another thread.
      trim,
    ];
    this.#next = this.#steps.length;
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
    if (this.#wasBusy) this.#next = 0;
    this.#wasBusy = false;
    this.#steps[this.#next]?.();
    if (this.#next < this.#steps.length) this.#next++;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** Parts that have memory on threads of their own. */
export interface OtherThreads {
  readonly store?: StoreMemory | undefined;
  readonly httpClient?: Pick<HttpClient, 'release'>;
}

/** Operations on the memory of this thread and of the process. */
export interface ProcessMemory {
  collect(): void;
  trim(): void;
}

const PROCESS: ProcessMemory = { collect: collectGarbage, trim: trimAllocator };

/** A store that fails says so itself, and keeps its memory. */
function ignoreFailure(given: Promise<void> | undefined): void {
  given?.catch(() => {});
}

/**
 * Lets `malloc` of the whole process give its free pages back to the system: some ten milliseconds for a
 * hundred megabytes. Node has no call for it, so SQLite calls `malloc_trim` of glibc as if it were the entry
 * point of an extension. Its argument, the bytes to keep at the top of the heap, is then the address of the
 * database, so the top stays; its result 1, for "memory was released", is SQLite's code of an error. Other
 * libraries and systems do not have the function, and nothing happens. docs/decisions/0032-idle-memory.md
 * says why it is done so.
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
