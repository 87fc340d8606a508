import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { AlertHealth } from '../alerts/contract.ts';
import type { DestinationState } from '../delivery/contract.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import { type Clock, elapsedSince } from '../ports/clock.ts';
import type { DeliveryQueue, QueueStats } from '../ports/delivery-queue.ts';
import type { DiskUse, ReadDiskUse } from '../ports/disk-use.ts';
import type { EventLog, LogSize } from '../ports/event-log.ts';
import type { Nodes } from '../ports/nodes.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { ValueChanges } from '../ports/telemetry.ts';
import type { RegulationHealth } from '../regulations/contract.ts';
import type { LedgerReport, UnattributedCalls } from '../reporting/contract.ts';
import type { UsersHealth } from '../users/contract.ts';
import {
  alertMetrics,
  counter,
  deliveryMetrics,
  destinationMetrics,
  endpointMetrics,
  gauge,
  ledgerMetrics,
  nodeMetrics,
  regulationMetrics,
  suppressionMetric,
  userMetrics,
} from './families.ts';
import { formatMetrics, type MetricFamily } from './prometheus.ts';
import type { MetricsRegistry } from './registry.ts';

/** The pause between two samples of the event loop, in milliseconds. */
const LOOP_RESOLUTION = 20;

/** The least time one reading covers, so that two scrapers do not halve each other's readings. */
const MIN_WINDOW = 10 * SECOND;

const NANOSECONDS = 1e9;

/** How late timers run on the main thread, in seconds. */
export interface EventLoopDelay {
  readonly p50: number;
  readonly p99: number;
}

/** Measures the delay of the event loop between `start` and `stop`, at the cost of one timer. */
export class EventLoopMonitor {
  readonly #clock: Clock;
  readonly #delays = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION });
  #since: Monotonic = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  start(): void {
    this.#since = this.#clock.monotonic();
    this.#delays.enable();
  }

  stop(): void {
    this.#delays.disable();
  }

  /** Since the last reset; a reading resets the measurement when it covers ten seconds or more. */
  delay(): EventLoopDelay {
    const reading = { p50: this.#percentile(50), p99: this.#percentile(99) };
    if (this.#clock.monotonic() - this.#since >= MIN_WINDOW) {
      this.#delays.reset();
      this.#since = this.#clock.monotonic();
    }
    return reading;
  }

  /** Node measures from one sample to the next; the pause between them is no delay and is subtracted. */
  #percentile(percent: number): number {
    const seconds = this.#delays.percentile(percent) / NANOSECONDS;
    return Math.max(0, seconds - LOOP_RESOLUTION / SECOND);
  }
}

export interface MetricsPageDependencies {
  readonly registry: MetricsRegistry;
  readonly ledger: () => Promise<LedgerReport>;
  readonly queue: Pick<DeliveryQueue, 'stats'>;
  readonly log: Pick<EventLog, 'size'>;
  /** Absent with the embedded engine. */
  readonly nodes?: Pick<Nodes, 'list' | 'gone' | 'database'> | undefined;
  readonly settings: () => SettingsSnapshot;
  readonly destinationStates: () => readonly DestinationState[];
  readonly callsOfNoSource: () => UnattributedCalls;
  readonly changedValues: () => Readonly<Record<string, ValueChanges>>;
  readonly rateLimitedRequests: () => Readonly<Record<string, number>>;
  readonly publicCalls: () => Readonly<Record<string, number>>;
  readonly users: () => UsersHealth;
  readonly regulations?: () => RegulationHealth;
  readonly alerts?: () => readonly AlertHealth[];
  /** Reasons why calls cannot be accepted now; empty when they can. */
  readonly readiness: () => readonly string[];
  readonly clock: Clock;
  /** How long events are kept. */
  readonly retention: Duration;
  readonly disk: ReadDiskUse;
  /** Version of the program. */
  readonly version: string;
}

/** A page is served again for this long, so that frequent requests do not read the store more often. */
const PAGE_LIFETIME = SECOND;

/** The page that Prometheus reads. It is made on request; between requests only counters are kept. */
export class MetricsPage {
  readonly #dependencies: MetricsPageDependencies;
  readonly #loop: EventLoopMonitor;
  #page: { readonly at: Monotonic; readonly text: Promise<string> } | undefined;

  constructor(dependencies: MetricsPageDependencies) {
    this.#dependencies = dependencies;
    this.#loop = new EventLoopMonitor(dependencies.clock);
  }

  start(): void {
    this.#loop.start();
  }

  /** Idempotent. */
  async stop(): Promise<void> {
    this.#loop.stop();
  }

  /**
   * The page as text. While the store cannot be read, its metrics are missing and `millrace_store_readable`
   * is 0.
   */
  readonly text = (): Promise<string> => {
    const now = this.#dependencies.clock.monotonic();
    if (this.#page === undefined || now - this.#page.at >= PAGE_LIFETIME) {
      this.#page = { at: now, text: this.#make() };
    }
    return this.#page.text;
  };

  async #make(): Promise<string> {
    const { registry, readiness, callsOfNoSource, users, regulations, clock } = this.#dependencies;
    const { alerts = () => [] } = this.#dependencies;
    const [stored, disk] = await Promise.all([this.#readStore(), this.#dependencies.disk()]);
    const destinations = this.#named(this.#correctedStates());
    const now = clock.now();
    const deletions = regulations?.();
    const ofInstallation = [
      ...(stored === undefined ? [] : this.#storeMetrics(stored)),
      ...(deletions === undefined ? [] : [suppressionMetric(deletions)]),
    ];
    const ofJobs = [
      ...userMetrics(users()),
      ...(deletions === undefined ? [] : regulationMetrics(deletions, now)),
      ...alertMetrics(alerts()),
    ];
    const ofNode = [
      ...destinationMetrics(destinations, now),
      ...endpointMetrics(destinations, now),
      ...deliveryMetrics(this.#namedMetrics()),
      ...requestMetrics(registry, callsOfNoSource()),
      ...sourceMetrics(this.#dependencies),
      counter(
        'millrace_invariant_failed_total',
        'Bugs that were noticed and have stopped a destination, or spoiled a report; 0 is well.',
        [{ labels: {}, value: registry.failedInvariants() }],
      ),
      singleGauge('millrace_store_readable', '1 when the store could be read for this page.', stored ? 1 : 0),
      singleGauge(
        'millrace_ready',
        '1 when calls can be accepted, as /readyz says.',
        readiness().length === 0 ? 1 : 0,
      ),
      singleGauge(
        'millrace_event_retention_seconds',
        'How long an event is kept.',
        this.#dependencies.retention / SECOND,
      ),
      ...(disk === undefined ? [] : diskMetrics(disk)),
      ...this.#processMetrics(),
    ];
    return formatMetrics([
      ...saidOf('Of the installation: the same on every node.', ofInstallation),
      ...saidOf('Of the node that has this job.', ofJobs),
      ...saidOf('Of this node.', ofNode),
    ]);
  }

  async #readStore(): Promise<StoreReading | undefined> {
    const { ledger, queue, log, nodes } = this.#dependencies;
    try {
      const [report, stats, size, all, gone, database] = await Promise.all([
        ledger(),
        queue.stats(),
        log.size(),
        nodes?.list(),
        nodes?.gone(),
        nodes?.database(),
      ]);
      return { report, stats, size, nodes: nodeMetrics(all ?? [], gone ?? [], database) };
    } catch {
      // The parts that write to the store log the reason; the page only shows `millrace_store_readable 0`.
      return undefined;
    }
  }

  #storeMetrics({ report, stats, size, nodes }: StoreReading): MetricFamily[] {
    const now = this.#dependencies.clock.monotonic();
    const oldest = new Map(stats.map(({ destination, oldestAt = now }) => [destination, oldestAt]));
    const ages = this.#dependencies.settings().destinations.map(({ id, name }) => ({
      labels: { destination: name },
      value: Math.max(0, now - (oldest.get(id) ?? now)) / SECOND,
    }));
    return [
      ...ledgerMetrics(report),
      ...nodes,
      gauge(
        'millrace_oldest_pending_age_seconds',
        'Since the oldest pending event arrived; 0 without one.',
        ages,
      ),
      singleGauge('millrace_stored_events', 'Events in the log.', size.events),
      singleGauge('millrace_store_bytes', "Of the store's file.", size.bytes),
      singleGauge(
        'millrace_damaged_events',
        'Events that cannot be read, because their bytes have changed on the disk.',
        size.damage?.events ?? 0,
      ),
      singleGauge(
        'millrace_damaged_deliveries',
        'Deliveries of which only the number can be read, for the same reason.',
        size.damage?.deliveries ?? 0,
      ),
    ];
  }

  /**
   * The states as if the wall clock had not been set since a failure began: a clock step must not raise an
   * alarm.
   */
  #correctedStates(): readonly DestinationState[] {
    const { destinationStates, clock } = this.#dependencies;
    const corrected = (since: Time | undefined) =>
      since === undefined ? undefined : clock.now() - elapsedSince(since, clock);
    return destinationStates().map((state) => ({
      ...state,
      failingSince: corrected(state.failingSince),
      refusingSince: corrected(state.refusingSince),
      endpoints: state.endpoints.map((endpoint) => ({ ...endpoint, since: corrected(endpoint.since) })),
    }));
  }

  #named(states: readonly DestinationState[]): readonly (readonly [string, DestinationState])[] {
    const byId = new Map(states.map((state) => [state.destination, state]));
    return this.#dependencies.settings().destinations.flatMap(({ id, name }) => {
      const state = byId.get(id);
      return state === undefined ? [] : [[name, state] as const];
    });
  }

  #namedMetrics() {
    const { registry, settings } = this.#dependencies;
    const { destinations } = settings();
    return destinations.map(({ id, name }) => [name, registry.forDestination(id)] as const);
  }

  #processMetrics(): MetricFamily[] {
    const { p50, p99 } = this.#loop.delay();
    const { user, system } = process.cpuUsage();
    const labels = { version: this.#dependencies.version, node: process.versions.node };
    return [
      singleGauge(
        'millrace_event_loop_delay_p50_seconds',
        'How late the main thread runs what is due: half of it.',
        p50,
      ),
      singleGauge(
        'millrace_event_loop_delay_p99_seconds',
        'How late the main thread runs what is due: all but 1 %.',
        p99,
      ),
      gauge('millrace_build_info', 'Always 1; the labels say what runs.', [{ labels, value: 1 }]),
      singleGauge(
        'process_resident_memory_bytes',
        'Resident memory of the process.',
        process.memoryUsage.rss(),
      ),
      singleGauge(
        'process_start_time_seconds',
        'When the process started, in seconds since 1970.',
        Math.round(performance.timeOrigin) / SECOND,
      ),
      counter('process_cpu_seconds_total', 'Processor time of the process.', [
        { labels: {}, value: (user + system) / 1e6 },
      ]),
    ];
  }
}

interface StoreReading {
  readonly report: LedgerReport;
  readonly stats: readonly QueueStats[];
  readonly size: LogSize;
  readonly nodes: readonly MetricFamily[];
}

function requestMetrics(registry: MetricsRegistry, { discarded }: UnattributedCalls): MetricFamily[] {
  const reasons = Object.entries(discarded).map(([reason, value]) => ({ labels: { reason }, value }));
  return [
    counter(
      'millrace_requests_total',
      'Requests of the receiving API by class of status.',
      registry.answers(),
    ),
    counter(
      'millrace_refused_requests_total',
      'Requests of the receiving API that were refused, by code.',
      registry.refused(),
    ),
    counter(
      'millrace_unattributed_calls_total',
      'Calls that were discarded and no source can be named for, by reason.',
      reasons,
    ),
    {
      name: 'millrace_commit_duration_seconds',
      type: 'histogram',
      help: 'From asking the event log to store a group of calls to its being on stable storage.',
      samples: [registry.commits.read({})],
    },
    counter('millrace_failed_commits_total', 'Groups of calls that could not be stored.', [
      { labels: {}, value: registry.failedCommits },
    ]),
  ];
}

/** Metrics by source that are in no ledger. */
function sourceMetrics({
  changedValues,
  rateLimitedRequests,
  publicCalls,
}: Pick<MetricsPageDependencies, 'changedValues' | 'rateLimitedRequests' | 'publicCalls'>): MetricFamily[] {
  return [
    counter(
      'millrace_changed_values_total',
      'Values of accepted calls that were changed, by source and kind of change.',
      Object.entries(changedValues()).flatMap(([source, { counts }]) =>
        Object.entries(counts).map(([change, value]) => ({ labels: { source, change }, value })),
      ),
    ),
    counter(
      'millrace_rate_limited_requests_total',
      'Requests that were answered 429 because a source is over its rate limit, by source.',
      Object.entries(rateLimitedRequests()).map(([source, value]) => ({ labels: { source }, value })),
    ),
    counter(
      'millrace_public_calls_total',
      'Calls of browsers and phones to sources with trust server, whose write keys are public then, by source; at least so many.',
      Object.entries(publicCalls()).map(([source, value]) => ({ labels: { source }, value })),
    ),
  ];
}

function diskMetrics({ used, free, size }: DiskUse): MetricFamily[] {
  return [
    singleGauge('millrace_data_bytes', 'Of the files in the data folder.', used),
    singleGauge('millrace_disk_free_bytes', 'Free on the disk of the data folder.', free),
    singleGauge('millrace_disk_size_bytes', 'Size of the disk of the data folder.', size),
  ];
}

function singleGauge(name: string, help: string, value: number): MetricFamily {
  return gauge(name, help, [{ labels: {}, value }]);
}

/** With whose numbers they are at the end of their help: what is added up over nodes depends on it. */
function saidOf(whose: string, families: readonly MetricFamily[]): MetricFamily[] {
  return families.map((family) => ({ ...family, help: `${family.help} ${whose}` }));
}
