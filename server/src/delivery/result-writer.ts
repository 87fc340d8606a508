import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeliveryQueue, DeliveryResult } from '../ports/delivery-queue.ts';
import type { Logger } from '../ports/logger.ts';

/** Results wait this long for company: it bounds what is delivered twice after a crash. */
const GROUP_DELAY: Duration = 20;
/** …unless so many have gathered. */
const GROUP_SIZE = 1000;
const RETRY_DELAY: Duration = SECOND;

/**
 * Writes the results of deliveries in groups: a success costs a few bytes of a shared transaction, not a commit.
 * A group that cannot be written is kept and written later; nothing is lost by it, and should the process die meanwhile,
 * its deliveries are made once more.
 */
export class ResultWriter {
  readonly #backlog: Pick<DeliveryQueue, 'settle'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onWritten: (results: readonly DeliveryResult[]) => void;
  #pending: DeliveryResult[] = [];
  #writing: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  #stopped = false;

  /** `written` is told of every group on stable storage. */
  constructor(
    backlog: Pick<DeliveryQueue, 'settle'>,
    clock: Clock,
    logger: Logger,
    written: (results: readonly DeliveryResult[]) => void,
  ) {
    this.#backlog = backlog;
    this.#clock = clock;
    this.#logger = logger;
    this.#onWritten = written;
  }

  add(result: DeliveryResult): void {
    if (this.#stopped) return;
    this.#pending.push(result);
    if (this.#writing !== undefined) return;
    if (this.#pending.length >= GROUP_SIZE) this.#write();
    else this.#cancelTimer ??= this.#clock.after(GROUP_DELAY, () => this.#write());
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
    if (this.#writing !== undefined || this.#pending.length === 0) return;
    const group = this.#pending;
    this.#pending = [];
    this.#writing = this.#writeGroup(group).then((delay) => {
      this.#writing = undefined;
      if (this.#pending.length > 0) this.#cancelTimer = this.#clock.after(delay, () => this.#write());
    });
  }

  /** @returns how long to wait before the next group */
  async #writeGroup(group: readonly DeliveryResult[]): Promise<Duration> {
    try {
      const { ignored } = await this.#backlog.settle(group);
      if (ignored > 0) this.#logger.warn({ ignored }, 'delivery.settled_twice');
      this.#onWritten(group);
      return this.#pending.length >= GROUP_SIZE ? 0 : GROUP_DELAY;
    } catch (error) {
      this.#logger.error({ error, results: group.length }, 'delivery.settle_failed');
      this.#pending = [...group, ...this.#pending];
      return RETRY_DELAY;
    }
  }
}
