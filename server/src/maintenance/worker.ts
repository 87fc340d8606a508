import { type Duration, SECOND } from '../model/time.ts';
import type { Clock, ClockMark, ClockStep } from '../ports/clock.ts';
import type { Damage, EventLog, Retention } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';

/** Milliseconds of one slice, for which a commit may have to wait. */
const SLICE_BUDGET = 4;

/**
 * Pause between slices while there is more to do: maintenance takes at most a quarter of the writer's time.
 */
const BUSY_PAUSE: Duration = 12;

/** Pause while there is nothing to do. */
const IDLE_PAUSE: Duration = SECOND;

export interface MaintenanceDependencies {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called for every slice, because the settings may have changed. */
  readonly retention: () => Retention;
  /** Reads both clocks, for the store to keep. */
  readonly mark?: () => ClockMark;
}

/**
 * Runs the maintenance of the event log (retention, compaction, checks) in slices, as long as the program
 * runs.
 */
export class MaintenanceWorker {
  readonly #dependencies: MaintenanceDependencies;
  #cancelTimer: (() => void) | undefined;
  #slice: Promise<void> | undefined;
  #stopped = false;
  #problem: string | undefined;
  #damage: Damage | undefined;
  #lastStep: ClockStep | undefined;

  constructor(dependencies: MaintenanceDependencies) {
    this.#dependencies = dependencies;
  }

  start(): void {
    this.#stopped = false;
    this.#lastStep = this.#dependencies.clock.steps().at(-1);
    this.#schedule(IDLE_PAUSE);
  }

  /**
   * Reasons why the last maintenance slice could not write the store; empty when it could. At most two
   * seconds old.
   */
  readonly problems = (): readonly string[] => (this.#problem === undefined ? [] : [this.#problem]);

  /** The losses of a store that still takes calls; empty when nothing is lost. */
  readonly degraded = (): readonly string[] => {
    if (this.#damage === undefined) return [];
    const { events, deliveries, others = [] } = this.#damage;
    const lost = [
      ...(events > 0 ? [`${events} stored events`] : []),
      ...(deliveries > 0 ? [`${deliveries} deliveries`] : []),
      ...others.map((other) => `what is needed for ${other}`),
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
    if (JSON.stringify(facts) !== JSON.stringify(seen))
      this.#dependencies.logger.error(facts, 'store.damaged');
  }

  /**
   * Starts no further slice and waits for the one under way. It can be started again. What it found no longer
   * counts: another node may have the job now, and finds more.
   */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#slice;
    this.#problem = undefined;
    this.#damage = undefined;
  }

  #schedule(pause: Duration): void {
    if (this.#stopped) return;
    const { clock } = this.#dependencies;
    this.#cancelTimer = clock.after(pause, () => {
      this.#slice = this.#runSlice().then((next) => this.#schedule(next));
    });
  }

  /**
   * Logs that the wall clock was set, because times in the log and in answers jump. Nothing else follows from
   * it.
   */
  #reportClockSteps(): void {
    const { clock, logger } = this.#dependencies;
    const last = clock.steps().at(-1)!;
    const before = this.#lastStep ?? last;
    this.#lastStep = last;
    if (last === before) return;
    const now = new Date(clock.now()).toISOString();
    logger.warn({ byMs: last.ahead - before.ahead, now }, 'clock.stepped');
  }

  /** @returns the pause before the next slice */
  async #runSlice(): Promise<Duration> {
    const { log, clock, logger, retention } = this.#dependencies;
    this.#reportClockSteps();
    try {
      const more = await log.maintain(
        clock.monotonic(),
        retention(),
        SLICE_BUDGET,
        this.#dependencies.mark?.(),
      );
      if (!more) this.#reportDamage((await log.size()).damage);
      if (this.#problem !== undefined) logger.info({}, 'upkeep.recovered');
      this.#problem = undefined;
      return more ? BUSY_PAUSE : IDLE_PAUSE;
    } catch (error) {
      // Logged once, because the store logs it on every commit too.
      if (this.#problem === undefined) logger.warn({ error }, 'upkeep.failed');
      this.#problem = error instanceof Error ? error.message : String(error);
      return IDLE_PAUSE;
    }
  }
}
