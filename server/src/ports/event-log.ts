import type { Position } from '../model/event.ts';
import type { JsonLine, SerializedEvent } from '../model/serialized-event.ts';
import type { Duration, Monotonic } from '../model/time.ts';
import type { ClockMark } from './clock.ts';
import type { PendingSetId } from './delivery-queue.ts';

/**
 * The append-only record of everything accepted. It is also where deliveries are born: what an append owes is a fact
 * of the same commit, so that a crash can neither keep an event without its deliveries nor the other way round.
 */
export interface EventLog {
  /**
   * Stores a batch in one atomic commit: its events, what is owed for them, and what they add to the ledger.
   *
   * - Resolves only when the commit is on stable storage; then it survives the death of the process and of the machine.
   * - Rejects with a `StorageError` when nothing of the batch is stored. An adapter that cannot tell at first whether
   *   its commit happened finds out before it answers.
   * - The same batch id again gives the same answer and stores nothing, as long as the id is among the last 64 of the batches
   *   that stored events, or of those that stored none.
   * - An event whose (source, messageId) was stored within the dedupe window, or stands earlier in the same batch, is a
   *   duplicate: counted, not stored, not owed, not skipped. The test is exact, and the window survives restarts, whatever
   *   the retention of events. An event that was erased or is damaged has no duplicates.
   * - Events get their positions in the order given.
   */
  append(batch: Batch): Promise<AppendResult>;

  /**
   * The events at these positions, in the order asked. An event that is no longer there (erased, or past its retention)
   * is `undefined`, and so is one whose bytes have changed since they were stored.
   */
  read(positions: readonly Position[]): Promise<(StoredEvent | undefined)[]>;

  /** Of these positions those whose event should be there and cannot be read, because its bytes have changed. */
  damaged(positions: readonly Position[]): Promise<readonly Position[]>;

  /**
   * The positions of events, the newest first: those with this messageId, those of this user, or those that arrived in a
   * range of monotonic time. Exact, over everything stored, but for `like`; a damaged event is
   * found by its ids where their hashes are whole. May look at a part only: go on with `below: next` until
   * `next` is absent. In the order of the log (`oldestFirst`) it goes on from `next` upwards, that position included.
   */
  find(query: LogQuery, below?: Position): Promise<PositionPage>;

  /**
   * Removes what a user did: every event with this userId becomes a gap, what is owed of it is counted `erased`, and its
   * bytes are gone from the files when this resolves. Other events keep their positions. Resolves to how many events.
   */
  erase(userId: string): Promise<number>;

  /**
   * Does some of what keeps the log small and quick, within about `budget` milliseconds: merges small chunks, seals keys,
   * drops what is older than its retention or beyond the space allowed, gives pages back to the disk. What is still owed of
   * a dropped event is dead with the reason `retention_over` in the same commit; its messageId is kept for as long as
   * `Retention.messageIds` says. Looks through everything stored for damage, a little each time. Resolves to whether there is
   * more to do.
   *
   * `mark`: the clocks as they are now, kept for the process after this one (`Store.lastMark`).
   */
  maintain(now: Monotonic, retention: Retention, budget: Duration, mark?: ClockMark): Promise<boolean>;

  size(): Promise<LogSize>;

  /**
   * How much arrived in a range of time and is stored, gaps of erased events included: never fewer than `find` finds there.
   * May count a part only: go on with `next`, a position, until it is absent.
   */
  rangeSize(range: { readonly from: Monotonic; readonly to: Monotonic }, from: Position): Promise<RangeSize>;
}

/** How much is stored. */
export interface RangeSize {
  readonly events: number;
  /** Of their JSON; of a chunk that lies in the range by a part only, that part of its bytes. */
  readonly bytes: number;
  readonly next?: Position;
}

export type LogQuery =
  | { readonly messageId: string }
  | { readonly userId: string }
  /** From `from` (inclusive) to `to` (exclusive), by the time of arrival. */
  | {
      readonly from: Monotonic;
      readonly to: Monotonic;
      readonly like?: EventPrefilter;
      readonly oldestFirst?: true;
    };

/**
 * What an event must be like. It only spares reading: an adapter finds every event that is like this and leaves out of the
 * others what it can tell without reading them, so callers look at each event themselves. Whatever is absent may be anything.
 */
export interface EventPrefilter {
  /** Id of the source. */
  readonly source?: number;
  readonly type?: string;
  readonly anonymousId?: string;
  /** Name of what was tracked, of the page or of the screen; a `*` at the end stands for any rest. */
  readonly event?: string;
  /** A delivery to one of these destinations, by id as they are owed, is or was owed of it. */
  readonly owedTo?: readonly number[];
  /** One of those is settled and not dead. */
  readonly isDelivered?: true;
}

export interface PositionPage {
  readonly positions: readonly Position[];
  readonly next?: Position;
  /** Positions passed, those found and those that were not: how far one answer has looked. */
  readonly scanned: number;
  /** About when the event at `next` arrived. */
  readonly reachedAt?: Monotonic;
}

export interface Retention {
  readonly events: Duration;
  /** How long dead letters, and the events they are about, are kept. */
  readonly deadLetters: Duration;
  /**
   * How long a messageId is remembered at least, whatever becomes of its event: the longest dedupe window in use. The store's
   * own window when absent.
   */
  readonly messageIds?: Duration;
  /** Bytes the store may take; the oldest events go first. Absent: no bound. */
  readonly disk?: number;
}

export interface LogSize {
  /** Positions held, gaps included. */
  readonly events: number;
  /** Bytes of the file. */
  readonly bytes: number;
  /** When the oldest event arrived; absent when there is none. */
  readonly oldestAt?: Monotonic;
  /** Absent while everything that was looked at is whole. */
  readonly damage?: Damage;
}

/** What was stored and cannot be read any more, because its bytes have changed. It goes with its retention. */
export interface Damage {
  readonly events: number;
  /** Deliveries of which is only known how many there were. */
  readonly deliveries: number;
  /** When the first of it was found; absent within the second of its finding. */
  readonly foundAt?: Monotonic;
  /** Parts that hold no events, such as records of destinations, and upkeep that is left undone; absent when there are none. */
  readonly others?: readonly string[];
}

export interface Batch {
  /** Unique per batch. */
  readonly id: string;
  /** When it arrived. It counts from here, for as long as anything is remembered of it. */
  readonly receivedAt: Monotonic;
  readonly events: readonly NewEvent[];
  readonly owed: readonly OwedEvents[];
  readonly skipped: readonly SkippedEvents[];
  /** What happened at the parser since the last batch. */
  readonly received: readonly CallCounts[];
}

export interface NewEvent {
  /** Id of the source. */
  readonly source: number;
  readonly messageId: string;
  /** How long its messageId is remembered; the store's own window (24 hours) when absent. */
  readonly dedupeWindow?: Duration | undefined;
  /** The user it can be found and erased by. */
  readonly userId?: string | undefined;
  /** The canonical event as compact JSON. */
  readonly json: string;
  /** `json` in UTF-8, where it is written already. The adapter may keep these bytes, so nobody changes them. */
  readonly line?: JsonLine | undefined;
  /** Both ids where they stand, so that whoever only hashes or compares them need not have them as texts. */
  readonly idRanges?: IdRanges | undefined;
}

/** Both ids of an event in some bytes that hold its JSON, as ASCII without escapes. */
export interface IdRanges {
  readonly bytes: Uint8Array;
  /** Where its messageId begins and ends. */
  readonly idFrom: number;
  readonly idTo: number;
  /** Where its userId begins and ends; twice 0 when it has none. */
  readonly userFrom: number;
  readonly userTo: number;
}

/** Events of the batch that a destination is to get. */
export interface OwedEvents {
  /** Id of the destination. */
  readonly destination: number;
  /** `held`: the caller delivers them from memory now. `parked`: they wait in the backlog until claimed. */
  readonly state: 'held' | 'parked';
  /** Indexes into `events`, ascending. */
  readonly indexes: readonly number[];
}

/** Events of the batch that a destination of their source does not get, and why. */
export interface SkippedEvents {
  readonly destination: number;
  readonly reason: string;
  readonly indexes: readonly number[];
}

/** How many calls of a source were parsed, and how many of them were discarded, by reason. */
export interface CallCounts {
  readonly source: number;
  readonly calls: number;
  readonly discarded: Readonly<Record<string, number>>;
}

export interface AppendResult {
  /** One entry per event of the batch; `undefined` where the event is a duplicate. */
  readonly positions: readonly (Position | undefined)[];
  /** One entry per entry of `owed`: the pending set the caller now holds; `undefined` where nothing is held. */
  readonly held: readonly (PendingSetId | undefined)[];
}

export interface StoredEvent extends SerializedEvent {
  readonly source: number;
}

/** Nothing was stored. `reason` says what an operator can do about it. */
export class StorageError extends Error {
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.name = 'StorageError';
    this.reason = reason;
  }
}
