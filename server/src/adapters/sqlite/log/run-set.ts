import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import {
  bucketOf,
  type KeyFilter,
  MAX_BUCKET_BITS,
  markPossible,
  remainderOf,
  type SortedRun,
} from './sorted-run.ts';

/** A merge under way. */
interface FilterMerge {
  /** The filters that the merged one replaces. */
  readonly parts: readonly FilterPart[];
  readonly slices: Generator<undefined, MergedFilter>;
}

/**
 * All sorted runs, each with a filter of its own or with a share in a merged one, as far as memory reaches.
 * Two filters of one size are merged as soon as there are two. Of 23 runs, 16 share one filter, 4 share
 * another, 2 share a third, and 1 has its own.
 */
export class RunSet {
  readonly #memory: number;
  /** All runs, the oldest first. */
  #runs: SortedRun[];
  /** The runs that have a filter of their own, or none. */
  #unmerged: SortedRun[];
  #merged: MergedFilter[] = [];
  #merging: FilterMerge | undefined;

  /** `runs`: the oldest first. `memory`: bytes of memory for filters. */
  constructor(runs: readonly SortedRun[], memory: number) {
    this.#memory = memory;
    this.#runs = [...runs];
    this.#unmerged = [...runs];
  }

  get oldest(): SortedRun | undefined {
    return this.#runs[0];
  }

  get newest(): SortedRun | undefined {
    return this.#runs.at(-1);
  }

  /** Adds a run: the newest one as a rule, or a rebuilt one from somewhere in between. */
  add(run: SortedRun): void {
    const byAge = (a: SortedRun, b: SortedRun) => a.facts.fromPosition - b.facts.fromPosition;
    this.#runs = [...this.#runs, run].sort(byAge);
    this.#unmerged = [...this.#unmerged, run].sort(byAge);
    this.#keepToBudget();
  }

  /** The run at a place in the order of age; 0 is the oldest. */
  at(place: number): SortedRun | undefined {
    return this.#runs[place];
  }

  find(id: number): SortedRun | undefined {
    return this.#runs.find(({ facts }) => facts.id === id);
  }

  drop(run: SortedRun): void {
    this.#runs = this.#runs.filter((other) => other !== run);
    this.#unmerged = this.#unmerged.filter((other) => other !== run);
    // The merged filter would still lead to the run. The merge begins again with the next slice.
    if (this.#merging?.parts.some(({ places }) => places.includes(run))) this.#merging = undefined;
    for (const filter of this.#merged) filter.drop(run);
    this.#merged = this.#merged.filter(({ runs }) => runs.length > 0);
  }

  /** Sets `found[n]` to 1 for each key that some run may hold. `keys` are pairs of words, high before low. */
  markPossible(keys: Uint32Array, found: Uint8Array): void {
    for (const run of this.#unmerged) run.markPossible(keys, found);
    for (const filter of this.#merged) filter.markPossible(keys, found);
  }

  /**
   * Whether `matches` accepts any position of this key. Runs whose events all arrived before `since` are not
   * read.
   */
  some(high: number, low: number, { since, matches }: RecentKeyQuery): boolean {
    for (let nth = this.#unmerged.length - 1; nth >= 0; nth--) {
      const run = this.#unmerged[nth]!;
      if (run.facts.youngest >= since && run.some(high, low, matches)) return true;
    }
    if (this.#merged.length === 0) return false;
    const query = { isEligible: (run: SortedRun) => run.facts.youngest >= since, matches };
    return this.#merged.some((filter) => filter.some(high, low, query));
  }

  /** Does one slice of a merge. False when there is nothing to merge. */
  mergeFilters(): boolean {
    this.#merging ??= this.#beginMerge();
    if (this.#merging === undefined) return false;
    const { parts, slices } = this.#merging;
    const slice = slices.next();
    if (slice.done !== true) return true;
    this.#merging = undefined;
    const covered = new Set(parts.flatMap(({ places }) => places));
    this.#merged = this.#merged.filter((filter) => !parts.includes(filter));
    this.#merged.push(slice.value);
    this.#unmerged = this.#unmerged.filter((run) => !covered.has(run));
    for (const run of slice.value.runs) run.dropFilter();
    return true;
  }

  /** Halves a sparse filter if there is one; otherwise merges the two smallest of one size. */
  #beginMerge(): FilterMerge | undefined {
    const sparse = this.#merged.find((filter) => filter.isSparse);
    if (sparse !== undefined) return { parts: [sparse], slices: sparse.halve() };
    const parts: FilterPart[] = this.#unmerged.map(filterPartOf).filter((part) => part !== undefined);
    parts.push(...this.#merged.toSorted((a, b) => a.filter.runBits - b.filter.runBits));
    for (let nth = 1; nth < parts.length; nth++) {
      const [one, other] = [parts[nth - 1]!, parts[nth]!];
      if (MergedFilter.canMerge(one, other))
        return { parts: [one, other], slices: MergedFilter.merge(one, other) };
    }
    return undefined;
  }

  /**
   * Drops the filters of the oldest runs first. They are asked as often, but their events leave the dedupe
   * window soonest.
   */
  #keepToBudget(): void {
    let room = this.#memory;
    for (const { filterBytes } of this.#unmerged) room -= filterBytes;
    for (const run of this.#unmerged) {
      if (room >= 0) break;
      room += run.filterBytes;
      run.dropFilter();
    }
    for (const filter of this.#merged.toSorted((a, b) => firstOf(b) - firstOf(a))) {
      room -= filter.filterBytes;
      if (room >= 0) continue;
      this.#merged = this.#merged.filter((other) => other !== filter);
      this.#unmerged = [...filter.runs, ...this.#unmerged];
    }
  }
}

/** The position at which the oldest run of a merged filter begins. */
function firstOf({ runs: [oldest] }: MergedFilter): Position {
  return oldest!.facts.fromPosition;
}

interface RecentKeyQuery {
  readonly since: Monotonic;
  readonly matches: (position: Position) => boolean;
}

/** At most 2⁴ runs share a filter. Each bit for the number of the run doubles the share of wrong answers. */
const MAX_RUN_BITS = 4;

/** Buckets merged in one slice: about two milliseconds. */
const SLICE_BUCKETS = 16_384;

/**
 * A filter that can be merged: of one run, or a merged one. Its entries name a run by its index in `places`.
 */
export interface FilterPart {
  readonly filter: KeyFilter;
  readonly places: readonly (SortedRun | undefined)[];
}

/** The filter of one run; undefined when it has none, or too few buckets because the run is small. */
export function filterPartOf(run: SortedRun): FilterPart | undefined {
  const { filter } = run;
  return filter?.bucketBits === MAX_BUCKET_BITS ? { filter, places: [run] } : undefined;
}

/**
 * One filter for 2, 4, 8 or 16 runs, made of two filters of half the size. A new key is looked up in every
 * filter; with a day of keys in a few dozen runs that would be most of the cost of an append.
 *
 * A filter for sixteen runs is wrong for one key in two hundred and fifty. A wrong answer costs the reading
 * of a page.
 */
export class MergedFilter implements FilterPart {
  readonly filter: KeyFilter;
  readonly #places: (SortedRun | undefined)[];

  private constructor(filter: KeyFilter, places: readonly (SortedRun | undefined)[]) {
    this.filter = filter;
    this.#places = Array.from({ length: 2 ** filter.runBits }, (_, place) => places[place]);
  }

  /** Whether two filters can be merged. */
  static canMerge({ filter: one }: FilterPart, { filter: other }: FilterPart): boolean {
    return one.runBits === other.runBits && one.runBits < MAX_RUN_BITS;
  }

  /** Merges two filters, a slice for each `next`. The last one returns the merged filter. */
  static *merge(one: FilterPart, other: FilterPart): Generator<undefined, MergedFilter> {
    const { runBits } = one.filter;
    const filters = [one.filter, other.filter];
    const builder = new FilterBuilder(runBits + 1, one.filter.entries.length + other.filter.entries.length);
    /** A mask without the first kept bit, which now belongs to the bucket. */
    const rest = 2 ** (15 - runBits) - 1;
    for (let bucket = 0; bucket < 2 ** (MAX_BUCKET_BITS + runBits); bucket++) {
      for (let half = 0; half < 2; half++) {
        builder.nextBucket();
        for (let side = 0; side < 2; side++) {
          const { starts, entries } = filters[side]!;
          const end = starts[bucket + 1]!;
          for (let at = starts[bucket]!; at < end; at++) {
            const entry = entries[at]!;
            if (entry >>> 15 !== half) continue;
            const place = (entry & (2 ** runBits - 1)) | (side << runBits);
            builder.put((entry >>> runBits) & rest, place);
          }
        }
      }
      if (bucket % SLICE_BUCKETS === SLICE_BUCKETS - 1) yield;
    }
    return new MergedFilter(builder.end(), [...one.places, ...other.places]);
  }

  get places(): readonly (SortedRun | undefined)[] {
    return this.#places;
  }

  /** The sorted runs of the set, without the dropped ones. */
  get runs(): SortedRun[] {
    return this.#places.filter((run) => run !== undefined);
  }

  get filterBytes(): number {
    return this.filter.entries.byteLength;
  }

  /** Forgets a run. Its entries stay and lead nowhere. */
  drop(run: SortedRun): void {
    const place = this.#places.indexOf(run);
    if (place >= 0) this.#places[place] = undefined;
  }

  /** Whether so many runs were dropped that a filter of half the size would do. */
  get isSparse(): boolean {
    return this.filter.runBits > 1 && this.runs.length <= this.#places.length / 2;
  }

  /**
   * Makes a filter of half the size for the runs that are left, a slice for each `next`. The last one returns
   * it.
   */
  *halve(): Generator<undefined, MergedFilter> {
    const { starts, entries, runBits } = this.filter;
    const left = this.runs;
    /** The new place of each run by its old one; −1 for a dropped run. */
    const newPlaces = Int8Array.from(this.#places, (run) => (run === undefined ? -1 : left.indexOf(run)));
    const builder = new FilterBuilder(runBits - 1, entries.length);
    for (let bucket = 0; bucket < 2 ** (MAX_BUCKET_BITS + runBits); bucket++) {
      if (bucket % 2 === 0) builder.nextBucket();
      // The last bit of the bucket becomes the first kept bit again.
      const first = (bucket & 1) << (16 - runBits);
      const end = starts[bucket + 1]!;
      for (let at = starts[bucket]!; at < end; at++) {
        const entry = entries[at]!;
        const place = newPlaces[entry & (2 ** runBits - 1)]!;
        if (place >= 0) builder.put(first | (entry >>> runBits), place);
      }
      if (bucket % SLICE_BUCKETS === SLICE_BUCKETS - 1) yield;
    }
    return new MergedFilter(builder.end(), left);
  }

  /** Sets `found[n]` to 1 for each key that one of its runs may hold. */
  markPossible(keys: Uint32Array, found: Uint8Array): void {
    markPossible(this.filter, keys, found);
  }

  /** Whether `matches` accepts any position of this key in an eligible run. */
  some(high: number, low: number, { isEligible, matches }: RunQuery): boolean {
    const { starts, entries, bucketBits, runBits } = this.filter;
    const bucket = bucketOf(high, bucketBits);
    const remainder = remainderOf(high, bucketBits, runBits);
    const end = starts[bucket + 1]!;
    for (let at = starts[bucket]!; at < end; at++) {
      const entry = entries[at]!;
      if (entry >>> runBits !== remainder) continue;
      const run = this.#places[entry & (2 ** runBits - 1)];
      if (run !== undefined && isEligible(run) && run.someWithoutFilter(high, low, matches)) return true;
    }
    return false;
  }
}

export interface RunQuery {
  readonly isEligible: (run: SortedRun) => boolean;
  readonly matches: (position: Position) => boolean;
}

/** Builds a filter. Entries come bucket by bucket. */
class FilterBuilder {
  readonly #runBits: number;
  readonly #starts: Uint32Array;
  readonly #entries: Uint16Array;
  #bucket = 0;
  #n = 0;

  /** `capacity`: the most entries that can come. */
  constructor(runBits: number, capacity: number) {
    this.#runBits = runBits;
    this.#starts = new Uint32Array(2 ** (MAX_BUCKET_BITS + runBits) + 1);
    this.#entries = new Uint16Array(capacity);
  }

  nextBucket(): void {
    this.#starts[this.#bucket++] = this.#n;
  }

  put(remainder: number, place: number): void {
    this.#entries[this.#n++] = (remainder << this.#runBits) | place;
  }

  end(): KeyFilter {
    this.#starts[this.#bucket] = this.#n;
    const entries = this.#n === this.#entries.length ? this.#entries : this.#entries.slice(0, this.#n);
    return {
      starts: this.#starts,
      entries,
      bucketBits: MAX_BUCKET_BITS + this.#runBits,
      runBits: this.#runBits,
    };
  }
}
