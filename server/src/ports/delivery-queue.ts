import type { Attempt, Decision, Delivery } from '../model/delivery.ts';
import type { EndpointHealth } from '../model/endpoint-health.ts';
import type { Position } from '../model/event.ts';
import type { Ledger } from '../model/ledger.ts';
import type { SerializedEvent } from '../model/serialized-event.ts';
import type { Monotonic } from '../model/time.ts';

/** One pending set: the deliveries of one destination that were owed, claimed or retried together. */
export type PendingSetId = number;

/**
 * What is still owed, and to whom. A delivery is in exactly one pending set until it is settled, and every set is
 * either *held* by the process that delivers it from memory, *parked* (due at once), or *waiting* (due later).
 */
export interface DeliveryQueue {
  /** Every destination that something is pending for, counted from the sets themselves. */
  stats(): Promise<readonly QueueStats[]>;

  /**
   * Hands out up to `max` deliveries of a destination that are due at `now`, the longest due first; they are then held
   * by the caller. A delivery is never handed out twice while it is held.
   */
  claim(destination: number, max: number, now: Monotonic): Promise<Claim>;

  /**
   * Writes results, all or nothing. A delivered or dead delivery leaves its set; a retried one moves to a waiting set.
   * Attempts that failed are kept. A result for a delivery that is not in its set (settled before, or no longer held by
   * this process) changes nothing and is counted in the answer.
   * Rejects with a `StorageError` when nothing was written; the caller still holds everything and may try again.
   */
  settle(results: readonly DeliveryResult[]): Promise<SettleResult>;

  /**
   * Makes everything of a destination that waits for its next try due at `now`: its endpoint is back, and nothing is left
   * to its delay. Resolves to how many deliveries.
   */
  makeDue(destination: number, now: Monotonic): Promise<number>;

  /**
   * Gives up what the retry window has passed: of the deliveries on disk those never tried and due before `before`, and
   * those whose first failure was before it. They are dead with this reason. Works in slices, so that nothing else waits
   * for it: resolves to how many deliveries this slice buried; call again until it says 0.
   */
  expire(destination: number, before: Monotonic, reason: string): Promise<number>;

  /**
   * Owes stored events once more, parked and due at `now`: new deliveries, counted `owed` in the ledger in the same commit,
   * beside whatever else is owed of these events. They keep their origin until they are settled for good, also through
   * retries, handing back and restarts, and as dead letters that are revived.
   *
   * A slice begins where its origin stands, and the same commit says where it stands afterwards; one that begins elsewhere
   * was owed before and changes nothing. So whoever goes by `Owing.cursor` owes everything once, whatever crash comes between.
   */
  enqueue(slice: ReplaySlice): Promise<ReplayProgress>;

  /** Parks every set whose holder is gone. Called once, before anything is claimed. Resolves to how many deliveries. */
  recoverOrphans(): Promise<number>;

  /** All counters, with `pending` counted from the sets. */
  ledger(): Promise<Ledger>;
}

/** Some of the events that somebody owes once more. */
export interface ReplaySlice {
  /** On whose behalf, such as the id of a replay: visible ASCII, at most 64 characters. Requests carry it. */
  readonly origin: string;
  /** Ids of the destinations; each is owed all of the positions, but for those that `only` names. */
  readonly destinations: readonly number[];
  /** By id of a destination, ascending: of the positions it is owed these alone. */
  readonly only?: ReadonlyMap<number, readonly Position[]>;
  /** Ascending, each once. There may be none, when only the cursor moves. */
  readonly positions: readonly Position[];
  /** Where the origin stands before and after, in whatever it counts by; it begins at 0. Opaque to the store. */
  readonly from: number;
  readonly to: number;
  readonly now: Monotonic;
}

/** How far an origin has come. */
export interface ReplayProgress {
  readonly cursor: number;
  /** Events owed so far. */
  readonly events: number;
  /** Deliveries that are not settled for good yet, by id of the destination; those with none are left out. */
  readonly pending: ReadonlyMap<number, number>;
}

export interface QueueStats {
  /** Id of the destination. */
  readonly destination: number;
  readonly held: number;
  /** Parked and waiting. */
  readonly onDisk: number;
  /** How many of both were tried before. */
  readonly retrying: number;
  /** When the first delivery on disk is due; may be in the past. Absent when nothing is on disk. */
  readonly nextDueAt?: Monotonic;
  /** When the oldest event arrived of which a delivery is pending, held or on disk. Absent when it is no longer there. */
  readonly oldestAt?: Monotonic;
}

export interface Claim {
  readonly deliveries: readonly HeldDelivery[];
  /** When the next delivery left on disk is due; may be in the past. Absent when nothing is left. */
  readonly nextDueAt?: Monotonic;
}

/** A delivery in the hands of this process. */
export interface HeldDelivery {
  readonly set: PendingSetId;
  readonly delivery: Delivery;
  /** On whose behalf it is owed once more; absent when it is owed since its event was stored. */
  readonly origin?: string;
}

/** What became of one held delivery. */
export interface DeliveryResult {
  readonly set: PendingSetId;
  readonly destination: number;
  readonly position: Position;
  /** The requests of the round just made, in the order they ended. */
  readonly attempts: readonly Attempt[];
  readonly decision: Decision;
}

export interface SettleResult {
  /** Results that changed nothing. */
  readonly ignored: number;
}

/** Deliveries that were given up: kept with their reason until their retention passes, to be read and to be sent again. */
export interface DeadLetterQueue {
  /**
   * The newest first, at most `limit`; go on with `next` until it is absent. May look at a part only, and so give fewer, or
   * none, and a `next`.
   */
  list(query: DeadLetterQuery, limit: number, from?: string): Promise<DeadLetterPage>;

  /** How many the query finds. Works in slices, so that nothing else waits for it: go on with `next` until it is absent. */
  count(query: DeadLetterQuery, from?: string): Promise<DeadLetterCount>;

  /**
   * Owes what the query finds once more, due at `now`, as if it had never been tried: with a new retry window, and with the
   * requests made before still in its history. In the ledger it is pending again and no longer dead. Works in slices: go on
   * with `next` until it is absent. What has been given up since `now` is left out, so that nothing is revived twice.
   */
  redeliver(slice: RedeliverySlice): Promise<DeadLetterCount>;
}

export interface RedeliverySlice {
  readonly query: DeadLetterQuery;
  readonly now: Monotonic;
  /** Only what was given up before this; `now` when absent. */
  readonly before?: Monotonic;
  /** `next` of the slice before. */
  readonly from?: string;
  /** On whose behalf; what is revived is counted there (`History.owing`, events) by the same commit. Deliveries keep their own. */
  readonly origin?: string;
}

export interface DeadLetterCount {
  readonly count: number;
  /** Where the next slice begins; opaque. */
  readonly next?: string;
}

export interface DeadLetterQuery {
  /** Ids of destinations, as they are owed. */
  readonly destinations: readonly number[];
  /** Only those with this reason. */
  readonly reason?: string;
  /** Given up from (inclusive) to (exclusive). */
  readonly from?: Monotonic;
  readonly to?: Monotonic;
  /** Only these. */
  readonly only?: readonly { readonly destination: number; readonly position: Position }[];
}

export interface DeadLetter {
  readonly destination: number;
  readonly position: Position;
  readonly reason: string;
  /** When it was given up. */
  readonly at: Monotonic;
}

export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** Where the next page begins; opaque. */
  readonly next?: string;
}

/** What became of single events: exact, for every event that is stored, and not a sample. */
export interface DeliveryHistories {
  /**
   * What is known of the events at these positions, in the order asked; `undefined` for one that is no longer there.
   * Meant for a page of events that somebody looks at, not for delivering.
   */
  read(positions: readonly Position[]): Promise<(EventHistory | undefined)[]>;

  /**
   * Where deliveries are pending that the query asks for, the highest positions first, at most `max`; go on with `below: next`
   * until it is absent. The cost goes by what is pending, and not by what is stored.
   */
  findPending(query: PendingQuery, max: number, below?: Position): Promise<PendingPage>;

  /** How far what an origin owes once more has come; from its beginning when nothing was owed yet. See `Backlog.owe`. */
  progress(origin: string): Promise<ReplayProgress>;
}

export interface PendingQuery {
  /** Ids of destinations, as they are owed. */
  readonly destinations: readonly number[];
  /** Only those tried before (true) or never (false). */
  readonly tried?: boolean;
}

export interface PendingPage {
  /** Descending, each once, whatever number of deliveries is pending there. */
  readonly positions: readonly Position[];
  readonly next?: Position;
}

export interface EventHistory {
  /**
   * To every destination that was to get it, or that it was owed to once more, by id. One that is owed it several times is
   * here once: pending as long as any of its deliveries is, otherwise dead when one of them is, with the requests of all.
   */
  readonly deliveries: readonly DeliveryHistory[];
  /** Destinations of its source that were not, by id, and why. */
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}

export interface DeliveryHistory {
  /** As it was owed: with `success: each` one for each endpoint (model/destination.ts, `lanesOf`). */
  readonly destination: number;
  /** `pending`: not tried yet. `retrying`: tried, and it will be again. */
  readonly state: 'pending' | 'retrying' | 'delivered' | 'dead';
  /** Why it is dead. */
  readonly reason?: string;
  /** When it is due, while it waits on disk; may be in the past. Absent when it is in the hands of a process. */
  readonly nextAttemptAt?: Monotonic;
  /** In the order they were begun. Of those that were accepted the latency is kept to a tenth of a millisecond. */
  readonly attempts: readonly Attempt[];
}

/**
 * How endpoints have done, over restarts. It is for people who look, and nothing is decided by it: what was kept last
 * is what a restart finds, and what happened since may be missing.
 */
export interface EndpointHealthStore {
  /** What is kept of every destination; one that nothing is kept of, or whose record cannot be read, is left out. */
  load(): Promise<readonly DestinationHealth[]>;

  /**
   * Puts what is kept of these destinations in the place of what was, all of them or none; one without endpoints is
   * forgotten. Asked in the same turn as `Backlog.settle`, it shares the commit of that.
   * Rejects with a `StorageError` when nothing was written.
   */
  save(healths: readonly DestinationHealth[]): Promise<void>;
}

export interface DestinationHealth {
  /** Id of the destination. */
  readonly destination: number;
  /** In the order of its settings. */
  readonly endpoints: readonly EndpointHealth[];
}

/** Takes over what an append owes. Nothing here may fail or wait: the events are stored whatever happens next. */
export interface LiveDelivery {
  /**
   * Asks for room in memory before the append, and says for how many of the deliveries there is. So many the caller appends as
   * held and hands over with `deliver`, or gives their room back with `release`; the others it appends as parked and says
   * so with `parked`.
   */
  reserve(destination: number, deliveries: number): number;
  release(destination: number, deliveries: number): void;
  deliver(destination: number, deliveries: readonly ReadyDelivery[]): void;
  /** Deliveries of this destination wait on disk, due at `at`. */
  parked(destination: number, at: Monotonic): void;
}

/** A delivery with its event, ready to be sent. */
export interface ReadyDelivery {
  readonly set: PendingSetId;
  readonly delivery: Delivery;
  readonly serialized: SerializedEvent;
  /** As in `Held`. */
  readonly origin?: string;
  /** Id of the source it came from. */
  readonly source: number;
}
