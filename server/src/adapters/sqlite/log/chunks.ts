import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import { findLineOffsets } from '../../../model/serialized-event.ts';
import type { Time } from '../../../model/time.ts';
import {
  isConfirmedDamage,
  type Quarantine,
  type RowScan,
  readableRows,
  UnwritableChunksError,
  unlessDamaged,
} from '../damage.ts';
import {
  type BatchAnswer,
  type Chunk,
  type ChunkEvents,
  type ChunkRow,
  checkNumbers,
  decodeHead,
  decodeKeys,
  decodeLines,
  decodeUsers,
  encodeChunk,
  type HeadRow,
  isBodyWhole,
  type NumbersRow,
} from './chunk-codec.ts';
import type { KeyHash } from './key-hash.ts';
import { hashLines } from './key-hash.ts';
import { NO_PLAN } from './plans.ts';

/** A chunk holds at most this many events: large enough to compress well, small enough to read one event from. */
export const MAX_CHUNK_EVENTS = 500;

/** Chunks kept decoded, and damaged ones remembered: a claim reads neighbours, and a verified duplicate is usually young. */
const CACHED_CHUNKS = 16;

/** Stages of a chunk's life, as in the table. */
const FRESH = 0;
export const COMPACTED = 1;
/** Past its retention: what is left is events of dead letters, and messageIds. */
export const REMNANT = 2;
/** Past its retention: what is left is messageIds. */
export const IDS_ONLY = 3;

export interface ChunksOptions {
  /** Rows of positions below may stand without checksums: format 1 wrote them. */
  readonly sumsFrom: Position;
  /** Events that were ever stored, by the ledger: each has got a position. */
  readonly stored: number;
  /** Events below are past their retention, so that a gap there is no loss. */
  readonly retainedFrom: () => Position;
  readonly hash: KeyHash;
  readonly isReadOnly?: true;
  readonly avoided: Quarantine;
  /** A chunk cannot be read: it holds so many positions. Told every time. */
  readonly onDamage: (first: Position, n: number) => void;
}

/**
 * The event log's rows. A position is the number of an event since the beginning of the log.
 *
 * A row is believed only where its checksums hold. Whatever is asked of one that cannot be read, the answer is that of a
 * chunk that is not there, `onDamage` is told, and everything before and behind it goes on.
 */
export class Chunks {
  readonly #sql: ReturnType<typeof statements>;
  readonly #database: DatabaseSync;
  readonly #options: ChunksOptions;
  readonly #cache = new Map<Position, Chunk>();
  /** Ranges of positions that were found damaged. */
  #damaged: readonly { readonly first: Position; readonly end: Position }[] = [];
  #next: Position;

  constructor(database: DatabaseSync, options: ChunksOptions) {
    this.#database = database;
    this.#sql = statements(database);
    this.#options = options;
    // Should the last chunks be unreadable, no new event may get their positions: they may still be owed to somebody.
    this.#next = Math.max(this.#endOfLog(), options.stored);
  }

  /** Retention never drops the newest row, so the log goes on where it ended whatever was let go of. */
  #endOfLog(): Position {
    let unreadable = 0;
    for (const row of this.#rowsBelow(this.#sql.factsBelow, Number.MAX_SAFE_INTEGER)) {
      // Behind the last row that can be trusted each other one had room for so many events, which may still be owed.
      if (this.#isTrusted(row)) return row.first + row.n + unreadable * MAX_CHUNK_EVENTS;
      unreadable++;
    }
    return unreadable * MAX_CHUNK_EVENTS;
  }

  /** The position the next event will get. */
  get next(): Position {
    return this.#next;
  }

  /** Writes the events in as many rows as they need; the batch and its answer go into the first. */
  append(events: ChunkEvents, origin: BatchAnswer): void {
    if (events.n <= MAX_CHUNK_EVENTS) {
      this.put(this.#next, events, FRESH, origin);
      this.#next += events.n;
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
      this.put(this.#next, part, FRESH, from === 0 ? origin : undefined);
      this.#next += part.n;
    }
  }

  /** Writes one row, in place of the one that was there. */
  put(first: Position, events: ChunkEvents, stage: number, origin?: BatchAnswer): void {
    const row = encodeChunk(first, events, stage, origin);
    this.#write({ first, end: first + events.n }, () => this.#put(row));
    this.#forget(first);
  }

  #put(row: ChunkRow): void {
    this.#sql.put.run(
      row.first,
      row.n,
      row.at,
      row.until,
      row.codec,
      row.json,
      row.stage,
      row.batch,
      row.answer,
      row.sources,
      row.times,
      row.plans,
      row.keys,
      row.users,
      row.body,
    );
  }

  #write(range: { readonly first: Position; readonly end: Position }, write: () => void): void {
    try {
      write();
    } catch (error) {
      throw isConfirmedDamage(error) ? new UnwritableChunksError(range.first, range.end, error) : error;
    }
  }

  delete({ first, n }: Pick<Chunk, 'first' | 'n'>): void {
    this.#write({ first, end: first + n }, () => this.#sql.delete.run(first));
    this.#forget(first);
  }

  /** Overwrites a damaged chunk: its events are gaps from now on. */
  wipe(position: Position): void {
    const { first, n } = this.#extentOf(position);
    const { at } = this.factsBelow(first + 1, 1)[0] ?? { at: 0 };
    this.#sql.deleteBetween.run(first, first + n);
    this.#forget(first);
    for (let from = first; from < first + n; from += MAX_CHUNK_EVENTS) {
      const size = Math.min(MAX_CHUNK_EVENTS, first + n - from);
      const nothing = {
        n: size,
        lines: Buffer.alloc(size - 1, '\n'),
        sources: new Uint32Array(size),
        times: new Float64Array(size).fill(at),
        plans: new Uint32Array(size).fill(NO_PLAN),
        keys: new Uint32Array(size * 2),
        users: new Uint32Array(size * 2),
      };
      this.put(from, nothing, COMPACTED);
    }
  }

  #forget(first: Position): void {
    this.#cache.delete(first);
    this.#damaged = this.#damaged.filter((range) => first < range.first || first >= range.end);
  }

  /** The chunk that holds a position; undefined where the log holds no such event, or where it is damaged. */
  at(position: Position): Chunk | undefined {
    for (const chunk of this.#cache.values()) {
      if (position >= chunk.first && position < chunk.first + chunk.n) return chunk;
    }
    if (this.#damaged.some(({ first, end }) => position >= first && position < end)) return undefined;
    const row = this.#rowAt<ChunkRow>(this.#sql.find, position);
    const chunk = row && this.#decode(row);
    if (chunk === undefined || position >= chunk.first + chunk.n) {
      if (this.isDamaged(position)) this.#foundDamage(position);
      return undefined;
    }
    this.#cache.set(chunk.first, chunk);
    if (this.#cache.size > CACHED_CHUNKS) this.#cache.delete(this.#cache.keys().next().value!);
    return chunk;
  }

  /** Whether an event should be at a position of which `at` knows nothing. */
  isDamaged(position: Position): boolean {
    if (position >= this.#next) return false;
    if (this.#options.avoided.overlaps({ first: position, end: position + 1 })) return true;
    if (position >= this.#options.retainedFrom()) return true;
    // Of what is past its retention only rows with dead letters are left, so only a row that is there can be damaged.
    const row = unlessDamaged(() => ({ found: this.#sql.facts.get(position) as NumbersRow | undefined }));
    if (row === undefined) return true;
    if (row.found === undefined) return false;
    const { first, n } = row.found;
    return !this.#isTrusted(row.found) || (position >= first && position < first + n);
  }

  /** The row of the last chunk that begins at a position or before it, if there is one that can be read. */
  #rowAt<Row extends NumbersRow>(sql: StatementSync, position: Position): Row | undefined {
    if (this.#options.avoided.overlaps({ first: position, end: position + 1 })) return undefined;
    const read = unlessDamaged(() => ({ row: sql.get(position) as unknown as Row | undefined }));
    if (read === undefined) this.#quarantine(position);
    const row = read?.row;
    // Where a page stands in the wrong place SQLite may come to a row that lies behind.
    return row !== undefined && row.first <= position ? row : undefined;
  }

  #quarantine(position: Position): void {
    const { first, n } = this.#extentOf(position);
    this.#options.avoided.addRange(first, first + n, this.#database);
  }

  #foundDamage(position: Position): void {
    const { first, n } = this.#extentOf(position);
    this.#damaged = [{ first, end: first + n }, ...this.#damaged.slice(0, CACHED_CHUNKS - 1)];
    this.#options.onDamage(first, n);
  }

  /** The positions that a chunk which cannot be read holds: from the end of the one before to where the next one begins. */
  #extentOf(position: Position): { first: Position; n: number } {
    const before = this.factsBelow(position + 1, 1)[0];
    if (before !== undefined && !before.isDamaged && position < before.first + before.n) return before;
    const end = before === undefined ? 0 : before.isDamaged ? before.first : before.first + before.n;
    const first = Math.max(end, Math.min(position, this.#options.retainedFrom()));
    const behind = this.factsFrom(position + 1, 1)[0]?.first ?? this.#next;
    return { first, n: Math.max(1, behind - first) };
  }

  #isTrusted(row: NumbersRow): boolean {
    return checkNumbers(row, this.#options.sumsFrom) !== undefined;
  }

  /** Keys and users can be made anew from the events; nothing else of a row can. */
  #decode(row: ChunkRow): Chunk | undefined {
    const seed = checkNumbers(row, this.#options.sumsFrom);
    if (seed === undefined) return undefined;
    const head = decodeHead(row, seed);
    if (head === undefined) return undefined;
    const lines = decodeLines(row, seed);
    if (lines === undefined) return undefined;
    const { first, n, stage, batch, answer } = row;
    const keys = decodeKeys(row.keys, seed);
    const users = decodeUsers(row.users, seed);
    const anew = keys && users ? undefined : hashLines(this.#options.hash, { n, ...lines, ...head });
    return {
      first,
      n,
      stage,
      batchAnswer: batch === null || answer === null ? undefined : { batch, answer },
      ...lines,
      ...head,
      keys: keys ?? anew!.keys,
      users: users ?? anew!.users,
    };
  }

  /**
   * Checks every checksum of the first chunk that ends behind a position, tells `onDamage` of damage, and makes keys and users
   * anew where the file can be written; where that chunk ends, or undefined at the end of the log.
   */
  verify(position: Position): Position | undefined {
    const facts = this.factsFrom(this.firstAt(position), 2).find(({ first, n }) => first + n > position);
    if (facts === undefined) return undefined;
    const row = this.#rowAt<ChunkRow>(this.#sql.find, facts.first);
    const seed = row && checkNumbers(row, this.#options.sumsFrom);
    const isWhole =
      seed !== undefined &&
      decodeHead(row!, seed) !== undefined &&
      (seed.sum === undefined
        ? decodeLines(row!, seed) !== undefined
        : isBodyWhole(row!.body, row!.users, seed.sum));
    // A damaged row past its retention is left behind, because to delete it would be dangerous; it is no loss any more.
    const isOver = facts.first < this.#options.retainedFrom() && facts.stage < REMNANT;
    if (!isWhole && !isOver) this.#foundDamage(facts.first);
    else if (!isWhole) return Math.max(facts.first + facts.n, position + 1);
    else if (decodeKeys(row!.keys, seed) === undefined || decodeUsers(row!.users, seed) === undefined)
      this.#repair(this.#decode(row!)!);
    return Math.max(facts.first + facts.n, position + 1);
  }

  #repair(chunk: Chunk): void {
    if (this.#options.isReadOnly !== true)
      this.put(chunk.first, { ...chunk, lines: chunk.body }, chunk.stage, chunk.batchAnswer);
  }

  /** What is known of the events of the chunk that begins there without their JSON; undefined where it is damaged. */
  columnsOf(first: Position): Pick<Chunk, 'first' | 'n' | 'sources' | 'plans'> | undefined {
    const row = this.#rowAt<HeadRow>(this.#sql.head, first);
    const seed = row && checkNumbers(row, this.#options.sumsFrom);
    if (row?.first !== first || seed === undefined) return undefined;
    const head = decodeHead(row, seed);
    return head && { first, n: row.n, sources: head.sources, plans: head.plans };
  }

  /** When the event at a position arrived, without reading the event; nothing where the log holds no such event. */
  arrivalOf(position: Position): Time | undefined {
    const row = this.#rowAt<HeadRow>(this.#sql.head, position);
    const seed = row && checkNumbers(row, this.#options.sumsFrom);
    if (row === undefined || seed === undefined) return undefined;
    return decodeHead(row, seed)?.times[position - row.first];
  }

  /** When each event of the chunk that begins there arrived; undefined where it is damaged. */
  arrivalsIn(first: Position): Float64Array | undefined {
    const row = unlessDamaged(() => this.#sql.head.get(first) as HeadRow | undefined);
    const seed = row && checkNumbers(row, this.#options.sumsFrom);
    return row?.first === first && seed !== undefined ? decodeHead(row, seed)?.times : undefined;
  }

  /** Where the chunk begins that holds a position; the position itself where none does. */
  firstAt(position: Position): Position {
    const row = this.#rowAt(this.#sql.facts, position);
    return row && this.#isTrusted(row) ? row.first : position;
  }

  /** Facts of chunks from a position on, at most `limit`, without their contents. */
  factsFrom(position: Position, limit: number): ChunkFacts[] {
    const rows = this.#rowsFrom(this.#sql.factsFrom, position);
    return this.#factsOf(firstOf(rows, limit), position);
  }

  /** Facts of the chunks that begin below a position, at most `limit`, the newest first. */
  factsBelow(position: Position, limit: number): ChunkFacts[] {
    const rows = this.#rowsBelow(this.#sql.factsBelow, position);
    return this.#factsOf(firstOf(rows, limit).reverse(), 0).reverse();
  }

  /** Damaged numbers are replaced by what can be known from the neighbours. `from`: no chunk begins below it. */
  #factsOf(rows: readonly NumbersRow[], from: Position): ChunkFacts[] {
    const trusted = rows.map((row) => this.#isTrusted(row));
    let end = from;
    let [at, until] = [0, 0];
    return rows.map((row, nth) => {
      if (trusted[nth]) {
        end = row.first + row.n;
        [at, until] = [row.at, row.until];
        return { ...row, isDamaged: this.#options.avoided.overlaps({ first: row.first, end }) };
      }
      const next = rows.find((_, other) => other > nth && trusted[other]);
      const behind = next?.first ?? Math.max(end, this.#next);
      const first = row.first >= end && row.first < behind ? row.first : Math.min(end, behind);
      if (end === from && next !== undefined) [at, until] = [next.at, next.until];
      end = first;
      const n = Math.min(behind - first, MAX_CHUNK_EVENTS);
      return { first, n, at, until, json: 0, stage: COMPACTED, isDamaged: true };
    });
  }

  /** Keys of all events from a position on, up to another. `until` is when the youngest of them arrived. */
  keysBetween(
    position: Position,
    end: Position,
    visit: (first: Position, until: Time, keys: Uint32Array) => void,
  ): void {
    const rows = this.#rowsFrom<NumbersRow & Pick<ChunkRow, 'keys'>>(
      this.#sql.keysFrom,
      this.firstAt(position),
    );
    for (const row of rows) {
      if (row.first >= end) return;
      const seed = checkNumbers(row, this.#options.sumsFrom);
      const keys = seed && (decodeKeys(row.keys, seed) ?? this.at(row.first)?.keys);
      if (keys === undefined) continue;
      const skip = Math.max(0, position - row.first);
      visit(row.first + skip, row.until, keys.subarray(skip * 2, (end - row.first) * 2));
    }
  }

  /** Hashes of the users of chunks below a position, the newest chunk first. */
  *usersBelow(position: Position): Generator<{ first: Position; n: number; users: Uint32Array }> {
    const rows = this.#rowsBelow<NumbersRow & Pick<ChunkRow, 'users'>>(this.#sql.usersBelow, position);
    for (const row of rows) {
      const seed = checkNumbers(row, this.#options.sumsFrom);
      const users = seed && (decodeUsers(row.users, seed) ?? this.at(row.first)?.users);
      if (users !== undefined) yield { first: row.first, n: row.n, users };
    }
  }

  /** Where the chunks of the last so many batches begin; 0 when there are fewer. */
  firstOfBatches(batches: number): Position {
    let left = batches;
    const rows = this.#rowsBelow<NumbersRow & { isFresh: number }>(
      this.#sql.freshBelow,
      Number.MAX_SAFE_INTEGER,
    );
    for (const { first, isFresh } of rows) if (isFresh === 1 && --left === 0) return first;
    return 0;
  }

  oldest(): ChunkFacts | undefined {
    return this.factsFrom(0, 1)[0];
  }

  #rowsFrom<Row extends NumbersRow>(sql: StatementSync, start: Position): Generator<Row> {
    const keyBehind = (row: Row) => row.first + (this.#isTrusted(row) ? row.n : 1);
    return this.#rows(sql, { start, end: this.#next, towards: 1, keyBehind });
  }

  #rowsBelow<Row extends NumbersRow>(sql: StatementSync, start: Position): Generator<Row> {
    return this.#rows(sql, { start, end: 0, towards: -1, keyBehind: ({ first }: Row) => first });
  }

  #rows<Row extends NumbersRow>(sql: StatementSync, walk: RowScan<Row>): Generator<Row> {
    const { avoided } = this.#options;
    const found = (from: Position, to: Position) => {
      // A readable chunk may begin below and reach into it.
      const row = unlessDamaged(() => this.#sql.factsBelow.get(from) as NumbersRow | undefined);
      const isBefore = row !== undefined && row.first < from && this.#isTrusted(row);
      avoided.addRange(isBefore ? Math.max(from, row.first + row.n) : from, to, this.#database);
    };
    const holes = { past: avoided.past.bind(avoided), found };
    const rowsFrom = (key: number) => sql.iterate(key) as Iterable<unknown> as Iterable<Row>;
    return readableRows(rowsFrom, { ...walk, holes });
  }
}

export interface ChunkFacts {
  readonly first: Position;
  readonly n: number;
  readonly at: Time;
  readonly until: Time;
  readonly json: number;
  readonly stage: number;
  /** It cannot be written, or nothing of it can be read, and the rest is what its neighbours let one believe. */
  readonly isDamaged: boolean;
}

/** The compact JSON of one event; empty when it was erased, or when only its messageId is kept. */
export function eventLine(chunk: Chunk, position: Position): Buffer {
  const line = storedLine(chunk, position);
  return line[0] === QUOTE ? line.subarray(0, 0) : line;
}

const QUOTE = 0x22;

/** The same, or the messageId as JSON where nothing else is kept of the event. */
export function storedLine(chunk: Chunk, position: Position): Buffer {
  const line = position - chunk.first;
  return chunk.body.subarray(chunk.starts[line]!, chunk.starts[line + 1]! - 1);
}

/** The lines of so many events from a position on, with line feeds between them. Not of a remnant: see `lineOf`. */
export function eventLines(chunk: Chunk, position: Position, n: number): Buffer {
  const line = position - chunk.first;
  return chunk.body.subarray(chunk.starts[line]!, chunk.starts[line + n]! - 1);
}

function firstOf<Row>(rows: Iterable<Row>, limit: number): Row[] {
  const first: Row[] = [];
  for (const row of rows) {
    if (first.length === limit) break;
    first.push(row);
  }
  return first;
}

const NUMBER_COLUMNS = 'first, n, at, until, codec, json, stage';
const HEAD_COLUMNS = `${NUMBER_COLUMNS}, batch, answer, sources, times, plans`;

function statements(database: DatabaseSync) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  return {
    put: prepare(
      `insert or replace into chunk(first, n, at, until, codec, json, stage, batch, answer, sources, times, plans, keys, users, body)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    delete: prepare('delete from chunk where first = ?'),
    deleteBetween: prepare('delete from chunk where first >= ? and first < ?'),
    find: prepare(
      `select ${HEAD_COLUMNS}, keys, users, body from chunk where first <= ? order by first desc limit 1`,
    ),
    head: prepare(`select ${HEAD_COLUMNS} from chunk where first <= ? order by first desc limit 1`),
    facts: prepare(`select ${NUMBER_COLUMNS} from chunk where first <= ? order by first desc limit 1`),
    factsFrom: prepare(`select ${NUMBER_COLUMNS} from chunk where first >= ? order by first`),
    factsBelow: prepare(`select ${NUMBER_COLUMNS} from chunk where first < ? order by first desc`),
    keysFrom: prepare(`select ${NUMBER_COLUMNS}, keys from chunk where first >= ? order by first`),
    usersBelow: prepare(`select ${NUMBER_COLUMNS}, users from chunk where first < ? order by first desc`),
    freshBelow: prepare(
      `select ${NUMBER_COLUMNS}, batch is not null as isFresh from chunk where first < ? order by first desc`,
    ),
  };
}
