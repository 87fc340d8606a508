import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Batch, EventLog, Received } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import { Tally } from './tally.ts';

/** How long counts wait for others, so that a thousand discarded calls are one write. */
const EVERY: Duration = SECOND;

export interface LedgerCountsTools {
  readonly log: Pick<EventLog, 'append'>;
  readonly newBatchId: () => string;
  readonly clock: Pick<Clock, 'now' | 'at'>;
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

  /** Resolves when every count is written. Rejects when they could not be. */
  async stop(): Promise<void> {
    await this.#writing;
    this.#cancelTimer?.();
    await this.#write();
  }

  get #isWaiting(): boolean {
    return this.#batch !== undefined || !this.#tally.isEmpty;
  }

  #writeSoon(): void {
    const { clock, logger } = this.#tools;
    if (this.#cancelTimer !== undefined || this.#writing !== undefined) return;
    this.#cancelTimer = clock.at(clock.now() + EVERY, () => {
      this.#cancelTimer = undefined;
      this.#writing = this.#write()
        .catch((error: unknown) => logger.warn({ error }, 'ledger.counts_not_written'))
        .finally(() => {
          this.#writing = undefined;
          if (this.#isWaiting) this.#writeSoon();
        });
    });
  }

  async #write(): Promise<void> {
    while (this.#isWaiting) {
      this.#batch ??= this.#newBatch();
      await this.#tools.log.append(this.#batch);
      this.#batch = undefined;
    }
  }

  #newBatch(): Batch {
    const received = this.#tally.take();
    return { id: this.#tools.newBatchId(), receivedAt: 0, events: [], owed: [], skipped: [], received };
  }
}
