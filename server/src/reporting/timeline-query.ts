import { latencyQuantile } from '../model/latency-histogram.ts';
import { type Duration, HOUR, isoTime, SECOND } from '../model/time.ts';
import type { TimelineLevel, TimelineRow } from '../ports/timeline-store.ts';
import type { TimelineGroup, TimelineQuery, TimelineReport, TimelineSeries } from './contract.ts';
import { LEVEL_LENGTHS, SAMPLE_INTERVAL, type TimelineRecorder } from './timeline.ts';
import { addPairs, DestinationSums, EndpointSums, entryOf, SourceSums } from './timeline-bucket.ts';

/** Above this length of a range, rows of ten minutes are read where the step allows it. */
const LONG_RANGE: Duration = 2 * HOUR;

/** The timeline of a range, whose ends are moved outwards to whole steps. */
export async function readTimeline(
  query: TimelineQuery,
  recorder: Pick<TimelineRecorder, 'rows' | 'samples' | 'unsampled'>,
): Promise<TimelineReport> {
  const { step } = query;
  const from = Math.floor(query.from / step) * step;
  const to = Math.max(from + step, Math.ceil(query.to / step) * step);
  const groups = new TimelineGroups({ ...query, from, to });
  for await (const row of rowsOf({ ...query, from, to }, recorder)) groups.add(row);
  // Read last: what is sampled meanwhile must not come twice, though it may be missing from this answer.
  const unsampled = await recorder.unsampled();
  if (unsampled !== undefined && unsampled.at >= from && unsampled.at < to) groups.add(unsampled);
  const latest = recorder.samples().at(-1);
  if (latest !== undefined) groups.addLatest(latest);
  return { from: isoTime(from), to: isoTime(to), step: step / SECOND, groups: groups.read() };
}

/**
 * Rows that are as long as a step or shorter. Shorter ones than a minute are there for the last quarter of an
 * hour only.
 */
async function* rowsOf(
  { from, to, step }: TimelineQuery,
  recorder: Pick<TimelineRecorder, 'rows' | 'samples'>,
): AsyncIterable<TimelineRow> {
  const level = levelFor(step, to - from);
  if (level !== undefined) yield* recorder.rows(level, from, to);
  else yield* recorder.samples().filter(({ at }) => at >= from && at < to);
}

function levelFor(step: Duration, range: Duration): TimelineLevel | undefined {
  if (step % LEVEL_LENGTHS.tenMinutes === 0 && range > LONG_RANGE) return 'tenMinutes';
  return step % LEVEL_LENGTHS.minute === 0 ? 'minute' : undefined;
}

type GroupLabels = Pick<TimelineGroup, 'source' | 'destination' | 'endpoint'>;

/** The sums of one group in one step. */
class GroupSums {
  readonly source = new SourceSums();
  readonly destination = new DestinationSums();
  readonly endpoint = new EndpointSums();
  readonly commits = new Map<number, number>();
  /** Owed at the end, over all destinations of the group. */
  pending = 0;

  valueOf(series: TimelineSeries): number | null {
    const { source, destination, endpoint, commits } = this;
    switch (series) {
      case 'discarded':
        return total(source.discarded);
      case 'acceptanceP50':
        return quantile(source.latency, 0.5);
      case 'acceptanceP99':
        return quantile(source.latency, 0.99);
      case 'commitP50':
        return quantile(commits, 0.5);
      case 'commitP99':
        return quantile(commits, 0.99);
      case 'received':
      case 'accepted':
      case 'duplicates':
        return source[series];
      case 'skipped':
      case 'dead':
      case 'dropped':
        return total(destination[series]);
      case 'retrying':
        return destination.retried;
      case 'deliveryP50':
        return quantile(destination.latency, 0.5);
      case 'deliveryP99':
        return quantile(destination.latency, 0.99);
      case 'owed':
      case 'delivered':
      case 'erased':
        return destination[series];
      case 'pending':
        return this.pending;
      case 'failed':
        return total(endpoint.failed);
      case 'requests':
        return endpoint.accepted + total(endpoint.failed);
    }
  }

  reasons(): TimelineGroup['reasons'] {
    const { source, destination, endpoint } = this;
    const byReason = {
      discarded: source.discarded,
      skipped: destination.skipped,
      dead: destination.dead,
      dropped: destination.dropped,
      failed: endpoint.failed,
    };
    return Object.fromEntries(
      Object.entries(byReason)
        .filter(([, counts]) => counts.size > 0)
        .map(([series, counts]) => [series, Object.fromEntries(counts)]),
    );
  }
}

function total(counts: ReadonlyMap<string, number>): number {
  let sum = 0;
  for (const n of counts.values()) sum += n;
  return sum;
}

/** Milliseconds with two decimals. */
function quantile(counts: ReadonlyMap<number, number>, share: number): number | null {
  const found = latencyQuantile(counts, share);
  return found === undefined ? null : Math.round(found * 100) / 100;
}

interface Group {
  readonly labels: GroupLabels;
  /** By index of the step; a hole where the group did nothing. */
  readonly steps: Map<number, GroupSums>;
  readonly whole: GroupSums;
  readonly latest: GroupSums;
}

/** Series of calls, of deliveries, and of requests: a group has those that its labels have numbers for. */
const OF_SOURCES: readonly TimelineSeries[] = [
  ...(['received', 'accepted', 'duplicates', 'discarded', 'acceptanceP50', 'acceptanceP99'] as const),
];
/** A commit stores the calls of all sources. */
const OF_COMMITS: readonly TimelineSeries[] = ['commitP50', 'commitP99'];
const OF_REQUESTS: readonly TimelineSeries[] = ['requests', 'failed'];
/** Series that are no counts: `now` shows them as they are. */
const GAUGES: readonly TimelineSeries[] = [
  ...OF_COMMITS,
  ...(['pending', 'acceptanceP50', 'acceptanceP99', 'deliveryP50', 'deliveryP99'] as const),
];

/** Adds rows up by group and step. */
class TimelineGroups {
  readonly #query: TimelineQuery;
  readonly #groups = new Map<string, Group>();
  /** The steps in which the server ran. */
  readonly #known = new Set<number>();

  constructor(query: TimelineQuery) {
    this.#query = query;
    if (query.by === undefined) this.#group({});
  }

  add(row: TimelineRow): void {
    const { from, step } = this.#query;
    const index = Math.floor((row.at - from) / step);
    this.#known.add(index);
    // What is pending at the end of a row replaces what the row before said, also where it is nothing any
    // more.
    for (const { steps, whole } of this.#groups.values()) {
      whole.pending = 0;
      const sums = steps.get(index);
      if (sums !== undefined) sums.pending = 0;
    }
    this.#addTo(row, ({ steps, whole }) => [entryOf(steps, index, () => new GroupSums()), whole]);
  }

  addLatest(row: TimelineRow): void {
    this.#addTo(row, ({ latest }) => [latest]);
  }

  read(): TimelineGroup[] {
    return [...this.#groups.values()].map((group) => this.#read(group));
  }

  #addTo(
    { sources, destinations, commits }: TimelineRow,
    sumsOf: (group: Group) => readonly GroupSums[],
  ): void {
    const { by, source, destination } = this.#query;
    if (this.#isOfAll) for (const sums of sumsOf(this.#group({}))) addPairs(sums.commits, commits);
    if (by !== 'destination' && by !== 'endpoint' && destination === undefined) {
      for (const [name, counts] of Object.entries(sources)) {
        if (source !== undefined && name !== source) continue;
        for (const sums of sumsOf(this.#group(by === 'source' ? { source: name } : {})))
          sums.source.add(counts);
      }
    }
    if (by === 'source' || source !== undefined) return;
    for (const [name, counts] of Object.entries(destinations)) {
      if (destination !== undefined && name !== destination) continue;
      const labels = by === undefined ? {} : { destination: name };
      for (const [endpoint, requests] of Object.entries(counts.endpoints ?? {})) {
        const own = by === 'endpoint' ? { ...labels, endpoint } : labels;
        for (const sums of sumsOf(this.#group(own))) sums.endpoint.add(requests);
      }
      if (by === 'endpoint') continue;
      for (const sums of sumsOf(this.#group(labels))) {
        sums.destination.add(counts);
        sums.pending += counts.pending ?? 0;
      }
    }
  }

  #group(labels: GroupLabels): Group {
    return entryOf(this.#groups, JSON.stringify(labels), () => ({
      labels,
      steps: new Map(),
      whole: new GroupSums(),
      latest: new GroupSums(),
    }));
  }

  #read({ labels, steps, whole, latest }: Group): TimelineGroup {
    const { from, to, step } = this.#query;
    const wanted = this.#query.series.filter((series) => this.#isOf(series));
    const empty = new GroupSums();
    const points = Array.from({ length: (to - from) / step }, (_, index) =>
      this.#known.has(index) ? (steps.get(index) ?? empty) : undefined,
    );
    const each = <Value>(valueFor: (series: TimelineSeries) => Value) =>
      Object.fromEntries(wanted.map((series) => [series, valueFor(series)]));
    return {
      ...labels,
      totals: each((series) => whole.valueOf(series)),
      series: each((series) => points.map((sums) => sums?.valueOf(series) ?? null)),
      now: each((series) => rateOf(latest.valueOf(series), series)),
      reasons: whole.reasons(),
    };
  }

  /** One group for everything, with no filter. */
  get #isOfAll(): boolean {
    const { by, source, destination } = this.#query;
    return by === undefined && source === undefined && destination === undefined;
  }

  #isOf(series: TimelineSeries): boolean {
    const { by, source } = this.#query;
    if (OF_COMMITS.includes(series)) return this.#isOfAll;
    if (by === 'endpoint') return OF_REQUESTS.includes(series);
    if (by === 'source' || source !== undefined) return OF_SOURCES.includes(series);
    return this.#isOfAll || !OF_SOURCES.includes(series);
  }
}

function rateOf(value: number | null, series: TimelineSeries): number | null {
  return value === null || GAUGES.includes(series) ? value : (value * SECOND) / SAMPLE_INTERVAL;
}
