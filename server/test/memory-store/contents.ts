import type { Attempt, Delivery } from '../../src/model/delivery.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Position } from '../../src/model/event.ts';
import type { Replay } from '../../src/model/replay.ts';
import { findLineOffsets, type JsonLine, lineOf, spansOf } from '../../src/model/serialized-event.ts';
import type { Source, TokenRecord } from '../../src/model/settings.ts';
import type { Time } from '../../src/model/time.ts';
import type { ClockMark } from '../../src/ports/clock.ts';
import type { DeadLetter, PendingSetId } from '../../src/ports/delivery-queue.ts';
import { type AppendResult, type Batch, type NewEvent, StorageError } from '../../src/ports/event-log.ts';
import type { AuditEntry } from '../../src/ports/settings-store.ts';

/** A stored event. */
export interface StoredRecord {
  readonly source: number;
  readonly messageId: string;
  readonly userId: string | undefined;
  readonly receivedAt: Time;
  readonly json: string;
  /** Ids of the destinations that were to get it, and of those that were not. */
  readonly owed: readonly number[];
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}

interface LineBlock {
  /** Its own lines from the first to the last. */
  bytes: Buffer;
  /** The index of its first line. */
  readonly first: number;
  readonly lines: number;
  /** See `findLineOffsets`; looked for when a line is asked for. */
  starts: Uint32Array | undefined;
  /** Whether nobody else looks at these bytes. */
  isOwn: boolean;
}

/** In place of every byte of what was erased. */
const BLANK = 0x20;

/**
 * The lines of an append, left where they stand: to touch memory that nothing was in before is what storing them would cost most.
 * Whoever appended them must not change them.
 */
export class StoredLines {
  readonly #pieces: readonly LineBlock[];

  constructor(events: readonly NewEvent[]) {
    const lines = events.map((event) => event.line ?? lineOf(event.json));
    let first = 0;
    this.#pieces = spansOf(lines).map(({ bytes, from, to, lines }) => {
      const piece = { bytes: bytes.subarray(from, to), first, lines, starts: undefined, isOwn: false };
      first += lines;
      return piece;
    });
  }

  at(index: number): JsonLine {
    return lineIn(this.#pieceOf(index), index);
  }

  /** Nothing of its bytes is left here. Others may still be delivering the lines, so theirs stay as they are. */
  blank(index: number): void {
    const piece = this.#pieceOf(index);
    if (!piece.isOwn) {
      piece.bytes = Buffer.from(piece.bytes);
      piece.isOwn = true;
    }
    const { from, to } = lineIn(piece, index);
    piece.bytes.fill(BLANK, from, to);
  }

  #pieceOf(index: number): LineBlock {
    let low = 0;
    let high = this.#pieces.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.#pieces[middle]!.first <= index) low = middle;
      else high = middle - 1;
    }
    return this.#pieces[low]!;
  }
}

function lineIn(piece: LineBlock, index: number): JsonLine {
  piece.starts ??= findLineOffsets(piece.bytes, piece.lines);
  const nth = index - piece.first;
  return { bytes: piece.bytes, from: piece.starts[nth]!, to: piece.starts[nth + 1]! - 1 };
}

/**
 * The stored events of one append, kept together as the bytes they came in. Texts and objects are made for whoever asks: kept for
 * every event, they would be most of what an append costs.
 */
export class MemoryChunk {
  readonly first: Position;
  readonly receivedAt: Time;
  readonly #batch: Pick<Batch, 'owed' | 'skipped'>;
  readonly #lines: StoredLines;
  /** Of every event, or of each. */
  readonly #sources: number | readonly number[];
  /** The place of each stored event in the batch; absent when there was no duplicate. */
  #indexes: number[] | undefined;
  /** Positions given, and how many of them are still there. */
  #given = 0;
  #size = 0;
  #gone: Set<Position> | undefined;

  /** Without any event at first; `first` is the position of the first one. */
  constructor(batch: Batch, first: Position) {
    const { events, owed, skipped, receivedAt } = batch;
    this.first = first;
    this.receivedAt = receivedAt;
    this.#batch = { owed, skipped };
    this.#lines = new StoredLines(events);
    const source = events[0]?.source ?? 0;
    const isOfOne = events.every((event) => event.source === source);
    this.#sources = isOfOne ? source : events.map((event) => event.source);
  }

  /** The position behind the last one. */
  get end(): Position {
    return this.first + this.#given;
  }

  /** How many events are still there. */
  get size(): number {
    return this.#size;
  }

  /** Gives the next position to an event of the batch. Called in the order of the batch, and not for duplicates. */
  add(index: number): Position {
    if (index !== this.#given) this.#indexes ??= Array.from({ length: this.#given }, (_, nth) => nth);
    this.#indexes?.push(index);
    this.#size++;
    return this.first + this.#given++;
  }

  has(position: Position): boolean {
    return position >= this.first && position < this.end && this.#gone?.has(position) !== true;
  }

  /** Bytes of JSON. */
  lengthOf(position: Position): number {
    const { from, to } = this.#lines.at(this.#indexOf(position));
    return to - from;
  }

  /** The record of an event that is there. */
  at(position: Position): StoredRecord {
    const index = this.#indexOf(position);
    const { bytes, from, to } = this.#lines.at(index);
    const { owed, skipped } = this.#batch;
    return new LazyRecord(bytes.toString('utf8', from, to), {
      source: typeof this.#sources === 'number' ? this.#sources : this.#sources[index]!,
      receivedAt: this.receivedAt,
      owed: owed.filter(({ indexes }) => indexes.includes(index)).map(({ destination }) => destination),
      skipped: skipped
        .filter(({ indexes }) => indexes.includes(index))
        .map(({ destination, reason }) => ({ destination, reason })),
    });
  }

  /** Nothing of its bytes is left. */
  remove(position: Position): void {
    this.#lines.blank(this.#indexOf(position));
    this.#gone ??= new Set();
    this.#gone.add(position);
    this.#size--;
  }

  #indexOf(position: Position): number {
    const nth = position - this.first;
    return this.#indexes?.[nth] ?? nth;
  }
}

/** Parsed when somebody asks for an id. */
class LazyRecord implements StoredRecord {
  readonly json: string;
  readonly source: number;
  readonly receivedAt: Time;
  readonly owed: StoredRecord['owed'];
  readonly skipped: StoredRecord['skipped'];
  #ids: { readonly messageId: string; readonly userId?: string } | undefined;

  constructor(json: string, facts: Pick<StoredRecord, 'source' | 'receivedAt' | 'owed' | 'skipped'>) {
    this.json = json;
    this.source = facts.source;
    this.receivedAt = facts.receivedAt;
    this.owed = facts.owed;
    this.skipped = facts.skipped;
  }

  get messageId(): string {
    return this.#parsed().messageId;
  }

  get userId(): string | undefined {
    return this.#parsed().userId;
  }

  #parsed(): { readonly messageId: string; readonly userId?: string } {
    this.#ids ??= JSON.parse(this.json) as { messageId: string; userId?: string };
    return this.#ids;
  }
}

/** Events by position, in the order they were stored. What was erased or let go of is not in it. */
export class MemoryChunks {
  readonly #chunks: MemoryChunk[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Puts a chunk behind all others. The one before is let go of when nothing was added to it. */
  add(chunk: MemoryChunk): void {
    if (this.#chunks.at(-1)?.size === 0) this.#chunks.pop();
    this.#chunks.push(chunk);
  }

  /** Gives the next position to an event of the newest chunk: see `Chunk.add`. */
  grow(index: number): Position {
    this.#size++;
    return this.#chunks.at(-1)!.add(index);
  }

  has(position: Position): boolean {
    return this.#of(position) !== undefined;
  }

  get(position: Position): StoredRecord | undefined {
    return this.#of(position)?.at(position);
  }

  /** Bytes of its JSON; 0 when it is not there. */
  lengthOf(position: Position): number {
    return this.#of(position)?.lengthOf(position) ?? 0;
  }

  delete(position: Position): void {
    const place = this.#placeOf(position);
    const chunk = this.#chunks[place];
    if (chunk?.has(position) !== true) return;
    chunk.remove(position);
    this.#size--;
    if (chunk.size === 0) this.#chunks.splice(place, 1);
  }

  /** Events may be deleted meanwhile. */
  *[Symbol.iterator](): IterableIterator<[Position, StoredRecord]> {
    for (const chunk of this.#chunks.slice()) {
      for (let position = chunk.first; position < chunk.end; position++) {
        if (chunk.has(position)) yield [position, chunk.at(position)];
      }
    }
  }

  #of(position: Position): MemoryChunk | undefined {
    const chunk = this.#chunks[this.#placeOf(position)];
    return chunk?.has(position) === true ? chunk : undefined;
  }

  /** The place of the last chunk that begins at or before a position; −1 when none does. */
  #placeOf(position: Position): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#chunks[middle]!.first <= position) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

/** What has a name. */
export type EventName = Pick<NewEvent, 'source' | 'messageId' | 'idRanges'>;

/** Numbers of a slot: the hash of a name, and the position of the newest event of that name. */
const SLOT = 2;
const POSITION = 1;
const FREE = 0;
/** Behind it there may be others. */
const GONE = -1;

/**
 * Where the newest event of every name is, by a hash of its source and messageId: an open-addressing table in one piece of
 * memory, at most half full. Names with the same hash stand behind each other, so whoever finds one looks at the event itself.
 *
 * The hash has no secret, as a table of an adapter for the network must have: clients could prepare names that fall together.
 */
export class MemoryNames {
  #slots = new Int32Array(1024 * SLOT);
  /** Slots that are not free. */
  #used = 0;

  /** The first slot with this hash; −1 when there is none. */
  first(hash: number): number {
    return this.#from(this.#homeOf(hash), hash);
  }

  /** The next slot with the same hash; −1 when there is none. */
  next(slot: number): number {
    return this.#from(this.#behind(slot), this.#slots[slot]!);
  }

  positionAt(slot: number): Position {
    return this.#slots[slot + POSITION]!;
  }

  /** Another event of the name at this slot has become the newest. */
  replace(slot: number, position: Position): void {
    this.#slots[slot + POSITION] = position;
  }

  remove(slot: number): void {
    this.#slots[slot + POSITION] = GONE;
  }

  /** Adds a name that is not there. */
  add(hash: number, position: Position): void {
    if (this.#used * SLOT * 2 >= this.#slots.length) this.#grow();
    this.#insert(hash, position);
  }

  #from(slot: number, hash: number): number {
    const slots = this.#slots;
    while (slots[slot + POSITION] !== FREE) {
      if (slots[slot] === hash && slots[slot + POSITION] !== GONE) return slot;
      slot = this.#behind(slot);
    }
    return -1;
  }

  #homeOf(hash: number): number {
    return (hash << 1) & (this.#slots.length - 1);
  }

  #behind(slot: number): number {
    return (slot + SLOT) & (this.#slots.length - 1);
  }

  #insert(hash: number, position: Position): void {
    let slot = this.#homeOf(hash);
    while (this.#slots[slot + POSITION] !== FREE) slot = this.#behind(slot);
    this.#slots[slot] = hash;
    this.#slots[slot + POSITION] = position;
    this.#used++;
  }

  #grow(): void {
    const slots = this.#slots;
    this.#slots = new Int32Array(slots.length * 2);
    this.#used = 0;
    for (let slot = 0; slot < slots.length; slot += SLOT) {
      const position = slots[slot + POSITION]!;
      if (position !== FREE && position !== GONE) this.#insert(slots[slot]!, position);
    }
  }
}

/** The hash of an event's name: from bytes where its messageId is in place, which are the units of its text. */
export function hashOfName(event: EventName): number {
  const { source, idRanges: idsInPlace } = event;
  let hash = source;
  if (idsInPlace === undefined) {
    const { messageId } = event;
    for (let at = 0; at < messageId.length; at++) hash = mixed(hash, messageId.charCodeAt(at));
  } else {
    const { bytes, idFrom, idTo } = idsInPlace;
    for (let at = idFrom; at < idTo; at++) hash = mixed(hash, bytes[at]!);
  }
  return hash ^ (hash >>> 15);
}

/** FNV-1a. */
function mixed(hash: number, unit: number): number {
  return Math.imul(hash ^ unit, 0x01000193);
}

/**
 * Everything another adapter has on disk. It outlives the store that wrote it: opening a second store on the same
 * contents stands for a restart after a crash.
 */
export interface MemoryContents {
  readonly events: MemoryChunks;
  /** When the erased ones arrived: a gap keeps its place until an event there would be let go of. */
  readonly gaps: Map<Position, Time>;
  /** The newest position ever given; they start at 1. */
  lastPosition: Position;
  /** Events below are past their retention; those of dead letters are still there. */
  retainedFrom: Position;
  /** Of the JSON of all events. */
  bytes: number;
  /** Where the newest event of every (source, messageId) is. Dedupe looks here. */
  readonly names: MemoryNames;
  /** When the newest event of a name arrived that is past its retention, by source and messageId. Dedupe looks here too. */
  readonly pastNames: Map<string, Time>;
  /** What the last batches with events were answered, by batch id, oldest first; and the last ones without. */
  readonly answers: Map<string, AppendResult>;
  readonly emptyAnswers: Map<string, AppendResult>;

  readonly sets: Map<PendingSetId, PendingSet>;
  /** By destination id: its sets that nobody holds, as a heap (see `due.ts`). */
  readonly onDisk: Map<number, PendingSet[]>;
  /** Attempts that failed, in the order they were settled. */
  failures: StoredAttempt[];
  /** Attempts that were accepted, by position. */
  readonly accepted: Map<Position, StoredAttempt[]>;
  /** What was given up, in that order: see `bury` in `tally.ts`. */
  letters: MemoryDeadLetter[];
  /** By origin: how far it has come. */
  readonly origins: Map<string, { readonly cursor: number; readonly events: number }>;
  /** Events that a dead letter is about: they stay readable longer than others. */
  readonly dead: Set<Position>;
  /** The id of the newest set; ids are never reused, so that a late result cannot hit another set. */
  lastSet: PendingSetId;
  /** As a process said last. */
  clocks: ClockMark | undefined;

  readonly sources: Map<number, SourceCounters>;
  readonly destinations: Map<number, DestinationCounters>;

  /** By name, those that were removed among them. */
  readonly sourceRecords: Map<string, RecordEntry<Source>>;
  readonly destinationRecords: Map<string, RecordEntry<Destination>>;
  readonly tokenRecords: Map<string, TokenRecord>;
  readonly replayRecords: Map<string, Replay>;
  /** In the order they were written. */
  readonly audit: AuditEntry[];
  /** By destination id, as JSON. */
  readonly endpointHealths: Map<number, string>;

  /** The store that may write; every other one is a process that is gone. */
  holder: Opening;
  lastHolder: Opening;
}

/** A record, which keeps its id when it is removed. */
export interface RecordEntry<Of> {
  readonly record: Of;
  readonly isGone: boolean;
}

/** One opening of the contents. */
export type Opening = number;

/** The holder of contents that no store has open. */
export const NO_OPENING: Opening = 0;

/** What was given up, and on whose behalf it was owed once more. */
export interface MemoryDeadLetter extends DeadLetter {
  readonly origin: string | undefined;
}

/** Deliveries of one destination and one origin that were owed, claimed or retried together. Never empty. */
export interface PendingSet {
  readonly id: PendingSetId;
  readonly destination: number;
  /** See `Held.origin`. */
  readonly origin: string | undefined;
  /** Also kept while the set is held: it is due again at that time when its holder dies. */
  readonly dueAt: Time;
  /** Who delivers it from memory; absent when it is parked or waiting. */
  holder: Opening | undefined;
  readonly deliveries: Map<Position, Delivery>;
}

export interface StoredAttempt {
  readonly destination: number;
  readonly position: Position;
  readonly attempt: Attempt;
}

export interface SourceCounters {
  received: number;
  accepted: number;
  duplicates: number;
  readonly discarded: Map<string, number>;
}

/** `pending` is not here: it is counted from the sets. */
export interface DestinationCounters {
  owed: number;
  delivered: number;
  readonly dead: Map<string, number>;
  erased: number;
  readonly skipped: Map<string, number>;
}

export function emptyContents(): MemoryContents {
  return {
    events: new MemoryChunks(),
    gaps: new Map(),
    lastPosition: 0,
    retainedFrom: 1,
    bytes: 0,
    names: new MemoryNames(),
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
    holder: NO_OPENING,
    lastHolder: NO_OPENING,
  };
}

/** Throws a `StorageError` unless `holder` is the store that has the contents open. */
export function assertOpen(contents: MemoryContents, holder: Opening): void {
  if (contents.holder !== holder) {
    throw new StorageError('the store was stopped, or its contents were opened again by another process');
  }
}
