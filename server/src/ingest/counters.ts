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

/** Counts one call, without the object below: most requests hold one call, and most calls are accepted. */
export function countOneCall(source: number, reason?: DiscardReason): readonly CallCounts[] {
  return [{ source, calls: 1, discarded: reason === undefined ? NO_DISCARDS : { [reason]: 1 } }];
}

/** Counts the calls of one batch where they are parsed: every call once, discards by reason too. */
export class RequestCounts {
  readonly #sources: { source: number; calls: number; discarded: Record<string, number> }[] = [];
  readonly #unattributed: Record<string, number> = {};

  /** `source` is undefined where no source can be named; such a call was always discarded. */
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

  /** Batches of more than one source are rare, so the list is searched and not a map. */
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

/** Sums of calls and discards per source that wait to be written to the ledger. */
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

  /** Everything added since the last time. */
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

/** How long counts wait at most for others, and for a commit of events to share its sync. */
const WRITE_INTERVAL: Duration = SECOND;

export interface LedgerCounterTools {
  readonly log: Pick<EventLog, 'append'>;
  readonly newBatchId: () => string;
  readonly clock: Pick<Clock, 'after'>;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Counts of calls that left no event behind, on their way to the ledger. They go there by themselves and not with a commit of
 * events: what may have been stored although the log could not say so is sent again under the same id, and is not counted twice.
 */
export class LedgerCounter {
  readonly #tools: LedgerCounterTools;
  readonly #tally = new CallCountSums();
  /** What is being written, or must be written again. */
  #batch: Batch | undefined;
  #cancelTimer: (() => void) | undefined;
  #writing: Promise<void> | undefined;

  constructor(tools: LedgerCounterTools) {
    this.#tools = tools;
  }

  add(counts: readonly CallCounts[]): void {
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

export interface RefusalCountersTools {
  readonly clock: Pick<Clock, 'now'>;
  readonly currentObserver: CurrentObserver;
  /** Gets what has no source. */
  readonly discardCounters: DiscardCounters;
  readonly discardSampler: DiscardSampler;
  readonly writeKeys: () => WriteKeyLookup;
  /** Gets what has one. */
  readonly count: (counts: readonly CallCounts[]) => void;
}

/**
 * The tallies of what stands before the receiver and refuses requests there. Nobody looked at the calls of such a request, so it
 * counts as one discarded call of the source that its key names. Without a known key it is passed on to the tallies.
 */
export class RefusalCounters implements DiscardCounters {
  readonly #tools: RefusalCountersTools;

  constructor(tools: RefusalCountersTools) {
    this.#tools = tools;
  }

  refused(code: string, request?: RefusedRequest): void {
    const {
      clock,
      currentObserver: watching,
      discardCounters: tallies,
      discardSampler: samples,
      writeKeys,
      count,
    } = this.#tools;
    const source = request?.writeKey === undefined ? undefined : writeKeys().find(request.writeKey);
    if (source === undefined) {
      tallies.refused(code);
      return;
    }
    count([{ source: source.id, calls: 1, discarded: { [code]: 1 } }]);
    const detail = request?.detail;
    if (detail !== undefined) {
      samples.add({ source: source.name, reason: code, at: clock.now(), call: () => ({ refused: detail }) });
    }
    watching()?.({ kind: 'discarded', source: source.name, reason: code });
  }

  discarded(reasons: Readonly<Record<string, number>>): void {
    this.#tools.discardCounters.discarded(reasons);
  }

  clockErrors(counts: ClockErrorCounts): void {
    this.#tools.discardCounters.clockErrors(counts);
  }
}
