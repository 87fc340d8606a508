import type { EndpointError, HealthChange } from '../model/endpoint-health.ts';
import type { Duration, Time } from '../model/time.ts';
import type { LaneStat } from '../ports/backlog.ts';
import type { Damage, LogSize } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import type { Sample } from './samples.ts';
import type { Statement } from './statement.ts';
import type { CallsOfNoSource } from './tallies.ts';

/** Everything somebody on call wants to see at once: the ledger, and beside it what is no sum. Times are ISO 8601. */
export interface Overview extends Statement {
  /** When this was read, by the server's clock. */
  readonly at: string;
  readonly startedAt: string;
  /** By name of the destination. */
  readonly lanes: Readonly<Record<string, LaneOverview>>;
  /** Since `startedAt`. */
  readonly callsOfNoSource: CallsOfNoSource;
  /** One discarded call of every source and reason, the latest; `GET discards` has more of them. */
  readonly discards: readonly Sample[];
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
  readonly lastError?: ShownError;
}

export interface ShownError extends Omit<EndpointError, 'at'> {
  readonly at: string;
}

/** What a lane says about itself. */
export interface LaneReport {
  /** Id of the destination. */
  readonly destination: number;
  readonly state: 'healthy' | 'failing' | 'paused' | 'disabled';
  readonly nextProbeAt?: Time;
  readonly failingSince?: Time;
  /** `endpoint` as `shownUrl` shows it. */
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
  readonly statement: Statement;
  readonly settings: SettingsSnapshot;
  /** What is on disk and in memory, and how the lanes are doing. */
  readonly lanes: readonly LaneStat[];
  readonly reports: readonly LaneReport[];
  readonly callsOfNoSource: CallsOfNoSource;
  /** The latest first. */
  readonly discards: readonly Sample[];
  readonly size: LogSize;
  /** How long events are kept. */
  readonly retention: Duration;
}

export function overviewOf(facts: OverviewFacts): Overview {
  const { at, startedAt, statement, settings, callsOfNoSource, size } = facts;
  const stats = new Map(facts.lanes.map((stat) => [stat.destination, stat]));
  const reports = new Map(facts.reports.map((report) => [report.destination, report]));
  const lanes = settings.destinations.map(
    ({ id, name }) => [name, laneOf(stats.get(id), reports.get(id), facts.retention)] as const,
  );
  const { events, bytes, oldestAt, damage } = size;
  return {
    at: isoOf(at),
    startedAt: isoOf(startedAt),
    ...statement,
    lanes: Object.fromEntries(lanes),
    callsOfNoSource,
    discards: latestOfEach(facts.discards),
    log: {
      events,
      bytes,
      ...(oldestAt === undefined ? {} : { oldestAt: isoOf(oldestAt) }),
      ...(damage === undefined ? {} : { damage: damageOf(damage) }),
    },
  };
}

function damageOf({ events, deliveries, foundAt }: Damage) {
  return { events, deliveries, ...(foundAt === undefined ? {} : { foundAt: isoOf(foundAt) }) };
}

function latestOfEach(samples: readonly Sample[]): readonly Sample[] {
  const seen = new Set<string>();
  return samples.filter(({ source, reason }) => {
    const key = JSON.stringify([reason, source]);
    return !seen.has(key) && seen.add(key);
  });
}

/** A destination without a lane gets nothing, whatever the reason. */
export function laneOf(
  stat: LaneStat | undefined,
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
      : { oldestPendingAt: isoOf(oldestAt), oldestKeptUntil: isoOf(Math.min(oldestAt + retention, LATEST)) }),
    ...(nextDueAt === undefined ? {} : { nextDueAt: isoOf(nextDueAt) }),
    ...(nextProbeAt === undefined ? {} : { nextProbeAt: isoOf(nextProbeAt) }),
    ...(failingSince === undefined ? {} : { failingSince: isoOf(failingSince) }),
    ...(lastError === undefined ? {} : { lastError: lastErrorOf(lastError) }),
    endpoints: endpoints.map(endpointOf),
  };
}

/** Without its counts and its history, which `statusOf` has. */
export function endpointOf({ endpoint, state, since, lastError }: EndpointReport): EndpointOverview {
  return {
    ...{ endpoint, state },
    ...(since === undefined ? {} : { since: isoOf(since) }),
    ...(lastError === undefined ? {} : { lastError: { ...lastError, at: isoOf(lastError.at) } }),
  };
}

function lastErrorOf({ reason, endpoint, at }: NonNullable<LaneReport['lastError']>) {
  return { reason, endpoint, at: isoOf(at) };
}

/** The last time that a date can be; `retention` may be any length. */
const LATEST: Time = 8.64e15;

export function isoOf(time: Time): string {
  return new Date(time).toISOString();
}
