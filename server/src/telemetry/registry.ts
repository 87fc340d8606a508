import catalogue from '../../../spec/errors.json' with { type: 'json' };
import type { Attempt, Decision } from '../model/delivery.ts';
import { type Duration, HOUR, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { DeliveryRecorder, MetricsRecorder } from '../ports/telemetry.ts';
import { Histogram, type MetricLabels, type MetricSample } from './prometheus.ts';

/** A commit costs a sync: from a fast disk to one that is about to fail. */
const COMMIT_BOUNDS: readonly Duration[] = [
  ...[0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500],
  ...[SECOND, 2.5 * SECOND, 5 * SECOND, 10 * SECOND],
];

/** Up to the time limit of a request and a little beyond. */
const ATTEMPT_BOUNDS: readonly Duration[] = [
  ...[2.5, 5, 10, 25, 50, 100, 250, 500],
  ...[SECOND, 2.5 * SECOND, 5 * SECOND, 10 * SECOND],
];

/** From the healthy path to the end of the retry window. */
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
 * Numbers in memory that begin at zero with every start, which is what Prometheus expects of a counter. The names they are
 * counted under are of this program's own words, so their number is bounded whatever clients and endpoints do.
 */
export class MetricsRegistry implements MetricsRecorder {
  readonly commits = new Histogram(COMMIT_BOUNDS);
  failedCommits = 0;
  /** By the first digit of the status. */
  readonly #answers = new Float64Array(10);
  /** Those of a refused request are there from the beginning, so that the first of a kind shows as a rise. */
  readonly #refused = new Map(Object.keys(catalogue.request).map((code) => [code, 0]));
  readonly #destinations = new Map<number, DestinationMetrics>();

  requestAnswered(status: number, code: string | undefined): void {
    this.#answers[(status / 100) | 0]!++;
    if (code !== undefined) this.#refused.set(code, (this.#refused.get(code) ?? 0) + 1);
  }

  committed(took: Duration, isStored: boolean): void {
    if (isStored) this.commits.add(took);
    else this.failedCommits++;
  }

  forDestination(destination: number): DestinationMetrics {
    let counts = this.#destinations.get(destination);
    if (counts === undefined) {
      counts = new DestinationMetrics();
      this.#destinations.set(destination, counts);
    }
    return counts;
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

export class DestinationMetrics implements DeliveryRecorder {
  readonly requests = new Histogram(ATTEMPT_BOUNDS);
  readonly deliveries = new Histogram(DELIVERY_BOUNDS);
  /** By what the outcome is called; statuses of one class share their labels and are added up when they are read. */
  readonly #attempts = new Map<string, Counter>();

  attemptEnded(arrivedAt: Monotonic, attempts: readonly Attempt[], decision: Decision, now: Monotonic): void {
    for (const { outcome, latencyMs } of attempts) {
      this.requests.add(latencyMs);
      const counter = this.#attempts.get(outcome.reason);
      if (counter !== undefined) counter.n++;
      else this.#attempts.set(outcome.reason, { labels: labelsOf(outcome), n: 1 });
    }
    if (decision.kind === 'delivered') this.deliveries.add(Math.max(0, now - arrivedAt));
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

/** Of statuses only the class: an endpoint may answer with any of nine hundred. */
function labelsOf({ kind, reason }: Attempt['outcome']): MetricLabels {
  return { outcome: kind, reason: reasonLabel(reason) };
}

/** `status_404` → `status_4xx`. */
export function reasonLabel(reason: string): string {
  return reason.replace(/^(status_\d)\d\d$/, '$1xx');
}

/** The same log, and how long each of its commits takes is measured. Costs a commit one promise, and an event nothing. */
export function instrumentLog(
  log: Pick<EventLog, 'append'>,
  measures: Pick<MetricsRecorder, 'committed'>,
): Pick<EventLog, 'append'> {
  return {
    append: async (batch) => {
      // A commit may take less than a millisecond, which is as fine as the clock of the program goes.
      const askedAt = performance.now();
      let isStored = false;
      try {
        const appended = await log.append(batch);
        isStored = true;
        return appended;
      } finally {
        measures.committed(performance.now() - askedAt, isStored);
      }
    },
  };
}
