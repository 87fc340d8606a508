import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import { checksumOf, withChecksum, withoutChecksum } from '../../encoding/hashes.ts';
import type { Quarantine } from '../damage.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks } from './chunks.ts';
import { MEMTABLE_KEYS, Memtable } from './memtable.ts';
import { RunSet } from './run-set.ts';
import {
  MOST_UNMERGED_KEYS,
  PAGE_ENTRIES,
  SortedRun,
  SortedRunBuilder,
  type SortedRunFacts,
} from './sorted-run.ts';

/**
 * The key index is a log-structured merge tree (LSM) without levels. It finds the position of an event by the
 * 64-bit hash of its source and messageId:
 *
 *     append                                      lookup
 *       │                                           │
 *       ▼                                           ├─ 1. memtable and frozen memtables
 *     memtable ──full──▶ frozen memtable            │
 *                             │ flush, in slices    ├─ 2. filters of the sorted runs: which runs may hold the key
 *                             ▼                     │
 *                        sorted run + filter        └─ 3. one page of each such run
 *                             │ merge, in slices
 *                             ▼
 *                        merged filter of 2, 4, 8 or 16 runs
 *
 * - The **memtable** is a hash table in memory that holds the newest keys, about a million. A full one is
 *   **frozen**: it is only read, and a new one takes its place. So is one that is more than half full when
 *   the program becomes idle.
 * - A **flush** writes the frozen memtable as a **sorted run** (sorted-run.ts): pages of keys in order, each
 *   with its position, and a **filter**. A run never changes.
 * - The **filter** of a run stands in memory as far as `KeyIndexOptions.memory` reaches. A **merge**
 *   (run-set.ts) makes one filter of two, so that a lookup asks a few filters and not one for each run. Only
 *   filters are merged: runs stay as they are, because nothing is overwritten and the oldest run goes as a
 *   whole when its events are past their retention.
 * - A **lookup** proposes positions. The caller compares the stored event (dedupe.ts), because two ids may
 *   share a hash.
 *
 * The chunks hold every key too. After a restart the memtable is filled from them, and a damaged run is
 * rebuilt from them.
 */

/** Keys flushed in one slice: about two milliseconds. */
const SLICE_KEYS = 16_384;
/** Parts of a filter written in one slice: a quarter of a megabyte. */
const SLICE_FILTER_PARTS = 4;
const FILTER_PART_BYTES = 65_536;

/**
 * Pages, and parts of the filter, that one run can have. A page is stored under run · PAGES_PER_RUN + page.
 */
const PAGES_PER_RUN = 2 ** 20;

interface KeyIndexOptions {
  readonly watermarks: Watermarks;
  /** Bytes of memory for filters. */
  readonly memory: number;
  readonly quarantine: Quarantine;
}

/** A full memtable that waits for its flush. Lookups read it until its run is complete. */
interface FrozenMemtable {
  readonly memtable: Memtable;
  readonly fromPosition: Position;
  readonly toPosition: Position;
  /** When its newest event arrived. */
  readonly newest: Monotonic;
}

/** A flush under way. */
interface MemtableFlush {
  readonly frozen: FrozenMemtable;
  readonly facts: SortedRunFacts;
  readonly builder: SortedRunBuilder;
  /** The slot of the memtable to go on from; −1 when all pages are written. */
  slot: number;
  /** Parts of the filter written so far. */
  parts: number;
  /** The bytes of the filter, made after the last key. */
  filter?: Buffer;
}

/** Positions by key. A table of keys in SQLite would dirty a random page for each event. */
export class KeyIndex {
  readonly #sql: ReturnType<typeof statements>;
  readonly #database: DatabaseSync;
  readonly #quarantine: Quarantine;
  readonly #chunks: Chunks;
  readonly #watermarks: Watermarks;
  #memtable = new Memtable();
  #memtableFrom: Position;
  #newest: Monotonic = 0;
  #frozen: FrozenMemtable[] = [];
  #flushing: MemtableFlush | undefined;
  readonly #runs: RunSet;
  /** Ids of runs that have a damaged page. */
  readonly #damagedRuns = new Set<number>();
  #found = new Uint8Array(512);
  /**
   * The result of `Memtable.touch`. It means nothing, but without a use the compiler would drop the reads.
   */
  touched = 0;

  constructor(database: DatabaseSync, chunks: Chunks, { watermarks, memory, quarantine }: KeyIndexOptions) {
    this.#database = database;
    this.#quarantine = quarantine;
    this.#sql = statements(database);
    this.#chunks = chunks;
    this.#watermarks = watermarks;
    const runs = this.#loadRuns(memory);
    this.#runs = new RunSet(runs, memory);
    // A run that cannot be read leaves a gap between its neighbours. The chunks still hold its keys.
    let covered = watermarks.keysFrom;
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
    visit: (high: number, low: number, at: Position, until: Monotonic) => void,
  ) {
    this.#chunks.keysBetween(from, end, (first, until, keys) => {
      for (let index = 0; index * 2 < keys.length; index++) {
        const [high, low] = [keys[index * 2]!, keys[index * 2 + 1]!];
        // Erasure leaves two zeros of a key. They are never looked up, and all of them would want the same
        // slot.
        if (high !== 0 || low !== 0) visit(high, low, first + index, until);
      }
    });
  }

  /**
   * Fills a frozen memtable with the keys of a range of chunks, as many as fit. Returns the position to go on
   * from.
   */
  #rebuildMemtable(fromPosition: Position, end: Position): Position {
    const toPosition = Math.min(end, fromPosition + MEMTABLE_KEYS);
    const memtable = new Memtable();
    let newest = 0;
    this.#eachKey(fromPosition, toPosition, (high, low, position, until) => {
      memtable.add(high, low, position);
      newest = Math.max(newest, until);
    });
    this.#frozen.push({ memtable, fromPosition, toPosition, newest });
    return toPosition;
  }

  /** Adds a key. Positions ascend from call to call. `at`: when the event arrived. */
  add(high: number, low: number, position: Position, at: Monotonic): void {
    if (this.#memtable.isFull) this.#freeze(position);
    this.#memtable.add(high, low, position);
    if (at > this.#newest) this.#newest = at;
  }

  /**
   * Whether `matches` accepts any position of this key. Runs whose events all arrived before `since` are not
   * read.
   */
  some(high: number, low: number, since: Monotonic, matches: (position: Position) => boolean): boolean {
    return this.someInMemory(high, low, matches) || this.#runs.some(high, low, { since, matches });
  }

  /** The same, in the memtables alone. */
  someInMemory(high: number, low: number, matches: (position: Position) => boolean): boolean {
    if (this.#memtable.some(high, low, matches)) return true;
    for (const { memtable } of this.#frozen) if (memtable.some(high, low, matches)) return true;
    return false;
  }

  /** The same, in the runs alone. Ask `mayBeOnDisk` first. */
  someOnDisk(high: number, low: number, since: Monotonic, matches: (position: Position) => boolean): boolean {
    return this.#runs.some(high, low, { since, matches });
  }

  /**
   * Asks the filters for all keys of a batch at once: 1 for a key that a run may hold, 0 for one that no run
   * holds. `keys` are pairs of words, high before low. The next call overwrites the answer.
   */
  mayBeOnDisk(keys: Uint32Array): Uint8Array {
    const n = keys.length / 2;
    if (this.#found.length < n) this.#found = new Uint8Array(n);
    const found = this.#found.fill(0, 0, n);
    this.#runs.markPossible(keys, found);
    this.touched = this.#memtable.touch(keys);
    return found;
  }

  /**
   * Makes the memtable smaller, for a time in which few keys come. Many keys are frozen before the memtable
   * is full, and the next flush writes them as a sorted run. So few that the filter of their run could not be
   * merged move to a smaller table.
   */
  shrink(): void {
    if (this.#memtable.size > MOST_UNMERGED_KEYS) this.#freeze(this.#chunks.next);
    else this.#memtable.shrink();
  }

  /** When the newest event arrived. */
  get newest(): Monotonic {
    return this.#newest;
  }

  /**
   * Does one slice of a flush inside the caller's transaction, or of a rebuild or a merge when there is
   * nothing to flush. False when there is nothing to do.
   */
  flush(): boolean {
    this.#flushing ??= this.#beginFlush();
    const flush = this.#flushing;
    if (flush === undefined) return this.#rebuildRun() || this.#runs.mergeFilters();
    if (flush.slot >= 0) {
      flush.slot = flush.frozen.memtable.scan(flush.slot, SLICE_KEYS, flush.builder.add);
      if (flush.slot < 0) flush.builder.end();
    } else if (!this.#writeFilter(flush)) this.#finishFlush(flush);
    return true;
  }

  /**
   * Drops the oldest run, a slice at a time, when all its events are below `before`. False when there is no
   * such run.
   */
  dropOldestRun(before: Position): boolean {
    const { oldest } = this.#runs;
    if (oldest === undefined || oldest.facts.toPosition > before) return false;
    const { id } = oldest.facts;
    const [from, to] = [id * PAGES_PER_RUN, (id + 1) * PAGES_PER_RUN];
    if (Number(this.#sql.dropPages.run(from, to).changes) > 0) return true;
    this.#sql.dropParts.run(from, to);
    this.#sql.dropRun.run(id);
    this.#runs.drop(oldest);
    this.#watermarks.keysFrom = oldest.facts.toPosition;
    return true;
  }

  /**
   * Checks one page of a run and marks a damaged run for its rebuild. Returns the next page; undefined after
   * the last run.
   */
  verifyPage({ run, page }: { run: number; page: number }): { run: number; page: number } | undefined {
    const facts = this.#runs.at(run)?.facts;
    if (facts === undefined) return undefined;
    if (page * PAGE_ENTRIES >= facts.n) return { run: run + 1, page: 0 };
    this.#readPage(facts, page);
    return { run, page: page + 1 };
  }

  /** Replaces a damaged run with frozen memtables that are filled from the chunks. */
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
      newest: this.#newest,
    });
    this.#memtable = new Memtable();
    this.#memtableFrom = next;
  }

  #beginFlush(): MemtableFlush | undefined {
    const frozen = this.#frozen[0];
    if (frozen === undefined) return undefined;
    const { fromPosition, toPosition, newest, memtable } = frozen;
    const id = Number(
      this.#sql.insertRun.run(fromPosition, toPosition, newest, memtable.size).lastInsertRowid,
    );
    const builder = new SortedRunBuilder(memtable.size, (page, entries) => {
      const key = id * PAGES_PER_RUN + page;
      this.#sql.insertPage.run(key, withChecksum(entries, checksumOf(key)));
    });
    const { bucketBits } = builder;
    return {
      frozen,
      builder,
      facts: {
        id,
        n: memtable.size,
        bucketBits,
        fromPosition,
        toPosition,
        youngest: newest,
        hasSums: true,
      },
      slot: 0,
      parts: 0,
    };
  }

  /** Writes the next parts of the filter; false when all are written. */
  #writeFilter(flush: MemtableFlush): boolean {
    const { facts, builder, parts } = flush;
    flush.filter ??= filterBytes(builder);
    const bytes = flush.filter;
    for (let nth = 0; nth < SLICE_FILTER_PARTS; nth++) {
      const part = parts + nth;
      if (part * FILTER_PART_BYTES >= bytes.length) break;
      const piece = bytes.subarray(part * FILTER_PART_BYTES, (part + 1) * FILTER_PART_BYTES);
      this.#sql.insertPart.run(facts.id * PAGES_PER_RUN + part, withChecksum(piece, partSeed(facts, part)));
    }
    flush.parts += SLICE_FILTER_PARTS;
    return parts * FILTER_PART_BYTES < bytes.length;
  }

  #finishFlush({ facts, builder, frozen }: MemtableFlush): void {
    this.#sql.completeRun.run(facts.id);
    this.#runs.add(new SortedRun(facts, builder.starts, builder.remainders, this.#readPage));
    this.#frozen = this.#frozen.filter((other) => other !== frozen);
    this.#flushing = undefined;
  }

  /**
   * The runs, the oldest first. The newest get their filters first, as far as `memory` reaches. Unreadable
   * runs are deleted.
   */
  #loadRuns(memory: number): SortedRun[] {
    // A flush that a crash cut off is done again: the chunks still hold its keys.
    for (const { id } of this.#sql.unfinished.all() as unknown as { id: number }[]) this.#deleteRun(id);
    let bytes = 0;
    const rows = this.#sql.runs.all() as unknown as RunRow[];
    const runs = rows.flatMap((row) => {
      const run = this.#quarantine.unlessDamaged(() => this.#load(row, bytes + row.n * 2 <= memory));
      bytes += row.n * 2;
      if (run === undefined) this.#quarantine.unlessDamaged(() => this.#deleteRun(row.id));
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
    if (this.#quarantine.hasPage(key)) {
      this.#damagedRuns.add(id);
      return undefined;
    }
    const read = this.#quarantine.unlessDamaged(() => ({
      row: this.#sql.page.get(key) as { entries: Uint8Array } | undefined,
    }));
    if (read === undefined) this.#quarantine.addPage(key, this.#database);
    const row = read?.row;
    const entries = row && hasSums ? withoutChecksum(row.entries, checksumOf(key)) : row?.entries;
    if (entries === undefined) this.#damagedRuns.add(id);
    return entries;
  };
}

/**
 * Column "form" of a complete run whose parts carry checksums. Format 1 wrote 1; 0 is a run that is not
 * complete.
 */
const WITH_SUMS = 2;

type RunRow = Omit<SortedRunFacts, 'bucketBits' | 'hasSums'> & { readonly form: number };

/** The seed of the checksum of a filter's part. The first part covers the row of the run too. */
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
