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
 * allocated, so without calls everything stays: tens of megabytes of dead objects and of buffers that belong to them.
 */
export class IdleCollector {
  readonly #collect: () => void;
  readonly #timer: NodeJS.Timeout;
  #last = process.threadCpuUsage();
  #wasBusy = false;
  #quiet = 0;

  constructor(collect: () => void = collectGarbage) {
    this.#collect = collect;
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
    if (!this.#wasBusy || this.#quiet < QUIET_INTERVALS) return;
    this.#wasBusy = false;
    this.#collect();
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
