import { type Duration, SECOND } from '../model/time.ts';
import type { Clock, ClockMark, ClockStep } from '../ports/clock.ts';
import type { Damage, EventLog, Retention } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';

/** Milliseconds of one slice: what commits may be held up by. */
const SLICE_BUDGET = 4;

/** Pause between slices while there is more to do: upkeep takes at most a quarter of the writer's time. */
const BUSY_PAUSE: Duration = 12;

/** Pause when there is nothing to do. */
const IDLE_PAUSE: Duration = SECOND;

export interface MaintenanceDependencies {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Asked for every slice. */
  readonly retention: () => Retention;
  /** The clocks as they are, for the store to keep. */
  readonly mark?: () => ClockMark;
}

/** Keeps the event log small and quick, a slice at a time, for as long as the program runs. */
export class MaintenanceWorker {
  readonly #tools: MaintenanceDependencies;
  #cancelTimer: (() => void) | undefined;
  #slice: Promise<void> | undefined;
  #stopped = false;
  #problem: string | undefined;
  #damage: Damage | undefined;
  #lastStep: ClockStep | undefined;

  constructor(tools: MaintenanceDependencies) {
    this.#tools = tools;
  }

  start(): void {
    this.#lastStep = this.#tools.clock.steps().at(-1);
    this.#schedule(IDLE_PAUSE);
  }

  /** Why the store could not be written when upkeep tried last, within the last second or two; empty when it could. */
  readonly problems = (): readonly string[] => (this.#problem === undefined ? [] : [this.#problem]);

  /** What is lost of what was stored, though calls are taken; empty when nothing is. */
  readonly degraded = (): readonly string[] => {
    if (this.#damage === undefined) return [];
    const { events, deliveries, others = [] } = this.#damage;
    const lost = [
      ...(events > 0 ? [`${events} stored events`] : []),
      ...(deliveries > 0 ? [`${deliveries} deliveries`] : []),
      ...others.map((what) => `what is needed for ${what}`),
    ];
    return [
      `${lost.join(', ')} cannot be read, because their bytes have changed on the disk: check the disk, and see "Damage" in ` +
        'the runbook; everything else goes on',
    ];
  };

  #reportDamage(damage: Damage | undefined): void {
    const before = this.#damage;
    this.#damage = damage;
    if (damage === undefined) return;
    const facts = { events: damage.events, deliveries: damage.deliveries, others: damage.others };
    const seen = before && { events: before.events, deliveries: before.deliveries, others: before.others };
    if (JSON.stringify(facts) !== JSON.stringify(seen)) this.#tools.logger.error(facts, 'store.damaged');
  }

  /** Resolves when the slice under way is done. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#slice;
  }

  #schedule(pause: Duration): void {
    if (this.#stopped) return;
    const { clock } = this.#tools;
    this.#cancelTimer = clock.after(pause, () => {
      this.#slice = this.#runSlice().then((next) => this.#schedule(next));
    });
  }

  /** The program goes on as before; but times in the log and in answers jump, and somebody should know why. */
  #reportClockSteps(): void {
    const { clock, logger } = this.#tools;
    const last = clock.steps().at(-1)!;
    const before = this.#lastStep ?? last;
    this.#lastStep = last;
    if (last === before) return;
    const now = new Date(clock.now()).toISOString();
    logger.warn({ byMs: last.ahead - before.ahead, now }, 'clock.stepped');
  }

  /** One slice; resolves to how long to wait before the next. */
  async #runSlice(): Promise<Duration> {
    const { log, clock, logger, retention } = this.#tools;
    this.#reportClockSteps();
    try {
      const more = await log.maintain(clock.monotonic(), retention(), SLICE_BUDGET, this.#tools.mark?.());
      if (!more) this.#reportDamage((await log.size()).damage);
      if (this.#problem !== undefined) logger.info({}, 'upkeep.recovered');
      this.#problem = undefined;
      return more ? BUSY_PAUSE : IDLE_PAUSE;
    } catch (error) {
      // The store says so on every commit too; once is enough here.
      if (this.#problem === undefined) logger.warn({ error }, 'upkeep.failed');
      this.#problem = error instanceof Error ? error.message : String(error);
      return IDLE_PAUSE;
    }
  }
}
