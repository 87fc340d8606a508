import type { Position } from '../../model/event.ts';
import { bucketOf, type Filter, markKnown, remainderOf } from './filter.ts';
import { MAX_BUCKET_BITS, type Run } from './run.ts';

/** At most 2⁴ runs share a filter: with each bit for the number of the run, twice as many questions are answered wrongly. */
const MOST_RUN_BITS = 4;

/** Buckets gone through in one slice: about two milliseconds. */
const SLICE_BUCKETS = 16_384;

/** What can be brought together: a run with a filter of its own, or a group. Its entries name runs by their places. */
export interface Part {
  readonly filter: Filter;
  readonly places: readonly (Run | undefined)[];
}

/** A run as a part; undefined when it has no filter, or is bucketed like a small one. */
export function partOf(run: Run): Part | undefined {
  const { filter } = run;
  return filter?.bucketBits === MAX_BUCKET_BITS ? { filter, places: [run] } : undefined;
}

/**
 * The filters of 2, 4, 8 or 16 runs as one, made of two of half the size. A new key is asked of every filter, and with a
 * day of keys in a few dozen runs that would be most of what an append costs.
 *
 * A filter for sixteen runs is wrong for one key in two hundred and fifty, which then costs the reading of a page.
 */
export class RunGroup implements Part {
  readonly filter: Filter;
  readonly #places: (Run | undefined)[];

  private constructor(filter: Filter, places: readonly (Run | undefined)[]) {
    this.filter = filter;
    this.#places = Array.from({ length: 2 ** filter.runBits }, (_, place) => places[place]);
  }

  /** Whether the two can be brought together. */
  static fits({ filter: one }: Part, { filter: other }: Part): boolean {
    return one.runBits === other.runBits && one.runBits < MOST_RUN_BITS;
  }

  /** Brings two together, a slice for each `next`; the last one returns the group. */
  static *of(one: Part, other: Part): Generator<undefined, RunGroup> {
    const { runBits } = one.filter;
    const filters = [one.filter, other.filter];
    const maker = new FilterMaker(runBits + 1, one.filter.entries.length + other.filter.entries.length);
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
    return new RunGroup(maker.end(), [...one.places, ...other.places]);
  }

  get places(): readonly (Run | undefined)[] {
    return this.#places;
  }

  /** The runs that are left of it. */
  get runs(): Run[] {
    return this.#places.filter((run) => run !== undefined);
  }

  get filterBytes(): number {
    return this.filter.entries.byteLength;
  }

  /** Forgets a run; its entries stay and lead nowhere. */
  drop(run: Run): void {
    const place = this.#places.indexOf(run);
    if (place >= 0) this.#places[place] = undefined;
  }

  /** So many runs have been dropped that one of half the size would do. */
  get isHalfEmpty(): boolean {
    return this.filter.runBits > 1 && this.runs.length <= this.#places.length / 2;
  }

  /** Makes one of half the size of what is left, a slice for each `next`; the last one returns it. */
  *halved(): Generator<undefined, RunGroup> {
    const { starts, entries, runBits } = this.filter;
    const left = this.runs;
    /** The new place of each run by its old one; −1 where none is left. */
    const newPlaces = Int8Array.from(this.#places, (run) => (run === undefined ? -1 : left.indexOf(run)));
    const maker = new FilterMaker(runBits - 1, entries.length);
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
    return new RunGroup(maker.end(), left);
  }

  /** Sets `found[n]` to 1 for each key that may be in one of its runs. */
  mark(keys: Uint32Array, found: Uint8Array): void {
    markKnown(this.filter, keys, found);
  }

  /** Whether `matches` says yes to any of the positions kept under this key, in a run that may be asked. */
  some(high: number, low: number, { mayAsk, matches }: Question): boolean {
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

export interface Question {
  readonly mayAsk: (run: Run) => boolean;
  readonly matches: (position: Position) => boolean;
}

/** Takes entries bucket by bucket. */
class FilterMaker {
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

  end(): Filter {
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
