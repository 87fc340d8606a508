import { type Duration, SECOND } from '../model/time.ts';
import type { Backlog, Result } from '../ports/backlog.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';

/** Results wait this long for company: it bounds what is delivered twice after a crash. */
const GATHER: Duration = 20;
/** …unless so many have gathered. */
const ENOUGH = 1000;
const RETRY_AFTER: Duration = SECOND;

/**
 * Writes the results of deliveries in groups: a success costs a few bytes of a shared transaction, not a commit.
 * A group that cannot be written is kept and written later; nothing is lost by it, and should the process die meanwhile,
 * its deliveries are made once more.
 */
export class Settler {
  readonly #backlog: Pick<Backlog, 'settle'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #written: (results: readonly Result[]) => void;
  #gathered: Result[] = [];
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #stopped = false;

  /** `written` is told of every group on stable storage. */
  constructor(
    backlog: Pick<Backlog, 'settle'>,
    clock: Clock,
    logger: Logger,
    written: (results: readonly Result[]) => void,
  ) {
    this.#backlog = backlog;
    this.#clock = clock;
    this.#logger = logger;
    this.#written = written;
  }

  add(result: Result): void {
    if (this.#stopped) return;
    this.#gathered.push(result);
    if (this.#writing !== undefined) return;
    if (this.#gathered.length >= ENOUGH) this.#write();
    else this.#cancelTimer ??= this.#clock.after(GATHER, () => this.#write());
  }

  /**
   * Writes what was added so far; what is added later is forgotten, and its deliveries stay owed. A write that fails is
   * tried once more, since a store that has failed is opened anew for the next one. Resolves in any case. Idempotent.
   */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (let tries = 0; tries < 2; tries++) {
      await this.#writing;
      this.#write();
      await this.#writing;
    }
    this.#cancelTimer?.();
  }

  #write(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#writing !== undefined || this.#gathered.length === 0) return;
    const group = this.#gathered;
    this.#gathered = [];
    this.#writing = this.#settle(group).then((delay) => {
      this.#writing = undefined;
      if (this.#gathered.length > 0) this.#cancelTimer = this.#clock.after(delay, () => this.#write());
    });
  }

  /** @returns how long to wait before the next group */
  async #settle(group: readonly Result[]): Promise<Duration> {
    try {
      const { ignored } = await this.#backlog.settle(group);
      if (ignored > 0) this.#logger.warn({ ignored }, 'delivery.settled_twice');
      this.#written(group);
      return this.#gathered.length >= ENOUGH ? 0 : GATHER;
    } catch (error) {
      this.#logger.error({ error, results: group.length }, 'delivery.settle_failed');
      this.#gathered = [...group, ...this.#gathered];
      return RETRY_AFTER;
    }
  }
}
