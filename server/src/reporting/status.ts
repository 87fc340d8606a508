import type { DestinationState } from '../delivery/contract.ts';
import type { Destination } from '../model/destination.ts';
import { type Duration, isoTime, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeliveryHistories, DeliveryQueue, QueueStats } from '../ports/delivery-queue.ts';
import type { Damage, EventLog, LogSize } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type {
  DestinationErrorView,
  DestinationStatus,
  DiscardReport,
  DiscardSample,
  EndpointOverview,
  EndpointStatus,
  LaneOverview,
  LedgerReport,
  LogOverview,
  Overview,
  Trace,
  UnattributedCalls,
} from './contract.ts';
import { DiscardSamples, UnattributedCallCounters, WriteKeyRedactor } from './discards.ts';
import { LedgerCheck, ledgerReport } from './ledger.ts';
import { traceMessage } from './trace.ts';

export interface OverviewFacts {
  readonly at: Time;
  readonly startedAt: Time;
  readonly ledger: LedgerReport;
  readonly settings: SettingsSnapshot;
  /** What is on disk and in memory, and how the lanes are doing. */
  readonly lanes: readonly QueueStats[];
  readonly reports: readonly DestinationState[];
  readonly callsOfNoSource: UnattributedCalls;
  /** The latest first. */
  readonly discards: readonly DiscardSample[];
  readonly size: LogSize;
  /** How long events are kept. */
  readonly retention: Duration;
}

function overviewOf(facts: OverviewFacts): Overview {
  const { at, startedAt, ledger: statement, settings, callsOfNoSource, size } = facts;
  const stats = new Map(facts.lanes.map((stat) => [stat.destination, stat]));
  const reports = new Map(facts.reports.map((report) => [report.destination, report]));
  const lanes = settings.destinations.map(
    ({ id, name }) => [name, laneOverview(stats.get(id), reports.get(id), facts.retention)] as const,
  );
  const { events, bytes, oldestAt, damage } = size;
  return {
    at: isoTime(at),
    startedAt: isoTime(startedAt),
    ...statement,
    lanes: Object.fromEntries(lanes),
    callsOfNoSource,
    discards: latestByReason(facts.discards),
    log: {
      events,
      bytes,
      ...(oldestAt === undefined ? {} : { oldestAt: isoTime(oldestAt) }),
      ...(damage === undefined ? {} : { damage: damageView(damage) }),
    },
  };
}

function damageView({ events, deliveries, foundAt }: Damage): NonNullable<LogOverview['damage']> {
  return { events, deliveries, ...(foundAt === undefined ? {} : { foundAt: isoTime(foundAt) }) };
}

function latestByReason(samples: readonly DiscardSample[]): readonly DiscardSample[] {
  const seen = new Set<string>();
  return samples.filter(({ source, reason }) => {
    const key = JSON.stringify([reason, source]);
    return !seen.has(key) && seen.add(key);
  });
}

/** A destination without a lane gets nothing, whatever the reason. */
function laneOverview(
  stat: QueueStats | undefined,
  report: DestinationState | undefined,
  retention: Duration,
): LaneOverview {
  const { held = 0, onDisk = 0, retrying = 0, nextDueAt, oldestAt } = stat ?? {};
  const { state = 'disabled', nextProbeAt, failingSince, lastError, endpoints = [] } = report ?? {};
  return {
    state,
    held,
    onDisk,
    retrying,
    ...(oldestAt === undefined
      ? {}
      : {
          oldestPendingAt: isoTime(oldestAt),
          oldestKeptUntil: isoTime(Math.min(oldestAt + retention, MAX_TIME)),
        }),
    ...(nextDueAt === undefined ? {} : { nextDueAt: isoTime(nextDueAt) }),
    ...(nextProbeAt === undefined ? {} : { nextProbeAt: isoTime(nextProbeAt) }),
    ...(failingSince === undefined ? {} : { failingSince: isoTime(failingSince) }),
    ...(lastError === undefined ? {} : { lastError: lastErrorView(lastError) }),
    endpoints: endpoints.map(endpointOverview),
  };
}

/** Without its counts and its history, which `statusOf` has. */
function endpointOverview({
  endpoint,
  state,
  since,
  lastError,
}: DestinationState['endpoints'][number]): EndpointOverview {
  return {
    ...{ endpoint, state },
    ...(since === undefined ? {} : { since: isoTime(since) }),
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: isoTime(lastError.at) } }),
  };
}

function lastErrorView({
  reason,
  endpoint,
  at,
}: NonNullable<DestinationState['lastError']>): DestinationErrorView {
  return { reason, endpoint, at: isoTime(at) };
}

/** The last time that a date can be; `retention` may be any length. */
const MAX_TIME: Time = 8.64e15;

export interface ReportServiceDependencies {
  readonly backlog: Pick<DeliveryQueue, 'ledger' | 'stats'>;
  readonly log: Pick<EventLog, 'size' | 'find' | 'read' | 'damaged'>;
  readonly history: DeliveryHistories;
  /** The records as they are now; they give the ledger its names. */
  readonly settings: () => SettingsSnapshot;
  readonly lanes: () => readonly DestinationState[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long events are kept. */
  readonly retention: Duration;
}

/** What the server can say about itself, and the check that looks without being asked. It changes nothing. */
export class ReportService {
  readonly tallies = new UnattributedCallCounters();
  readonly samples: DiscardSamples;
  readonly #tools: ReportServiceDependencies;
  readonly #check: LedgerCheck;
  readonly #startedAt: Time;

  constructor(tools: ReportServiceDependencies) {
    this.#tools = tools;
    this.samples = new DiscardSamples(new WriteKeyRedactor(() => tools.settings().sources));
    this.#check = new LedgerCheck({ ...tools, ledger: () => this.ledger() });
    this.#startedAt = tools.clock.now();
  }

  start(): void {
    this.#check.start();
  }

  /** Stop it before the store. Idempotent. */
  stop(): Promise<void> {
    return this.#check.stop();
  }

  /** The ledger as it is now. Rejects with a `StorageError`. */
  async ledger(): Promise<LedgerReport> {
    const { backlog, settings } = this.#tools;
    return ledgerReport(await backlog.ledger(), settings());
  }

  /** The whole life of a messageId, or as much of it as one source made. Rejects with a `StorageError`. */
  trace(messageId: string, source?: string): Promise<Trace> {
    return traceMessage(messageId, source, { ...this.#tools, samples: () => this.samples.read() });
  }

  /** The last calls of every source that were discarded, the latest first. */
  async discards(): Promise<DiscardReport> {
    return { data: this.samples.read() };
  }

  /**
   * The ledger with its surroundings. Only the ledger is of one moment; the rest is read right after it.
   * Rejects with a `StorageError`.
   */
  async overview(): Promise<Overview> {
    const { backlog, log, settings, clock, retention, lanes: reports } = this.#tools;
    const [statement, lanes, size] = await Promise.all([this.ledger(), backlog.stats(), log.size()]);
    return overviewOf({
      at: clock.now(),
      startedAt: this.#startedAt,
      ledger: statement,
      settings: settings(),
      lanes,
      reports: reports(),
      callsOfNoSource: this.tallies.read(),
      discards: this.samples.read(),
      size,
      retention,
    });
  }

  /** How one destination does, and the sums of what it was owed. Rejects with a `StorageError`. */
  readonly statusOf = async ({ id, name }: Pick<Destination, 'id' | 'name'>): Promise<DestinationStatus> => {
    const [{ destinations }, lanes] = await Promise.all([this.ledger(), this.#tools.backlog.stats()]);
    const { pending = 0, dead = {}, delivered = 0 } = destinations[name] ?? {};
    const stat = lanes.find(({ destination }) => destination === id);
    const report = this.#tools.lanes().find(({ destination }) => destination === id);
    const lane = laneOverview(stat, report, this.#tools.retention);
    const {
      state,
      retrying,
      oldestPendingAt,
      oldestKeptUntil,
      nextDueAt,
      nextProbeAt,
      failingSince,
      lastError,
    } = lane;
    const nextAttemptAt = nextProbeAt ?? nextDueAt;
    return {
      ...{ state, pending, retrying, delivered },
      dead: Object.values(dead).reduce((sum, n) => sum + n, 0),
      ...(oldestPendingAt === undefined ? {} : { oldestPendingAt }),
      ...(oldestKeptUntil === undefined ? {} : { oldestKeptUntil }),
      ...(nextAttemptAt === undefined ? {} : { nextAttemptAt }),
      ...(failingSince === undefined ? {} : { failingSince }),
      ...(lastError === undefined ? {} : { lastError }),
      endpoints: (report?.endpoints ?? []).map(endpointStatus),
    };
  };
}

function endpointStatus(report: DestinationState['endpoints'][number]): EndpointStatus {
  const { lastAcceptedAt, attempts, history } = report;
  return {
    ...endpointOverview(report),
    ...(lastAcceptedAt === undefined ? {} : { lastAcceptedAt: isoTime(lastAcceptedAt) }),
    attempts,
    history: history.map((change) => ({ ...change, at: isoTime(change.at) })),
  };
}
