import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Duration } from '../../model/time.ts';

/** How often the thread's utilization is read. */
const INTERVAL: Duration = 5000;
/** A thread that was used more than this leaves garbage that V8 collects only when it needs the room. */
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
  #last = performance.eventLoopUtilization();
  #wasBusy = false;
  #quiet = 0;

  constructor(collect: () => void = collectGarbage) {
    this.#collect = collect;
    this.#timer = setInterval(() => {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, this.#last);
      this.#last = now;
      this.used(utilization);
    }, INTERVAL);
    this.#timer.unref();
  }

  /** Takes the share of an interval in which the thread was not idle. */
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
