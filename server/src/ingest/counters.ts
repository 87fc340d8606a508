import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Batch, CallCounts, EventLog } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type {
  ClockErrorCounts,
  CurrentObserver,
  DiscardCounters,
  DiscardSampler,
  RefusedRequest,
} from '../ports/telemetry.ts';
import type { DiscardReason, RefusalCode } from './normalize.ts';
import type { WriteKeyLookup } from './write-key-auth.ts';

const NO_DISCARDS: CallCounts['discarded'] = Object.freeze({});

/** Counts one call without a `RequestCounts`: most requests hold one call, and most calls are accepted. */
export function countOneCall(source: number, reason?: DiscardReason): readonly CallCounts[] {
  return [{ source, calls: 1, discarded: reason === undefined ? NO_DISCARDS : { [reason]: 1 } }];
}

/** Counts the calls of one batch: every call once, and discards by reason too. */
export class RequestCounts {
  readonly #sources: { source: number; calls: number; discarded: Record<string, number> }[] = [];
  readonly #unattributed: Record<string, number> = {};

  /** `source` is undefined where none can be named; such a call is always discarded. */
  add(source: number | undefined, reason?: RefusalCode): void {
    const discarded = source === undefined ? this.#unattributed : this.#call(source);
    if (reason !== undefined) discarded[reason] = (discarded[reason] ?? 0) + 1;
  }

  get bySource(): readonly CallCounts[] {
    return this.#sources;
  }

  get unattributed(): Readonly<Record<string, number>> {
    return this.#unattributed;
  }

  /** Searches a list instead of a map, because batches of more than one source are rare. */
  #call(source: number): Record<string, number> {
    let sums = this.#sources.find((entry) => entry.source === source);
    if (sums === undefined) {
      sums = { source, calls: 0, discarded: {} };
      this.#sources.push(sums);
    }
    sums.calls++;
    return sums.discarded;
  }
}

/** Sums of calls and discards by source, which wait to be written to the ledger. */
export class CallCountSums {
  readonly #bySource = new Map<number, { calls: number; discarded: Record<string, number> }>();

  get isEmpty(): boolean {
    return this.#bySource.size === 0;
  }

  add(counts: readonly CallCounts[]): void {
    for (const { source, calls, discarded } of counts) {
      let sums = this.#bySource.get(source);
      if (sums === undefined) {
        sums = { calls: 0, discarded: {} };
        this.#bySource.set(source, sums);
      }
      sums.calls += calls;
      for (const [reason, n] of Object.entries(discarded))
        sums.discarded[reason] = (sums.discarded[reason] ?? 0) + n;
    }
  }

  /** Gives everything added since the last time, and forgets it. */
  take(): CallCounts[] {
    const all = Array.from(this.#bySource, ([source, { calls, discarded }]) => ({
      source,
      calls,
      discarded,
    }));
    this.#bySource.clear();
    return all;
  }
}

/** How long counts wait at most for more of them, and for a commit of events whose sync they can share. */
const WRITE_INTERVAL: Duration = SECOND;

export interface LedgerCounterDependencies {
  readonly log: Pick<EventLog, 'append'>;
  readonly newBatchId: () => string;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Writes counts of calls that left no event to the ledger. Each batch of counts has an id of its own, apart from commits of
 * events: after a commit in doubt it is sent again under the same id, and is not counted twice.
 */
export class LedgerCounter {
  readonly #dependencies: LedgerCounterDependencies;
  readonly #sums = new CallCountSums();
  /** The batch that is being written, or must be written again. */
  #batch: Batch | undefined;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;

  constructor(dependencies: LedgerCounterDependencies) {
    this.#dependencies = dependencies;
  }

  add(counts: readonly CallCounts[]): void {
    this.#sums.add(counts);
    this.#writeSoon();
  }

  /** Writes all counts now. Called beside a commit of events, it shares the sync of that. */
  readonly write = (): void => {
    // The commit beside it fails with it and reports the error.
    if (this.#isWaiting && this.#writing === undefined) this.#begin(() => {});
  };

  /** Resolves when every count is written. Rejects when they could not be. */
  async stop(): Promise<void> {
    await this.#writing;
    this.#cancelTimer?.();
    while (this.#isWaiting) await this.#writeBatch();
  }

  get #isWaiting(): boolean {
    return this.#batch !== undefined || !this.#sums.isEmpty;
  }

  #writeSoon(): void {
    const { clock, logger } = this.#dependencies;
    if (this.#cancelTimer !== undefined || this.#writing !== undefined) return;
    this.#cancelTimer = clock.after(WRITE_INTERVAL, () => {
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

  /** Counts that come meanwhile wait for the next batch: else a stream of discarded calls would be a stream of syncs. */
  async #writeBatch(): Promise<void> {
    this.#batch ??= this.#newBatch();
    await this.#dependencies.log.append(this.#batch);
    this.#batch = undefined;
  }

  #newBatch(): Batch {
    const received = this.#sums.take();
    return {
      id: this.#dependencies.newBatchId(),
      receivedAt: 0,
      events: [],
      owed: [],
      skipped: [],
      received,
    };
  }
}

export interface RefusalCountersDependencies {
  readonly clock: Pick<Clock, 'now'>;
  readonly currentObserver: CurrentObserver;
  /** Counts refusals without a known source. */
  readonly discardCounters: DiscardCounters;
  readonly discardSampler: DiscardSampler;
  readonly writeKeys: () => WriteKeyLookup;
  /** Counts refusals in the ledger of their source. */
  readonly count: (counts: readonly CallCounts[]) => void;
}

/**
 * Counts requests that the HTTP layer refuses before their calls are read. Such a request counts as one discarded call of the
 * source that its key names. Without a known key it goes to `dependencies.discardCounters`.
 */
export class RefusalCounters implements DiscardCounters {
  readonly #dependencies: RefusalCountersDependencies;

  constructor(dependencies: RefusalCountersDependencies) {
    this.#dependencies = dependencies;
  }

  refused(code: string, request?: RefusedRequest): void {
    const { clock, currentObserver, discardCounters, discardSampler, writeKeys, count } = this.#dependencies;
    const source = request?.writeKey === undefined ? undefined : writeKeys().find(request.writeKey);
    if (source === undefined) {
      discardCounters.refused(code);
      return;
    }
    count([{ source: source.id, calls: 1, discarded: { [code]: 1 } }]);
    const detail = request?.detail;
    if (detail !== undefined) {
      const call = () => ({ refused: detail });
      discardSampler.add({ source: source.name, reason: code, at: clock.now(), call });
    }
    currentObserver()?.({ kind: 'discarded', source: source.name, reason: code });
  }

  discarded(reasons: Readonly<Record<string, number>>): void {
    this.#dependencies.discardCounters.discarded(reasons);
  }

  clockErrors(counts: ClockErrorCounts): void {
    this.#dependencies.discardCounters.clockErrors(counts);
  }
}
