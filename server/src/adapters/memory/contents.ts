import type { Attempt, Delivery } from '../../model/delivery.ts';
import type { Destination } from '../../model/destination.ts';
import type { Position } from '../../model/event.ts';
import type { Replay } from '../../model/replay.ts';
import type { Source } from '../../model/source.ts';
import type { Time } from '../../model/time.ts';
import type { SetId } from '../../ports/backlog.ts';
import type { ClockMark } from '../../ports/clock.ts';
import type { DeadLetter } from '../../ports/dead-letters.ts';
import type { Appended } from '../../ports/event-log.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { AuditEntry, TokenRecord } from '../../ports/settings.ts';
import { Chunks } from './chunks.ts';
import { Names } from './names.ts';

/**
 * Everything another adapter has on disk. It outlives the store that wrote it: opening a second store on the same
 * contents stands for a restart after a crash.
 */
export interface MemoryContents {
  readonly events: Chunks;
  /** When the erased ones arrived: a gap keeps its place until an event there would be let go of. */
  readonly gaps: Map<Position, Time>;
  /** The newest position ever given; they start at 1. */
  lastPosition: Position;
  /** Events below are past their retention; those of dead letters are still there. */
  retainedFrom: Position;
  /** Of the JSON of all events. */
  bytes: number;
  /** Where the newest event of every (source, messageId) is. Dedupe looks here. */
  readonly names: Names;
  /** When the newest event of a name arrived that is past its retention, by source and messageId. Dedupe looks here too. */
  readonly pastNames: Map<string, Time>;
  /** What the last batches with events were answered, by batch id, oldest first; and the last ones without. */
  readonly answers: Map<string, Appended>;
  readonly emptyAnswers: Map<string, Appended>;

  readonly sets: Map<SetId, PendingSet>;
  /** By destination id: its sets that nobody holds, as a heap (see `due.ts`). */
  readonly onDisk: Map<number, PendingSet[]>;
  /** Attempts that failed, in the order they were settled. */
  failures: Failure[];
  /** Attempts that were accepted, by position. */
  readonly accepted: Map<Position, Failure[]>;
  /** What was given up, in that order: see `bury` in `tally.ts`. */
  letters: Letter[];
  /** By origin: how far it has come. */
  readonly origins: Map<string, { readonly cursor: number; readonly events: number }>;
  /** Events that a dead letter is about: they stay readable longer than others. */
  readonly dead: Set<Position>;
  /** The id of the newest set; ids are never reused, so that a late result cannot hit another set. */
  lastSet: SetId;
  /** As a process said last. */
  clocks: ClockMark | undefined;

  readonly sources: Map<number, SourceTally>;
  readonly destinations: Map<number, DestinationTally>;

  /** By name, those that were removed among them. */
  readonly sourceRecords: Map<string, Kept<Source>>;
  readonly destinationRecords: Map<string, Kept<Destination>>;
  readonly tokenRecords: Map<string, TokenRecord>;
  readonly replayRecords: Map<string, Replay>;
  /** In the order they were written. */
  readonly audit: AuditEntry[];
  /** By destination id, as JSON. */
  readonly endpointHealths: Map<number, string>;

  /** The store that may write; every other one is a process that is gone. */
  holder: Holder;
  lastHolder: Holder;
}

/** A record, which keeps its id when it is removed. */
export interface Kept<Of> {
  readonly record: Of;
  readonly isGone: boolean;
}

/** One opening of the contents. */
export type Holder = number;

/** The holder of contents that no store has open. */
export const NOBODY: Holder = 0;

/** What was given up, and on whose behalf it was owed once more. */
export interface Letter extends DeadLetter {
  readonly origin: string | undefined;
}

/** Deliveries of one destination and one origin that were owed, claimed or retried together. Never empty. */
export interface PendingSet {
  readonly id: SetId;
  readonly destination: number;
  /** See `Held.origin`. */
  readonly origin: string | undefined;
  /** Also kept while the set is held: it is due again at that time when its holder dies. */
  readonly dueAt: Time;
  /** Who delivers it from memory; absent when it is parked or waiting. */
  holder: Holder | undefined;
  readonly deliveries: Map<Position, Delivery>;
}

export interface Failure {
  readonly destination: number;
  readonly position: Position;
  readonly attempt: Attempt;
}

export interface SourceTally {
  received: number;
  accepted: number;
  duplicates: number;
  readonly discarded: Map<string, number>;
}

/** `pending` is not here: it is counted from the sets. */
export interface DestinationTally {
  owed: number;
  delivered: number;
  readonly dead: Map<string, number>;
  erased: number;
  readonly skipped: Map<string, number>;
}

export function emptyContents(): MemoryContents {
  return {
    events: new Chunks(),
    gaps: new Map(),
    lastPosition: 0,
    retainedFrom: 1,
    bytes: 0,
    names: new Names(),
    pastNames: new Map(),
    answers: new Map(),
    emptyAnswers: new Map(),
    sets: new Map(),
    onDisk: new Map(),
    failures: [],
    accepted: new Map(),
    letters: [],
    origins: new Map(),
    dead: new Set(),
    lastSet: 0,
    clocks: undefined,
    sources: new Map(),
    destinations: new Map(),
    sourceRecords: new Map(),
    destinationRecords: new Map(),
    tokenRecords: new Map(),
    replayRecords: new Map(),
    audit: [],
    endpointHealths: new Map(),
    holder: NOBODY,
    lastHolder: NOBODY,
  };
}

/** Throws a `StorageError` unless `holder` is the store that has the contents open. */
export function assertOpen(contents: MemoryContents, holder: Holder): void {
  if (contents.holder !== holder) {
    throw new StorageError('the store was stopped, or its contents were opened again by another process');
  }
}
