import type { Destination } from '../model/destination.ts';
import type { HealthChange } from '../model/endpoint-health.ts';
import type { Duration, Time } from '../model/time.ts';
import type { Backlog } from '../ports/backlog.ts';
import type { Clock } from '../ports/clock.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { History } from '../ports/history.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { LedgerCheck } from './check.ts';
import {
  type EndpointOverview,
  type EndpointReport,
  endpointOf,
  isoOf,
  type LaneReport,
  laneOf,
  type Overview,
  overviewOf,
} from './overview.ts';
import { DiscardSamples, type Sample } from './samples.ts';
import { type Statement, statementOf } from './statement.ts';
import { CallTallies } from './tallies.ts';
import { type Trace, trace } from './trace.ts';
import { WriteKeyMask } from './write-key-mask.ts';

export interface ObservationTools {
  readonly backlog: Pick<Backlog, 'ledger' | 'lanes'>;
  readonly log: Pick<EventLog, 'size' | 'find' | 'read' | 'damaged'>;
  readonly history: History;
  /** The records as they are now; they give the ledger its names. */
  readonly settings: () => SettingsSnapshot;
  readonly lanes: () => readonly LaneReport[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long events are kept. */
  readonly retention: Duration;
}

/** contract.md section 4, `destinations/{name}/status`. Times are ISO 8601. */
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
export class Observation {
  readonly tallies = new CallTallies();
  readonly samples: DiscardSamples;
  readonly #tools: ObservationTools;
  readonly #check: LedgerCheck;
  readonly #startedAt: Time;

  constructor(tools: ObservationTools) {
    this.#tools = tools;
    this.samples = new DiscardSamples(new WriteKeyMask(() => tools.settings().sources));
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
  async ledger(): Promise<Statement> {
    const { backlog, settings } = this.#tools;
    return statementOf(await backlog.ledger(), settings());
  }

  /** The whole life of a messageId, or as much of it as one source made. Rejects with a `StorageError`. */
  trace(messageId: string, source?: string): Promise<Trace> {
    return trace(messageId, source, { ...this.#tools, samples: () => this.samples.read() });
  }

  /** The last calls of every source that were discarded, the latest first. */
  async discards(): Promise<{ readonly data: readonly Sample[] }> {
    return { data: this.samples.read() };
  }

  /**
   * The ledger with its surroundings. Only the ledger is of one moment; the rest is read right after it.
   * Rejects with a `StorageError`.
   */
  async overview(): Promise<Overview> {
    const { backlog, log, settings, clock, retention, lanes: reports } = this.#tools;
    const [statement, lanes, size] = await Promise.all([this.ledger(), backlog.lanes(), log.size()]);
    return overviewOf({
      at: clock.now(),
      startedAt: this.#startedAt,
      statement,
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
    const [{ destinations }, lanes] = await Promise.all([this.ledger(), this.#tools.backlog.lanes()]);
    const { pending = 0, dead = {}, delivered = 0 } = destinations[name] ?? {};
    const stat = lanes.find(({ destination }) => destination === id);
    const report = this.#tools.lanes().find(({ destination }) => destination === id);
    const lane = laneOf(stat, report, this.#tools.retention);
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
      endpoints: (report?.endpoints ?? []).map(statusOfEndpoint),
    };
  };
}

function statusOfEndpoint(report: EndpointReport): EndpointStatus {
  const { lastAcceptedAt, attempts, history } = report;
  return {
    ...endpointOf(report),
    ...(lastAcceptedAt === undefined ? {} : { lastAcceptedAt: isoOf(lastAcceptedAt) }),
    attempts,
    history: history.map((change) => ({ ...change, at: isoOf(change.at) })),
  };
}
