import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Batch, EventLog, Received } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import { Tally } from './tally.ts';

/** How long counts wait at most for others, and for a commit of events to share its sync. */
const EVERY: Duration = SECOND;

export interface LedgerCountsTools {
  readonly log: Pick<EventLog, 'append'>;
  readonly newBatchId: () => string;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Counts of calls that left no event behind, on their way to the ledger. They go there by themselves and not with a commit of
 * events: what may have been stored although the log could not say so is sent again under the same id, and is not counted twice.
 */
export class LedgerCounts {
  readonly #tools: LedgerCountsTools;
  readonly #tally = new Tally();
  /** What is being written, or must be written again. */
  #batch: Batch | undefined;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;

  constructor(tools: LedgerCountsTools) {
    this.#tools = tools;
  }

  add(counts: readonly Received[]): void {
    this.#tally.add(counts);
    this.#writeSoon();
  }

  /** Writes what is there, together with whatever else the log is asked to write at this moment. */
  readonly write = (): void => {
    // It fails with the commit beside it, which says so.
    if (this.#isWaiting && this.#writing === undefined) this.#begin(() => {});
  };

  /** Resolves when every count is written. Rejects when they could not be. */
  async stop(): Promise<void> {
    await this.#writing;
    this.#cancelTimer?.();
    while (this.#isWaiting) await this.#writeBatch();
  }

  get #isWaiting(): boolean {
    return this.#batch !== undefined || !this.#tally.isEmpty;
  }

  #writeSoon(): void {
    const { clock, logger } = this.#tools;
    if (this.#cancelTimer !== undefined || this.#writing !== undefined) return;
    this.#cancelTimer = clock.after(EVERY, () => {
      this.#begin((error) => logger.warn({ error }, 'ledger.counts_not_written'));
    });
  }

  #begin(failed: (error: unknown) => void): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#writing = this.#writeBatch()
      .catch(failed)
      .finally(() => {
        this.#writing = undefined;
        if (this.#isWaiting) this.#writeSoon();
      });
  }

  /** What has come meanwhile waits for the next time: else a stream of discarded calls would be a stream of syncs. */
  async #writeBatch(): Promise<void> {
    this.#batch ??= this.#newBatch();
    await this.#tools.log.append(this.#batch);
    this.#batch = undefined;
  }

  #newBatch(): Batch {
    const received = this.#tally.take();
    return { id: this.#tools.newBatchId(), receivedAt: 0, events: [], owed: [], skipped: [], received };
  }
}
