import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Duration } from '../../../model/time.ts';
import type { Logger } from '../../../ports/logger.ts';
import type { Database } from '../database.ts';
import { formOf, wordsOf } from './key-arrays.ts';
import type { KeyMemory } from './key-memory.ts';
import { filterBytesFor, SplitBlockFilter } from './split-block-filter.ts';

/** Runs in pages, with the number of their keys. */
const RUNS = 'select id, keys from key_run where is_converted order by id';

/** Pages that are read at once: some 30,000 keys. */
const SLICE_PAGES = 256;

/** A filter has room for so many runs as large as its first, for this share of all keys, and for so many keys at least. */
const RUNS_PER_FILTER = 4;
const SHARE_OF_ALL = 1 / 8;
const FEWEST_KEYS = 2 ** 14;

/** Pause after a failed read. Until the next one the database is asked about more runs. */
const RETRY_AFTER: Duration = 1000;

interface RunRow {
  readonly id: number;
  readonly keys: number;
}

/** The keys of runs that follow each other. */
interface RunsFilter {
  readonly filter: SplitBlockFilter;
  readonly from: number;
  to: number;
  /** Keys that still fit. */
  room: number;
}

/** Which keys some runs that follow each other may hold, both included. */
export interface RunHints {
  readonly from: number;
  readonly to: number;
  /** Indexes of events. */
  readonly maybe: readonly number[];
}

export interface KeyFiltersOptions {
  /** Bytes that filters may take. Beyond it the oldest runs are asked in the database. */
  readonly memory: number;
  readonly logger?: Pick<Logger, 'warn'> | undefined;
  /** The memory, which may have all keys of a run: its pages need not be read then. */
  readonly keys: Pick<KeyMemory, 'slicesOf'>;
  /** Called with the newest run that needs no other memory. */
  readonly onLoaded: (to: number) => void;
}

/**
 * The keys of runs in pages as filters in memory, so that a batch asks the database about few of them. Such a run gets no keys any more,
 * so a filter of it never misses one: at worst it names a key too many. Runs that no filter covers yet are asked in the database, which
 * decides in any case.
 */
export class KeyFilters {
  readonly #database: Database;
  readonly #memory: number;
  #filters: RunsFilter[] = [];
  /** The oldest run that is known not to be in pages. */
  #unconverted = 0;
  /** Rises when all filters are dropped. */
  #generation = 0;
  readonly #keys: KeyFiltersOptions['keys'];
  readonly #onLoaded: (to: number) => void;
  readonly #logger: Pick<Logger, 'warn'> | undefined;
  #isShort = false;
  #loading: Promise<void> | undefined;
  #missing: number | undefined;
  #retryAt = 0;
  #isStopped = false;

  constructor(database: Database, { memory, logger, keys, onLoaded }: KeyFiltersOptions) {
    this.#database = database;
    this.#memory = memory;
    this.#logger = logger;
    this.#keys = keys;
    this.#onLoaded = onLoaded;
  }

  /** Keys in pages for which a filter is still to be made; undefined before that is known. */
  get missing(): number | undefined {
    return this.#missing;
  }

  /** What each filter says of the keys from the index `first` on, as pairs of words. */
  hintsFor(keys: Uint32Array, first: number): RunHints[] {
    return this.#filters.map(({ filter, from, to }) => {
      const maybe: number[] = [];
      for (let at = first * 2; at < keys.length; at += 2)
        if (filter.mayHave(keys[at]!, keys[at + 1]!)) maybe.push(at / 2);
      return { from, to, maybe };
    });
  }

  /** Drops all filters: the server may have lost what they were made of. */
  reset(): void {
    this.#generation++;
    this.#filters = [];
    this.#unconverted = 0;
  }

  /** All runs before this one are in pages. Filters of those that have none are made in the background. */
  noteUnconverted(run: number): void {
    if (run === this.#unconverted || this.#loading !== undefined || this.#isStopped) return;
    if (performance.now() < this.#retryAt) return;
    this.#loading = this.#load(run, this.#generation)
      .catch(() => {
        this.#retryAt = performance.now() + RETRY_AFTER;
      })
      .finally(() => {
        this.#loading = undefined;
      });
  }

  /** Resolves when nothing is read any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#loading;
  }

  async #load(unconverted: number, generation: number): Promise<void> {
    const runs = await this.#database.session(({ query }) => query<RunRow>(RUNS));
    const isOver = () => this.#isStopped || generation !== this.#generation;
    if (isOver()) return;
    const oldest = runs[0]?.id ?? unconverted;
    this.#filters = this.#filters.filter(({ to }) => to >= oldest);
    const all = runs.reduce((sum, { keys }) => sum + keys, 0);
    const fitting = this.#fitting(runs);
    this.#missing = fitting.reduce((sum, { keys }) => sum + keys, 0);
    for (const run of fitting) {
      await this.#add(run, all, isOver);
      if (isOver()) return;
      this.#missing -= run.keys;
    }
    this.#unconverted = unconverted;
    this.#sayIfShort(runs);
    // Also those that the memory has no room for: they are asked in the database.
    this.#onLoaded(unconverted - 1);
  }

  /** Every new event is asked for in each run without a filter: an index is read for each million of events. Said once until it fits again. */
  #sayIfShort(runs: readonly RunRow[]): void {
    const covered = this.#filters[0]?.from ?? Number.POSITIVE_INFINITY;
    const isShort = runs.some(({ id, keys }) => id < covered && keys > 0);
    if (isShort && !this.#isShort) {
      const needed = runs.reduce((sum, { keys }) => sum + filterBytesFor(keys), 0);
      this.#logger?.warn({ memory: this.#memory, needed }, 'dedupe.memory_short');
    }
    this.#isShort = isShort;
  }

  /** The runs without a filter that the memory has room for, the oldest first. */
  #fitting(runs: readonly RunRow[]) {
    const covered = this.#filters.at(-1)?.to ?? 0;
    const missing = runs.filter(({ id }) => id > covered);
    let bytes = 0;
    const tooMuch = missing.findLastIndex(({ keys }) => {
      bytes += filterBytesFor(keys);
      return bytes > this.#memory;
    });
    // Those that filters cover follow each other.
    if (tooMuch >= 0) this.#filters = [];
    return missing.slice(tooMuch + 1);
  }

  async #add({ id, keys }: RunRow, all: number, isOver: () => boolean): Promise<void> {
    const target = this.#filterFor(id, keys, all);
    // Filled while it covers nothing new: a key too many does no harm.
    for await (const keys of this.#slicesOf(id)) {
      if (isOver()) return;
      target.filter.addAll(keys);
    }
    if (isOver()) return;
    target.room -= keys;
    target.to = id;
    if (!this.#filters.includes(target)) this.#filters.push(target);
  }

  /** The newest filter if the run fits into it, or a new one, for which the oldest ones make room. */
  #filterFor(id: number, keys: number, all: number): RunsFilter {
    const newest = this.#filters.at(-1);
    if (newest !== undefined && newest.room >= keys) return newest;
    const used = this.#filters.reduce((sum, { filter }) => sum + filter.bytes, 0);
    const most = Math.max(FEWEST_KEYS, keys * RUNS_PER_FILTER, Math.ceil(all * SHARE_OF_ALL));
    const room = used + filterBytesFor(most) <= this.#memory ? most : keys;
    let bytes = used + filterBytesFor(room);
    while (bytes > this.#memory && this.#filters.length > 0) bytes -= this.#filters.shift()!.filter.bytes;
    return { filter: new SplitBlockFilter(room), from: id, to: id, room };
  }

  /** All keys of a run as pairs of words, from memory or from pages. Others have their turn between some thousand of them and the next. */
  async *#slicesOf(run: number): AsyncGenerator<Uint32Array> {
    const inMemory = this.#keys.slicesOf(run);
    if (inMemory !== undefined) {
      for (const keys of inMemory) {
        yield keys;
        await nextTurn();
      }
      return;
    }
    let reading = this.#read(run, undefined);
    for (;;) {
      const pages = await reading;
      const isLast = pages.length < SLICE_PAGES;
      // The server reads the next slice while this one is shown. Nobody may wait for it any more when it fails.
      if (!isLast) {
        reading = this.#read(run, pages.at(-1));
        reading.catch(() => undefined);
      }
      for (const { hashes } of pages) yield wordsOf(hashes);
      if (isLast) return;
    }
  }

  async #read(run: number, after: PageRow | undefined): Promise<PageRow[]> {
    // By the column: "low" alone would be the text.
    const text = `select p.low::text as low, p.page, ${formOf('p.hashes')} as hashes from key_page p where p.run = ${run}
      ${after === undefined ? '' : `and (p.low, p.page) > (${after.low}, ${after.page})`}
      order by p.low, p.page limit ${SLICE_PAGES}`;
    return await this.#database.session(({ query }) => query<PageRow>(text));
  }
}

interface PageRow {
  readonly low: string;
  readonly page: number;
  readonly hashes: string;
}
