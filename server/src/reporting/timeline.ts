import { InvariantError, invariant } from '../model/invariant.ts';
import type { LatencyCounts, LatencyHistogram } from '../model/latency-histogram.ts';
import type { DestinationCounts, SourceCounts } from '../model/ledger.ts';
import { maskUrl } from '../model/secrets.ts';
import { DAY, type Duration, MINUTE, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { DestinationFlow, FlowCounters, InvariantRecorder } from '../ports/telemetry.ts';
import type {
  DestinationRow,
  EndpointRow,
  LatencyPairs,
  ReasonCounts,
  SourceRow,
  TimelineLevel,
  TimelineRow,
  TimelineStore,
} from '../ports/timeline-store.ts';
import type { LedgerReport } from './contract.ts';
import { addPairs, EndpointSums, entryOf, TimelineBucket } from './timeline-bucket.ts';

/** The pause between two samples, which is also the shortest step of an answer. */
export const SAMPLE_INTERVAL: Duration = 10 * SECOND;

/** Samples that stay in memory: a quarter of an hour. */
const MAX_SAMPLES = 90;

/** How long rows are kept. */
const TIMELINE_RETENTION: Duration = 7 * DAY;

export const LEVEL_LENGTHS: Readonly<Record<TimelineLevel, Duration>> = {
  minute: MINUTE,
  tenMinutes: 10 * MINUTE,
};

const LEVELS = ['minute', 'tenMinutes'] as const;

export interface TimelineDependencies {
  readonly ledger: () => Promise<LedgerReport>;
  readonly flows: FlowCounters & Partial<InvariantRecorder>;
  readonly settings: () => Pick<SettingsSnapshot, 'sources' | 'destinations' | 'gone'>;
  readonly store: TimelineStore;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Samples the ledger and the counters of the hot path every ten seconds, and writes what has happened once a
 * minute. The hot path knows nothing of it. After a crash up to a minute is missing here; the ledger misses
 * nothing.
 *
 * ```
 *   every 10 s: counts now − counts before = sample ──▶ the last 90 samples
 *                                              └──────▶ bucket of the minute, of ten minutes ──at their end──▶ store
 * ```
 */
export class TimelineRecorder {
  readonly #dependencies: TimelineDependencies;
  readonly #samples: TimelineRow[] = [];
  readonly #buckets = new Map<TimelineLevel, { readonly at: Time; readonly sums: TimelineBucket }>();
  #before: Counts | undefined;
  #sampledAt: Time = 0;
  #cancelTimer: (() => void) | undefined;
  #underWay: Promise<void> = Promise.resolve();
  /** Writes one after the other. A slow disk holds up no sample. */
  #writes: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(dependencies: TimelineDependencies) {
    this.#dependencies = dependencies;
  }

  /** Begins with the counts of this moment and does not wait for them. */
  start(): void {
    this.#underWay = this.#sample();
    this.#sleep();
  }

  /**
   * Writes what was not written. Stop it after everything that is counted and before the store. Idempotent.
   */
  async stop(): Promise<void> {
    if (this.#stopped) return await this.#underWay;
    this.#stopped = true;
    this.#cancelTimer?.();
    this.#underWay = this.#underWay
      .then(() => this.#sample())
      .then(() => this.#endBuckets(Number.POSITIVE_INFINITY));
    await this.#underWay;
    await this.#writes;
  }

  /** The samples in memory, the oldest first. */
  samples(): readonly TimelineRow[] {
    return this.#samples;
  }

  /** Counts since the last sample, within its interval; undefined while they are not known. */
  async unsampled(): Promise<TimelineRow | undefined> {
    const { ledger, logger } = this.#dependencies;
    try {
      const counts = countsOf(await ledger(), this.#dependencies);
      if (this.#before === undefined) return undefined;
      return rowBetween(this.#before, counts, intervalOf(this.#sampledAt, SAMPLE_INTERVAL));
    } catch (error) {
      logger.warn({ error }, 'timeline.not_sampled');
      return undefined;
    }
  }

  /** How long commits of the samples in memory took, as counts of a latency histogram. */
  readonly recentCommits = (): LatencyCounts => {
    const sums = new Map<number, number>();
    for (const { commits } of this.#samples) addPairs(sums, commits);
    return sums;
  };

  /** Rows of this range, those not yet written included. */
  async *rows(level: TimelineLevel, from: Time, to: Time): AsyncIterable<TimelineRow> {
    await this.#writes;
    // Taken first: what is written meanwhile must not come twice, though it may be missing from this answer.
    const bucket = this.#buckets.get(level);
    const current = bucket?.sums.toRow(bucket.at);
    yield* this.#dependencies.store.read(level, from, current === undefined ? to : Math.min(to, current.at));
    if (current === undefined || current.at < from || current.at >= to) return;
    yield* this.#dependencies.store.read(level, current.at, current.at + 1);
    yield current;
  }

  /** The next sample is taken when the wall clock shows a multiple of ten seconds. */
  #sleep(): void {
    const { clock } = this.#dependencies;
    this.#cancelTimer = clock.after(SAMPLE_INTERVAL - (clock.now() % SAMPLE_INTERVAL), () => {
      this.#underWay = this.#underWay.then(() => this.#sample());
      this.#sleep();
    });
  }

  async #sample(): Promise<void> {
    const { ledger, clock, logger } = this.#dependencies;
    try {
      const counts = countsOf(await ledger(), this.#dependencies);
      const now = clock.now();
      if (this.#before !== undefined) {
        const row = rowBetween(this.#before, counts, intervalOf(this.#sampledAt, SAMPLE_INTERVAL));
        this.#samples.push(row);
        if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
        this.#add(row);
      }
      this.#before = counts;
      this.#sampledAt = now;
    } catch (error) {
      // The next sample covers this one's time too.
      if (error instanceof InvariantError) this.#noteBroken(error);
      else logger.warn({ error }, 'timeline.not_sampled');
    }
  }

  /** A report may be wrong, and everything else goes on: logged once. */
  #noteBroken({ message: invariant }: InvariantError): void {
    const { flows, logger } = this.#dependencies;
    if (flows.invariantFailed?.(invariant) !== false)
      logger.error({ invariant }, 'reporting.invariant_failed');
  }

  #add(row: TimelineRow): void {
    this.#endBuckets(row.at);
    for (const level of LEVELS) {
      const at = intervalOf(row.at, LEVEL_LENGTHS[level]);
      let bucket = this.#buckets.get(level);
      if (bucket === undefined) {
        bucket = { at, sums: new TimelineBucket() };
        this.#buckets.set(level, bucket);
      }
      bucket.sums.add(row);
    }
  }

  /** Writes the buckets whose interval is over at this time. A wall clock that was set back ends them too. */
  #endBuckets(time: Time): void {
    for (const level of LEVELS) {
      const bucket = this.#buckets.get(level);
      if (bucket === undefined || (time >= bucket.at && time < bucket.at + LEVEL_LENGTHS[level])) continue;
      this.#buckets.delete(level);
      const row = bucket.sums.toRow(bucket.at);
      this.#writes = this.#writes.then(() => this.#write(level, row));
    }
  }

  async #write(level: TimelineLevel, row: TimelineRow): Promise<void> {
    const { store, logger } = this.#dependencies;
    try {
      await store.append(level, row);
      if (level === 'tenMinutes') await store.forgetBefore(row.at - TIMELINE_RETENTION);
    } catch (error) {
      logger.warn({ error }, 'timeline.not_written');
    }
  }
}

function intervalOf(time: Time, length: Duration): Time {
  return Math.floor(time / length) * length;
}

/** Counts since the start at one moment. */
interface Counts {
  readonly commits: ReadonlyMap<number, number>;
  readonly sources: ReadonlyMap<string, SourceCounts & { readonly latency: ReadonlyMap<number, number> }>;
  readonly destinations: ReadonlyMap<string, DestinationCounts & FlowCounts>;
}

interface FlowCounts {
  readonly retried: number;
  readonly latency: ReadonlyMap<number, number>;
  readonly endpoints: ReadonlyMap<string, { readonly accepted: number; readonly failed: ReasonCounts }>;
}

const NO_FLOW: FlowCounts = { retried: 0, latency: new Map(), endpoints: new Map() };

function countsOf(
  { sources, destinations }: LedgerReport,
  { flows, settings }: Pick<TimelineDependencies, 'flows' | 'settings'>,
): Counts {
  const records = settings();
  const sourceIds = idsByName([...records.gone.sources, ...records.sources]);
  const destinationIds = idsByName([...records.gone.destinations, ...records.destinations]);
  const latencyOf = (histogram: LatencyHistogram | undefined) =>
    histogram?.read() ?? new Map<number, number>();
  return {
    commits: flows.commitLatency.read(),
    sources: new Map(
      Object.entries(sources).map(([name, counts]) => [
        name,
        { ...counts, latency: latencyOf(flows.acceptance.get(sourceIds.get(name) ?? -1)) },
      ]),
    ),
    destinations: new Map(
      Object.entries(destinations).map(([name, counts]) => [
        name,
        { ...counts, ...flowCounts(flows.flows.get(destinationIds.get(name) ?? -1)) },
      ]),
    ),
  };
}

function idsByName(records: readonly { readonly id: number; readonly name: string }[]): Map<string, number> {
  return new Map(records.map(({ id, name }) => [name, id]));
}

/** A copy, because the hot path goes on counting. */
function flowCounts(flow: DestinationFlow | undefined): FlowCounts {
  if (flow === undefined) return NO_FLOW;
  const endpoints = new Map<string, { accepted: number; failed: ReasonCounts }>();
  for (const [url, { accepted, failed }] of flow.endpoints)
    endpoints.set(url, { accepted, failed: Object.fromEntries(failed) });
  return { retried: flow.retried, latency: flow.latency.read(), endpoints };
}

function rowBetween(before: Counts, after: Counts, at: Time): TimelineRow {
  for (const [bucket, n] of before.commits)
    invariant((after.commits.get(bucket) ?? 0) >= n, 'commits that were measured stay measured');
  const bucket = new TimelineBucket();
  bucket.add({
    commits: latencyDelta(before.commits, after.commits),
    sources: Object.fromEntries(
      Array.from(after.sources, ([name, counts]) => [name, sourceDelta(before.sources.get(name), counts)]),
    ),
    destinations: Object.fromEntries(
      Array.from(after.destinations, ([name, counts]) => [
        name,
        destinationDelta(before.destinations.get(name), counts),
      ]),
    ),
  });
  return bucket.toRow(at);
}

type CountsOf<Key extends 'sources' | 'destinations'> =
  Counts[Key] extends ReadonlyMap<string, infer Value> ? Value : never;

function sourceDelta(before: CountsOf<'sources'> | undefined, after: CountsOf<'sources'>): SourceRow {
  return {
    received: after.received - (before?.received ?? 0),
    accepted: after.accepted - (before?.accepted ?? 0),
    duplicates: after.duplicates - (before?.duplicates ?? 0),
    discarded: reasonDelta(before?.discarded, after.discarded),
    latency: latencyDelta(before?.latency, after.latency),
  };
}

function destinationDelta(
  before: CountsOf<'destinations'> | undefined,
  after: CountsOf<'destinations'>,
): DestinationRow {
  return {
    owed: after.owed - (before?.owed ?? 0),
    delivered: after.delivered - (before?.delivered ?? 0),
    retried: after.retried - (before?.retried ?? 0),
    dead: reasonDelta(before?.dead, after.dead),
    dropped: reasonDelta(before?.dropped, after.dropped),
    erased: after.erased - (before?.erased ?? 0),
    skipped: reasonDelta(before?.skipped, after.skipped),
    pending: after.pending,
    latency: latencyDelta(before?.latency, after.latency),
    endpoints: endpointDeltas(before?.endpoints, after.endpoints),
  };
}

/** By masked URL, which two endpoints may share: their rows are added up. */
function endpointDeltas(
  before: FlowCounts['endpoints'] | undefined,
  after: FlowCounts['endpoints'],
): Readonly<Record<string, EndpointRow>> {
  const sums = new Map<string, EndpointSums>();
  for (const [url, { accepted, failed }] of after) {
    const earlier = before?.get(url);
    entryOf(sums, maskUrl(url), () => new EndpointSums()).add({
      accepted: accepted - (earlier?.accepted ?? 0),
      failed: reasonDelta(earlier?.failed, failed),
    });
  }
  return Object.fromEntries(Array.from(sums, ([name, one]) => [name, one.toRow() ?? {}]));
}

function reasonDelta(before: ReasonCounts = {}, after: ReasonCounts): ReasonCounts {
  return Object.fromEntries(Object.entries(after).map(([reason, n]) => [reason, n - (before[reason] ?? 0)]));
}

function latencyDelta(
  before: ReadonlyMap<number, number> | undefined,
  after: ReadonlyMap<number, number>,
): LatencyPairs {
  return [...after].flatMap(([bucket, n]) => [bucket, n - (before?.get(bucket) ?? 0)]);
}
