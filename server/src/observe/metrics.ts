import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Backlog, LaneStat } from '../ports/backlog.ts';
import { type Clock, passedSince } from '../ports/clock.ts';
import type { EventLog, LogSize } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import type { MetricsCounts } from './metrics-counts.ts';
import { endpointMetrics, type LaneFacts, laneMetrics, roundMetrics } from './metrics-lanes.ts';
import { counter, gauge, ledgerMetrics } from './metrics-ledger.ts';
import { type DiskUse, diskUse, EventLoop } from './metrics-process.ts';
import { type Family, metricsText } from './metrics-text.ts';
import type { Statement } from './statement.ts';
import type { CallsOfNoSource } from './tallies.ts';

export interface MetricsTools {
  /** What is counted as it happens. */
  readonly counts: MetricsCounts;
  readonly ledger: () => Promise<Statement>;
  readonly backlog: Pick<Backlog, 'lanes'>;
  readonly log: Pick<EventLog, 'size'>;
  readonly settings: () => SettingsSnapshot;
  /** Every destination as its lanes are now. */
  readonly lanes: () => readonly LaneFacts[];
  readonly callsOfNoSource: () => CallsOfNoSource;
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
const FRESH = SECOND;

/** The page that Prometheus reads. It is put together when it is asked for, and until then nothing but numbers is kept. */
export class Metrics {
  readonly #tools: MetricsTools;
  readonly #loop: EventLoop;
  #page: { readonly at: Monotonic; readonly text: Promise<string> } | undefined;

  constructor(tools: MetricsTools) {
    this.#tools = tools;
    this.#loop = new EventLoop(tools.clock);
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
    if (this.#page === undefined || now - this.#page.at >= FRESH) {
      this.#page = { at: now, text: this.#make() };
    }
    return this.#page.text;
  };

  async #make(): Promise<string> {
    const { counts, readiness, folder, callsOfNoSource } = this.#tools;
    const [stored, disk] = await Promise.all([this.#stored(), diskUse(folder).catch(() => undefined)]);
    const lanes = this.#named(this.#lanes());
    return metricsText([
      ...(stored === undefined ? [] : this.#ofStore(stored)),
      ...laneMetrics(lanes, this.#tools.clock.now()),
      ...endpointMetrics(lanes, this.#tools.clock.now()),
      ...roundMetrics(this.#namedCounts()),
      ...requestMetrics(counts, callsOfNoSource()),
      one('millrace_store_readable', '1 when the store could be read for this page.', stored ? 1 : 0),
      one(
        'millrace_ready',
        '1 when calls can be accepted, as /readyz says.',
        readiness().length === 0 ? 1 : 0,
      ),
      one('millrace_event_retention_seconds', 'How long an event is kept.', this.#tools.retention / SECOND),
      ...(disk === undefined ? [] : diskMetrics(disk)),
      ...this.#ofProcess(),
    ]);
  }

  async #stored(): Promise<Stored | undefined> {
    const { ledger, backlog, log } = this.#tools;
    try {
      const [statement, lanes, size] = await Promise.all([ledger(), backlog.lanes(), log.size()]);
      return { statement, lanes, size };
    } catch {
      // Whoever writes to the store says why; here it is enough that it shows.
      return undefined;
    }
  }

  #ofStore({ statement, lanes, size }: Stored): Family[] {
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
      one('millrace_stored_events', 'Events in the log.', size.events),
      one('millrace_store_bytes', "Of the store's file.", size.bytes),
      one(
        'millrace_damaged_events',
        'Events that cannot be read, because their bytes have changed on the disk.',
        size.damage?.events ?? 0,
      ),
      one(
        'millrace_damaged_deliveries',
        'Deliveries of which only the number can be read, for the same reason.',
        size.damage?.deliveries ?? 0,
      ),
    ];
  }

  /** As if the wall clock had not been set since they began to fail: it must not raise an alarm. */
  #lanes(): readonly LaneFacts[] {
    const { lanes, clock } = this.#tools;
    const corrected = (since: Time) => clock.now() - passedSince(since, clock);
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
    return destinations.map(({ id, name }) => [name, counts.ofDestination(id)] as const);
  }

  #ofProcess(): Family[] {
    const { p50, p99 } = this.#loop.delay();
    const { user, system } = process.cpuUsage();
    const labels = { version: this.#tools.version, node: process.versions.node };
    return [
      one(
        'millrace_event_loop_delay_p50_seconds',
        'How late the main thread runs what is due: half of it.',
        p50,
      ),
      one(
        'millrace_event_loop_delay_p99_seconds',
        'How late the main thread runs what is due: all but 1 %.',
        p99,
      ),
      gauge('millrace_build_info', 'Always 1; the labels say what runs.', [{ labels, value: 1 }]),
      one('process_resident_memory_bytes', 'Resident memory of the process.', process.memoryUsage.rss()),
      one(
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

interface Stored {
  readonly statement: Statement;
  readonly lanes: readonly LaneStat[];
  readonly size: LogSize;
}

function requestMetrics(counts: MetricsCounts, { discarded, clock }: CallsOfNoSource): Family[] {
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

function diskMetrics({ used, free, size }: DiskUse): Family[] {
  return [
    one('millrace_data_bytes', 'Of the files in the data folder.', used),
    one('millrace_disk_free_bytes', 'Free on the disk of the data folder.', free),
    one('millrace_disk_size_bytes', 'Size of the disk of the data folder.', size),
  ];
}

function one(name: string, help: string, value: number): Family {
  return gauge(name, help, [{ labels: {}, value }]);
}
