import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import { type Clock, elapsedSince } from '../ports/clock.ts';
import type { DeliveryQueue, QueueStats } from '../ports/delivery-queue.ts';
import type { EventLog, LogSize } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { LedgerReport, UnattributedCalls } from '../reporting/contract.ts';
import {
  counter,
  deliveryMetrics,
  endpointMetrics,
  gauge,
  type LaneFacts,
  laneMetrics,
  ledgerMetrics,
} from './families.ts';
import { formatMetrics, type MetricFamily } from './prometheus.ts';
import type { MetricsRegistry } from './registry.ts';

/** How often the loop is looked at, in milliseconds. */
const LOOP_RESOLUTION = 20;

/** A reading covers at least so long, however often it is asked for: two who ask must not halve what the other sees. */
const MIN_WINDOW = 10 * SECOND;

const NANOSECONDS = 1e9;

/** How late what is due runs in the main thread, in seconds. */
export interface EventLoopDelay {
  readonly p50: number;
  readonly p99: number;
}

/** Watches the event loop from `start` to `stop`; it costs a timer. */
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

  /** Since the last reading that is at least ten seconds old. */
  delay(): EventLoopDelay {
    const reading = { p50: this.#percentile(50), p99: this.#percentile(99) };
    if (this.#clock.monotonic() - this.#since >= MIN_WINDOW) {
      this.#delays.reset();
      this.#since = this.#clock.monotonic();
    }
    return reading;
  }

  /** What Node measures is from one look to the next, of which the pause between them is no delay. */
  #percentile(percent: number): number {
    const seconds = this.#delays.percentile(percent) / NANOSECONDS;
    return Math.max(0, seconds - LOOP_RESOLUTION / SECOND);
  }
}

export interface DiskUse {
  /** Of the files in the data folder. */
  readonly used: number;
  /** Left to this process on the file system of the data folder. */
  readonly free: number;
  readonly size: number;
}

/** Bytes. Rejects where the folder cannot be read. */
async function diskUse(folder: string): Promise<DiskUse> {
  const { bsize, blocks, bavail } = await statfs(folder);
  let used = 0;
  for (const file of await readdir(folder)) {
    // A file of a moment ago may be gone; others are directories, of which there are none of ours.
    used += await stat(join(folder, file)).then(
      (facts) => (facts.isFile() ? facts.size : 0),
      () => 0,
    );
  }
  return { used, free: bavail * bsize, size: blocks * bsize };
}

export interface MetricsPageDependencies {
  /** What is counted as it happens. */
  readonly counts: MetricsRegistry;
  readonly ledger: () => Promise<LedgerReport>;
  readonly backlog: Pick<DeliveryQueue, 'stats'>;
  readonly log: Pick<EventLog, 'size'>;
  readonly settings: () => SettingsSnapshot;
  /** Every destination as its lanes are now. */
  readonly lanes: () => readonly LaneFacts[];
  readonly callsOfNoSource: () => UnattributedCalls;
  /** Why calls cannot be accepted now; empty when they can. */
  readonly readiness: () => readonly string[];
  readonly clock: Clock;
  /** How long events are kept. */
  readonly retention: Duration;
  /** The data folder. */
  readonly folder: string;
  /** Of the program. */
  readonly version: string;
}

/**
 * A page younger than this is given out again: whoever asks a thousand times a second reads the store as often as whoever
 * asks once.
 */
const PAGE_LIFETIME = SECOND;

/** The page that Prometheus reads. It is put together when it is asked for, and until then nothing but numbers is kept. */
export class MetricsPage {
  readonly #tools: MetricsPageDependencies;
  readonly #loop: EventLoopMonitor;
  #page: { readonly at: Monotonic; readonly text: Promise<string> } | undefined;

  constructor(tools: MetricsPageDependencies) {
    this.#tools = tools;
    this.#loop = new EventLoopMonitor(tools.clock);
  }

  start(): void {
    this.#loop.start();
  }

  /** Idempotent. */
  async stop(): Promise<void> {
    this.#loop.stop();
  }

  /** In the text format. What the store cannot say now is missing from it, and `millrace_store_readable` is 0. */
  readonly text = (): Promise<string> => {
    const now = this.#tools.clock.monotonic();
    if (this.#page === undefined || now - this.#page.at >= PAGE_LIFETIME) {
      this.#page = { at: now, text: this.#make() };
    }
    return this.#page.text;
  };

  async #make(): Promise<string> {
    const { counts, readiness, folder, callsOfNoSource } = this.#tools;
    const [stored, disk] = await Promise.all([this.#readStore(), diskUse(folder).catch(() => undefined)]);
    const lanes = this.#named(this.#correctedLanes());
    return formatMetrics([
      ...(stored === undefined ? [] : this.#ofStore(stored)),
      ...laneMetrics(lanes, this.#tools.clock.now()),
      ...endpointMetrics(lanes, this.#tools.clock.now()),
      ...deliveryMetrics(this.#namedCounts()),
      ...requestMetrics(counts, callsOfNoSource()),
      singleGauge('millrace_store_readable', '1 when the store could be read for this page.', stored ? 1 : 0),
      singleGauge(
        'millrace_ready',
        '1 when calls can be accepted, as /readyz says.',
        readiness().length === 0 ? 1 : 0,
      ),
      singleGauge(
        'millrace_event_retention_seconds',
        'How long an event is kept.',
        this.#tools.retention / SECOND,
      ),
      ...(disk === undefined ? [] : diskMetrics(disk)),
      ...this.#ofProcess(),
    ]);
  }

  async #readStore(): Promise<StoreReading | undefined> {
    const { ledger, backlog, log } = this.#tools;
    try {
      const [statement, lanes, size] = await Promise.all([ledger(), backlog.stats(), log.size()]);
      return { statement, lanes, size };
    } catch {
      // Whoever writes to the store says why; here it is enough that it shows.
      return undefined;
    }
  }

  #ofStore({ statement, lanes, size }: StoreReading): MetricFamily[] {
    const now = this.#tools.clock.monotonic();
    const oldest = new Map(lanes.map(({ destination, oldestAt = now }) => [destination, oldestAt]));
    const ages = this.#tools.settings().destinations.map(({ id, name }) => ({
      labels: { destination: name },
      value: Math.max(0, now - (oldest.get(id) ?? now)) / SECOND,
    }));
    return [
      ...ledgerMetrics(statement),
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

  /** As if the wall clock had not been set since they began to fail: it must not raise an alarm. */
  #correctedLanes(): readonly LaneFacts[] {
    const { lanes, clock } = this.#tools;
    const corrected = (since: Time) => clock.now() - elapsedSince(since, clock);
    return lanes().map(({ failingSince, endpoints, ...lane }) => ({
      ...lane,
      ...(failingSince === undefined ? {} : { failingSince: corrected(failingSince) }),
      endpoints: endpoints.map(({ since, ...endpoint }) =>
        since === undefined ? endpoint : { ...endpoint, since: corrected(since) },
      ),
    }));
  }

  #named(lanes: readonly LaneFacts[]): readonly (readonly [string, LaneFacts])[] {
    const byId = new Map(lanes.map((lane) => [lane.destination, lane]));
    return this.#tools.settings().destinations.flatMap(({ id, name }) => {
      const lane = byId.get(id);
      return lane === undefined ? [] : [[name, lane] as const];
    });
  }

  #namedCounts() {
    const { counts, settings } = this.#tools;
    const { destinations } = settings();
    return destinations.map(({ id, name }) => [name, counts.forDestination(id)] as const);
  }

  #ofProcess(): MetricFamily[] {
    const { p50, p99 } = this.#loop.delay();
    const { user, system } = process.cpuUsage();
    const labels = { version: this.#tools.version, node: process.versions.node };
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
  readonly statement: LedgerReport;
  readonly lanes: readonly QueueStats[];
  readonly size: LogSize;
}

function requestMetrics(counts: MetricsRegistry, { discarded, clock }: UnattributedCalls): MetricFamily[] {
  const reasons = Object.entries(discarded).map(([reason, value]) => ({ labels: { reason }, value }));
  return [
    counter('millrace_requests_total', 'Requests of the receiving API by class of status.', counts.answers()),
    counter(
      'millrace_refused_requests_total',
      'Requests of the receiving API that were refused, by code.',
      counts.refused(),
    ),
    counter(
      'millrace_unattributed_calls_total',
      'Calls that were discarded and no source can be named for, by reason.',
      reasons,
    ),
    counter('millrace_unused_times_total', 'Times that clients sent and that were not used.', [
      { labels: { reason: 'unparseable' }, value: clock.unparseable },
      { labels: { reason: 'skewed' }, value: clock.skewed },
    ]),
    {
      ...{ name: 'millrace_commit_duration_seconds', type: 'histogram' },
      help: 'From asking the event log to store a group of calls to its being on stable storage.',
      samples: [counts.commits.read({})],
    },
    counter('millrace_failed_commits_total', 'Groups of calls that could not be stored.', [
      { labels: {}, value: counts.failedCommits },
    ]),
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
