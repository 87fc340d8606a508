import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import { findLineOffsets } from '../../../model/serialized-event.ts';
import type { Monotonic } from '../../../model/time.ts';
import {
  type BatchAnswer,
  type Chunk,
  type ChunkEvents,
  type ChunkRow,
  decodeHead,
  decodeKeys,
  decodeLines,
  decodeUsers,
  encodeChunk,
  freeBuffer,
  isBodyWhole,
  NO_PLAN,
  ZSTD,
} from '../../encoding/chunk-codec.ts';
import { COMPACTED, FRESH, MAX_CHUNK_EVENTS, REMNANT } from '../../encoding/chunk-lines.ts';
import type { ChunkFacts } from '../../encoding/chunk-merge.ts';
import type { KeyHash } from '../../encoding/hashes.ts';
import { hashLines } from '../../encoding/hashes.ts';
import type { Quarantine } from '../damage.ts';
import { ChunkRows, type ChunkRowsOptions } from './chunk-rows.ts';

/**
 * Decoded chunks in the cache, and damaged ranges remembered. Claims read neighbours, and most duplicates are
 * recent.
 */
const CACHED_CHUNKS = 16;

export interface ChunksOptions extends ChunkRowsOptions {
  readonly hash: KeyHash;
  readonly isReadOnly?: true;
  /** Called at every read of a damaged chunk, with its first position and how many it holds. */
  readonly onDamage: (first: Position, n: number) => void;
}

/**
 * The event log. A position is the number of an event since the beginning of the log.
 *
 * A damaged chunk reads as one that does not exist, and `onDamage` is called. Chunks before and after it are
 * not affected.
 */
export class Chunks {
  readonly #rows: ChunkRows;
  readonly #options: ChunksOptions;
  /** The oldest first. */
  readonly #cache: Chunk[] = [];
  /**
   * Chunks that the cache has dropped during an operation, which may still read them. Further ones are left
   * to the garbage collector.
   */
  #dropped: Chunk[] = [];
  /** Ranges of positions that were found damaged, the latest first. */
  #damaged: readonly { readonly first: Position; readonly end: Position }[] = [];

  constructor(database: DatabaseSync, options: ChunksOptions) {
    this.#rows = new ChunkRows(database, options);
    this.#options = options;
  }

  /** The position of the next event. */
  get next(): Position {
    return this.#rows.next;
  }

  /** Writes events in as many chunks as they need. The first chunk remembers the batch and its answer. */
  append(events: ChunkEvents, remembered: BatchAnswer): void {
    const { n } = events;
    invariant(n > 0, 'a chunk of new events has one at least');
    invariant(events.sources.length === n, 'a chunk of new events has a source for each');
    invariant(events.times.length === n, 'a chunk of new events has a time for each');
    invariant(events.plans.length === n, 'a chunk of new events has a plan for each');
    invariant(events.keys.length === 2 * n, 'a chunk of new events has a key for each');
    invariant(events.users.length === 2 * n, 'a chunk of new events has a user for each');
    const end = this.next + n;
    this.#append(events, remembered);
    invariant(this.next === end, 'the log ends behind its newest event');
  }

  #append(events: ChunkEvents, remembered: BatchAnswer): void {
    if (events.n <= MAX_CHUNK_EVENTS) {
      this.put(this.next, events, FRESH, remembered);
      return;
    }
    const starts = events.starts ?? findLineOffsets(events.lines, events.n);
    for (let from = 0; from < events.n; from += MAX_CHUNK_EVENTS) {
      const to = Math.min(from + MAX_CHUNK_EVENTS, events.n);
      const part: ChunkEvents = {
        n: to - from,
        lines: events.lines.subarray(starts[from]!, starts[to]! - 1),
        sources: events.sources.subarray(from, to),
        times: events.times.subarray(from, to),
        plans: events.plans.subarray(from, to),
        keys: events.keys.subarray(from * 2, to * 2),
        users: events.users.subarray(from * 2, to * 2),
      };
      this.put(this.next, part, FRESH, from === 0 ? remembered : undefined);
    }
  }

  /** Writes one chunk, in place of the one that begins at the same position. `stage`: see `FRESH`. */
  put(first: Position, events: ChunkEvents, stage: number, remembered?: BatchAnswer): void {
    const row = encodeChunk(first, events, stage, remembered);
    this.#rows.put(row);
    if (row.body !== events.lines) freeBuffer(row.body);
    this.#forget(first);
  }

  delete({ first, n }: Pick<Chunk, 'first' | 'n'>): void {
    this.#rows.delete(first, n);
    this.#forget(first);
  }

  /**
   * The chunks that begin in a range of positions, read at once, which is faster than one by one. Undefined
   * when any of them is damaged.
   */
  between(first: Position, end: Position): readonly Chunk[] | undefined {
    const chunks: Chunk[] = [];
    for (const row of this.#rows.between(first, end) ?? []) {
      const chunk = this.#decode(row);
      if (chunk === undefined) return undefined;
      chunks.push(chunk);
    }
    return chunks.length === 0 ? undefined : chunks;
  }

  /** Deletes the chunks that begin in a range of positions. */
  deleteBetween(first: Position, end: Position): void {
    this.#rows.deleteBetween(first, end);
    const known = this.#cache.filter((chunk) => chunk.first >= first && chunk.first < end);
    for (const chunk of known) this.#forget(chunk.first);
  }

  /** Overwrites the damaged chunk at a position with erased events. */
  wipe(position: Position): void {
    const { first, n } = this.#rows.extentOf(position);
    const { at } = this.factsBelow(first + 1, 1)[0] ?? { at: 0 };
    this.#rows.deleteBetween(first, first + n);
    this.#forget(first);
    for (let from = first; from < first + n; from += MAX_CHUNK_EVENTS) {
      const size = Math.min(MAX_CHUNK_EVENTS, first + n - from);
      const erased = {
        n: size,
        lines: Buffer.alloc(size - 1, '\n'),
        sources: new Uint32Array(size),
        times: new Float64Array(size).fill(at),
        plans: new Uint32Array(size).fill(NO_PLAN),
        keys: new Uint32Array(size * 2),
        users: new Uint32Array(size * 2),
      };
      this.put(from, erased, COMPACTED);
    }
  }

  #forget(first: Position): void {
    const at = this.#cache.findIndex((chunk) => chunk.first === first);
    if (at >= 0) this.#cache.splice(at, 1);
    this.#damaged = this.#damaged.filter((range) => first < range.first || first >= range.end);
  }

  /** The chunk that holds a position; undefined when there is none or it is damaged. */
  at(position: Position): Chunk | undefined {
    for (const chunk of this.#cache) {
      if (position >= chunk.first && position < chunk.first + chunk.n) return chunk;
    }
    if (this.#damaged.some(({ first, end }) => position >= first && position < end)) return undefined;
    const row = this.#rows.find(position);
    const chunk = row && this.#decode(row);
    if (chunk === undefined || position >= chunk.first + chunk.n) {
      if (this.isDamaged(position)) this.#reportDamage(position);
      return undefined;
    }
    this.#cache.push(chunk);
    if (this.#cache.length > CACHED_CHUNKS) this.#dropOldest();
    return chunk;
  }

  #dropOldest(): void {
    const oldest = this.#cache.shift();
    if (this.#dropped.length < CACHED_CHUNKS) this.#dropped.push(oldest!);
  }

  /**
   * Gives back the memory of chunks that the cache has dropped. Call between operations, when nobody reads
   * them any more.
   */
  freeDropped(): void {
    if (this.#dropped.length === 0) return;
    for (const { body } of this.#dropped) freeBuffer(body);
    this.#dropped = [];
  }

  /** Whether an event should be at a position where `at` finds none. */
  isDamaged(position: Position): boolean {
    return this.#rows.isDamaged(position);
  }

  #reportDamage(position: Position): void {
    const { first, n } = this.#rows.extentOf(position);
    this.#damaged = [{ first, end: first + n }, ...this.#damaged.slice(0, CACHED_CHUNKS - 1)];
    this.#options.onDamage(first, n);
  }

  /** Undefined when the row is damaged. Damaged keys and users alone are computed again from the events. */
  #decode(row: ChunkRow): Chunk | undefined {
    const seed = this.#rows.seedOf(row);
    if (seed === undefined) return undefined;
    const head = decodeHead(row, seed);
    if (head === undefined) return undefined;
    const lines = decodeLines(row, seed);
    if (lines === undefined) return undefined;
    if (seed.codec === ZSTD) freeBuffer(row.body);
    const { first, n, stage, batch, answer } = row;
    const keys = decodeKeys(row.keys, seed);
    const users = decodeUsers(row.users, seed);
    const computed = keys && users ? undefined : hashLines(this.#options.hash, { n, ...lines, ...head });
    return {
      first,
      n,
      stage,
      batchAnswer: batch === null || answer === null ? undefined : { batch, answer },
      ...lines,
      ...head,
      keys: keys ?? computed!.keys,
      users: users ?? computed!.users,
    };
  }

  /**
   * Checks every checksum of the first chunk that ends after a position. Calls `onDamage` if the chunk is
   * damaged, and repairs damaged keys and users. Returns the end of that chunk; undefined at the end of the
   * log.
   */
  verify(position: Position): Position | undefined {
    const facts = this.factsFrom(this.firstAt(position), 2).find(({ first, n }) => first + n > position);
    if (facts === undefined) return undefined;
    const end = Math.max(facts.first + facts.n, position + 1);
    const row = this.#rows.find(facts.first);
    if (row !== undefined && this.#isWhole(row)) {
      this.#repairHashes(row);
      return end;
    }
    // Deleting a damaged row past its retention is dangerous, so retention leaves it. It is no loss any more.
    const isExpired = facts.first < this.#options.retainedFrom() && facts.stage < REMNANT;
    if (!isExpired) this.#reportDamage(facts.first);
    return end;
  }

  /** Whether the events of a row can be read. */
  #isWhole(row: ChunkRow): boolean {
    const seed = this.#rows.seedOf(row);
    if (seed === undefined || decodeHead(row, seed) === undefined) return false;
    // Checking the checksum is cheaper than decoding the body, which is all that a row without checksums
    // allows.
    return seed.sum === undefined
      ? decodeLines(row, seed) !== undefined
      : isBodyWhole(row.body, row.users, seed.sum);
  }

  /** Writes a row again when its keys or users are damaged. */
  #repairHashes(row: ChunkRow): void {
    const seed = this.#rows.seedOf(row)!;
    if (decodeKeys(row.keys, seed) !== undefined && decodeUsers(row.users, seed) !== undefined) return;
    if (this.#options.isReadOnly === true) return;
    const chunk = this.#decode(row)!;
    this.put(chunk.first, { ...chunk, lines: chunk.body }, chunk.stage, chunk.batchAnswer);
  }

  /**
   * Sources and plans of the chunk that begins at a position, without its events; undefined when they are
   * damaged.
   */
  columnsOf(first: Position): Pick<Chunk, 'first' | 'n' | 'sources' | 'plans'> | undefined {
    const row = this.#rows.head(first);
    const seed = row && this.#rows.seedOf(row);
    if (row?.first !== first || seed === undefined) return undefined;
    const head = decodeHead(row, seed);
    return head && { first, n: row.n, sources: head.sources, plans: head.plans };
  }

  /** When the event at a position arrived; undefined when there is none or it is damaged. */
  arrivalOf(position: Position): Monotonic | undefined {
    const row = this.#rows.head(position);
    const seed = row && this.#rows.seedOf(row);
    if (row === undefined || seed === undefined) return undefined;
    return decodeHead(row, seed)?.times[position - row.first];
  }

  /** When each event of the chunk that begins at a position arrived; undefined when that is damaged. */
  arrivalsIn(first: Position): Float64Array | undefined {
    const row = this.#rows.head(first);
    const seed = row && this.#rows.seedOf(row);
    return row?.first === first && seed !== undefined ? decodeHead(row, seed)?.times : undefined;
  }

  /** The start of the chunk that holds a position; the position itself when none does. */
  firstAt(position: Position): Position {
    return this.#rows.firstAt(position);
  }

  /** Facts of at most `limit` chunks that begin at a position or above. */
  factsFrom(position: Position, limit: number): ChunkFacts[] {
    return this.#rows.factsFrom(position, limit);
  }

  /** Facts of at most `limit` chunks that begin below a position, the newest first. */
  factsBelow(position: Position, limit: number): ChunkFacts[] {
    return this.#rows.factsBelow(position, limit);
  }

  oldest(): ChunkFacts | undefined {
    return this.factsFrom(0, 1)[0];
  }

  /** The start of the chunk of the last `batches`th batch; 0 when there are fewer batches with a chunk. */
  firstOfBatches(batches: number): Position {
    return this.#rows.firstOfBatches(batches);
  }

  /**
   * Visits the keys of all events from a position up to `end`, chunk by chunk. `until`: when the newest event
   * of the chunk arrived.
   */
  keysBetween(
    position: Position,
    end: Position,
    visit: (first: Position, until: Monotonic, keys: Uint32Array) => void,
  ): void {
    for (const row of this.#rows.keysFrom(position)) {
      if (row.first >= end) return;
      const seed = this.#rows.seedOf(row);
      const keys = seed && (decodeKeys(row.keys, seed) ?? this.at(row.first)?.keys);
      if (keys === undefined) continue;
      const skip = Math.max(0, position - row.first);
      visit(row.first + skip, row.until, keys.subarray(skip * 2, (end - row.first) * 2));
    }
  }

  /** User hashes of the chunks below a position, the newest chunk first. */
  *usersBelow(position: Position): Generator<{ first: Position; n: number; users: Uint32Array }> {
    for (const row of this.#rows.usersBelow(position)) {
      const seed = this.#rows.seedOf(row);
      const users = seed && (decodeUsers(row.users, seed) ?? this.at(row.first)?.users);
      if (users !== undefined) yield { first: row.first, n: row.n, users };
    }
  }
}

/**
 * Batches remembered, of those with a chunk and of the others. Chunks of remembered batches are not
 * compacted.
 */
export const REMEMBERED_BATCHES = 64;

/**
 * The answers to the last batches, written in the transaction of the batch. A caller that lost an answer
 * sends the batch again, gets the same answer, and changes nothing. An answer is stored in the row of the
 * batch's first chunk, which costs no page. Only a batch without a chunk needs a row of its own.
 */
export class RecentBatches {
  readonly #putEmpty: StatementSync;
  readonly #dropEmpty: StatementSync;
  /** Answers by batch id, as `encodeAppended` writes them: of batches with a chunk, and of the others. */
  readonly #ofChunks = new RecentAnswers();
  readonly #ofNone = new RecentAnswers();
  #emptyNumber = 0;

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    this.#putEmpty = database.prepare('insert into empty_batch(number, batch, answer) values (?, ?, ?)');
    this.#dropEmpty = database.prepare('delete from empty_batch where number <= ?');
    const empty = database.prepare('select number, batch, answer from empty_batch order by number');
    for (const { number, batch, answer } of empty.all() as unknown as BatchRow[]) {
      this.#ofNone.set(batch, answer);
      this.#emptyNumber = number;
    }
    const last = database.prepare(
      'select batch, answer from chunk where batch is not null order by first desc limit ?',
    );
    const answered =
      quarantine.unlessDamaged(() => last.all(REMEMBERED_BATCHES) as unknown as BatchRow[]) ?? [];
    for (const { batch, answer } of answered.reverse()) {
      this.#ofChunks.set(batch, answer);
    }
  }

  answerTo(id: string): string | undefined {
    return this.#ofChunks.get(id) ?? this.#ofNone.get(id);
  }

  /** Stores an answer in a row of its own, because retention drops the chunk that had it. */
  keepAnswer({ batch, answer }: BatchAnswer): void {
    if (this.#ofChunks.get(batch) !== undefined) this.#putEmpty.run(++this.#emptyNumber, batch, answer);
  }

  /** `inChunk`: whether a chunk stores the answer. */
  remember(id: string, answer: string, inChunk: boolean): void {
    if (!inChunk) {
      this.#putEmpty.run(++this.#emptyNumber, id, answer);
      this.#dropEmpty.run(this.#emptyNumber - REMEMBERED_BATCHES);
    }
    (inChunk ? this.#ofChunks : this.#ofNone).set(id, answer);
  }
}

/**
 * The last `REMEMBERED_BATCHES` answers, and up to as many before them. Two maps, because one whose entries
 * come and go does harm: see `Slab`.
 */
class RecentAnswers {
  #newer = new Map<string, string>();
  #older = new Map<string, string>();

  get(id: string): string | undefined {
    return this.#newer.get(id) ?? this.#older.get(id);
  }

  set(id: string, answer: string): void {
    if (this.#newer.size === REMEMBERED_BATCHES) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(id, answer);
  }
}

interface BatchRow {
  number: number;
  batch: string;
  answer: string;
}
