import type { AlertRecord } from '../../src/model/alert.ts';
import type { AudienceDefinition, TraitDefinition } from '../../src/model/definition.ts';
import type { Attempt, Delivery } from '../../src/model/delivery.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Position } from '../../src/model/event.ts';
import type { DestinationCounts, Ledger, SourceCounts } from '../../src/model/ledger.ts';
import type { SingleJob } from '../../src/model/node.ts';
import type { RegulationSubject } from '../../src/model/regulation.ts';
import type { Replay } from '../../src/model/replay.ts';
import type { Source, SplitRecord, TokenRecord } from '../../src/model/settings.ts';
import type { Monotonic, Time } from '../../src/model/time.ts';
import type { ClockMark } from '../../src/ports/clock.ts';
import type { DeadLetter, PendingSetId } from '../../src/ports/delivery-queue.ts';
import { type AppendResult, type CallCounts, StorageError } from '../../src/ports/event-log.ts';
import type { Acknowledged } from '../../src/ports/nodes.ts';
import type { StoredRegulation } from '../../src/ports/regulations.ts';
import type { StoredSession } from '../../src/ports/session-store.ts';
import type { AuditEntry } from '../../src/ports/settings-store.ts';

/**
 * Everything that another adapter has on disk. It outlives the store that wrote it: a second store opened on
 * the same contents stands for a restart after a crash.
 */
export interface MemoryContents {
  /** In the order of their positions. Erased and expired events are not in it. */
  readonly events: Map<Position, StoredRecord>;
  /** Of their JSON. */
  bytes: number;
  /**
   * Arrival of each erased event; it keeps its position until an event there would reach the end of its
   * retention.
   */
  readonly gaps: Map<Position, Monotonic>;
  /** The newest position ever given; positions start at 1. */
  lastPosition: Position;
  /** Events below are past their retention; only those with dead letters are still there. */
  retainedFrom: Position;
  /** The newest event of every source and messageId, by `nameKey`. Deduplication reads it. */
  readonly names: Map<string, Position>;
  /** Arrival of the newest expired event, by `nameKey`. Deduplication reads it too. */
  readonly expiredNames: Map<string, Monotonic>;
  /** Answers of the last batches with stored events, by batch id, the oldest first. */
  readonly answers: Map<string, AppendResult>;
  /** Answers of the last batches without stored events. */
  readonly emptyAnswers: Map<string, AppendResult>;
  /** The highest number of each producer. */
  readonly producers: Map<string, number>;

  readonly sets: Map<PendingSetId, PendingSet>;
  /** The id of the newest set. Ids are never reused, so a late result cannot hit another set. */
  lastSet: PendingSetId;
  /** Failed attempts in the order they were settled. */
  failures: StoredAttempt[];
  /** Accepted attempts by position. */
  readonly accepted: Map<Position, StoredAttempt[]>;
  /** In the order they died. */
  letters: StoredDeadLetter[];
  /** Events with a dead letter: they stay readable longer than others. */
  readonly dead: Set<Position>;
  /** Progress of each replay or redelivery, by origin. */
  readonly origins: Map<string, { readonly cursor: number; readonly events: number }>;

  /** By source id. */
  readonly sources: Map<number, SourceCounters>;
  /** By destination id. */
  readonly destinations: Map<number, DestinationCounters>;

  /** By name, removed records included. */
  readonly sourceRecords: Map<string, RecordEntry<Source>>;
  readonly destinationRecords: Map<string, RecordEntry<Destination>>;
  readonly audienceRecords: Map<string, RecordEntry<AudienceDefinition>>;
  readonly traitRecords: Map<string, RecordEntry<TraitDefinition>>;
  readonly alertRecords: Map<string, AlertRecord>;
  readonly tokenRecords: Map<string, TokenRecord>;
  readonly replayRecords: Map<string, Replay>;
  readonly splitRecords: Map<string, SplitRecord>;
  /** In the order of writing. */
  audit: AuditEntry[];
  /** The number of the newest regulation. */
  lastRegulation: number;
  /** Entries that retention has dropped. */
  auditGone: number;
  /** By id, in the order in which they began. */
  readonly sessions: Map<string, StoredSession>;
  /** By destination id, as JSON. */
  readonly endpointHealths: Map<number, string>;
  /** By id. */
  readonly regulations: Map<string, StoredRegulation>;
  readonly regulationSubjects: Map<string, readonly RegulationSubject[]>;
  /** By kind and id. */
  readonly suppressed: Map<string, StoredSuppression>;
  /** The clocks at the last maintenance. */
  clocks: ClockMark | undefined;

  /**
   * The opening that may write, where one process has the contents alone; every other one stands for a dead
   * process.
   */
  holder: Opening;
  lastHolder: Opening;
  /** Leases, jobs and numbers of changes that several processes share. */
  readonly shared: SharedContents;
}

/** Where several processes have the contents open at once. */
export interface SharedContents {
  /** The processes with a lease, by opening: all of them may write. */
  readonly members: Map<Opening, Membership>;
  /** Processes whose lease was taken from them, with the time when that was seen. */
  readonly gone: { readonly member: Membership; readonly at: Monotonic }[];
  readonly jobs: Map<SingleJob, Opening>;
  /** Turns at probing, by lane. Nobody has one whose holder is `NO_OPENING`. */
  readonly probes: Map<number, { readonly holder: Opening; readonly until: Monotonic }>;
  readonly erasures: { readonly by: Opening; readonly positions: readonly Position[] }[];
  /** Numbers of changes. */
  settings: number;
  suppressions: number;
}

export interface Membership {
  readonly name: string;
  readonly since: Time;
  /** The end of its lease. */
  expires: Monotonic;
  acknowledged: Acknowledged;
}

/** A stored event. */
export interface StoredRecord {
  readonly source: number;
  readonly messageId: string;
  readonly userId: string | undefined;
  readonly receivedAt: Monotonic;
  readonly json: string;
  /** Ids of the destinations that it was planned for. */
  readonly owed: readonly number[];
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}

/** Deliveries of one destination and one origin that share a due time. Never empty. */
export interface PendingSet {
  readonly id: PendingSetId;
  readonly destination: number;
  /** See `HeldDelivery.origin`. */
  readonly origin: string | undefined;
  /** Kept while the set is held: it is due at this time again when its holder dies. */
  dueAt: Monotonic;
  /** The process that delivers it from memory; undefined while it is on disk. */
  holder: Opening | undefined;
  readonly deliveries: Map<Position, Delivery>;
}

export interface StoredAttempt {
  readonly destination: number;
  readonly position: Position;
  readonly attempt: Attempt;
}

export interface StoredDeadLetter extends DeadLetter {
  readonly origin: string | undefined;
}

/** A suppressed id. Another adapter keeps only the hash where `userId` is undefined. */
export interface StoredSuppression {
  readonly kind: 'user' | 'anonymous';
  readonly id: string;
  /** The key of the user or visitor whom it is joined to. */
  readonly owner: string | undefined;
  readonly userId: string | undefined;
  readonly since: Time;
  readonly regulation: string;
}

/** A record keeps its id when it is removed. */
export interface RecordEntry<Of> {
  readonly record: Of;
  readonly isGone: boolean;
}

/** One opening of the contents. */
export type Opening = number;

/** The holder of contents that no store has open. */
export const NO_OPENING: Opening = 0;

export function emptyContents(): MemoryContents {
  return {
    events: new Map(),
    bytes: 0,
    gaps: new Map(),
    lastPosition: 0,
    retainedFrom: 1,
    names: new Map(),
    expiredNames: new Map(),
    answers: new Map(),
    emptyAnswers: new Map(),
    producers: new Map(),
    sets: new Map(),
    lastSet: 0,
    failures: [],
    accepted: new Map(),
    letters: [],
    dead: new Set(),
    origins: new Map(),
    sources: new Map(),
    destinations: new Map(),
    sourceRecords: new Map(),
    destinationRecords: new Map(),
    audienceRecords: new Map(),
    traitRecords: new Map(),
    alertRecords: new Map(),
    tokenRecords: new Map(),
    replayRecords: new Map(),
    splitRecords: new Map(),
    audit: [],
    auditGone: 0,
    lastRegulation: 0,
    sessions: new Map(),
    endpointHealths: new Map(),
    regulations: new Map(),
    regulationSubjects: new Map(),
    suppressed: new Map(),
    clocks: undefined,
    holder: NO_OPENING,
    lastHolder: NO_OPENING,
    shared: {
      members: new Map(),
      gone: [],
      jobs: new Map(),
      probes: new Map(),
      erasures: [],
      settings: 0,
      suppressions: 0,
    },
  };
}

/** Whether this opening may write: it has the contents alone, or a lease. */
export function isOpen({ holder, shared }: MemoryContents, opening: Opening): boolean {
  return holder === opening || shared.members.has(opening);
}

/** Throws a `StorageError` unless `holder` is a store that has the contents open. */
export function assertOpen(contents: MemoryContents, holder: Opening): void {
  if (isOpen(contents, holder)) return;
  throw new StorageError('the store was stopped, or its contents were opened again by another process');
}

export interface SourceCounters {
  received: number;
  accepted: number;
  duplicates: number;
  readonly discarded: Map<string, number>;
}

/** Without `pending`, which is counted from the sets. */
export interface DestinationCounters {
  owed: number;
  delivered: number;
  readonly dead: Map<string, number>;
  readonly dropped: Map<string, number>;
  erased: number;
  readonly skipped: Map<string, number>;
}

/** The counters of a source, created on first use. */
export function countersOfSource(contents: MemoryContents, source: number): SourceCounters {
  const known = contents.sources.get(source);
  if (known !== undefined) return known;
  const counters = { received: 0, accepted: 0, duplicates: 0, discarded: new Map<string, number>() };
  contents.sources.set(source, counters);
  return counters;
}

/** The counters of a destination, created on first use. */
export function countersOfDestination(contents: MemoryContents, destination: number): DestinationCounters {
  const known = contents.destinations.get(destination);
  if (known !== undefined) return known;
  const counters = {
    owed: 0,
    delivered: 0,
    dead: new Map<string, number>(),
    dropped: new Map<string, number>(),
    erased: 0,
    skipped: new Map<string, number>(),
  };
  contents.destinations.set(destination, counters);
  return counters;
}

/** Writes no zeros: the ledger leaves out a reason that never happened. */
export function addCount(counts: Map<string, number>, reason: string, count: number): void {
  if (count > 0) counts.set(reason, (counts.get(reason) ?? 0) + count);
}

/** Adds the calls that the parser counted. */
export function addReceived(contents: MemoryContents, received: CallCounts): void {
  const counters = countersOfSource(contents, received.source);
  counters.received += received.calls;
  for (const [reason, count] of Object.entries(received.discarded))
    addCount(counters.discarded, reason, count);
}

/** Makes dead letters of deliveries that have left their set, counts them, and marks their events. */
export function addDeadLetters(
  contents: MemoryContents,
  letter: Omit<StoredDeadLetter, 'position'>,
  positions: readonly Position[],
): void {
  addCount(
    countersOfDestination(contents, letter.destination)[letter.state],
    letter.reason,
    positions.length,
  );
  for (const position of positions) {
    contents.letters.push({ ...letter, position });
    if (contents.events.has(position)) contents.dead.add(position);
  }
}

/** A letter is taken out, to be sent again or erased. */
export function uncountLetter(contents: MemoryContents, { destination, state, reason }: DeadLetter): void {
  const counts = countersOfDestination(contents, destination)[state];
  const left = counts.get(reason)! - 1;
  if (left === 0) counts.delete(reason);
  else counts.set(reason, left);
}

/** The whole ledger. `pending` comes from the sets, so that the balance checks the counters. */
export function ledgerOf(contents: MemoryContents): Ledger {
  const sources = new Map<number, SourceCounts>();
  for (const [id, counters] of contents.sources) {
    sources.set(id, { ...counters, discarded: Object.fromEntries(counters.discarded) });
  }
  const pending = new Map<number, number>();
  for (const set of contents.sets.values()) {
    pending.set(set.destination, (pending.get(set.destination) ?? 0) + set.deliveries.size);
  }
  const destinations = new Map<number, DestinationCounts>();
  for (const id of new Set([...contents.destinations.keys(), ...pending.keys()])) {
    const counters = contents.destinations.get(id);
    destinations.set(id, {
      owed: counters?.owed ?? 0,
      delivered: counters?.delivered ?? 0,
      pending: pending.get(id) ?? 0,
      dead: Object.fromEntries(counters?.dead ?? []),
      dropped: Object.fromEntries(counters?.dropped ?? []),
      erased: counters?.erased ?? 0,
      skipped: Object.fromEntries(counters?.skipped ?? []),
    });
  }
  return { sources, destinations };
}
