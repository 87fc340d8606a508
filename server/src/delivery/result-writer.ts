import { endWith, InvariantError, invariant } from '../model/invariant.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeliveryQueue, DeliveryResult } from '../ports/delivery-queue.ts';
import type { Logger } from '../ports/logger.ts';

/**
 * How long a result waits for others. After a crash, results that are not yet written are delivered once
 * more.
 */
const GROUP_DELAY: Duration = 20;
/** A group of this size is written at once. */
const GROUP_SIZE = 1000;
const RETRY_DELAY: Duration = SECOND;

/** A result that waits longer to be written is late. */
const LATE_AFTER: Duration = SECOND;

export interface ResultWriterDependencies {
  readonly settle: DeliveryQueue['settle'];
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Called with every group that is on stable storage, and with none where a group of an earlier lease is
   * given up. `wasLate`: `isLate` was true before.
   */
  readonly onWritten: (results: readonly DeliveryResult[], wasLate: boolean) => void;
  /** Called when an invariant does not hold. Default: the process ends. */
  readonly onBroken?: (error: InvariantError) => void;
}

/** Results since the start: those that were added, and those that were written or forgotten. */
export class ResultCounts {
  added = 0;
  written = 0;

  /** Results were written, or will never be. */
  end(results: number): void {
    invariant(results > 0, 'a group of results has one at least');
    this.written += results;
    invariant(this.written <= this.added, 'no more results are written than were added');
  }
}

/**
 * Writes the results of deliveries in groups: a success costs a few bytes of a shared transaction, not a
 * commit. A group that cannot be written is kept and written later. If the process dies before, its
 * deliveries are made once more.
 */
export class ResultWriter {
  readonly #dependencies: ResultWriterDependencies;
  #pending: DeliveryResult[] = [];
  /**
   * When the oldest result came that is not written, and the oldest of those that are not being written
   * either.
   */
  #oldestAt: Monotonic | undefined;
  #pendingSince: Monotonic | undefined;
  #writing: Promise<void> | undefined;
  readonly #counts = new ResultCounts();
  #lostLeases = 0;
  /** Why the last group could not be written; undefined after one that could. */
  #failure: unknown;
  #cancelTimer: (() => void) | undefined;
  #stopped = false;

  constructor(dependencies: ResultWriterDependencies) {
    this.#dependencies = dependencies;
  }

  add(result: DeliveryResult): void {
    if (this.#stopped) return;
    this.#pending.push(result);
    this.#counts.added++;
    this.#pendingSince ??= this.#dependencies.clock.monotonic();
    this.#oldestAt ??= this.#pendingSince;
    if (this.#writing !== undefined) return;
    if (this.#pending.length >= GROUP_SIZE) this.#write();
    else this.#cancelTimer ??= this.#dependencies.clock.after(GROUP_DELAY, () => this.#write());
  }

  /**
   * The lease is lost: the results added before are of deliveries that belong to others, or to a later claim
   * of this process.
   */
  forget(): void {
    this.#lostLeases++;
    if (this.#pending.length > 0) this.#counts.end(this.#pending.length);
    this.#pending = [];
    this.#pendingSince = undefined;
    if (this.#writing === undefined) this.#oldestAt = undefined;
  }

  /**
   * Resolves when the results added before are on stable storage. Rejects when a write fails, which is
   * repeated later.
   */
  async flush(): Promise<void> {
    const { added } = this.#counts;
    while (this.#counts.written < added) {
      this.#write();
      await this.#writing;
      if (this.#failure !== undefined) throw this.#failure;
    }
  }

  /** Tells whether the results added before this call are on stable storage. */
  untilWritten(): () => boolean {
    const { added } = this.#counts;
    return () => this.#counts.written >= added;
  }

  /** Whether a result has waited for more than a second. */
  isLate(): boolean {
    return this.#oldestAt !== undefined && this.#dependencies.clock.monotonic() - this.#oldestAt > LATE_AFTER;
  }

  /**
   * Writes the results added before. Later ones are dropped, and their deliveries stay owed. A failed write
   * is repeated once, because a store that has failed is opened anew for the next one. Never rejects.
   * Idempotent.
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
    this.#pendingSince = undefined;
    this.#writing = this.#writeGroup(group).then((delay) => {
      this.#writing = undefined;
      if (this.#pending.length > 0)
        this.#cancelTimer = this.#dependencies.clock.after(delay, () => this.#write());
    });
  }

  /** @returns the delay before the next group */
  async #writeGroup(group: readonly DeliveryResult[]): Promise<Duration> {
    const { settle, logger, onWritten } = this.#dependencies;
    const lostLeases = this.#lostLeases;
    try {
      const { ignored } = await settle(group);
      invariant(ignored >= 0 && ignored <= group.length, 'a store ignores a part of the results it is given');
      if (ignored > 0) logger.warn({ ignored }, 'delivery.settled_twice');
      this.#counts.end(group.length);
      this.#failure = undefined;
      const wasLate = this.isLate();
      this.#oldestAt = this.#pendingSince;
      onWritten(group, wasLate);
      return this.#pending.length >= GROUP_SIZE ? 0 : GROUP_DELAY;
    } catch (error) {
      if (error instanceof InvariantError) (this.#dependencies.onBroken ?? endWith)(error);
      logger.error({ error, results: group.length }, 'delivery.settle_failed');
      this.#failure = error;
      if (lostLeases === this.#lostLeases) {
        this.#pending = [...group, ...this.#pending];
        return RETRY_DELAY;
      }
      this.#counts.end(group.length);
      const wasLate = this.isLate();
      this.#oldestAt = this.#pendingSince;
      onWritten([], wasLate);
      return 0;
    }
  }
}
