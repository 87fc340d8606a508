import catalogue from '../../../spec/errors.json' with { type: 'json' };
import type { Attempt, Decision } from '../model/delivery.ts';
import type { Position } from '../model/event.ts';
import { LatencyHistogram } from '../model/latency-histogram.ts';
import { type Duration, HOUR, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { EventLog } from '../ports/event-log.ts';
import type {
  AcceptanceRecorder,
  DeliveryRecorder,
  DestinationFlow,
  FlowCounters,
  InvariantRecorder,
  MetricsRecorder,
  TraceContexts,
} from '../ports/telemetry.ts';
import type { HistogramSample, MetricLabels, MetricSample } from './prometheus.ts';

/** A commit takes one sync: from a fast disk to one that is about to fail. */
const COMMIT_BOUNDS: readonly Duration[] = [
  ...[0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500],
  ...[SECOND, 2.5 * SECOND, 5 * SECOND, 10 * SECOND],
];

/** Histogram bounds, up to the time limit of a request and a little beyond. */
const ATTEMPT_BOUNDS: readonly Duration[] = [
  ...[2.5, 5, 10, 25, 50, 100, 250, 500],
  ...[SECOND, 2.5 * SECOND, 5 * SECOND, 10 * SECOND],
];

/** Histogram bounds, from a delivery at the first try to the end of the retry window. */
const DELIVERY_BOUNDS: readonly Duration[] = [
  ...[5, 10, 25, 50, 100, 250, 500],
  ...[SECOND, 2.5 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND],
  ...[MINUTE, 5 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR],
];

interface Counter {
  readonly labels: MetricLabels;
  n: number;
}

/**
 * In-memory counters and histograms for the metrics page. They are lost on restart, as Prometheus expects of
 * counters. Labels never come from clients or endpoints, so their number is bounded.
 */
export class MetricsRegistry implements MetricsRecorder, AcceptanceRecorder, FlowCounters, InvariantRecorder {
  readonly commits = new Histogram(COMMIT_BOUNDS);
  failedCommits = 0;
  /** By the first digit of the status. */
  readonly #answers = new Float64Array(10);
  /** Every code of a refused request is there from the beginning, so that the first one shows as a rise. */
  readonly #refused = new Map(Object.keys(catalogue.request).map((code) => [code, 0]));
  readonly #destinations = new Map<number, DestinationMetrics>();
  readonly acceptance = new Map<number, LatencyHistogram>();
  readonly commitLatency = new LatencyHistogram();

  /** How often each invariant did not hold without ending the process. */
  readonly #failedInvariants = new Map<string, number>();

  invariantFailed(text: string): boolean {
    const before = this.#failedInvariants.get(text) ?? 0;
    this.#failedInvariants.set(text, before + 1);
    return before === 0;
  }

  failedInvariants(): number {
    let sum = 0;
    for (const n of this.#failedInvariants.values()) sum += n;
    return sum;
  }

  requestAnswered(status: number, code: string | undefined): void {
    this.#answers[(status / 100) | 0]!++;
    if (code !== undefined) this.#refused.set(code, (this.#refused.get(code) ?? 0) + 1);
  }

  callsStored(source: number, took: Duration, calls: number): void {
    let histogram = this.acceptance.get(source);
    if (histogram === undefined) {
      histogram = new LatencyHistogram();
      this.acceptance.set(source, histogram);
    }
    histogram.add(took, calls);
  }

  committed(took: Duration, isStored: boolean): void {
    if (isStored) {
      this.commits.add(took);
      this.commitLatency.add(took);
    } else this.failedCommits++;
  }

  forDestination(destination: number): DestinationMetrics {
    let counts = this.#destinations.get(destination);
    if (counts === undefined) {
      counts = new DestinationMetrics();
      this.#destinations.set(destination, counts);
    }
    return counts;
  }

  get flows(): ReadonlyMap<number, DestinationFlow> {
    return this.#destinations;
  }

  /** By id. */
  get destinations(): ReadonlyMap<number, DestinationMetrics> {
    return this.#destinations;
  }

  answers(): MetricSample[] {
    return [2, 3, 4, 5].map((digit) => ({ labels: { status: `${digit}xx` }, value: this.#answers[digit]! }));
  }

  refused(): MetricSample[] {
    return Array.from(this.#refused, ([code, value]) => ({ labels: { code }, value }));
  }
}

export class DestinationMetrics implements DeliveryRecorder, DestinationFlow {
  readonly requests = new Histogram(ATTEMPT_BOUNDS);
  readonly deliveries = new Histogram(DELIVERY_BOUNDS);
  /**
   * By the reason of the outcome; statuses of one class share their labels and are added up when they are
   * read.
   */
  readonly #attempts = new Map<string, Counter>();
  readonly latency = new LatencyHistogram();
  readonly endpoints = new Map<string, EndpointCounts>();
  retried = 0;

  attemptEnded(
    arrivedAt: Monotonic | undefined,
    attempts: readonly Attempt[],
    decision: Decision,
    now: Monotonic,
  ): void {
    for (const { outcome, latencyMs, endpoint } of attempts) {
      this.requests.add(latencyMs);
      this.#countRequest(endpoint, outcome);
      const counter = this.#attempts.get(outcome.reason);
      if (counter !== undefined) counter.n++;
      else this.#attempts.set(outcome.reason, { labels: labelsOf(outcome), n: 1 });
    }
    if (decision.kind === 'retry') this.retried++;
    if (decision.kind !== 'delivered' || arrivedAt === undefined) return;
    const took = Math.max(0, now - arrivedAt);
    this.deliveries.add(took);
    this.latency.add(took);
  }

  #countRequest(endpoint: string, { kind, reason }: Attempt['outcome']): void {
    let counts = this.endpoints.get(endpoint);
    if (counts === undefined) {
      counts = { accepted: 0, failed: new Map() };
      this.endpoints.set(endpoint, counts);
    }
    if (kind === 'accepted') counts.accepted++;
    else counts.failed.set(reason, (counts.failed.get(reason) ?? 0) + 1);
  }

  attempts(labels: MetricLabels): MetricSample[] {
    const sums = new Map<string, MetricSample>();
    for (const { labels: own, n } of this.#attempts.values()) {
      const key = Object.values(own).join(' ');
      sums.set(key, { labels: { ...labels, ...own }, value: (sums.get(key)?.value ?? 0) + n });
    }
    return [...sums.values()];
  }
}

interface EndpointCounts {
  accepted: number;
  readonly failed: Map<string, number>;
}

/** Statuses by class: an endpoint may answer with any of nine hundred. */
function labelsOf({ kind, reason }: Attempt['outcome']): MetricLabels {
  return { outcome: kind, reason: reasonLabel(reason) };
}

/** `status_404` → `status_4xx`. */
export function reasonLabel(reason: string): string {
  return reason.replace(/^(status_\d)\d\d$/, '$1xx');
}

/** Wraps the log to measure each commit. Costs one promise per commit and nothing per event. */
export function instrumentLog(
  log: Pick<EventLog, 'append'>,
  measures: Pick<MetricsRecorder, 'committed'>,
  clock: Pick<Clock, 'elapsed'>,
): Pick<EventLog, 'append'> {
  return {
    append: async (batch) => {
      const askedAt = clock.elapsed();
      let isStored = false;
      try {
        const appended = await log.append(batch);
        isStored = true;
        return appended;
      } finally {
        measures.committed(clock.elapsed() - askedAt, isStored);
      }
    },
  };
}

/**
 * Events whose traces are kept, in a few megabytes. Older events, and those from before a restart, have none.
 */
const MAX_TRACEPARENTS = 10_000;

/**
 * Kept apart from the event: an event is the client's data and goes to customers, a trace belongs to one
 * request.
 */
export class RecentTraceparents implements TraceContexts {
  readonly #byPosition = new Map<Position, string>();

  set(position: Position, traceparent: string): void {
    this.#byPosition.set(position, traceparent);
    if (this.#byPosition.size <= MAX_TRACEPARENTS) return;
    const [oldest] = this.#byPosition.keys();
    if (oldest !== undefined) this.#byPosition.delete(oldest);
  }

  get(position: Position): string | undefined {
    return this.#byPosition.size === 0 ? undefined : this.#byPosition.get(position);
  }
}

const SECONDS = 1000;

/** A histogram of durations. Adding one costs a short scan and two additions. */
export class Histogram {
  readonly #bounds: readonly Duration[];
  /** One more than there are bounds; the last counts durations above all of them. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** `bounds` in milliseconds, rising. */
  constructor(bounds: readonly Duration[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  add(duration: Duration): void {
    const bounds = this.#bounds;
    let place = 0;
    while (place < bounds.length && duration > bounds[place]!) place++;
    this.#counts[place]!++;
    this.#sum += duration;
  }

  /** In seconds, the unit of Prometheus. */
  read(labels: MetricLabels): HistogramSample {
    let count = 0;
    const buckets = this.#bounds.map((bound, place) => {
      count += this.#counts[place]!;
      return { atMost: bound / SECONDS, n: count };
    });
    count += this.#counts[this.#bounds.length]!;
    return { labels, buckets, sum: this.#sum / SECONDS, count };
  }
}
