import type { DestinationState, EndpointState, LastError } from '../delivery/contract.ts';
import type { Destination } from '../model/destination.ts';
import { defined } from '../model/json.ts';
import { type LatencyCounts, latencyQuantile } from '../model/latency-histogram.ts';
import { sumByReason } from '../model/ledger.ts';
import type { DatabaseStatus, GoneNode, NodeStatus } from '../model/node.ts';
import { publicKeyOf, publicKeyPath } from '../model/signing-key.ts';
import { type Duration, isoTime, type OnWallClock, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { QueueStats } from '../ports/delivery-queue.ts';
import type { DiskUse, ReadDiskUse } from '../ports/disk-use.ts';
import type { LogSize } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { Nodes } from '../ports/nodes.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { HistoryView, LogView, QueueView } from '../ports/store-view.ts';
import type { RegulationHealth } from '../regulations/contract.ts';
import type { UsersHealth } from '../users/contract.ts';
import type {
  CommitsOverview,
  DatabaseOverview,
  DestinationErrorView,
  DestinationStatus,
  DiscardReport,
  DiscardSample,
  EndpointOverview,
  EndpointStatus,
  GoneNodeOverview,
  LaneOverview,
  LedgerReport,
  LogOverview,
  NodeOverview,
  Overview,
  Trace,
} from './contract.ts';
import { DiscardSamples, IngestTotals, WriteKeyRedactor } from './discards.ts';
import { LedgerCheck, ledgerReport } from './ledger.ts';
import { traceMessage } from './trace.ts';

export interface ReportServiceDependencies {
  readonly queue: Pick<QueueView, 'ledger' | 'stats'>;
  readonly log: Pick<LogView, 'size' | 'find' | 'read' | 'damaged'>;
  readonly history: HistoryView;
  /** The current records; the ledger takes its names from them. */
  readonly settings: () => SettingsSnapshot;
  readonly destinationStates: () => readonly DestinationState[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long events are kept. */
  readonly retention: Duration;
  /** Absent with the embedded engine. */
  readonly nodes?: Pick<Nodes, 'list' | 'gone' | 'database'> | undefined;
  readonly disk: ReadDiskUse;
  /** `limits.disk`, if there is one. */
  readonly diskLimit?: number | undefined;
  /** Version of the program. */
  readonly version: string;
  /** Id of the store. */
  readonly storeId: string;
}

/** Parts that the status shows. They are made after the reports, and need them. */
export interface LaterReporters {
  readonly users: () => UsersHealth;
  readonly regulations: () => RegulationHealth;
  readonly commits: () => LatencyCounts;
}

/** The reports of the control API, and the check of the ledger every minute. Reads only. */
export class ReportService {
  readonly ingestCounters = new IngestTotals();
  readonly discardSamples: DiscardSamples;
  readonly #dependencies: ReportServiceDependencies;
  readonly #check: LedgerCheck;
  readonly #startedAt: Time;
  #reporters: LaterReporters = {
    users: () => ({ isFailed: false, isLate: false, restarts: 0 }),
    regulations: () => ({ open: 0, isFailing: false, suppressed: 0 }),
    commits: () => new Map(),
  };

  constructor(dependencies: ReportServiceDependencies) {
    const { settings, clock, logger } = dependencies;
    this.#dependencies = dependencies;
    this.discardSamples = new DiscardSamples(new WriteKeyRedactor(() => settings().sources));
    this.#check = new LedgerCheck({ ledger: () => this.ledger(), clock, logger });
    this.#startedAt = clock.now();
  }

  /** Adds what these report to the status. */
  include(reporters: LaterReporters): void {
    this.#reporters = reporters;
  }

  start(): void {
    this.#check.start();
  }

  /** Stop it before the store. Idempotent. */
  stop(): Promise<void> {
    return this.#check.stop();
  }

  /** The ledger at this moment. Rejects with a `StorageError`. */
  async ledger(): Promise<LedgerReport> {
    const { queue, settings } = this.#dependencies;
    return ledgerReport(await queue.ledger(), settings());
  }

  /**
   * The life of a messageId; with `source`, only of the events this source sent. Rejects with a
   * `StorageError`.
   */
  trace(messageId: string, source?: string): Promise<Trace> {
    return traceMessage(messageId, source, {
      ...this.#dependencies,
      samples: () => this.discardSamples.read(),
    });
  }

  /** The last discarded calls of every source, the latest first. */
  async discards(): Promise<DiscardReport> {
    return { data: this.discardSamples.read() };
  }

  /** Drops everything in memory that mentions an erased user. */
  forget(mentions: (text: string) => boolean): void {
    this.discardSamples.forget(mentions);
    this.ingestCounters.forget(mentions);
  }

  /** Only the ledger is of one moment; the rest is read right after it. Rejects with a `StorageError`. */
  async overview(): Promise<Overview> {
    const { queue, log, settings, clock, nodes, disk: readDisk, diskLimit } = this.#dependencies;
    const { version, storeId } = this.#dependencies;
    const [ledger, stats, size, disk, all, gone, database] = await Promise.all([
      this.ledger(),
      queue.stats(),
      log.size(),
      readDisk(),
      nodes?.list(),
      nodes?.gone(),
      nodes?.database(),
    ]);
    return {
      at: isoTime(clock.now()),
      startedAt: isoTime(this.#startedAt),
      version,
      nodeVersion: process.versions.node,
      storeId,
      ...ledger,
      lanes: this.#laneOverviews(stats, settings(), ledger),
      callsOfNoSource: this.ingestCounters.read(),
      changedValues: this.ingestCounters.changedValues(),
      rateLimitedRequests: this.ingestCounters.rateLimitedRequests(),
      publicCalls: this.ingestCounters.publicCallsBySource(),
      discards: latestByReason(this.discardSamples.read()),
      log: logOverview(size),
      ...diskOverview(disk, diskLimit),
      commits: commitsOverview(this.#reporters.commits()),
      ...profilesOverview(this.#reporters.users()),
      regulations: regulationsOverview(this.#reporters.regulations()),
      ...defined({
        nodes: all?.map(nodeOverview),
        goneNodes: gone?.map(goneNodeOverview),
        database: database && databaseOverview(database),
      }),
    };
  }

  /** The state of one destination and the sums of its deliveries. Rejects with a `StorageError`. */
  readonly statusOf = async ({
    id,
    name,
    signingKey,
  }: Pick<Destination, 'id' | 'name' | 'signingKey'>): Promise<DestinationStatus> => {
    const { queue, destinationStates, retention } = this.#dependencies;
    const [{ destinations }, stats] = await Promise.all([this.ledger(), queue.stats()]);
    const { pending = 0, dead = {}, dropped = {}, delivered = 0 } = destinations[name] ?? {};
    const stat = stats.find(({ destination }) => destination === id);
    const current = destinationStates().find(({ destination }) => destination === id);
    const lane = laneOverview(stat, asOfAllNodes(current, delivered), retention);
    const nextAttemptAt = lane.nextProbeAt ?? lane.nextDueAt;
    return {
      state: lane.state,
      pending,
      retrying: lane.retrying,
      delivered,
      dead: sumByReason(dead),
      dropped: sumByReason(dropped),
      ...defined({
        oldestPendingAt: lane.oldestPendingAt,
        oldestKeptUntil: lane.oldestKeptUntil,
        nextAttemptAt,
        failingSince: lane.failingSince,
        refusingSince: lane.refusingSince,
        failure: lane.failure,
        lastError: lane.lastError,
        publicKey: signingKey && { ...publicKeyOf(signingKey), path: publicKeyPath(signingKey.id) },
      }),
      endpoints: (current?.endpoints ?? []).map(endpointStatus),
    };
  };

  #laneOverviews(
    stats: readonly OnWallClock<QueueStats>[],
    settings: SettingsSnapshot,
    { destinations }: LedgerReport,
  ): Record<string, LaneOverview> {
    const { destinationStates, retention } = this.#dependencies;
    const statsById = new Map(stats.map((stat) => [stat.destination, stat]));
    const statesById = new Map(destinationStates().map((state) => [state.destination, state]));
    return Object.fromEntries(
      settings.destinations.map(({ id, name }) => [
        name,
        laneOverview(
          statsById.get(id),
          asOfAllNodes(statesById.get(id), destinations[name]?.delivered ?? 0),
          retention,
        ),
      ]),
    );
  }
}

function diskOverview(disk: DiskUse | undefined, limit: number | undefined): Pick<Overview, 'disk'> {
  if (disk === undefined) return {};
  return { disk: { ...disk, ...defined({ limit }) } };
}

function commitsOverview(counts: LatencyCounts): CommitsOverview {
  const count = [...counts.values()].reduce((sum, n) => sum + n, 0);
  const [p50, p99] = [latencyQuantile(counts, 0.5), latencyQuantile(counts, 0.99)];
  if (p50 === undefined || p99 === undefined) return { count };
  return { count, p50Ms: hundredths(p50), p99Ms: hundredths(p99) };
}

/** Milliseconds with two decimals. */
function hundredths(duration: Duration): number {
  return Math.round(duration * 100) / 100;
}

function profilesOverview({ progress, isFailed, isLate, reason }: UsersHealth): Pick<Overview, 'profiles'> {
  if (progress === undefined && !isFailed) return {};
  const { profiles = 0, bytes = 0, behind = 0, lag = 0, failed = [], counts } = progress ?? {};
  const state = isFailed ? 'failed' : isLate ? 'catching_up' : 'live';
  return {
    profiles: {
      state,
      ...defined({ reason }),
      ...{ profiles, bytes, behind, lagMs: Math.round(lag), failed, skipped: counts?.skipped ?? 0 },
    },
  };
}

function regulationsOverview(health: RegulationHealth): Overview['regulations'] {
  const { open, oldestOpenAt, isFailing, suppressed } = health;
  return {
    open,
    ...defined({ oldestAt: isoTime(oldestOpenAt) }),
    isFailing,
    suppressed,
  };
}

function databaseOverview({ standbys, ...database }: DatabaseStatus): DatabaseOverview {
  return {
    ...database,
    standbys: standbys.map(({ behind, ...one }) => ({
      ...one,
      ...defined({ behindMs: behind === undefined ? undefined : Math.round(behind) }),
    })),
  };
}

/** One sample of every source and reason. `samples`: the latest first. */
function latestByReason(samples: readonly DiscardSample[]): readonly DiscardSample[] {
  const seen = new Set<string>();
  return samples.filter(({ source, reason }) => {
    const key = JSON.stringify([reason, source]);
    return !seen.has(key) && seen.add(key);
  });
}

function logOverview({ events, bytes, oldestAt, damage }: OnWallClock<LogSize>): LogOverview {
  return {
    events,
    bytes,
    ...defined({ oldestAt: isoTime(oldestAt), damage: damage && damageView(damage) }),
  };
}

function damageView({
  events,
  deliveries,
  foundAt,
  others,
}: NonNullable<OnWallClock<LogSize>['damage']>): NonNullable<LogOverview['damage']> {
  return {
    events,
    deliveries,
    ...defined({ foundAt: isoTime(foundAt), others }),
  };
}

/**
 * Corrects the state where several nodes deliver: this node may never have sent to a destination that has
 * accepted events from others.
 */
function asOfAllNodes(state: DestinationState | undefined, delivered: number): DestinationState | undefined {
  return state?.state === 'never_asked' && delivered > 0 ? { ...state, state: 'healthy' } : state;
}

/** The last time that a `Date` can hold; `retention` may be any length. */
const MAX_TIME: Time = 8.64e15;

/** A destination without a worker is disabled: it gets nothing. */
function laneOverview(
  stat: OnWallClock<QueueStats> | undefined,
  current: DestinationState | undefined,
  retention: Duration,
): LaneOverview {
  const { held = 0, onDisk = 0, retrying = 0, nextDueAt, oldestAt } = stat ?? {};
  const { state = 'disabled', nextProbeAt, lastError, endpoints = [] } = current ?? {};
  const { failingSince, refusingSince, failure } = current ?? {};
  return {
    state,
    held,
    onDisk,
    retrying,
    ...defined({
      oldestPendingAt: isoTime(oldestAt),
      oldestKeptUntil: oldestAt === undefined ? undefined : isoTime(Math.min(oldestAt + retention, MAX_TIME)),
      nextDueAt: isoTime(nextDueAt),
      nextProbeAt: isoTime(nextProbeAt),
      failingSince: isoTime(failingSince),
      refusingSince: isoTime(refusingSince),
      failure,
      lastError: lastError && lastErrorView(lastError),
    }),
    endpoints: endpoints.map(endpointOverview),
  };
}

function lastErrorView({ reason, endpoint, at }: LastError): DestinationErrorView {
  return { reason, endpoint, at: isoTime(at) };
}

/** Health of an endpoint without the counts and the history, which `statusOf` adds. */
function endpointOverview({ endpoint, state, since, lastError }: EndpointState): EndpointOverview {
  return {
    endpoint,
    state,
    ...defined({
      since: isoTime(since),
      lastError: lastError && { ...lastError, at: isoTime(lastError.at) },
    }),
  };
}

function endpointStatus(endpoint: EndpointState): EndpointStatus {
  const { lastAcceptedAt, attempts, history } = endpoint;
  return {
    ...endpointOverview(endpoint),
    ...defined({ lastAcceptedAt: isoTime(lastAcceptedAt) }),
    attempts,
    history: history.map((change) => ({ ...change, at: isoTime(change.at) })),
  };
}

function nodeOverview({ name, isSelf, roles, version, since, leaseLeft, jobs }: NodeStatus): NodeOverview {
  const self = isSelf ? { isSelf } : {};
  return { name, ...self, roles, version, since: isoTime(since), leaseLeftMs: leaseLeft, jobs };
}

function goneNodeOverview({ lastSeen, takenOverAt, ...gone }: GoneNode): GoneNodeOverview {
  return { ...gone, lastSeenAt: isoTime(lastSeen), takenOverAt: isoTime(takenOverAt) };
}
