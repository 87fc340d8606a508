import type { Attempt, Decision, Delivery } from '../model/delivery.ts';
import type { Position } from '../model/event.ts';
import type { Ledger } from '../model/ledger.ts';
import type { Monotonic } from '../model/time.ts';

/** One pending set: the deliveries of one destination that were owed, claimed or retried together. */
export type SetId = number;

/**
 * What is still owed, and to whom. A delivery is in exactly one pending set until it is settled, and every set is
 * either *held* by the process that delivers it from memory, *parked* (due at once), or *waiting* (due later).
 */
export interface Backlog {
  /** Every destination that something is pending for, counted from the sets themselves. */
  lanes(): Promise<readonly LaneStat[]>;

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
  settle(results: readonly Result[]): Promise<Settled>;

  /**
   * Makes everything of a destination that waits for its next try due at `now`: its endpoint is back, and nothing is left
   * to its delay. Resolves to how many deliveries.
   */
  release(destination: number, now: Monotonic): Promise<number>;

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
  owe(slice: OwedSlice): Promise<Owing>;

  /** Parks every set whose holder is gone. Called once, before anything is claimed. Resolves to how many deliveries. */
  adopt(): Promise<number>;

  /** All counters, with `pending` counted from the sets. */
  ledger(): Promise<Ledger>;
}

/** Some of the events that somebody owes once more. */
export interface OwedSlice {
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
export interface Owing {
  readonly cursor: number;
  /** Events owed so far. */
  readonly events: number;
  /** Deliveries that are not settled for good yet, by id of the destination; those with none are left out. */
  readonly pending: ReadonlyMap<number, number>;
}

export interface LaneStat {
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
  readonly deliveries: readonly Held[];
  /** When the next delivery left on disk is due; may be in the past. Absent when nothing is left. */
  readonly nextDueAt?: Monotonic;
}

/** A delivery in the hands of this process. */
export interface Held {
  readonly set: SetId;
  readonly delivery: Delivery;
  /** On whose behalf it is owed once more; absent when it is owed since its event was stored. */
  readonly origin?: string;
}

/** What became of one held delivery. */
export interface Result {
  readonly set: SetId;
  readonly destination: number;
  readonly position: Position;
  /** The requests of the round just made, in the order they ended. */
  readonly attempts: readonly Attempt[];
  readonly decision: Decision;
}

export interface Settled {
  /** Results that changed nothing. */
  readonly ignored: number;
}
