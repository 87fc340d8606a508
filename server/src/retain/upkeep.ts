import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { EventLog, Retention } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';

/** Milliseconds of one slice: what commits may be held up by. */
const BUDGET = 4;

/** Pause between slices while there is more to do: upkeep takes at most a quarter of the writer's time. */
const BREATH: Duration = 12;

/** Pause when there is nothing to do. */
const REST: Duration = SECOND;

export interface UpkeepTools {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retention: Retention;
}

/** Keeps the event log small and quick, a slice at a time, for as long as the program runs. */
export class Upkeep {
  readonly #tools: UpkeepTools;
  #cancelTimer: (() => void) | undefined;
  #slice: Promise<void> | undefined;
  #stopped = false;
  #problem: string | undefined;

  constructor(tools: UpkeepTools) {
    this.#tools = tools;
  }

  start(): void {
    this.#wait(REST);
  }

  /** Why the store could not be written when upkeep tried last, within the last second or two; empty when it could. */
  readonly problems = (): readonly string[] => (this.#problem === undefined ? [] : [this.#problem]);

  /** Resolves when the slice under way is done. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#slice;
  }

  #wait(pause: Duration): void {
    if (this.#stopped) return;
    const { clock } = this.#tools;
    this.#cancelTimer = clock.after(pause, () => {
      this.#slice = this.#work().then((next) => this.#wait(next));
    });
  }

  /** One slice; resolves to how long to wait before the next. */
  async #work(): Promise<Duration> {
    const { log, clock, logger, retention } = this.#tools;
    try {
      const more = await log.maintain(clock.now(), retention, BUDGET);
      if (this.#problem !== undefined) logger.info({}, 'upkeep.recovered');
      this.#problem = undefined;
      return more ? BREATH : REST;
    } catch (error) {
      // The store says so on every commit too; once is enough here.
      if (this.#problem === undefined) logger.warn({ error }, 'upkeep.failed');
      this.#problem = error instanceof Error ? error.message : String(error);
      return REST;
    }
  }
}
