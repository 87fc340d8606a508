import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Time } from '../../../model/time.ts';
import { checksumOf, type Quarantine, unlessDamaged, withChecksum, withoutChecksum } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks } from './chunks.ts';
import { MEMTABLE_KEYS, Memtable } from './memtable.ts';
import { RunSet } from './run-set.ts';
import { PAGE_ENTRIES, SortedRun, SortedRunBuilder, type SortedRunFacts } from './sorted-run.ts';

/** Keys scanned, and parts of a filter written, in one slice: about two milliseconds, and a quarter of a megabyte. */
const SLICE_KEYS = 16_384;
const SLICE_FILTER_PARTS = 4;
const FILTER_PART_BYTES = 65_536;

/** Room for pages and filter parts under the number of a run. */
const PAGES_PER_RUN = 2 ** 20;

export interface KeyIndexOptions {
  readonly marks: Watermarks;
  /** Bytes that filters may take. */
  readonly memory: number;
  readonly avoided: Quarantine;
}

/** A full table on its way to disk. It answers questions until its run does. */
interface FrozenMemtable {
  readonly memtable: Memtable;
  readonly fromPosition: Position;
  readonly toPosition: Position;
  readonly youngest: Time;
}

interface MemtableFlush {
  readonly frozen: FrozenMemtable;
  readonly facts: SortedRunFacts;
  readonly builder: SortedRunBuilder;
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
export class KeyIndex {
  readonly #sql: ReturnType<typeof statements>;
  readonly #database: DatabaseSync;
  readonly #avoided: Quarantine;
  readonly #chunks: Chunks;
  readonly #marks: Watermarks;
  #memtable = new Memtable();
  #memtableFrom: Position;
  #youngest: Time = 0;
  #frozen: FrozenMemtable[] = [];
  #flushing: MemtableFlush | undefined;
  readonly #runs: RunSet;
  /** Runs with a page that was found damaged. */
  readonly #damagedRuns = new Set<number>();
  #found = new Uint8Array(512);
  /** Means nothing; kept, so that what was looked at ahead of time is looked at. */
  touched = 0;

  constructor(database: DatabaseSync, chunks: Chunks, { marks, memory, avoided }: KeyIndexOptions) {
    this.#database = database;
    this.#avoided = avoided;
    this.#sql = statements(database);
    this.#chunks = chunks;
    this.#marks = marks;
    const runs = this.#loadRuns(memory);
    this.#runs = new RunSet(runs, memory);
    // A run that could not be read leaves a gap between its neighbours; its keys still stand in the chunks.
    let covered = marks.keysFrom;
    for (const { facts } of runs) {
      for (let from = covered; from < facts.fromPosition; )
        from = this.#rebuildMemtable(from, facts.fromPosition);
      covered = Math.max(covered, facts.toPosition);
    }
    this.#memtableFrom = covered;
    this.#eachKey(covered, chunks.next, (high, low, position, until) => this.add(high, low, position, until));
  }

  #eachKey(
    from: Position,
    end: Position,
    visit: (high: number, low: number, at: Position, until: Time) => void,
  ) {
    this.#chunks.keysBetween(from, end, (first, until, keys) => {
      for (let index = 0; index * 2 < keys.length; index++) {
        const [high, low] = [keys[index * 2]!, keys[index * 2 + 1]!];
        // Two zeros are what erasing leaves of a key: nothing to find, and they would all want the same slot.
        if (high !== 0 || low !== 0) visit(high, low, first + index, until);
      }
    });
  }

  /** Reads the keys of a range again, as many as one table takes; where it ends. */
  #rebuildMemtable(fromPosition: Position, end: Position): Position {
    const toPosition = Math.min(end, fromPosition + MEMTABLE_KEYS);
    const table = new Memtable();
    let youngest = 0;
    this.#eachKey(fromPosition, toPosition, (high, low, position, until) => {
      table.add(high, low, position);
      youngest = Math.max(youngest, until);
    });
    this.#frozen.push({ memtable: table, fromPosition, toPosition, youngest });
    return toPosition;
  }

  add(high: number, low: number, position: Position, at: Time): void {
    if (this.#memtable.isFull) this.#freeze(position);
    this.#memtable.add(high, low, position);
    if (at > this.#youngest) this.#youngest = at;
  }

  /** Whether `matches` says yes to any position under this key, among events that may be younger than `since`. */
  some(high: number, low: number, since: Time, matches: (position: Position) => boolean): boolean {
    return this.someInMemory(high, low, matches) || this.#runs.some(high, low, { since, matches });
  }

  /** The same among the newest keys. */
  someInMemory(high: number, low: number, matches: (position: Position) => boolean): boolean {
    if (this.#memtable.some(high, low, matches)) return true;
    for (const { memtable: table } of this.#frozen) if (table.some(high, low, matches)) return true;
    return false;
  }

  /** The same among the others. Ask `maySealed` first. */
  someOnDisk(high: number, low: number, since: Time, matches: (position: Position) => boolean): boolean {
    return this.#runs.some(high, low, { since, matches });
  }

  /**
   * Which of these keys (pairs of words, high before low) `someSealed` may know: 1 for each that it may, 0 for each that it
   * does not. Used up with the next call.
   */
  mayBeOnDisk(keys: Uint32Array): Uint8Array {
    const n = keys.length / 2;
    if (this.#found.length < n) this.#found = new Uint8Array(n);
    const found = this.#found.fill(0, 0, n);
    this.#runs.markPossible(keys, found);
    this.touched = this.#memtable.touch(keys);
    return found;
  }

  /** When the youngest event arrived. */
  get youngest(): Time {
    return this.#youngest;
  }

  /** Does one slice of sealing inside the caller's transaction. False when there is nothing to seal or to group. */
  flush(): boolean {
    this.#flushing ??= this.#beginFlush();
    const sealing = this.#flushing;
    if (sealing === undefined) return this.#rebuildRun() || this.#runs.mergeFilters();
    if (sealing.slot >= 0) {
      const { memtable: table } = sealing.frozen;
      sealing.slot = table.scan(sealing.slot, SLICE_KEYS, sealing.builder.add);
      if (sealing.slot < 0) sealing.builder.end();
    } else if (!this.#writeFilter(sealing)) this.#finishFlush(sealing);
    return true;
  }

  /** Drops the oldest run when all its events are gone, a slice at a time. False when there is none. */
  dropOldestRun(before: Position): boolean {
    const { oldest } = this.#runs;
    if (oldest === undefined || oldest.facts.toPosition > before) return false;
    const { id } = oldest.facts;
    const [from, to] = [id * PAGES_PER_RUN, (id + 1) * PAGES_PER_RUN];
    if (Number(this.#sql.dropPages.run(from, to).changes) > 0) return true;
    this.#sql.dropParts.run(from, to);
    this.#sql.dropRun.run(id);
    this.#runs.drop(oldest);
    this.#marks.keysFrom = oldest.facts.toPosition;
    return true;
  }

  /** Checks one page of a run, and notes a run that has a damaged one; the next, or undefined behind the last of all runs. */
  verifyPage({ run, page }: { run: number; page: number }): { run: number; page: number } | undefined {
    const facts = this.#runs.at(run)?.facts;
    if (facts === undefined) return undefined;
    if (page * PAGE_ENTRIES >= facts.n) return { run: run + 1, page: 0 };
    this.#readPage(facts, page);
    return { run, page: page + 1 };
  }

  /** Reads the keys of a damaged run from the chunks again; they are then sealed like any others. */
  #rebuildRun(): boolean {
    for (const id of this.#damagedRuns) {
      this.#damagedRuns.delete(id);
      const run = this.#runs.find(id);
      if (run === undefined) continue;
      const { fromPosition, toPosition } = run.facts;
      for (let from = fromPosition; from < toPosition; ) from = this.#rebuildMemtable(from, toPosition);
      this.#deleteRun(id);
      this.#runs.drop(run);
      return true;
    }
    return false;
  }

  #deleteRun(id: number): void {
    this.#sql.dropAllPages.run(id * PAGES_PER_RUN, (id + 1) * PAGES_PER_RUN);
    this.#sql.dropParts.run(id * PAGES_PER_RUN, (id + 1) * PAGES_PER_RUN);
    this.#sql.dropRun.run(id);
  }

  #freeze(next: Position): void {
    const { size } = this.#memtable;
    if (size === 0) return;
    this.#frozen.push({
      memtable: this.#memtable,
      fromPosition: this.#memtableFrom,
      toPosition: next,
      youngest: this.#youngest,
    });
    this.#memtable = new Memtable();
    this.#memtableFrom = next;
  }

  #beginFlush(): MemtableFlush | undefined {
    const frozen = this.#frozen[0];
    if (frozen === undefined) return undefined;
    const { fromPosition, toPosition, youngest, memtable: table } = frozen;
    const id = Number(
      this.#sql.insertRun.run(fromPosition, toPosition, youngest, table.size).lastInsertRowid,
    );
    const builder = new SortedRunBuilder(table.size, (page, entries) => {
      const key = id * PAGES_PER_RUN + page;
      this.#sql.insertPage.run(key, withChecksum(entries, checksumOf(key)));
    });
    const { bucketBits } = builder;
    return {
      frozen,
      builder,
      facts: { id, n: table.size, bucketBits, fromPosition, toPosition, youngest, hasSums: true },
      slot: 0,
      parts: 0,
    };
  }

  /** Writes the next parts of the filter; false when all are written. */
  #writeFilter(sealing: MemtableFlush): boolean {
    const { facts, builder, parts } = sealing;
    sealing.filter ??= filterBytes(builder);
    const bytes = sealing.filter;
    for (let nth = 0; nth < SLICE_FILTER_PARTS; nth++) {
      const part = parts + nth;
      if (part * FILTER_PART_BYTES >= bytes.length) break;
      const piece = bytes.subarray(part * FILTER_PART_BYTES, (part + 1) * FILTER_PART_BYTES);
      this.#sql.insertPart.run(facts.id * PAGES_PER_RUN + part, withChecksum(piece, partSeed(facts, part)));
    }
    sealing.parts += SLICE_FILTER_PARTS;
    return parts * FILTER_PART_BYTES < bytes.length;
  }

  #finishFlush({ facts, builder, frozen }: MemtableFlush): void {
    this.#sql.completeRun.run(facts.id);
    this.#runs.add(new SortedRun(facts, builder.starts, builder.remainders, this.#readPage));
    this.#frozen = this.#frozen.filter((other) => other !== frozen);
    this.#flushing = undefined;
  }

  /** The oldest first, filters of the youngest as far as the memory reaches. Those that cannot be read are deleted. */
  #loadRuns(memory: number): SortedRun[] {
    // A run that was not finished is made again: its keys are still in the chunks.
    for (const { id } of this.#sql.unfinished.all() as unknown as { id: number }[]) this.#deleteRun(id);
    let bytes = 0;
    const rows = this.#sql.runs.all() as unknown as RunRow[];
    const runs = rows.flatMap((row) => {
      const run = unlessDamaged(() => this.#load(row, bytes + row.n * 2 <= memory));
      bytes += row.n * 2;
      if (run === undefined) unlessDamaged(() => this.#deleteRun(row.id));
      return run ?? [];
    });
    return runs.reverse();
  }

  #load({ form, ...row }: RunRow, withFilter: boolean): SortedRun | undefined {
    const builder = new SortedRunBuilder(row.n, () => {});
    const facts = { ...row, bucketBits: builder.bucketBits, hasSums: form === WITH_SUMS };
    const startsBytes = builder.starts.byteLength;
    const wanted = Math.ceil((withFilter ? startsBytes + row.n * 2 : startsBytes) / FILTER_PART_BYTES);
    const from0 = row.id * PAGES_PER_RUN;
    const stored = this.#sql.parts.all(from0, from0 + wanted) as unknown as { bytes: Uint8Array }[];
    const parts = stored.map(({ bytes }, nth) =>
      facts.hasSums ? withoutChecksum(bytes, partSeed(facts, nth)) : bytes,
    );
    if (parts.length < wanted || parts.includes(undefined)) return undefined;
    const bytes = Buffer.concat(parts as Uint8Array[]);
    const starts = new Uint32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + startsBytes));
    const from = bytes.byteOffset + startsBytes;
    const remainders = withFilter ? new Uint16Array(bytes.buffer.slice(from, from + row.n * 2)) : undefined;
    return new SortedRun(facts, starts, remainders, this.#readPage);
  }

  readonly #readPage = ({ id, hasSums }: SortedRunFacts, page: number): Uint8Array | undefined => {
    const key = id * PAGES_PER_RUN + page;
    if (this.#avoided.hasPage(key)) {
      this.#damagedRuns.add(id);
      return undefined;
    }
    const read = unlessDamaged(() => ({
      row: this.#sql.page.get(key) as { entries: Uint8Array } | undefined,
    }));
    if (read === undefined) this.#avoided.addPage(key, this.#database);
    const row = read?.row;
    const entries = row && hasSums ? withoutChecksum(row.entries, checksumOf(key)) : row?.entries;
    if (entries === undefined) this.#damagedRuns.add(id);
    return entries;
  };
}

/** Of a run that is whole, in column "form"; format 1 wrote 1. */
const WITH_SUMS = 2;

type RunRow = Omit<SortedRunFacts, 'bucketBits' | 'hasSums'> & { readonly form: number };

/** The first part of a filter vouches for the row of the run too. */
function partSeed({ id, n, fromPosition, toPosition, youngest }: SortedRunFacts, part: number): number {
  return part === 0 ? checksumOf(id, n, fromPosition, toPosition, youngest) : checksumOf(id, part);
}

function filterBytes({ starts, remainders }: SortedRunBuilder): Buffer {
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
      'insert into run(from_position, to_position, youngest, n, form) values (?, ?, ?, ?, 0)',
    ),
    completeRun: prepare(`update run set form = ${WITH_SUMS} where id = ?`),
    dropRun: prepare('delete from run where id = ?'),
    runs: prepare(
      `select id, n, from_position as fromPosition, to_position as toPosition, youngest, form
       from run where form > 0 order by to_position desc`,
    ),
    unfinished: prepare('select id from run where form = 0'),
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
