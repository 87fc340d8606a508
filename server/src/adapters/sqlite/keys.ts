import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Chunks } from './chunks.ts';
import { KeyTable } from './key-table.ts';
import { Run, RunBuilder, type RunFacts } from './run.ts';
import { SealedRuns } from './sealed-runs.ts';

/** Keys scanned, and parts of a filter written, in one slice: about two milliseconds, and a quarter of a megabyte. */
const SLICE_KEYS = 16_384;
const SLICE_PARTS = 4;
const PART_BYTES = 65_536;

/** Room for pages and filter parts under the number of a run. */
const PAGES_PER_RUN = 2 ** 20;

/** A full table on its way to disk. It answers questions until its run does. */
interface Frozen {
  readonly table: KeyTable;
  readonly fromPosition: Position;
  readonly toPosition: Position;
  readonly youngest: Time;
}

interface Sealing {
  readonly frozen: Frozen;
  readonly facts: RunFacts;
  readonly builder: RunBuilder;
  /** Slot to go on from; −1 when all pages are written. */
  slot: number;
  /** Parts of the filter written so far. */
  parts: number;
  /** The filter as it is written, made when the last key has been seen. */
  filter?: Buffer;
}

/**
 * Where every (source, messageId) is: the newest keys in a table in memory, the others in sealed runs on disk, each with a
 * filter in memory as far as the budget reaches. A table of keys in the database would cost a random page for each event.
 */
export class Keys {
  readonly #sql: ReturnType<typeof statements>;
  #younger = new KeyTable();
  #youngerFrom: Position;
  #youngest: Time = 0;
  #frozen: Frozen[] = [];
  #sealing: Sealing | undefined;
  readonly #runs: SealedRuns;
  #found = new Uint8Array(512);
  /** Means nothing; kept, so that what was looked at ahead of time is looked at. */
  touched = 0;

  /** `memory`: bytes that filters may take. */
  constructor(database: DatabaseSync, chunks: Chunks, memory: number) {
    this.#sql = statements(database);
    this.#runs = new SealedRuns(this.#loadRuns(memory), memory);
    this.#youngerFrom = this.#runs.newest?.facts.toPosition ?? 0;
    chunks.keysFrom(this.#youngerFrom, (first, until, keys) => {
      for (let index = 0; index * 2 < keys.length; index++) {
        const [high, low] = [keys[index * 2]!, keys[index * 2 + 1]!];
        // Two zeros are what erasing leaves of a key: nothing to find, and they would all want the same slot.
        if (high !== 0 || low !== 0) this.add(high, low, first + index, until);
      }
    });
  }

  add(high: number, low: number, position: Position, at: Time): void {
    if (this.#younger.isFull) this.#freeze(position);
    this.#younger.add(high, low, position);
    if (at > this.#youngest) this.#youngest = at;
  }

  /** Whether `matches` says yes to any position under this key, among events that may be younger than `since`. */
  some(high: number, low: number, since: Time, matches: (position: Position) => boolean): boolean {
    return this.someYoung(high, low, matches) || this.#runs.some(high, low, { since, matches });
  }

  /** The same among the newest keys. */
  someYoung(high: number, low: number, matches: (position: Position) => boolean): boolean {
    if (this.#younger.some(high, low, matches)) return true;
    for (const { table } of this.#frozen) if (table.some(high, low, matches)) return true;
    return false;
  }

  /** The same among the others. Ask `maySealed` first. */
  someSealed(high: number, low: number, since: Time, matches: (position: Position) => boolean): boolean {
    return this.#runs.some(high, low, { since, matches });
  }

  /**
   * Which of these keys (pairs of words, high before low) `someSealed` may know: 1 for each that it may, 0 for each that it
   * does not. Used up with the next call.
   */
  maySealed(keys: Uint32Array): Uint8Array {
    const n = keys.length / 2;
    if (this.#found.length < n) this.#found = new Uint8Array(n);
    const found = this.#found.fill(0, 0, n);
    this.#runs.mark(keys, found);
    this.touched = this.#younger.touch(keys);
    return found;
  }

  /** When the youngest event arrived. */
  get youngest(): Time {
    return this.#youngest;
  }

  /** Does one slice of sealing inside the caller's transaction. False when there is nothing to seal or to group. */
  seal(): boolean {
    this.#sealing ??= this.#begin();
    const sealing = this.#sealing;
    if (sealing === undefined) return this.#runs.group();
    if (sealing.slot >= 0) {
      const { table } = sealing.frozen;
      sealing.slot = table.scan(sealing.slot, SLICE_KEYS, sealing.builder.add);
      if (sealing.slot < 0) sealing.builder.end();
    } else if (!this.#writeFilter(sealing)) this.#finish(sealing);
    return true;
  }

  /** Drops the oldest run when all its events are gone, a slice at a time. False when there is none. */
  drop(before: Position): boolean {
    const { oldest } = this.#runs;
    if (oldest === undefined || oldest.facts.toPosition > before) return false;
    const { id } = oldest.facts;
    const [from, to] = [id * PAGES_PER_RUN, (id + 1) * PAGES_PER_RUN];
    if (Number(this.#sql.dropPages.run(from, to).changes) > 0) return true;
    this.#sql.dropParts.run(from, to);
    this.#sql.dropRun.run(id);
    this.#runs.dropOldest();
    return true;
  }

  #freeze(next: Position): void {
    const { size } = this.#younger;
    if (size === 0) return;
    this.#frozen.push({
      table: this.#younger,
      fromPosition: this.#youngerFrom,
      toPosition: next,
      youngest: this.#youngest,
    });
    this.#younger = new KeyTable();
    this.#youngerFrom = next;
  }

  #begin(): Sealing | undefined {
    const frozen = this.#frozen[0];
    if (frozen === undefined) return undefined;
    const { fromPosition, toPosition, youngest, table } = frozen;
    const id = Number(
      this.#sql.insertRun.run(fromPosition, toPosition, youngest, table.size).lastInsertRowid,
    );
    const builder = new RunBuilder(table.size, (page, entries) => {
      this.#sql.insertPage.run(id * PAGES_PER_RUN + page, entries);
    });
    const { bucketBits } = builder;
    return {
      frozen,
      builder,
      facts: { id, n: table.size, bucketBits, fromPosition, toPosition, youngest },
      slot: 0,
      parts: 0,
    };
  }

  /** Writes the next parts of the filter; false when all are written. */
  #writeFilter(sealing: Sealing): boolean {
    const { facts, builder, parts } = sealing;
    sealing.filter ??= filterBytes(builder);
    const bytes = sealing.filter;
    for (let nth = 0; nth < SLICE_PARTS; nth++) {
      const part = parts + nth;
      if (part * PART_BYTES >= bytes.length) break;
      const piece = bytes.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
      this.#sql.insertPart.run(facts.id * PAGES_PER_RUN + part, piece);
    }
    sealing.parts += SLICE_PARTS;
    return parts * PART_BYTES < bytes.length;
  }

  #finish({ facts, builder, frozen }: Sealing): void {
    this.#sql.completeRun.run(facts.id);
    this.#runs.add(new Run(facts, builder.starts, builder.remainders, this.#readPage));
    this.#frozen = this.#frozen.filter((other) => other !== frozen);
    this.#sealing = undefined;
  }

  /** The oldest first, filters of the youngest as far as the memory reaches. */
  #loadRuns(memory: number): Run[] {
    // A run that was not finished is made again: its keys are still in the chunks.
    for (const { id } of this.#sql.unfinished.all() as unknown as { id: number }[]) {
      this.#sql.dropAllPages.run(id * PAGES_PER_RUN, (id + 1) * PAGES_PER_RUN);
      this.#sql.dropParts.run(id * PAGES_PER_RUN, (id + 1) * PAGES_PER_RUN);
      this.#sql.dropRun.run(id);
    }
    let bytes = 0;
    const rows = this.#sql.runs.all() as unknown as Omit<RunFacts, 'bucketBits'>[];
    const runs = rows.map((row) => {
      bytes += row.n * 2;
      return this.#load(row, bytes <= memory);
    });
    return runs.reverse();
  }

  #load(row: Omit<RunFacts, 'bucketBits'>, withFilter: boolean): Run {
    const builder = new RunBuilder(row.n, () => {});
    const startsBytes = builder.starts.byteLength;
    const wanted = Math.ceil((withFilter ? startsBytes + row.n * 2 : startsBytes) / PART_BYTES);
    const from0 = row.id * PAGES_PER_RUN;
    const parts = this.#sql.parts.all(from0, from0 + wanted) as unknown as { bytes: Uint8Array }[];
    const bytes = Buffer.concat(parts.map((part) => part.bytes));
    const starts = new Uint32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + startsBytes));
    const from = bytes.byteOffset + startsBytes;
    const remainders = withFilter ? new Uint16Array(bytes.buffer.slice(from, from + row.n * 2)) : undefined;
    return new Run({ ...row, bucketBits: builder.bucketBits }, starts, remainders, this.#readPage);
  }

  readonly #readPage = (run: number, page: number): Uint8Array => {
    return (this.#sql.page.get(run * PAGES_PER_RUN + page) as { entries: Uint8Array }).entries;
  };
}

function filterBytes({ starts, remainders }: RunBuilder): Buffer {
  return Buffer.concat([Buffer.from(starts.buffer), Buffer.from(remainders.buffer)]);
}

function statements(
  database: DatabaseSync,
): Record<
  | 'insertRun'
  | 'completeRun'
  | 'dropRun'
  | 'runs'
  | 'unfinished'
  | 'insertPage'
  | 'page'
  | 'dropPages'
  | 'dropAllPages'
  | 'insertPart'
  | 'parts'
  | 'dropParts',
  StatementSync
> {
  const prepare = (sql: string) => database.prepare(sql);
  return {
    insertRun: prepare(
      'insert into run(from_position, to_position, youngest, n, complete) values (?, ?, ?, ?, 0)',
    ),
    completeRun: prepare('update run set complete = 1 where id = ?'),
    dropRun: prepare('delete from run where id = ?'),
    runs: prepare(
      `select id, n, from_position as fromPosition, to_position as toPosition, youngest
       from run where complete = 1 order by to_position desc`,
    ),
    unfinished: prepare('select id from run where complete = 0'),
    insertPage: prepare('insert into run_page(id, entries) values (?, ?)'),
    page: prepare('select entries from run_page where id = ?'),
    dropPages: prepare(
      'delete from run_page where id in (select id from run_page where id >= ? and id < ? limit 64)',
    ),
    dropAllPages: prepare('delete from run_page where id >= ? and id < ?'),
    insertPart: prepare('insert into run_filter(id, bytes) values (?, ?)'),
    parts: prepare('select bytes from run_filter where id >= ? and id < ? order by id'),
    dropParts: prepare('delete from run_filter where id >= ? and id < ?'),
  };
}
