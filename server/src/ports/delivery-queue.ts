import type { Attempt, Decision, Delivery, EndpointHealth } from '../model/delivery.ts';
import type { Position } from '../model/event.ts';
import type { Ledger } from '../model/ledger.ts';
import type { SerializedEvent } from '../model/serialized-event.ts';
import type { Monotonic } from '../model/time.ts';

/** Id of a pending set: deliveries of one destination that were enqueued, claimed or retried together. */
export type PendingSetId = number;

/**
 * The queue of pending deliveries. A delivery is in exactly one pending set until it is settled. Every set is
 * either *held* by the process that delivers it from memory, *parked* (due at once), or *waiting* (due
 * later).
 */
export interface DeliveryQueue {
  /** Resolves to one entry for each destination with pending deliveries, counted from the sets. */
  stats(): Promise<readonly QueueStats[]>;

  /**
   * Resolves to the destinations with deliveries on disk. Costs no more where many wait, so that it can be
   * asked all the time. Where several processes share the store it is asked every few seconds: a claim may
   * pass over what another process has just made due at a time that is long over, until this has found it.
   */
  nextDue(): Promise<readonly NextDue[]>;

  /**
   * Claims up to `max` deliveries of a destination that are due at `now`, the longest due first. The caller
   * then holds them, and no delivery is claimed twice while held.
   */
  claim(destination: number, max: number, now: Monotonic): Promise<Claim>;

  /**
   * Writes results, all or nothing. A delivered, dead or dropped delivery leaves its set; a retried one moves
   * to a waiting set. Failed attempts are kept. A result for a delivery that is not in its set (settled
   * before, or no longer held by this process) changes nothing and is counted in the answer. Rejects with a
   * `StorageError` when nothing was written: the caller still holds all deliveries and may try again.
   */
  settle(results: readonly DeliveryResult[]): Promise<SettleResult>;

  /**
   * Makes all waiting deliveries of a destination due at `now`, because its endpoint is back. Resolves to how
   * many.
   */
  makeDue(destination: number, now: Monotonic): Promise<number>;

  /**
   * Gives up deliveries on disk whose retry window is over: those never tried that were due before `before`,
   * and those that first failed before it. They become dead with this reason. Works in slices, so that other
   * operations need not wait: resolves to the number of deliveries of this slice; call it again until that is
   * 0.
   */
  expire(destination: number, before: Monotonic, reason: string): Promise<number>;

  /**
   * Enqueues new deliveries of stored events, parked and due at `now`, beside all other deliveries of these
   * events. The same commit counts them as `owed` in the ledger. They keep their origin until they are
   * settled for good: through retries, releases and restarts, and as dead letters that are revived.
   *
   * A slice begins at the cursor of its origin and moves it in the same commit. A slice that begins elsewhere
   * was enqueued before and changes nothing. Callers that go by `ReplayProgress.cursor` therefore enqueue
   * everything once, despite crashes.
   */
  enqueue(slice: ReplaySlice): Promise<ReplayProgress>;

  /**
   * Parks all sets whose holder is gone. Called before the first claim, and where several processes share the
   * store every few seconds. Resolves to the number of deliveries.
   */
  recoverOrphans(): Promise<number>;

  /** Resolves to all counters, with `pending` counted from the sets. */
  ledger(): Promise<Ledger>;
}

/** A slice of the events that a replay enqueues again. */
export interface ReplaySlice {
  /**
   * The origin of the deliveries, such as the id of a replay: visible ASCII, at most 64 characters. Requests
   * carry it.
   */
  readonly origin: string;
  /** Ids of the destinations. Each gets all positions, except those in `only`. */
  readonly destinations: readonly number[];
  /** By id of a destination: the positions that it gets, ascending, if not all. */
  readonly only?: ReadonlyMap<number, readonly Position[]>;
  /** Ascending, each once. Empty when only the cursor moves. */
  readonly positions: readonly Position[];
  /** The origin's cursor before and after the slice. It begins at 0, and its unit is opaque to the store. */
  readonly from: number;
  readonly to: number;
  readonly now: Monotonic;
}

/** The progress of an origin. */
export interface ReplayProgress {
  readonly cursor: number;
  /** Events enqueued so far. */
  readonly events: number;
  /** Deliveries that are not settled for good yet, by id of the destination, without zeros. */
  readonly pending: ReadonlyMap<number, number>;
}

export interface QueueStats {
  /** Id of the destination. */
  readonly destination: number;
  readonly held: number;
  /** Parked and waiting. */
  readonly onDisk: number;
  /** How many deliveries, held or on disk, were tried before. */
  readonly retrying: number;
  /** When the first delivery on disk is due; may be in the past. Absent when none is on disk. */
  readonly nextDueAt?: Monotonic | undefined;
  /** Arrival of the oldest event with a pending delivery, held or on disk. Absent when that event is gone. */
  readonly oldestAt?: Monotonic | undefined;
}

export interface NextDue {
  /** Id of the destination. */
  readonly destination: number;
  /** When its first delivery on disk is due; may be in the past. */
  readonly nextDueAt: Monotonic;
}

export interface Claim {
  readonly deliveries: readonly ClaimedDelivery[];
  /** When the next delivery left on disk is due; may be in the past. Absent when none is left. */
  readonly nextDueAt?: Monotonic;
}

/** A delivery held by this process. */
export interface HeldDelivery {
  readonly set: PendingSetId;
  readonly delivery: Delivery;
  /**
   * The id of the replay that enqueued it, or of the computation whose event it is; absent for the first
   * delivery of a call.
   */
  readonly origin?: string;
}

/** A delivery that waited on disk before. */
export interface ClaimedDelivery extends HeldDelivery {
  /** Of one that was never tried: since when it has waited. Its event may be older, as that of a replay. */
  readonly dueAt?: Monotonic | undefined;
}

/** The result of one round of a held delivery. */
export interface DeliveryResult {
  readonly set: PendingSetId;
  readonly destination: number;
  readonly position: Position;
  /** The requests of this round, in the order in which they ended. */
  readonly attempts: readonly Attempt[];
  readonly decision: Decision;
}

export interface SettleResult {
  /** Results that changed nothing. */
  readonly ignored: number;
}

/**
 * Deliveries that were given up: dead ones, and those that were dropped. They are kept with their reason
 * until their retention ends, to be read and redelivered.
 */
export interface DeadLetterQueue {
  /**
   * Lists dead letters, the newest first, at most `limit`; go on with `next` until it is absent. A page may
   * be partial: it may have fewer letters, or none, and a `next`.
   */
  list(query: DeadLetterQuery, limit: number, from?: string): Promise<DeadLetterPage>;

  /**
   * Counts dead letters, in slices, so that other operations need not wait: go on with `next` until it is
   * absent.
   */
  count(query: DeadLetterQuery, from?: string): Promise<DeadLetterCount>;

  /**
   * Revives the dead letters of the query, due at `now`, as if never tried: with a new retry window, and with
   * their earlier requests still in their history. In the ledger they are pending again and no longer dead or
   * dropped. Works in slices: go on with `next` until it is absent. Leaves out deliveries given up since
   * `now`, so that none is revived twice.
   */
  redeliver(slice: RedeliverySlice): Promise<DeadLetterCount>;
}

export interface RedeliverySlice {
  readonly query: DeadLetterQuery;
  readonly now: Monotonic;
  /** Only deliveries given up before this time; `now` when absent. */
  readonly before?: Monotonic;
  /** `next` of the slice before. */
  readonly from?: string;
  /**
   * The replay that revives them, whose progress (`ReplayProgress.events`) counts them in the same commit.
   * Deliveries keep their own origin.
   */
  readonly origin?: string;
}

export interface DeadLetterCount {
  readonly count: number;
  /** Where the next slice begins; opaque. */
  readonly next?: string;
}

export interface DeadLetterQuery {
  /** Ids of destinations or lanes. */
  readonly destinations: readonly number[];
  /** Only those that ended so. */
  readonly state?: GivenUp;
  /** Only dead letters with this reason. */
  readonly reason?: string;
  /** Time of giving up: from (inclusive) to (exclusive). */
  readonly from?: Monotonic;
  readonly to?: Monotonic;
  /** Only these deliveries. */
  readonly only?: readonly { readonly destination: number; readonly position: Position }[];
}

/** How a delivery was given up. */
export type GivenUp = 'dead' | 'dropped';

export interface DeadLetter {
  readonly destination: number;
  readonly position: Position;
  readonly state: GivenUp;
  readonly reason: string;
  /** Remark of the type on a dropped one; see `Drop.note`. */
  readonly note?: string | undefined;
  /** When the delivery was given up. */
  readonly at: Monotonic;
}

export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** Where the next page begins; opaque. */
  readonly next?: string;
}

/** The delivery histories of events: exact, and for all stored events, not only for samples. */
export interface DeliveryHistories {
  /**
   * Resolves to the histories of the events at these positions, in their order; undefined for an event that
   * is gone. Meant for pages that people read, not for delivering.
   */
  read(positions: readonly Position[]): Promise<(EventHistory | undefined)[]>;

  /**
   * Finds events with pending deliveries, the highest positions first, at most `max`; go on with `below:
   * next` until it is absent. The cost depends on the pending deliveries and not on the size of the log.
   */
  findPending(query: PendingQuery, max: number, below?: Position): Promise<PendingPage>;

  /** Resolves to the progress of an origin; zeros before its first slice. See `DeliveryQueue.enqueue`. */
  progress(origin: string): Promise<ReplayProgress>;

  /**
   * Resolves to the pending deliveries of each of these origins, as `ReplayProgress.pending`. Counted,
   * whatever waits.
   */
  pendingOf(origins: readonly string[]): Promise<readonly ReplayProgress['pending'][]>;

  /**
   * Replaces each kept answer of an endpoint, and each note about a dropped delivery, with what `redact`
   * makes of it, a slice at a time, so that commits go on between. Before each slice it calls `onSlice`,
   * which may throw to end it. Answers that are stored meanwhile may be left out. Resolves to the number of
   * answers that have changed; no file has a byte of what they were after the next `Regulations.scrub`.
   * Rejects with a `StorageError`.
   */
  redactAnswers(redact: (answer: string) => string, onSlice?: () => void): Promise<number>;
}

export interface PendingQuery {
  /** Ids of destinations or lanes. */
  readonly destinations: readonly number[];
  /** Only deliveries tried before (true) or never (false). */
  readonly tried?: boolean;
}

export interface PendingPage {
  /** Descending, each once. */
  readonly positions: readonly Position[];
  readonly next?: Position;
}

export interface EventHistory {
  /**
   * One entry for each destination that was to get the event, first or again, by id. Several deliveries to
   * one destination are one entry: pending while any of them is, otherwise dead when any of them is,
   * otherwise dropped, with the requests of all.
   */
  readonly deliveries: readonly DeliveryHistory[];
  /** Destinations of the source that were not to get it, by id, with the reason. */
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}

export interface DeliveryHistory {
  /**
   * Id of the destination; with `success: each`, that of the endpoint's lane (`lanesOf` in
   * model/destination.ts).
   */
  readonly destination: number;
  /** `pending`: not tried yet. `retrying`: tried, and will be tried again. */
  readonly state: 'pending' | 'retrying' | 'delivered' | GivenUp;
  /** Why the delivery is dead or dropped. */
  readonly reason?: string;
  /** Of a dropped one, as in `DeadLetter`. */
  readonly note?: string | undefined;
  /** When it is due, while it waits on disk; may be in the past. Absent while a process holds it. */
  readonly nextAttemptAt?: Monotonic;
  /** In the order in which they began. The latency of accepted ones is kept to a tenth of a millisecond. */
  readonly attempts: readonly Attempt[];
}

/** Whether a delivery has not ended yet. */
export function isOwed(state: DeliveryHistory['state']): boolean {
  return state === 'pending' || state === 'retrying';
}

/**
 * Keeps the health of endpoints over restarts. It is for people to read; no decision depends on it. A restart
 * may miss the changes since the last save.
 */
export interface EndpointHealthStore {
  /**
   * Resolves to the health of all destinations, without those that were never saved or whose record cannot be
   * read.
   */
  load(): Promise<readonly DestinationHealth[]>;

  /**
   * Replaces the records of these destinations, all or none. A destination without endpoints loses its
   * record. Called in the same turn as `DeliveryQueue.settle`, it shares the commit of that. Rejects with a
   * `StorageError` when nothing was written.
   */
  save(healths: readonly DestinationHealth[]): Promise<void>;
}

export interface DestinationHealth {
  /** Id of the destination. */
  readonly destination: number;
  /** In the order of the settings. */
  readonly endpoints: readonly EndpointHealth[];
}

/**
 * Takes over the deliveries of an append. No method may fail or wait, because the events are stored already.
 */
export interface LiveDelivery {
  /**
   * Reserves room in memory before the append, and gives the number of deliveries that have room. The caller
   * appends so many as held, and passes them to `deliver` or gives their room back with `unreserve`. It
   * appends the others as parked and announces them with `parked`.
   */
  reserve(destination: number, deliveries: number): number;
  unreserve(destination: number, deliveries: number): void;
  deliver(destination: number, deliveries: readonly ReadyDelivery[]): void;
  /** Deliveries of this destination wait on disk, due at `at`. */
  parked(destination: number, at: Monotonic): void;
}

/** A delivery with its event, ready to be sent. */
export interface ReadyDelivery extends ClaimedDelivery {
  readonly serialized: SerializedEvent;
  /** Id of the event's source. */
  readonly source: number;
}
