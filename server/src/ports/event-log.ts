import type { Position } from '../model/event.ts';
import type { EventPlan } from '../model/plan.ts';
import type { ErasedCounts } from '../model/regulation.ts';
import type { JsonLine, SerializedEvent } from '../model/serialized-event.ts';
import type { Duration, Monotonic, Time } from '../model/time.ts';
import type { ClockMark } from './clock.ts';
import type { PendingSetId } from './delivery-queue.ts';

/**
 * The append-only log of accepted events. An append also enqueues their deliveries in the same commit: a
 * crash can neither keep an event without its deliveries nor deliveries without their event.
 */
export interface EventLog {
  /**
   * Stores a batch in one atomic commit: its events, their deliveries, and their counts in the ledger.
   *
   * - Resolves only when the commit is on stable storage; then it survives the death of the process and of
   *   the machine.
   * - Rejects with a `StorageError` when nothing of the batch is stored. An adapter whose commit is in doubt
   *   finds out before it answers.
   * - The same batch id again gives the same answer and stores nothing, as long as the id is among those of
   *   the last 64 batches that stored events, or of the last 64 that stored none.
   * - An event whose (source, messageId) was stored within the dedupe window, or comes earlier in the same
   *   batch, is a duplicate: it is counted, but neither stored nor owed nor skipped. The test is exact. The
   *   window survives restarts and does not depend on the retention of events. An event that was erased or is
   *   damaged has no duplicates.
   * - Events get their positions in the order of the batch.
   */
  append(batch: Batch): Promise<AppendResult>;

  /** Resolves to the highest number of an event that a producer appended; 0 before its first one. */
  producedTo(producer: string): Promise<number>;

  /**
   * Resolves to the events at these positions, in their order. Undefined stands for an event that is gone
   * (erased, or past its retention) or whose bytes have changed since they were stored.
   */
  read(positions: readonly Position[]): Promise<(StoredEvent | undefined)[]>;

  /**
   * Resolves to those of the positions whose event exists but cannot be read, because its bytes have changed.
   */
  damaged(positions: readonly Position[]): Promise<readonly Position[]>;

  /**
   * Finds events by messageId, by user, by anonymousId, or by a range of monotonic time of arrival, the
   * newest first. Exact over everything stored, except for `like`. Finds a damaged event by its ids if their
   * hashes are whole. A page may be partial: go on with `below: next` until `next` is absent. With
   * `oldestFirst` the next page begins at `next`, that position included.
   */
  find(query: LogQuery, below?: Position): Promise<PositionPage>;

  /**
   * Erases the events of users, but for delete notifications, which their regulation erases. Each event
   * becomes a gap; its pending deliveries and its dead letters count as `erased`, and the answers of
   * endpoints to it are dropped. Other events keep their positions. Works in slices, each a commit. The bytes
   * may be in the files until `Regulations.scrub`.
   */
  erase(erasure: Erasure): Promise<ErasedCounts>;

  /** Erases the events at these positions in the same way, whatever they are. */
  eraseAt(positions: readonly Position[]): Promise<ErasedCounts>;

  /**
   * Finds those of some ids that other users have used too: a stored event has the id as its anonymousId, or
   * as the previousId of an alias that counts, and a userId that is none of `owners`. Works in slices: go on
   * from the position `next` until it is absent.
   */
  sharedIds(query: SharedIdsQuery, from: Position): Promise<SharedIds>;

  /**
   * Does one slice of maintenance, for about `budget` milliseconds: merges small chunks, writes the key index
   * to disk, drops events older than their retention or beyond the allowed space, and gives pages back to the
   * disk. Pending deliveries of a dropped event become dead with the reason `retention_over` in the same
   * commit; its messageId is kept for `Retention.messageIds`. Checks a little of the stored data for damage
   * each time. Resolves to whether there is more to do.
   *
   * `mark` is the reading of both clocks, stored for the next process (`Store.lastClockMark`).
   */
  maintain(now: Monotonic, retention: Retention, budget: Duration, mark?: ClockMark): Promise<boolean>;

  size(): Promise<LogSize>;

  /**
   * Counts the stored events that arrived in a range of time, including gaps of erased events: never fewer
   * than `find` finds there. An answer may be partial: go on from the position `next` until it is absent.
   */
  rangeSize(range: { readonly from: Monotonic; readonly to: Monotonic }, from: Position): Promise<RangeSize>;
}

/** Number and size of stored events. */
export interface RangeSize {
  readonly events: number;
  /** Bytes of JSON. A chunk that is only partly in the range counts in proportion. */
  readonly bytes: number;
  readonly next?: Position;
}

/** The ids whose events are erased. */
export interface Erasure {
  readonly userIds: readonly string[];
  /** Ids whose events without a userId are erased. */
  readonly anonymousIds?: readonly string[];
  /** Only events below this position. */
  readonly below?: Position;
  /** The regulation whose receipt counts what is erased, in the same commits. */
  readonly regulation?: string;
  /**
   * Called after each commit with the positions of events that are gone, so that none is sent from memory.
   */
  readonly onErased?: ((positions: readonly Position[]) => void) | undefined;
}

export interface SharedIdsQuery {
  readonly ids: readonly string[];
  /** UserIds. */
  readonly owners: readonly string[];
  /** Ids of the sources whose aliases count. */
  readonly trusted: readonly number[];
}

export interface SharedIds {
  readonly shared: readonly string[];
  readonly next?: Position | undefined;
}

export type LogQuery =
  | { readonly messageId: string }
  | { readonly userId: string }
  /** Events with this anonymousId and without a userId. */
  | { readonly anonymousId: string }
  /** The events of all these users, and those with one of these anonymousIds and without a userId. */
  | OwnersQuery
  /** From `from` (inclusive) to `to` (exclusive), by the time of arrival. */
  | {
      readonly from: Monotonic;
      readonly to: Monotonic;
      readonly like?: EventPrefilter;
      readonly oldestFirst?: true;
    };

/** One pass over the log, whether for a hundred ids or for ten thousand. */
export interface OwnersQuery {
  readonly userIds: readonly string[];
  readonly anonymousIds: readonly string[];
}

/**
 * So many ids are looked for by themselves: the log finds the events of one without a look at most of the
 * others.
 */
const FEW_OWNERS = 16;

/** The queries for the events of users, and of anonymousIds without a userId. */
export function ownerQueries(userIds: readonly string[], anonymousIds: readonly string[]): LogQuery[] {
  if (userIds.length + anonymousIds.length > FEW_OWNERS) return [{ userIds, anonymousIds }];
  return [
    ...userIds.map((userId): LogQuery => ({ userId })),
    ...anonymousIds.map((anonymousId): LogQuery => ({ anonymousId })),
  ];
}

/**
 * Conditions that narrow a search before events are read. An adapter finds all events that meet them, and
 * possibly others: callers check each event themselves. An absent condition admits everything.
 */
export interface EventPrefilter {
  /** Id of the source. */
  readonly source?: number;
  readonly type?: string;
  readonly anonymousId?: string;
  /** Name of the tracked action, the page or the screen; a `*` at the end stands for any rest. */
  readonly event?: string;
  /** Ids of destinations or lanes. The event has or had a delivery to at least one of them. */
  readonly owedTo?: readonly number[];
  /** One of those deliveries is settled and not dead. */
  readonly isDelivered?: true;
}

export interface PositionPage {
  readonly positions: readonly Position[];
  readonly next?: Position;
  /** Number of positions that were searched for this page. */
  readonly scanned: number;
  /** Approximate arrival of the event at `next`. */
  readonly reachedAt?: Monotonic | undefined;
}

export interface Retention {
  readonly events: Duration;
  /** How long dead letters and their events are kept. */
  readonly deadLetters: Duration;
  /**
   * How long a messageId is remembered at least, even after its event is gone: the longest dedupe window in
   * use. Absent: the store's own window.
   */
  readonly messageIds?: Duration;
  /** Entries of the audit trail from before this time of the wall clock go. Absent: none do. */
  readonly auditBefore?: Time;
  /**
   * Regulations that ended before this time of the wall clock go; whom they suppress stays suppressed.
   * Absent: none do.
   */
  readonly regulationsBefore?: Time;
  /** Bytes that the store may take; the oldest events go first. Absent: no limit. */
  readonly disk?: number;
}

export interface LogSize {
  /** Positions in the log, gaps included. */
  readonly events: number;
  /** The position of the next event. */
  readonly end: Position;
  /** Bytes of the file. */
  readonly bytes: number;
  /** When the oldest event arrived; absent when there is none. */
  readonly oldestAt?: Monotonic | undefined;
  /** Absent while no damage was found. */
  readonly damage?: Damage | undefined;
}

/** Stored data that cannot be read, because its bytes have changed. It is dropped when its retention ends. */
export interface Damage {
  readonly events: number;
  /** Deliveries that are lost but for their number. */
  readonly deliveries: number;
  /** When the first damage was found; may be absent within a second of that. */
  readonly foundAt?: Monotonic | undefined;
  /**
   * Damaged parts without events, such as records of destinations, and maintenance left undone; absent when
   * there are none.
   */
  readonly others?: readonly string[] | undefined;
}

export interface Batch {
  /** Unique per batch. */
  readonly id: string;
  /** Arrival of the batch. All retention and dedupe windows of its events begin here. */
  readonly receivedAt: Monotonic;
  readonly events: readonly NewEvent[];
  /** The different plans of its events. */
  readonly plans: readonly EventPlan[];
  /** For each event the index of its plan in `plans`. An event without an index has the empty plan. */
  readonly planIndexes: readonly number[];
  /**
   * Events that the plans owe, by destination and origin: each event is in one entry of each destination that
   * its plan owes.
   */
  readonly owed: readonly OwedEvents[];
  /** Counts of the parser since the last batch. */
  readonly received: readonly CallCounts[];
  /**
   * Numbers the events for a producer that appends them again after a crash. Absent for the calls of clients.
   * With a producer `received` is empty: the log counts each event that it did not know as a received call.
   */
  readonly producer?: Producer;
}

/**
 * A part of the program that makes events and appends them again when an answer was lost. Its events have
 * consecutive numbers from 1 up, and it appends them in that order, one batch after the other. The log keeps
 * the highest number of each producer in the commit of the batch, for ever. An event up to that number is
 * known: it gets no position, and no counter counts it again.
 */
export interface Producer {
  /** Visible ASCII, at most 64 characters. */
  readonly name: string;
  /** Number of the first event of the batch. */
  readonly sequence: number;
}

export interface NewEvent {
  /** Id of the source. */
  readonly source: number;
  readonly messageId: string;
  /** How long its messageId is remembered. Absent: the store's own window, 24 hours. */
  readonly dedupeWindow?: Duration | undefined;
  /** The id by which the event can be found and erased. */
  readonly userId?: string | undefined;
  /** The canonical event as compact JSON. */
  readonly json: string;
  /** `json` in UTF-8, if written already. The adapter may keep these bytes: they must never change. */
  readonly line?: JsonLine | undefined;
  /** Both ids as byte ranges, which spares making texts of ids that are only hashed or compared. */
  readonly idRanges?: IdRanges | undefined;
}

/** Ranges of both ids of an event in its JSON. Both are ASCII without escapes. */
export interface IdRanges {
  readonly bytes: Uint8Array;
  /** The messageId. */
  readonly idFrom: number;
  readonly idTo: number;
  /** The userId; both 0 when there is none. */
  readonly userFrom: number;
  readonly userTo: number;
}

/** Events of the batch that are owed to a destination. */
export interface OwedEvents {
  /** Id of the destination. */
  readonly destination: number;
  /** `held`: the caller delivers them from memory now. `parked`: they wait on disk until claimed. */
  readonly state: 'held' | 'parked';
  /** Indexes into `events`, ascending. */
  readonly indexes: readonly number[];
  /** On whose behalf the server made the events, as `ReplaySlice.origin`. Only of parked ones. */
  readonly origin?: string | undefined;
}

/** Numbers of a source's calls that were parsed, and that were discarded, by reason. */
export interface CallCounts {
  readonly source: number;
  readonly calls: number;
  readonly discarded: Readonly<Record<string, number>>;
}

export interface AppendResult {
  /**
   * One entry per event of the batch; undefined for a duplicate, and for one that the producer had appended
   * before.
   */
  readonly positions: readonly (Position | undefined)[];
  /**
   * One entry per entry of `owed`: the pending set that the caller now holds; undefined when nothing is held.
   */
  readonly held: readonly (PendingSetId | undefined)[];
}

export interface StoredEvent extends SerializedEvent {
  readonly source: number;
}

/** The store failed, and the change was not made. `reason` tells an operator what to do. */
export class StorageError extends Error {
  readonly reason: string;

  constructor(reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.name = 'StorageError';
    this.reason = reason;
  }
}

/** The store is well and refuses these very contents, whatever the reason: others it would take. */
export class RefusedContentError extends StorageError {}

/**
 * Reads the log from a position on, in the order of the positions. A reader has its own connection to the
 * store: it neither waits for commits nor makes them wait.
 */
export interface LogReader {
  /**
   * Resolves to the stored events from `from` on, at most about `max`: whole chunks are read, so a page may
   * hold some more. An empty page whose `next` is above `from` is a gap; with `next` equal to `from` the log
   * ends there.
   */
  page(from: Position, max: number): Promise<LogPage>;

  /** Resolves to the position of the oldest stored event, and to the one behind the newest. */
  bounds(): Promise<{ readonly first: Position; readonly end: Position }>;

  /** As `EventLog.producedTo`. */
  producedTo(producer: string): Promise<number>;

  stop(): Promise<void>;
}

/** Events of a page of the log. The line of an event that is gone or damaged is empty. */
export interface LogPage {
  /** Position of the first line. */
  readonly first: Position;
  /** Lines of compact JSON with a line feed between them. */
  readonly lines: Uint8Array;
  /** Where each line begins, and one more. */
  readonly starts: Uint32Array;
  readonly sources: Uint32Array;
  /** When each event arrived. */
  readonly times: Float64Array;
  /** Where the next page begins. */
  readonly next: Position;
}
