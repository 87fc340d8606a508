import type { DestinationState } from '../delivery/contract.ts';
import type { EndpointError, HealthChange } from '../model/delivery.ts';
import type { CallType, Event, Position } from '../model/event.ts';
import type { DestinationCounts, SourceCounts } from '../model/ledger.ts';
import type { DatabaseStatus, StandbyStatus } from '../model/node.ts';
import type { PublicKey } from '../model/signing-key.ts';
import type { Duration, Time } from '../model/time.ts';
import type { ResponseStream } from '../ports/control-api.ts';
import type { DeliveryHistory, GivenUp } from '../ports/delivery-queue.ts';
import type { DiskUse } from '../ports/disk-use.ts';
import type { ValueChanges } from '../ports/telemetry.ts';

/**
 * The types of everything that the control API answers from this folder. Times in answers are ISO 8601; times
 * in queries and cursors are milliseconds.
 */

/** The ledger by name. spec/contract.md, "Ledger". */
export interface LedgerReport {
  readonly sources: Readonly<Record<string, SourceCounts>>;
  readonly destinations: Readonly<Record<string, DestinationCounts & { readonly balance: number }>>;
  /** True when every sum comes out: `differences` is empty. */
  readonly balanced: boolean;
  readonly differences: readonly LedgerDifference[];
}

/**
 * A sum that does not come out, with its terms. A positive `difference` is missing, a negative one is counted
 * twice.
 */
export type LedgerDifference =
  | {
      readonly source: string;
      readonly difference: number;
      readonly received: number;
      readonly accepted: number;
      readonly duplicates: number;
      readonly discarded: number;
    }
  | {
      readonly destination: string;
      readonly difference: number;
      readonly owed: number;
      readonly delivered: number;
      readonly pending: number;
      readonly dead: number;
      readonly dropped: number;
      readonly erased: number;
    };

/** Calls that belong to no source, counted since the start of the process. */
export interface UnattributedCalls {
  readonly discarded: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
}

/** A discarded call with its reason. */
export interface DiscardSample {
  /** Absent when no source can be named. */
  readonly source?: string;
  readonly reason: string;
  readonly at: string;
  /** The first 4,096 characters of the call as compact JSON; write keys are masked. */
  readonly call: string;
  /** True when the call is longer than `call`. */
  readonly cut: boolean;
}

/** The latest first. */
export interface DiscardReport {
  readonly data: readonly DiscardSample[];
}

/** The status page: the ledger, the destinations, the log. */
export interface Overview extends LedgerReport {
  /** When the server read this, by its own clock. */
  readonly at: string;
  readonly startedAt: string;
  /** Version of the answering program, and of its Node.js. */
  readonly version: string;
  readonly nodeVersion: string;
  /** The id of the store: the same for all nodes that share it, and for its copies. */
  readonly storeId: string;
  /** By name of the destination. */
  readonly lanes: Readonly<Record<string, LaneOverview>>;
  /** Since `startedAt`. */
  readonly callsOfNoSource: UnattributedCalls;
  /** Values that were changed, by source, since the start of the process. */
  readonly changedValues: Readonly<Record<string, ValueChanges>>;
  /**
   * Requests that were answered 429 because a source is over its rate limit, by source, since the start of
   * the process.
   */
  readonly rateLimitedRequests: Readonly<Record<string, number>>;
  /**
   * Calls of browsers and phones to sources with `trust: server`, by name, since the start: at least so many.
   */
  readonly publicCalls: Readonly<Record<string, number>>;
  /** The latest discarded call of every source and reason; `GET discards` has more of them. */
  readonly discards: readonly DiscardSample[];
  readonly log: LogOverview;
  /** Absent where the disk of the data folder cannot be asked. */
  readonly disk?: DiskOverview;
  readonly commits: CommitsOverview;
  /** Absent while nothing needs profiles. */
  readonly profiles?: ProfilesOverview;
  readonly regulations: RegulationsOverview;
  /** The nodes that share the database, by name; absent with the embedded engine. */
  readonly nodes?: readonly NodeOverview[];
  /** Nodes that died in the last hour and are not back, by name; absent with the embedded engine. */
  readonly goneNodes?: readonly GoneNodeOverview[];
  /** The database that they share. */
  readonly database?: DatabaseOverview;
}

/** Progress of the profiles of users. */
export interface ProfilesOverview {
  readonly state: 'live' | 'catching_up' | 'failed';
  /** Reason why they stand still, with what to do. */
  readonly reason?: string;
  readonly profiles: number;
  /** Size of their file. */
  readonly bytes: number;
  /** Stored events that they have not seen, and for how many milliseconds the oldest has waited. */
  readonly behind: number;
  readonly lagMs: number;
  /** Audiences and computed traits that cannot be computed. */
  readonly failed: readonly string[];
  /** Events that do not count, because Millrace failed on them. */
  readonly skipped: number;
}

/** Deletions and suppressions of users. */
export interface RegulationsOverview {
  /** Number of regulations that are not done. */
  readonly open: number;
  /** Time at which the oldest of them was made. */
  readonly oldestAt?: string;
  /** True when a step fails and is repeated. */
  readonly isFailing: boolean;
  /** Ids whose calls are not taken, joined ones included. */
  readonly suppressed: number;
}

/** One of the nodes that share a database. */
export interface NodeOverview {
  readonly name: string;
  /** Present for the node that answers. */
  readonly isSelf?: true;
  readonly roles: readonly string[];
  /** Version of the program. */
  readonly version: string;
  /** Start of the process. */
  readonly since: string;
  /**
   * How long its lease is still valid, in milliseconds; negative when it is over and nobody has adopted its
   * deliveries yet.
   */
  readonly leaseLeftMs: number;
  /** Jobs that only this node does now: maintenance, replays, users, alerts. */
  readonly jobs: readonly string[];
}

/** A node that died, or was out of reach until its lease was over. */
export interface GoneNodeOverview extends Pick<NodeOverview, 'name' | 'roles' | 'version'> {
  /** Time of its last renewal of the lease. */
  readonly lastSeenAt: string;
  /** Time at which another node took over its deliveries, and the name of that node. */
  readonly takenOverAt: string;
  readonly takenOverBy: string;
}

/** The database that nodes share. */
export interface DatabaseOverview extends Omit<DatabaseStatus, 'standbys'> {
  readonly standbys: readonly (Omit<StandbyStatus, 'behind'> & { readonly behindMs?: number })[];
}

/** The disk of the data folder, in bytes. */
export interface DiskOverview extends DiskUse {
  /** `limits.disk`: the oldest events go before `log.bytes` is above it. */
  readonly limit?: number;
}

/** Commits of the last quarter of an hour, and how long they took. */
export interface CommitsOverview {
  readonly count: number;
  /** Milliseconds; absent, like the next, without a commit. */
  readonly p50Ms?: number;
  readonly p99Ms?: number;
}

export interface LogOverview {
  readonly events: number;
  /** On disk. */
  readonly bytes: number;
  /** Arrival of the oldest event; absent when there is none. */
  readonly oldestAt?: string;
  /** Stored rows that cannot be read any more; absent while all can. */
  readonly damage?: {
    readonly events: number;
    /** Deliveries of which only the number is known. */
    readonly deliveries: number;
    readonly foundAt?: string;
    /** Damaged records, and work that damage keeps from being done, in words. */
    readonly others?: readonly string[];
  };
}

export interface LaneOverview {
  readonly state: DestinationState['state'];
  /** Deliveries in memory, those in flight included. */
  readonly held: number;
  readonly onDisk: number;
  /** Deliveries, in memory and on disk, that were tried before. */
  readonly retrying: number;
  /** Arrival of the oldest event with a pending delivery. Absent when nothing is pending. */
  readonly oldestPendingAt?: string;
  /**
   * Time at which that event reaches the end of its retention. Its pending deliveries become dead letters
   * then.
   */
  readonly oldestKeptUntil?: string;
  /** When the first delivery on disk is due; in the past if it waits already. Absent when none is on disk. */
  readonly nextDueAt?: string;
  /** When the circuit breaker sends its next probe; no other request is sent before. */
  readonly nextProbeAt?: string;
  /** When the first failure happened since an endpoint last showed life. */
  readonly failingSince?: string;
  /** Time since when deliveries die for good, all or some. */
  readonly refusingSince?: string;
  /** The invariant that did not hold, and stopped its deliveries until the next start. */
  readonly failure?: string;
  readonly lastError?: DestinationErrorView;
  /** In the order of the settings. */
  readonly endpoints: readonly EndpointOverview[];
}

export interface DestinationErrorView {
  readonly reason: string;
  readonly endpoint: string;
  readonly at: string;
}

/** The health of one endpoint, by every request that was sent to it. */
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

/** spec/contract.md, "Destination status". */
export interface DestinationStatus {
  readonly state: DestinationState['state'];
  readonly pending: number;
  /** Pending deliveries that were tried before. */
  readonly retrying: number;
  readonly delivered: number;
  readonly dead: number;
  readonly dropped: number;
  /** Arrival of the oldest event with a pending delivery. */
  readonly oldestPendingAt?: string;
  /** When that event reaches the end of its retention. */
  readonly oldestKeptUntil?: string;
  readonly nextAttemptAt?: string;
  /** When the first failure happened since an endpoint last showed life. */
  readonly failingSince?: string;
  /** Time since when deliveries die for good, all or some. */
  readonly refusingSince?: string;
  /** The invariant that did not hold, and stopped its deliveries until the next start. */
  readonly failure?: string;
  readonly lastError?: DestinationErrorView;
  /**
   * The public key for receivers with `publicSignature`, and the path at which the receiving API returns it
   * to everybody.
   */
  readonly publicKey?: PublicKey & { readonly path: string };
  /** In the order of the settings. */
  readonly endpoints: readonly EndpointStatus[];
}

export interface EndpointStatus extends EndpointOverview {
  readonly lastAcceptedAt?: string;
  /** Requests by result, those included whose answer came after a sibling had accepted the event. */
  readonly attempts: Readonly<Record<string, number>>;
  /** The last changes of the state, the oldest first. */
  readonly history: readonly HealthChangeView[];
}

export interface HealthChangeView extends Omit<HealthChange, 'at'> {
  readonly at: string;
}

/** The numbers over time that a timeline can show. spec/contract.md, "Timeline". */
export const TIMELINE_SERIES = [
  ...(['received', 'accepted', 'duplicates', 'discarded', 'acceptanceP50', 'acceptanceP99'] as const),
  ...(['owed', 'skipped', 'delivered', 'retrying', 'dead', 'dropped', 'erased', 'pending'] as const),
  ...(['deliveryP50', 'deliveryP99', 'requests', 'failed', 'commitP50', 'commitP99'] as const),
] as const;

export type TimelineSeries = (typeof TIMELINE_SERIES)[number];

export interface TimelineQuery {
  readonly from: Time;
  readonly to: Time;
  readonly step: Duration;
  /** Absent: one group for everything. */
  readonly by?: 'source' | 'destination' | 'endpoint';
  /** Names. */
  readonly source?: string;
  readonly destination?: string;
  readonly series: readonly TimelineSeries[];
}

export interface TimelineReport {
  /** The begin of the first step. */
  readonly from: string;
  /** The end of the last step. */
  readonly to: string;
  /** Seconds. */
  readonly step: number;
  readonly groups: readonly TimelineGroup[];
}

/** The keys of a series are absent where it has no meaning for the group. */
export interface TimelineGroup {
  readonly source?: string;
  readonly destination?: string;
  readonly endpoint?: string;
  /** Totals of the whole range: sums, the last `pending`, quantiles over everything; null without any. */
  readonly totals: Readonly<Record<string, number | null>>;
  /** One number for each step; null while the server did not run, and for quantiles of nothing. */
  readonly series: Readonly<Record<string, readonly (number | null)[]>>;
  /** Per second in the last sample, which is ten seconds long; `pending` and quantiles as they are. */
  readonly now: Readonly<Record<string, number | null>>;
  /** Sums of the range by reason: of `discarded`, `skipped`, `dead`, `dropped` and `failed`. */
  readonly reasons: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Failed requests to one endpoint with one reason, the most first. */
export interface FailureGroup {
  readonly endpoint: string;
  readonly reason: string;
  readonly count: number;
  /** A sentence: the cause. */
  readonly message: string;
  /** A sentence: what to do. */
  readonly hint: string;
}

/** The life of a messageId. spec/contract.md, "Operations on events". */
export interface Trace {
  /** One entry for each time a source used the id, the latest first. */
  readonly data: readonly TraceEntry[];
}

export type TraceEntry = EventTrace | DamageTrace | DiscardTrace;

/** An accepted event with its deliveries. */
export interface EventTrace {
  readonly source: string;
  readonly receivedAt: string;
  readonly verdict: 'accepted';
  readonly event: Event;
  readonly deliveries: readonly DeliveryTrace[];
  readonly skipped: readonly { readonly destination: string; readonly reason: string }[];
}

/** An event that cannot be read any more; only its deliveries are known. */
export interface DamageTrace {
  readonly source?: undefined;
  readonly receivedAt?: undefined;
  readonly verdict: 'damaged';
  readonly deliveries: readonly DeliveryTrace[];
}

/** A discarded call. Only the calls of `GET discards` are known. */
export interface DiscardTrace {
  readonly source?: string;
  readonly receivedAt: string;
  readonly verdict: 'discarded';
  readonly reason: string;
  /** As `DiscardSample.call`. */
  readonly call: string;
}

export interface DeliveryTrace {
  readonly id: string;
  readonly destination: string;
  readonly state: DeliveryHistory['state'];
  /** Why the delivery is dead or dropped. */
  readonly reason?: string;
  /** Remark of its type on a dropped one. */
  readonly note?: string;
  /** Absent while the delivery is in memory: in flight or about to be. */
  readonly nextAttemptAt?: string;
  readonly attempts: readonly AttemptTrace[];
}

export interface AttemptTrace {
  readonly endpoint: string;
  readonly startedAt: string;
  readonly latencyMs: number;
  readonly outcome: 'accepted' | 'retryable' | 'refused';
  readonly reason: string;
  readonly status?: number;
  readonly answer?: string;
}

/** The events a search looks for; an absent field matches every event. */
export interface EventQuery {
  readonly messageId?: string;
  /** Id of the source. */
  readonly source?: number;
  readonly type?: string;
  readonly userId?: string;
  /**
   * Other ids that belong to the user: its events have one of these userIds, or only one of these
   * anonymousIds.
   */
  readonly joined?: { readonly userIds: readonly string[]; readonly anonymousIds: readonly string[] };
  readonly anonymousId?: string;
  /** Name of the tracked action, page or screen; a `*` at the end matches any rest. */
  readonly event?: string;
  /** Arrived at this time or later. */
  readonly from?: Time;
  /** Arrived before this time. */
  readonly to?: Time;
}

/** The deliveries a search looks for. */
export interface DeliveryQuery extends EventQuery {
  /** Id of the destination. */
  readonly destination?: number;
  readonly state?: DeliveryHistory['state'];
  /** Reason of a dead or dropped delivery, or outcome of the last request of a retried one. */
  readonly reason?: string;
}

/** A search for deliveries that were given up. `from` and `to` select by the time of that. */
export type DeadLetterSearch = DeliveryQuery & { readonly state: GivenUp };

export interface PageRequest<From> {
  readonly limit: number;
  /** `next` of the page before. */
  readonly from?: From;
}

/** Begin of a page: the events below a position. */
export interface PageStart {
  readonly below: Position;
  /**
   * The event right below is shown only from the lane after this one; its earlier lanes stood on the page
   * before.
   */
  readonly after?: number;
}

export interface Page<Entry, From = PageStart> {
  readonly data: readonly Entry[];
  /** Absent at the end. */
  readonly next?: From;
  /** Events or dead letters this page has passed, those included that need not be read. */
  readonly searched: number;
  /** About when the last of them arrived, or was given up; absent at the end. */
  readonly searchedTo?: Time;
}

/**
 * A delivery in a list, with the fields that identify its event: they are absent in a dead letter whose event
 * was erased.
 */
export interface DeliverySummary extends Partial<EventIdentity> {
  /** As `trace` gives it, and as `redeliveries` takes it. */
  readonly id: string;
  readonly destination: string;
  /** Only with `success: each`. */
  readonly endpoint?: string;
  readonly state: DeliveryHistory['state'];
  /** Why the delivery is dead or dropped. */
  readonly reason?: string;
  /** Remark of its type on a dropped one. */
  readonly note?: string;
  /** Time at which the delivery was given up. Only in searches for dead ones. */
  readonly diedAt?: string;
  /** The same in searches for dropped ones. */
  readonly droppedAt?: string;
  readonly nextAttemptAt?: string;
  /** Source of the event. */
  readonly source?: string;
  readonly receivedAt?: string;
  readonly attempts: readonly AttemptTrace[];
}

/** Filter of a tail client. The client sees the activity that matches all given fields. */
export interface TailFilter {
  /** Name of the source. */
  readonly source?: string | undefined;
  /** Name of the destination; only deliveries have one. */
  readonly destination?: string | undefined;
  /** Type of the event; a discarded call has none. */
  readonly type?: CallType | undefined;
  /** Only failed attempts and discarded calls. */
  readonly failed?: boolean | undefined;
}

export interface TailOptions extends TailFilter {
  /** True: events whole. False: only the fields that identify them. */
  readonly body: boolean;
  /**
   * Most calls a second, shown with their deliveries, and as many failures; the rest is counted. Absent:
   * everything.
   */
  readonly max?: number | undefined;
  /** Asked with every heartbeat, so that the stream ends soon after its token is revoked. */
  readonly mayWatch: () => boolean;
}

/** Opens a stream for a new tail client; `full` when there are too many. */
export type OpenTail = (options: TailOptions) => ResponseStream | 'full';

/**
 * The data of each server-sent event of the live tail, by the event's name. spec/contract.md, "Live tail".
 */
export interface TailEvents {
  readonly accepted: TailCall;
  readonly duplicate: TailCall;
  readonly discarded: TailDiscard;
  readonly settled: TailDelivery;
  /** Events that were left out here, because the client read too slowly. */
  readonly lost: { readonly count: number };
  /** Calls and failures that matched since the last of these, and were not shown because of `max`. */
  readonly passed: { readonly count: number };
}

export interface TailCall {
  readonly at: string;
  readonly source: string;
  readonly event: EventIdentity;
  readonly latencyMs: number;
}

export interface TailDiscard {
  readonly at: string;
  readonly source?: string | undefined;
  readonly reason: string;
}

export interface TailDelivery {
  readonly at: string;
  readonly source: string;
  readonly destination: string;
  readonly event: EventIdentity;
  readonly state: 'delivered' | 'retrying' | 'dead' | 'dropped';
  /** Why the delivery is dead or dropped. */
  readonly reason?: string;
  /** Remark of its type on a dropped one. */
  readonly note?: string;
  readonly nextAttemptAt?: string;
  /** Attempts without the answers of the endpoints; a trace has them. */
  readonly attempts: readonly Omit<AttemptTrace, 'answer'>[];
}

/** The fields that identify an event; with `body` the whole event. */
export type EventIdentity = Pick<
  Event,
  'messageId' | 'type' | 'userId' | 'anonymousId' | 'previousId' | 'groupId' | 'event' | 'name'
>;
