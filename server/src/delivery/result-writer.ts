import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeliveryQueue, DeliveryResult } from '../ports/delivery-queue.ts';
import type { Logger } from '../ports/logger.ts';

/** How long a result waits for others. Everything within this time is delivered twice after a crash. */
const GROUP_DELAY: Duration = 20;
/** A group of this size is written at once. */
const GROUP_SIZE = 1000;
const RETRY_DELAY: Duration = SECOND;

export interface ResultWriterDependencies {
  readonly settle: DeliveryQueue['settle'];
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with every group that is on stable storage. */
  readonly onWritten: (results: readonly DeliveryResult[]) => void;
}

/**
 * Writes the results of deliveries in groups: a success costs a few bytes of a shared transaction, not a commit. A group
 * that cannot be written is kept and written later. If the process dies before, its deliveries are made once more.
 */
export class ResultWriter {
  readonly #dependencies: ResultWriterDependencies;
  #pending: DeliveryResult[] = [];
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #stopped = false;

  constructor(dependencies: ResultWriterDependencies) {
    this.#dependencies = dependencies;
  }

  add(result: DeliveryResult): void {
    if (this.#stopped) return;
    this.#pending.push(result);
    if (this.#writing !== undefined) return;
    if (this.#pending.length >= GROUP_SIZE) this.#write();
    else this.#cancelTimer ??= this.#dependencies.clock.after(GROUP_DELAY, () => this.#write());
  }

  /**
   * Writes the results added before. Later ones are dropped, and their deliveries stay owed. A failed write is repeated
   * once, because a store that has failed is opened anew for the next one. Never rejects. Idempotent.
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
    if (this.#writing !== undefined || this.#pending.length === 0) return;
    const group = this.#pending;
    this.#pending = [];
    this.#writing = this.#writeGroup(group).then((delay) => {
      this.#writing = undefined;
      if (this.#pending.length > 0)
        this.#cancelTimer = this.#dependencies.clock.after(delay, () => this.#write());
    });
  }

  /** @returns the delay before the next group */
  async #writeGroup(group: readonly DeliveryResult[]): Promise<Duration> {
    const { settle, logger, onWritten } = this.#dependencies;
    try {
      const { ignored } = await settle(group);
      if (ignored > 0) logger.warn({ ignored }, 'delivery.settled_twice');
      onWritten(group);
      return this.#pending.length >= GROUP_SIZE ? 0 : GROUP_DELAY;
    } catch (error) {
      logger.error({ error, results: group.length }, 'delivery.settle_failed');
      this.#pending = [...group, ...this.#pending];
      return RETRY_DELAY;
    }
  }
}
