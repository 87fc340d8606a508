import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';
import {
  type ChecksumSeed,
  type ChunkRow,
  checkNumbers,
  type HeadRow,
  type NumbersRow,
} from '../../encoding/chunk-codec.ts';
import { COMPACTED, MAX_CHUNK_EVENTS } from '../../encoding/chunk-lines.ts';
import type { ChunkFacts } from '../../encoding/chunk-merge.ts';
import { type Quarantine, type RowScan, readableRows, UnwritableChunksError } from '../damage.ts';

export interface ChunkRowsOptions {
  /** Rows of lower positions may have no checksums: format 1 wrote them. */
  readonly sumsFrom: Position;
  /** How many events were ever stored, by the ledger. Each of them has a position. */
  readonly stored: number;
  /** Events below are past their retention. A gap there is no loss. */
  readonly retainedFrom: () => Position;
  readonly quarantine: Quarantine;
}

/**
 * Rows of the table `chunk`, read and written around damage. A row counts only when the checksum of its
 * numbers holds. Reads skip an unreadable row and quarantine it; a write that meets damage throws an
 * `UnwritableChunksError`.
 */
export class ChunkRows {
  readonly #sql: ReturnType<typeof statements>;
  readonly #database: DatabaseSync;
  readonly #options: ChunkRowsOptions;
  #next: Position;

  constructor(database: DatabaseSync, options: ChunkRowsOptions) {
    this.#database = database;
    this.#sql = statements(database);
    this.#options = options;
    // If the last rows are unreadable, their positions must not be used again: deliveries may refer to them.
    this.#next = options.stored;
    this.#next = Math.max(this.#endOfLog(), options.stored);
  }

  /** The end of the last row. Retention never drops the newest row, so the log goes on where it ended. */
  #endOfLog(): Position {
    let unreadable = 0;
    for (const row of this.#descending(this.#sql.factsBelow, Number.MAX_SAFE_INTEGER)) {
      // Each unreadable row after the last trusted one may have held this many events.
      if (this.isTrusted(row)) return row.first + row.n + unreadable * MAX_CHUNK_EVENTS;
      unreadable++;
    }
    return unreadable * MAX_CHUNK_EVENTS;
  }

  /** The position of the next event. */
  get next(): Position {
    return this.#next;
  }

  /** Writes a row, in place of the one that begins at the same position. */
  put(row: ChunkRow): void {
    const end = row.first + row.n;
    invariant(row.first <= this.#next, 'a chunk leaves no gap behind the log');
    this.#write(row.first, end, () => this.#put(row));
    if (end > this.#next) this.#next = end;
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

  delete(first: Position, n: number): void {
    this.#write(first, first + n, () => this.#sql.delete.run(first));
  }

  /** Deletes all rows that begin in a range of positions, readable or not. */
  deleteBetween(first: Position, end: Position): void {
    this.#write(first, end, () => this.#sql.deleteBetween.run(first, end));
  }

  #write(first: Position, end: Position, write: () => void): void {
    try {
      write();
    } catch (error) {
      const { quarantine } = this.#options;
      throw quarantine.isConfirmedDamage(error) ? new UnwritableChunksError(first, end, error) : error;
    }
  }

  /** The row of the last chunk that begins at a position or below; undefined when it cannot be read. */
  find(position: Position): ChunkRow | undefined {
    return this.#rowAt<ChunkRow>(this.#sql.find, position);
  }

  /**
   * Whole rows that begin in a range of positions, read at once; undefined when anything about them is
   * damaged.
   */
  between(first: Position, end: Position): readonly ChunkRow[] | undefined {
    return this.#allInOrder<ChunkRow>(this.#sql.between, [first, end], 1);
  }

  /** The same without keys, users and body. */
  head(position: Position): HeadRow | undefined {
    return this.#rowAt<HeadRow>(this.#sql.head, position);
  }

  #rowAt<Row extends NumbersRow>(sql: StatementSync, position: Position): Row | undefined {
    const { quarantine } = this.#options;
    if (quarantine.overlaps({ first: position, end: position + 1 })) return undefined;
    const read = quarantine.unlessDamaged(() => ({ row: sql.get(position) as unknown as Row | undefined }));
    if (read === undefined) {
      const { first, n } = this.extentOf(position);
      quarantine.addRange(first, first + n, this.#database);
    }
    const row = read?.row;
    // When a page is in the wrong place, SQLite may answer with a row of a higher position.
    return row !== undefined && row.first <= position ? row : undefined;
  }

  /** The seed of a row's checksums; undefined when its numbers are damaged. */
  seedOf(row: NumbersRow): ChecksumSeed | undefined {
    return checkNumbers(row, this.#options.sumsFrom);
  }

  isTrusted(row: NumbersRow): boolean {
    return this.seedOf(row) !== undefined;
  }

  /** Whether an event should be at a position that no readable row holds. */
  isDamaged(position: Position): boolean {
    const { quarantine, retainedFrom } = this.#options;
    if (position >= this.#next) return false;
    if (quarantine.overlaps({ first: position, end: position + 1 })) return true;
    if (position >= retainedFrom()) return true;
    // Past the retention most rows are gone, so only a row that exists can be damaged.
    const read = quarantine.unlessDamaged(() => ({
      row: this.#sql.facts.get(position) as NumbersRow | undefined,
    }));
    if (read === undefined) return true;
    if (read.row === undefined) return false;
    const { first, n } = read.row;
    return !this.isTrusted(read.row) || (position >= first && position < first + n);
  }

  /** The positions of an unreadable chunk: from the end of the row before to the start of the row after. */
  extentOf(position: Position): { first: Position; n: number } {
    const before = this.factsBelow(position + 1, 1)[0];
    if (before !== undefined && !before.isDamaged && position < before.first + before.n) return before;
    const end = before === undefined ? 0 : before.isDamaged ? before.first : before.first + before.n;
    const first = Math.max(end, Math.min(position, this.#options.retainedFrom()));
    const after = this.factsFrom(position + 1, 1)[0]?.first ?? this.#next;
    return { first, n: Math.max(1, after - first) };
  }

  /** The start of the chunk that holds a position; the position itself when none does. */
  firstAt(position: Position): Position {
    const row = this.#rowAt(this.#sql.facts, position);
    return row && this.isTrusted(row) ? row.first : position;
  }

  /** Facts of at most `limit` chunks that begin at a position or above. */
  factsFrom(position: Position, limit: number): ChunkFacts[] {
    const scan = () => firstRows(this.#rowsFrom(this.#sql.factsFrom, position), limit);
    const rows = this.#allInOrder(this.#sql.factsFromLimit, [position, limit], 1) ?? scan();
    return this.#factsOf(rows, position);
  }

  /** Facts of at most `limit` chunks that begin below a position, the newest first. */
  factsBelow(position: Position, limit: number): ChunkFacts[] {
    const scan = () => firstRows(this.#rowsBelow(this.#sql.factsBelow, position), limit);
    const rows = this.#allInOrder(this.#sql.factsBelowLimit, [position, limit], -1) ?? scan();
    return this.#factsOf(rows.reverse(), 0).reverse();
  }

  /**
   * Rows of one query, read at once: upkeep reads some for every few events, and the scan that goes around
   * damage takes four times as long. Undefined when anything about them is damaged, and the scan must find
   * the way.
   */
  #allInOrder<Row extends NumbersRow = NumbersRow>(
    sql: StatementSync,
    values: readonly [Position, number],
    direction: 1 | -1,
  ): Row[] | undefined {
    const { quarantine } = this.#options;
    if (quarantine.hasRanges) return undefined;
    const rows = quarantine.unlessDamaged(() => sql.all(...values) as unknown as Row[]);
    const isInOrder = rows?.every(
      (row, nth) => nth === 0 || (row.first - rows[nth - 1]!.first) * direction > 0,
    );
    return isInOrder === true ? rows : undefined;
  }

  /** Estimates damaged numbers from the neighbours. No chunk begins below `from`. */
  #factsOf(rows: readonly NumbersRow[], from: Position): ChunkFacts[] {
    const trusted = rows.map((row) => this.isTrusted(row));
    let end = from;
    let [at, until] = [0, 0];
    return rows.map((row, nth) => {
      if (trusted[nth]) {
        end = row.first + row.n;
        [at, until] = [row.at, row.until];
        return { ...row, isDamaged: this.#options.quarantine.overlaps({ first: row.first, end }) };
      }
      const next = rows.find((_, other) => other > nth && trusted[other]);
      const after = next?.first ?? Math.max(end, this.#next);
      const first = row.first >= end && row.first < after ? row.first : Math.min(end, after);
      if (end === from && next !== undefined) [at, until] = [next.at, next.until];
      end = first;
      const n = Math.min(after - first, MAX_CHUNK_EVENTS);
      return { first, n, at, until, json: 0, stage: COMPACTED, isDamaged: true };
    });
  }

  /** Rows with their keys, from the chunk of a position on. */
  keysFrom(position: Position): Generator<NumbersRow & Pick<ChunkRow, 'keys'>> {
    return this.#rowsFrom(this.#sql.keysFrom, this.firstAt(position));
  }

  /** Rows with their users, below a position, the newest first. */
  usersBelow(position: Position): Generator<NumbersRow & Pick<ChunkRow, 'users'>> {
    return this.#rowsBelow(this.#sql.usersBelow, position);
  }

  /** The start of the chunk of the last `batches`th batch; 0 when there are fewer batches with a chunk. */
  firstOfBatches(batches: number): Position {
    const { quarantine } = this.#options;
    const found = quarantine.hasRanges
      ? undefined
      : quarantine.unlessDamaged(() => ({
          row: this.#sql.freshOffset.get(batches - 1) as Pick<NumbersRow, 'first'> | undefined,
        }));
    if (found !== undefined) return found.row?.first ?? 0;
    let left = batches;
    const rows = this.#rowsBelow<NumbersRow & { isFresh: number }>(
      this.#sql.freshBelow,
      Number.MAX_SAFE_INTEGER,
    );
    for (const { first, isFresh } of rows) if (isFresh === 1 && --left === 0) return first;
    return 0;
  }

  #rowsFrom<Row extends NumbersRow>(sql: StatementSync, start: Position): Generator<Row> {
    const nextKey = (row: Row) => row.first + (this.isTrusted(row) ? row.n : 1);
    return this.#rows(sql, { start, end: this.#next, direction: 1, nextKey });
  }

  #rowsBelow<Row extends NumbersRow>(sql: StatementSync, start: Position): Generator<Row> {
    // A range of unreadable keys ends where the log does, so a scan from beyond would read its pages again.
    return this.#descending(sql, Math.min(start, this.#next));
  }

  #descending<Row extends NumbersRow>(sql: StatementSync, start: Position): Generator<Row> {
    // The keys are exclusive: the last one is 1, for the row that begins at 0.
    return this.#rows(sql, { start, end: 1, direction: -1, nextKey: ({ first }: Row) => first });
  }

  #rows<Row extends NumbersRow>(
    sql: StatementSync,
    scan: Pick<RowScan<Row>, 'start' | 'end' | 'direction' | 'nextKey'>,
  ): Generator<Row> {
    const { quarantine } = this.#options;
    const add = (from: Position, to: Position) => {
      // A readable chunk may begin below the range and reach into it.
      const row = quarantine.unlessDamaged(() => this.#sql.factsBelow.get(from) as NumbersRow | undefined);
      const reachesIn = row !== undefined && row.first < from && this.isTrusted(row);
      const first = reachesIn ? Math.max(from, row.first + row.n) : from;
      // A scan may search beyond the end of the log. The events that will be stored there are not damaged.
      quarantine.addRange(first, Math.min(to, this.#next), this.#database);
    };
    const unreadable = { skip: quarantine.skip.bind(quarantine), add };
    const rowsFrom = (key: number) => sql.iterate(key) as Iterable<unknown> as Iterable<Row>;
    return readableRows(rowsFrom, { ...scan, quarantine, unreadable });
  }
}

function firstRows<Row>(rows: Iterable<Row>, limit: number): Row[] {
  const first: Row[] = [];
  for (const row of rows) {
    if (first.length === limit) break;
    first.push(row);
  }
  return first;
}

const NUMBER_COLUMNS = 'first, n, at, until, codec, json, stage';
const HEAD_COLUMNS = `${NUMBER_COLUMNS}, batch, answer, sources, times, plans`;
const ALL_COLUMNS = `${HEAD_COLUMNS}, keys, users, body`;

function statements(database: DatabaseSync) {
  const prepare = (sql: string) => database.prepare(sql);
  return {
    put: prepare('insert or replace into chunk values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'),
    delete: prepare('delete from chunk where first = ?'),
    deleteBetween: prepare('delete from chunk where first >= ? and first < ?'),
    find: prepare(`select ${ALL_COLUMNS} from chunk where first <= ? order by first desc limit 1`),
    between: prepare(`select ${ALL_COLUMNS} from chunk where first >= ? and first < ? order by first`),
    head: prepare(`select ${HEAD_COLUMNS} from chunk where first <= ? order by first desc limit 1`),
    facts: prepare(`select ${NUMBER_COLUMNS} from chunk where first <= ? order by first desc limit 1`),
    factsFrom: prepare(`select ${NUMBER_COLUMNS} from chunk where first >= ? order by first`),
    factsBelow: prepare(`select ${NUMBER_COLUMNS} from chunk where first < ? order by first desc`),
    factsFromLimit: prepare(`select ${NUMBER_COLUMNS} from chunk where first >= ? order by first limit ?`),
    factsBelowLimit: prepare(
      `select ${NUMBER_COLUMNS} from chunk where first < ? order by first desc limit ?`,
    ),
    keysFrom: prepare(`select ${NUMBER_COLUMNS}, keys from chunk where first >= ? order by first`),
    usersBelow: prepare(`select ${NUMBER_COLUMNS}, users from chunk where first < ? order by first desc`),
    freshOffset: prepare(
      'select first from chunk where batch is not null order by first desc limit 1 offset ?',
    ),
    freshBelow: prepare(
      `select ${NUMBER_COLUMNS}, batch is not null as isFresh from chunk where first < ? order by first desc`,
    ),
  };
}
