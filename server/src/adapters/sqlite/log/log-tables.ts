import type { DatabaseSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import type { Duration, Monotonic } from '../../../model/time.ts';
import type { PendingSetId } from '../../../ports/delivery-queue.ts';
import type {
  CallCounts,
  LogQuery,
  LogSize,
  PositionPage,
  Producer,
  SharedIdsQuery,
} from '../../../ports/event-log.ts';
import { type ChunkEvents, concatLines, encodeAppended, NO_PLAN } from '../../encoding/chunk-codec.ts';
import { eventLine, eventLines, messageIdOf, REMNANT, storedLine } from '../../encoding/chunk-lines.ts';
import type { EraseMessage } from '../../encoding/erasure-slices.ts';
import type { KeyHash } from '../../encoding/hashes.ts';
import { type EncodedPlans, type NumberedPlan, skipCountsOf } from '../../encoding/plans.ts';
import type { DamageTable, Quarantine } from '../damage.ts';
import { ProducerSequences, type Watermarks } from '../installation.ts';
import type { LedgerTable } from '../ledger-table.ts';
import type { QueueTables } from '../queue/queue-tables.ts';
import { read, write } from '../rpc.ts';
import type { MaintainMessage, Maintenance } from '../upkeep/maintenance.ts';
import type { FileSpace } from '../upkeep/retention.ts';
import { type Chunks, RecentBatches } from './chunks.ts';
import { EventEraser, type EventEraserDependencies } from './event-eraser.ts';
import type { KeyIndex } from './key-index.ts';
import type { PlanTable } from './plans.ts';
import { LogSearch } from './search.ts';
import { UserIndex } from './user-index.ts';

/** The operations of the event log (ports/event-log.ts). */
export function logHandlers(log: LogTables, maintenance: Maintenance) {
  return {
    append: write((message: AppendMessage) => log.append(message)),
    read: read(
      (positions: Float64Array) => log.read(positions),
      ({ lines }) => [lines.buffer as ArrayBuffer],
    ),
    producedTo: read((producer: string) => log.producers.highest(producer)),
    damaged: read((positions: readonly Position[]) => log.damaged(positions)),
    find: read((message: FindMessage) => log.find(message)),
    erase: write((message: EraseMessage) => log.eraser.erase(message)),
    hashed: read(({ hashes, from }: HashedMessage) => log.search.hashed(hashes, from)),
    sharedIds: read(({ query, from }: SharedIdsMessage) => log.search.sharedIds(query, from)),
    maintain: write((message: MaintainMessage) => maintenance.maintain(message)),
    size: read(() => log.size()),
    rangeSize: read(({ range, from }: RangeSizeMessage) => log.search.rangeSize(range, from)),
  };
}

/**
 * A batch as it crosses to the writer thread. All its arrays stand in the buffer of `lines`, which is moved,
 * not copied.
 */
export interface AppendMessage {
  readonly batch: string;
  readonly receivedAt: Monotonic;
  /** The number of events in the batch. */
  readonly events: number;
  readonly plans: EncodedPlans;
  /** For each event the index of its plan. */
  readonly planIndexes: Uint32Array;
  /** The events as compact JSON, one a line. */
  readonly lines: Uint8Array;
  /** See `findLineOffsets`. */
  readonly starts: Uint32Array;
  /** Source id of each event. */
  readonly sources: Uint32Array;
  /** Hash of the source and messageId of each event: high word, low word. */
  readonly keys: Uint32Array;
  /** Dedupe window of each event in milliseconds; absent when all have the store's own. */
  readonly windows: Float64Array | undefined;
  /**
   * Hash of the userId of each event in the same form, or without one of the anonymousId; two zeros where it
   * has neither.
   */
  readonly users: Uint32Array;
  readonly owed: readonly {
    destination: number;
    held: boolean;
    indexes: Uint32Array;
    origin: string | undefined;
  }[];
  readonly received: readonly CallCounts[];
  readonly producer: Producer | undefined;
}

export interface FindMessage {
  readonly query: LogQuery;
  /** Only positions below this one. */
  readonly below?: Position;
}

export interface HashedMessage {
  readonly hashes: Uint32Array;
  readonly from: Position;
}

export interface SharedIdsMessage {
  readonly query: SharedIdsQuery;
  readonly from: Position;
}

export interface RangeSizeMessage {
  readonly range: { readonly from: Monotonic; readonly to: Monotonic };
  readonly from: Position;
}

export interface ReadAnswer {
  /** The events as compact JSON, one a line; an empty line where there is none or it cannot be read. */
  readonly lines: Uint8Array;
  readonly sources: Uint32Array;
  /** When each event arrived. */
  readonly times: Float64Array;
}

export interface LogTablesDependencies extends EventEraserDependencies {
  readonly chunks: Chunks;
  readonly keys: KeyIndex;
  readonly plans: PlanTable;
  readonly queue: QueueTables;
  readonly ledger: LedgerTable;
  readonly watermarks: Watermarks;
  readonly damage: DamageTable;
  readonly quarantine: Quarantine;
  readonly space: FileSpace;
  readonly hash: KeyHash;
  readonly dedupeWindow: Duration;
}

/** The tables of the event log, and what each operation does to them inside the caller's transaction. */
export class LogTables {
  readonly batches: RecentBatches;
  readonly producers: ProducerSequences;
  readonly users: UserIndex;
  readonly search: LogSearch;
  readonly eraser: EventEraser;
  readonly #dependencies: LogTablesDependencies;
  readonly #dedupe: Dedupe;

  constructor(database: DatabaseSync, dependencies: LogTablesDependencies) {
    const { chunks, keys, plans, queue, watermarks, quarantine, hash, dedupeWindow } = dependencies;
    this.#dependencies = dependencies;
    this.#dedupe = new Dedupe(chunks, keys, dedupeWindow);
    this.batches = new RecentBatches(database, quarantine);
    this.producers = new ProducerSequences(database);
    this.users = new UserIndex(database, { chunks, watermarks, quarantine });
    this.eraser = new EventEraser(dependencies);
    this.search = new LogSearch({
      chunks,
      watermarks,
      keys,
      users: this.users,
      hash,
      plans,
      pending: queue.pendingQueries,
      successfulAttempts: queue.successfulAttempts,
      failedAttempts: queue.failedAttempts,
      deadLetters: queue.deadLetters,
    });
  }

  /**
   * Stores a batch. The answer is as `encodeAppended` writes it; a batch that is known gets the answer it got
   * before.
   */
  append(message: AppendMessage): string {
    const earlier = this.batches.answerTo(message.batch);
    if (earlier !== undefined) return earlier;
    const { chunks, plans, ledger } = this.#dependencies;
    const { producer, events: count } = message;
    invariant(message.planIndexes.length <= count, 'a batch has no more plans than events');
    invariant(message.sources.length === count, 'a batch has a source for each event');
    invariant(message.keys.length === 2 * count, 'a batch has a key for each event');
    invariant(message.users.length === 2 * count, 'a batch has a user for each event');
    invariant(message.starts.length === count + 1, 'a batch has a line for each event');
    const known = producer === undefined ? 0 : this.producers.advance(producer, count);
    const places = this.#dedupe.assignPositions(message, chunks.next, known);
    const held = message.owed.map((owed) => this.#enqueue(owed, places, message.receivedAt));
    const answer = encodeAppended(places, held);
    const numbered = plans.store(message.plans);
    for (const { scope, id, name, n } of skipCountsOf(numbered, message.planIndexes, places))
      ledger.add(scope, id, name, n);
    this.#count(message, places, known);
    const events = dropDuplicates(message, places, numbered);
    if (events.n > 0) chunks.append(events, { batch: message.batch, answer });
    this.batches.remember(message.batch, answer, events.n > 0);
    return answer;
  }

  /** Makes the pending set of one destination; its id when the caller holds the set. */
  #enqueue(
    { destination, held, indexes, origin }: AppendMessage['owed'][number],
    places: Float64Array,
    receivedAt: Monotonic,
  ): PendingSetId | undefined {
    const { ledger, queue } = this.#dependencies;
    const positions = positionsAt(indexes, places);
    if (positions.length === 0) return undefined;
    ledger.add('destination', destination, 'owed', positions.length);
    if (held) return queue.pending.insertHeld(destination, positions, receivedAt);
    queue.pending.insertParked(destination, positions, receivedAt, origin);
    return undefined;
  }

  /**
   * Counts the batch in the ledger of its sources, consecutive events of a kind at once, without the first
   * `known` events.
   */
  #count(message: AppendMessage, places: Float64Array, known: number): void {
    const { ledger } = this.#dependencies;
    for (let index = known; index < places.length; ) {
      const source = message.sources[index]!;
      const isDuplicate = places[index]! < 0;
      const from = index;
      while (index < places.length && message.sources[index] === source && places[index]! < 0 === isDuplicate)
        index++;
      ledger.add('source', source, isDuplicate ? 'duplicates' : 'accepted', index - from);
      if (message.producer !== undefined) ledger.add('source', source, 'received', index - from);
    }
    for (const { source, calls, discarded } of message.received) {
      ledger.add('source', source, 'received', calls);
      for (const [reason, n] of Object.entries(discarded))
        ledger.add('source', source, `discarded:${reason}`, n);
    }
  }

  read(positions: Float64Array): ReadAnswer {
    return readLines(this.#dependencies.chunks, positions);
  }

  /** The positions of which `read` finds no event although there should be one. */
  damaged(positions: readonly Position[]): Position[] {
    const { chunks } = this.#dependencies;
    return positions.filter((position) => chunks.at(position) === undefined && chunks.isDamaged(position));
  }

  /** Does one slice of a search. */
  find({ query, below }: FindMessage): PositionPage {
    return this.search.find(query, below, this.#dependencies.ledger.sources());
  }

  size(): LogSize {
    const { chunks, watermarks, damage: damageTable, quarantine, space } = this.#dependencies;
    const { retainedFrom } = watermarks;
    return {
      events: chunks.next - retainedFrom,
      end: chunks.next,
      bytes: space.fileBytes(),
      oldestAt: chunks.factsFrom(retainedFrom, 1)[0]?.at,
      damage: damageTable.summary(quarantine.steps),
    };
  }
}

/**
 * Finds events whose source and messageId are already in the log. It is exact: the key index proposes
 * positions by hash, and each proposal is compared with the stored event, because two ids may share a hash
 * and an event would be lost. A stored event that cannot be read counts as a different one: an event too many
 * is better than one too few.
 */
class Dedupe {
  readonly #window: Duration;
  readonly #chunks: Chunks;
  readonly #keys: KeyIndex;

  constructor(chunks: Chunks, keys: KeyIndex, window: Duration) {
    this.#window = window;
    this.#chunks = chunks;
    this.#keys = keys;
  }

  /**
   * The position of each event of a batch, counted from `next`; −1 for a duplicate and for the first `known`
   * events, which are not looked at. The keys of the others go into the key index, so after a transaction
   * that fails the index must be made anew.
   */
  assignPositions(batch: AppendMessage, next: Position, known = 0): Float64Array {
    const positions = new Float64Array(batch.events).fill(-1, 0, known);
    const first = next;
    const mayBeOnDisk = this.#keys.mayBeOnDisk(batch.keys);
    let index = known;
    // One function for the whole batch: it compares the event at `index`.
    const isSame = (position: Position): boolean => {
      if (position < first) return this.#isStored(batch, index, position);
      const earlier = positions.indexOf(position);
      return (
        batch.sources[earlier] === batch.sources[index] &&
        messageIdOf(lineIn(batch, earlier)) === messageIdOf(lineIn(batch, index))
      );
    };
    for (; index < batch.events; index++) {
      const high = batch.keys[index * 2]!;
      const low = batch.keys[index * 2 + 1]!;
      const isDuplicate =
        this.#keys.someInMemory(high, low, isSame) ||
        (mayBeOnDisk[index] === 1 &&
          this.#keys.someOnDisk(high, low, batch.receivedAt - this.#windowOf(batch, index), isSame));
      if (isDuplicate) {
        positions[index] = -1;
        continue;
      }
      positions[index] = next;
      this.#keys.add(high, low, next, batch.receivedAt);
      next++;
    }
    return positions;
  }

  #windowOf(batch: AppendMessage, index: number): Duration {
    return batch.windows?.[index] ?? this.#window;
  }

  /** Whether the stored event at a position is the same as one of the batch, within its dedupe window. */
  #isStored(batch: AppendMessage, index: number, position: Position): boolean {
    const chunk = this.#chunks.at(position);
    if (chunk === undefined) return false;
    const event = position - chunk.first;
    if (batch.receivedAt - chunk.times[event]! >= this.#windowOf(batch, index)) return false;
    if (chunk.sources[event] !== batch.sources[index]) return false;
    const stored = storedLine(chunk, position);
    return stored.length > 0 && messageIdOf(stored) === messageIdOf(lineIn(batch, index));
  }
}

function lineIn({ lines, starts }: AppendMessage, index: number): Buffer {
  const from = starts[index]!;
  return Buffer.from(lines.buffer, lines.byteOffset + from, starts[index + 1]! - 1 - from);
}

/** The positions of the events at these indexes, without the duplicates. */
function positionsAt(indexes: Uint32Array, places: Float64Array): Position[] {
  const positions: Position[] = [];
  for (const index of indexes) {
    const place = places[index];
    invariant(place !== undefined, 'what a batch owes is an event of it');
    if (place >= 0) positions.push(place);
  }
  return positions;
}

/** The batch without its duplicates. A batch without any is not copied. */
function dropDuplicates(
  message: AppendMessage,
  places: Float64Array,
  numbered: readonly NumberedPlan[],
): ChunkEvents {
  const { receivedAt, events: n, lines, starts, sources, planIndexes, keys, users } = message;
  const plans = planNumbersOf(n, planIndexes, numbered);
  if (!places.includes(-1)) {
    const times = new Float64Array(n).fill(receivedAt);
    return { n, lines, starts, sources, times, plans, keys, users };
  }
  const kept = [...places.keys()].filter((index) => places[index]! >= 0);
  const wordsOf = (words: Uint32Array) =>
    Uint32Array.from(kept.flatMap((at) => [words[at * 2]!, words[at * 2 + 1]!]));
  return {
    n: kept.length,
    lines: concatLines(kept.map((index) => lines.subarray(starts[index]!, starts[index + 1]! - 1))),
    sources: Uint32Array.from(kept, (index) => sources[index]!),
    times: new Float64Array(kept.length).fill(receivedAt),
    plans: Uint32Array.from(kept, (index) => plans[index]!),
    keys: wordsOf(keys),
    users: wordsOf(users),
  };
}

/** The events at these positions. Neighbours are copied as one piece, because claims read many of them. */
function readLines(chunks: Chunks, positions: Float64Array): ReadAnswer {
  const lines: Uint8Array[] = [];
  const sources = new Uint32Array(positions.length);
  const times = new Float64Array(positions.length);
  for (let index = 0; index < positions.length; ) {
    const position = positions[index]!;
    const chunk = chunks.at(position);
    if (chunk === undefined) {
      lines.push(NOTHING);
      index++;
      continue;
    }
    const from = index;
    const end = chunk.first + chunk.n;
    do index++;
    while (
      chunk.stage < REMNANT &&
      positions[index]! < end &&
      positions[index] === positions[index - 1]! + 1
    );
    const n = index - from;
    lines.push(n === 1 ? eventLine(chunk, position) : eventLines(chunk, position, n));
    const at = position - chunk.first;
    sources.set(chunk.sources.subarray(at, at + n), from);
    times.set(chunk.times.subarray(at, at + n), from);
  }
  return { lines: concatLines(lines), sources, times };
}

const NOTHING = new Uint8Array();

/** The plan number of each event. */
function planNumbersOf(
  events: number,
  planIndexes: Uint32Array,
  numbered: readonly NumberedPlan[],
): Uint32Array {
  const numbers = new Uint32Array(events);
  for (let index = 0; index < events; index++)
    numbers[index] = numbered[planIndexes[index]!]?.number ?? NO_PLAN;
  return numbers;
}
