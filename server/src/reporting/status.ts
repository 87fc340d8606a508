import type { Destination } from '../model/destination.ts';
import type { EndpointError, HealthChange } from '../model/endpoint-health.ts';
import type { Duration, Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeliveryHistories, DeliveryQueue, QueueStats } from '../ports/delivery-queue.ts';
import type { Damage, EventLog, LogSize } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { LedgerReport, UnattributedCalls } from './contract.ts';
import {
  type DiscardSample,
  DiscardSamples,
  UnattributedCallCounters,
  WriteKeyRedactor,
} from './discards.ts';
import { LedgerCheck, ledgerReport } from './ledger.ts';
import { type Trace, traceMessage } from './trace.ts';

/** Everything somebody on call wants to see at once: the ledger, and beside it what is no sum. Times are ISO 8601. */
export interface Overview extends LedgerReport {
  /** When this was read, by the server's clock. */
  readonly at: string;
  readonly startedAt: string;
  /** By name of the destination. */
  readonly lanes: Readonly<Record<string, LaneOverview>>;
  /** Since `startedAt`. */
  readonly callsOfNoSource: UnattributedCalls;
  /** One discarded call of every source and reason, the latest; `GET discards` has more of them. */
  readonly discards: readonly DiscardSample[];
  readonly log: {
    readonly events: number;
    /** On disk. */
    readonly bytes: number;
    /** Arrival of the oldest event; absent when there is none. */
    readonly oldestAt?: string;
    /** What was stored and cannot be read any more; absent while everything can. */
    readonly damage?: {
      readonly events: number;
      /** Deliveries of which only the number is known. */
      readonly deliveries: number;
      readonly foundAt?: string;
    };
  };
}

export interface LaneOverview {
  /** `failing`: nothing was delivered since the last failure. */
  readonly state: LaneReport['state'];
  /** Deliveries in memory, about to be sent or under way. */
  readonly held: number;
  readonly onDisk: number;
  /** How many of both were tried before. */
  readonly retrying: number;
  /** When the oldest event arrived of which a delivery is pending. Absent when nothing is pending. */
  readonly oldestPendingAt?: string;
  /** When that event reaches the end of its retention: what is pending of it then is lost, and dead. */
  readonly oldestKeptUntil?: string;
  /** When the first delivery on disk is due. In the past: it has waited since then. Absent when none is on disk. */
  readonly nextDueAt?: string;
  /** When one request asks whether the endpoints are back; until then nothing is sent. */
  readonly nextProbeAt?: string;
  /** When the first of the failures was that no success has followed. */
  readonly failingSince?: string;
  readonly lastError?: { readonly reason: string; readonly endpoint: string; readonly at: string };
  /** In the order of the settings. */
  readonly endpoints: readonly EndpointOverview[];
}

/** How one endpoint does, by every request that was sent to it. */
export interface EndpointOverview {
  /** Its URL without what may be a secret in it. */
  readonly endpoint: string;
  /** By the last request that ended; `healthy` before the first. */
  readonly state: 'healthy' | 'failing';
  /** When the first request of that state ended; absent before the first. */
  readonly since?: string;
  readonly lastError?: EndpointErrorView;
}

export interface EndpointErrorView extends Omit<EndpointError, 'at'> {
  readonly at: string;
}

/** What a lane says about itself. */
export interface LaneReport {
  /** Id of the destination. */
  readonly destination: number;
  readonly state: 'healthy' | 'failing' | 'paused' | 'disabled';
  readonly nextProbeAt?: Time;
  readonly failingSince?: Time;
  /** `endpoint` as `maskUrl` shows it. */
  readonly lastError?: { readonly reason: string; readonly endpoint: string; readonly at: Time };
  readonly endpoints: readonly EndpointReport[];
}

/** What is known of an endpoint. */
export interface EndpointReport {
  readonly endpoint: string;
  /** Short, and the same as long as the settings are. */
  readonly label: string;
  readonly state: 'healthy' | 'failing';
  readonly since?: Time;
  readonly lastAcceptedAt?: Time;
  readonly lastError?: EndpointError;
  /** By what requests came to: ever, and since this program started. */
  readonly attempts: Readonly<Record<string, number>>;
  readonly attemptsSinceStart: Readonly<Record<string, number>>;
  readonly history: readonly HealthChange[];
}

export interface OverviewFacts {
  readonly at: Time;
  readonly startedAt: Time;
  readonly ledger: LedgerReport;
  readonly settings: SettingsSnapshot;
  /** What is on disk and in memory, and how the lanes are doing. */
  readonly lanes: readonly QueueStats[];
  readonly reports: readonly LaneReport[];
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

function damageView({ events, deliveries, foundAt }: Damage) {
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
  report: LaneReport | undefined,
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
function endpointOverview({ endpoint, state, since, lastError }: EndpointReport): EndpointOverview {
  return {
    ...{ endpoint, state },
    ...(since === undefined ? {} : { since: isoTime(since) }),
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: isoTime(lastError.at) } }),
  };
}

function lastErrorView({ reason, endpoint, at }: NonNullable<LaneReport['lastError']>) {
  return { reason, endpoint, at: isoTime(at) };
}

/** The last time that a date can be; `retention` may be any length. */
const MAX_TIME: Time = 8.64e15;

function isoTime(time: Time): string {
  return new Date(time).toISOString();
}

export interface ReportServiceDependencies {
  readonly backlog: Pick<DeliveryQueue, 'ledger' | 'stats'>;
  readonly log: Pick<EventLog, 'size' | 'find' | 'read' | 'damaged'>;
  readonly history: DeliveryHistories;
  /** The records as they are now; they give the ledger its names. */
  readonly settings: () => SettingsSnapshot;
  readonly lanes: () => readonly LaneReport[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long events are kept. */
  readonly retention: Duration;
}

/** spec/contract.md, "Destination status". Times are ISO 8601. */
export interface DestinationStatus {
  readonly state: LaneReport['state'];
  readonly pending: number;
  /** Of those pending, how many were tried before. */
  readonly retrying: number;
  readonly delivered: number;
  readonly dead: number;
  /** When the oldest event arrived that is still pending. */
  readonly oldestPendingAt?: string;
  /** When that event reaches the end of its retention. */
  readonly oldestKeptUntil?: string;
  readonly nextAttemptAt?: string;
  /** When the first of the failures was that no success has followed. */
  readonly failingSince?: string;
  readonly lastError?: { readonly reason: string; readonly endpoint: string; readonly at: string };
  /** In the order of the settings. */
  readonly endpoints: readonly EndpointStatus[];
}

export interface EndpointStatus extends EndpointOverview {
  readonly lastAcceptedAt?: string;
  /** Requests by what they came to, those that nobody waited for among them. */
  readonly attempts: Readonly<Record<string, number>>;
  /** The last changes of the state, the oldest first. */
  readonly history: readonly (Omit<HealthChange, 'at'> & { readonly at: string })[];
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
  async discards(): Promise<{ readonly data: readonly DiscardSample[] }> {
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

function endpointStatus(report: EndpointReport): EndpointStatus {
  const { lastAcceptedAt, attempts, history } = report;
  return {
    ...endpointOverview(report),
    ...(lastAcceptedAt === undefined ? {} : { lastAcceptedAt: isoTime(lastAcceptedAt) }),
    attempts,
    history: history.map((change) => ({ ...change, at: isoTime(change.at) })),
  };
}
