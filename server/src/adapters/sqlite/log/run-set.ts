import type { Position } from '../../../model/event.ts';
import type { Time } from '../../../model/time.ts';
import {
  bucketOf,
  type KeyFilter,
  MAX_BUCKET_BITS,
  markPossible,
  remainderOf,
  type SortedRun,
} from './sorted-run.ts';

/** A group in the making, and what it stands for when it is made. */
interface FilterMerge {
  readonly parts: readonly FilterPart[];
  readonly slices: Generator<undefined, MergedFilter>;
}

/**
 * All sealed runs and how they are asked: each by a filter of its own, or by one that it shares with others, as far as
 * the memory reaches. Filters of one size are brought together as soon as there are two: of 23 runs, 16 share one, 4
 * another, 2 a third.
 */
export class RunSet {
  readonly #memory: number;
  /** The oldest first. */
  #runs: SortedRun[];
  /** Those of them that have a filter of their own, or none at all. */
  #unmerged: SortedRun[];
  #merged: MergedFilter[] = [];
  #merging: FilterMerge | undefined;

  /** `runs`: the oldest first. `memory`: bytes that filters may take. */
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

  /** Adds a run: mostly the newest, now and then one that was made anew. */
  add(run: SortedRun): void {
    const byAge = (a: SortedRun, b: SortedRun) => a.facts.fromPosition - b.facts.fromPosition;
    this.#runs = [...this.#runs, run].sort(byAge);
    this.#unmerged = [...this.#unmerged, run].sort(byAge);
    this.#keepToBudget();
  }

  /** By its place, the oldest first. */
  at(place: number): SortedRun | undefined {
    return this.#runs[place];
  }

  find(id: number): SortedRun | undefined {
    return this.#runs.find(({ facts }) => facts.id === id);
  }

  drop(run: SortedRun): void {
    this.#runs = this.#runs.filter((other) => other !== run);
    this.#unmerged = this.#unmerged.filter((other) => other !== run);
    // What is being made would still lead to the run; it is soon begun again.
    if (this.#merging?.parts.some(({ places }) => places.includes(run))) this.#merging = undefined;
    for (const group of this.#merged) group.drop(run);
    this.#merged = this.#merged.filter(({ runs }) => runs.length > 0);
  }

  /** Sets `found[n]` to 1 for each key that may be in one of the runs. `keys` are pairs of words, high before low. */
  markPossible(keys: Uint32Array, found: Uint8Array): void {
    for (const run of this.#unmerged) run.markPossible(keys, found);
    for (const group of this.#merged) group.markPossible(keys, found);
  }

  /** Whether `matches` says yes to any position under this key, among events that may be younger than `since`. */
  some(high: number, low: number, { since, matches }: RecentKeyQuery): boolean {
    for (let nth = this.#unmerged.length - 1; nth >= 0; nth--) {
      const run = this.#unmerged[nth]!;
      if (run.facts.youngest >= since && run.some(high, low, matches)) return true;
    }
    if (this.#merged.length === 0) return false;
    const question = { mayAsk: (run: SortedRun) => run.facts.youngest >= since, matches };
    return this.#merged.some((group) => group.some(high, low, question));
  }

  /** Does one slice of bringing filters together. False when there is nothing to do. */
  mergeFilters(): boolean {
    this.#merging ??= this.#beginMerge();
    if (this.#merging === undefined) return false;
    const { parts, slices } = this.#merging;
    const slice = slices.next();
    if (slice.done !== true) return true;
    this.#merging = undefined;
    const grouped = new Set(parts.flatMap(({ places }) => places));
    this.#merged = this.#merged.filter((group) => !parts.includes(group));
    this.#merged.push(slice.value);
    this.#unmerged = this.#unmerged.filter((run) => !grouped.has(run));
    for (const run of slice.value.runs) run.dropFilter();
    return true;
  }

  /** Halves what is half empty, else brings together the two smallest that are of one size. */
  #beginMerge(): FilterMerge | undefined {
    const halfEmpty = this.#merged.find((group) => group.isSparse);
    if (halfEmpty !== undefined) return { parts: [halfEmpty], slices: halfEmpty.halve() };
    const parts: FilterPart[] = this.#unmerged.map(filterPartOf).filter((part) => part !== undefined);
    parts.push(...this.#merged.toSorted((a, b) => a.filter.runBits - b.filter.runBits));
    for (let nth = 1; nth < parts.length; nth++) {
      const [one, other] = [parts[nth - 1]!, parts[nth]!];
      if (MergedFilter.canMerge(one, other))
        return { parts: [one, other], slices: MergedFilter.merge(one, other) };
    }
    return undefined;
  }

  /** The filters of the oldest runs go first: they are asked as often, but their events leave the window soonest. */
  #keepToBudget(): void {
    let room = this.#memory;
    for (const { filterBytes } of this.#unmerged) room -= filterBytes;
    for (const run of this.#unmerged) {
      if (room >= 0) break;
      room += run.filterBytes;
      run.dropFilter();
    }
    for (const group of this.#merged.toSorted((a, b) => firstOf(b) - firstOf(a))) {
      room -= group.filterBytes;
      if (room >= 0) continue;
      this.#merged = this.#merged.filter((other) => other !== group);
      this.#unmerged = [...group.runs, ...this.#unmerged];
    }
  }
}

/** Where the oldest events of a group begin. */
function firstOf({ runs: [oldest] }: MergedFilter): Position {
  return oldest!.facts.fromPosition;
}

interface RecentKeyQuery {
  readonly since: Time;
  readonly matches: (position: Position) => boolean;
}

/** At most 2⁴ runs share a filter: with each bit for the number of the run, twice as many questions are answered wrongly. */
const MAX_RUN_BITS = 4;

/** Buckets gone through in one slice: about two milliseconds. */
const SLICE_BUCKETS = 16_384;

/** What can be brought together: a run with a filter of its own, or a group. Its entries name runs by their places. */
export interface FilterPart {
  readonly filter: KeyFilter;
  readonly places: readonly (SortedRun | undefined)[];
}

/** A run as a part; undefined when it has no filter, or is bucketed like a small one. */
export function filterPartOf(run: SortedRun): FilterPart | undefined {
  const { filter } = run;
  return filter?.bucketBits === MAX_BUCKET_BITS ? { filter, places: [run] } : undefined;
}

/**
 * The filters of 2, 4, 8 or 16 runs as one, made of two of half the size. A new key is asked of every filter, and with a
 * day of keys in a few dozen runs that would be most of what an append costs.
 *
 * A filter for sixteen runs is wrong for one key in two hundred and fifty, which then costs the reading of a page.
 */
export class MergedFilter implements FilterPart {
  readonly filter: KeyFilter;
  readonly #places: (SortedRun | undefined)[];

  private constructor(filter: KeyFilter, places: readonly (SortedRun | undefined)[]) {
    this.filter = filter;
    this.#places = Array.from({ length: 2 ** filter.runBits }, (_, place) => places[place]);
  }

  /** Whether the two can be brought together. */
  static canMerge({ filter: one }: FilterPart, { filter: other }: FilterPart): boolean {
    return one.runBits === other.runBits && one.runBits < MAX_RUN_BITS;
  }

  /** Brings two together, a slice for each `next`; the last one returns the group. */
  static *merge(one: FilterPart, other: FilterPart): Generator<undefined, MergedFilter> {
    const { runBits } = one.filter;
    const filters = [one.filter, other.filter];
    const maker = new FilterBuilder(runBits + 1, one.filter.entries.length + other.filter.entries.length);
    /** The first of the kept bits chooses the bucket from now on. */
    const rest = 2 ** (15 - runBits) - 1;
    for (let bucket = 0; bucket < 2 ** (MAX_BUCKET_BITS + runBits); bucket++) {
      for (let half = 0; half < 2; half++) {
        maker.nextBucket();
        for (let side = 0; side < 2; side++) {
          const { starts, entries } = filters[side]!;
          const end = starts[bucket + 1]!;
          for (let at = starts[bucket]!; at < end; at++) {
            const entry = entries[at]!;
            if (entry >>> 15 !== half) continue;
            const place = (entry & (2 ** runBits - 1)) | (side << runBits);
            maker.put((entry >>> runBits) & rest, place);
          }
        }
      }
      if (bucket % SLICE_BUCKETS === SLICE_BUCKETS - 1) yield;
    }
    return new MergedFilter(maker.end(), [...one.places, ...other.places]);
  }

  get places(): readonly (SortedRun | undefined)[] {
    return this.#places;
  }

  /** The runs that are left of it. */
  get runs(): SortedRun[] {
    return this.#places.filter((run) => run !== undefined);
  }

  get filterBytes(): number {
    return this.filter.entries.byteLength;
  }

  /** Forgets a run; its entries stay and lead nowhere. */
  drop(run: SortedRun): void {
    const place = this.#places.indexOf(run);
    if (place >= 0) this.#places[place] = undefined;
  }

  /** So many runs have been dropped that one of half the size would do. */
  get isSparse(): boolean {
    return this.filter.runBits > 1 && this.runs.length <= this.#places.length / 2;
  }

  /** Makes one of half the size of what is left, a slice for each `next`; the last one returns it. */
  *halve(): Generator<undefined, MergedFilter> {
    const { starts, entries, runBits } = this.filter;
    const left = this.runs;
    /** The new place of each run by its old one; −1 where none is left. */
    const newPlaces = Int8Array.from(this.#places, (run) => (run === undefined ? -1 : left.indexOf(run)));
    const maker = new FilterBuilder(runBits - 1, entries.length);
    for (let bucket = 0; bucket < 2 ** (MAX_BUCKET_BITS + runBits); bucket++) {
      if (bucket % 2 === 0) maker.nextBucket();
      // The last bit that chose the bucket is the first of those that are kept again.
      const first = (bucket & 1) << (16 - runBits);
      const end = starts[bucket + 1]!;
      for (let at = starts[bucket]!; at < end; at++) {
        const entry = entries[at]!;
        const place = newPlaces[entry & (2 ** runBits - 1)]!;
        if (place >= 0) maker.put(first | (entry >>> runBits), place);
      }
      if (bucket % SLICE_BUCKETS === SLICE_BUCKETS - 1) yield;
    }
    return new MergedFilter(maker.end(), left);
  }

  /** Sets `found[n]` to 1 for each key that may be in one of its runs. */
  markPossible(keys: Uint32Array, found: Uint8Array): void {
    markPossible(this.filter, keys, found);
  }

  /** Whether `matches` says yes to any of the positions kept under this key, in a run that may be asked. */
  some(high: number, low: number, { mayAsk, matches }: RunQuery): boolean {
    const { starts, entries, bucketBits, runBits } = this.filter;
    const bucket = bucketOf(high, bucketBits);
    const remainder = remainderOf(high, bucketBits, runBits);
    const end = starts[bucket + 1]!;
    for (let at = starts[bucket]!; at < end; at++) {
      const entry = entries[at]!;
      if (entry >>> runBits !== remainder) continue;
      const run = this.#places[entry & (2 ** runBits - 1)];
      if (run !== undefined && mayAsk(run) && run.someWithoutFilter(high, low, matches)) return true;
    }
    return false;
  }
}

export interface RunQuery {
  readonly mayAsk: (run: SortedRun) => boolean;
  readonly matches: (position: Position) => boolean;
}

/** Takes entries bucket by bucket. */
class FilterBuilder {
  readonly #runBits: number;
  readonly #starts: Uint32Array;
  readonly #entries: Uint16Array;
  #bucket = 0;
  #n = 0;

  /** `most`: entries there may be. */
  constructor(runBits: number, most: number) {
    this.#runBits = runBits;
    this.#starts = new Uint32Array(2 ** (MAX_BUCKET_BITS + runBits) + 1);
    this.#entries = new Uint16Array(most);
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
