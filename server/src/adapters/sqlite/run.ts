import type { Position } from '../../model/event.ts';
import { bucketOf, type Filter, markKnown, remainderOf } from './filter.ts';

/**
 * A sealed run: a million keys in order, on disk, with the position of each. Entries are kept in pages of 256, each a row
 * that fits a page of the file: high word (4), low word (4), position (6), little endian.
 *
 * Its filter is not a Bloom filter but the high words themselves. It says no for all but one key in many thousands, it says
 * *where* the entry is when it says yes, and it costs two bytes a key. Without the entries (over the memory budget) the
 * buckets alone still lead to the right page.
 */
export const PAGE_ENTRIES = 256;
const ENTRY_BYTES = 14;

/** Keys in a bucket on average, at most. */
const BUCKET_KEYS = 16;
export const MAX_BUCKET_BITS = 16;

function bucketBitsFor(keys: number): number {
  return Math.min(MAX_BUCKET_BITS, Math.max(0, Math.ceil(Math.log2(Math.max(1, keys / BUCKET_KEYS)))));
}

export interface RunFacts {
  readonly id: number;
  readonly n: number;
  readonly bucketBits: number;
  /** Positions of its events: from (inclusive) to (exclusive). */
  readonly fromPosition: Position;
  readonly toPosition: Position;
  /** When the youngest of its events arrived. */
  readonly youngest: number;
  /** Whether its pages and its filter carry checksums; not in what format 1 wrote. */
  readonly hasSums: boolean;
}

/** Reads one page of entries of a run; undefined where it is damaged. */
export type ReadPage = (run: RunFacts, page: number) => Uint8Array | undefined;

export class Run {
  readonly facts: RunFacts;
  /** Rank of the first key of each bucket, and one more: the number of keys. */
  readonly starts: Uint32Array;
  /** Bits 16…31 below the bucket bits of each high word, by rank; absent over the memory budget, or in a group. */
  #remainders: Uint16Array | undefined;
  readonly #readPage: ReadPage;

  constructor(facts: RunFacts, starts: Uint32Array, remainders: Uint16Array | undefined, readPage: ReadPage) {
    this.facts = facts;
    this.starts = starts;
    this.#remainders = remainders;
    this.#readPage = readPage;
  }

  /** Bytes of memory the array takes. */
  get filterBytes(): number {
    return this.#remainders?.byteLength ?? 0;
  }

  /** Absent over the memory budget, or in a group. */
  get filter(): Filter | undefined {
    if (this.#remainders === undefined) return undefined;
    return {
      starts: this.starts,
      entries: this.#remainders,
      bucketBits: this.facts.bucketBits,
      runBits: 0,
    };
  }

  dropFilter(): void {
    this.#remainders = undefined;
  }

  /** Sets `found[n]` to 1 for each key that may be in it: every one when there is no filter to say no. */
  mark(keys: Uint32Array, found: Uint8Array): void {
    const { filter } = this;
    if (filter === undefined) found.fill(1);
    else markKnown(filter, keys, found);
  }

  /** Whether `matches` says yes to any of the positions kept under this key. */
  some(high: number, low: number, matches: (position: Position) => boolean): boolean {
    const remainders = this.#remainders;
    if (remainders === undefined) return this.someWithoutFilter(high, low, matches);
    const bucket = bucketOf(high, this.facts.bucketBits);
    const remainder = remainderOf(high, this.facts.bucketBits, 0);
    const end = this.starts[bucket + 1]!;
    for (let rank = this.starts[bucket]!; rank < end; rank++) {
      if (remainders[rank] === remainder && this.#someOf(rank, rank + 1, { high, low, matches })) return true;
    }
    return false;
  }

  /** The same by the pages alone: those of the bucket, which is one or two. */
  someWithoutFilter(high: number, low: number, matches: (position: Position) => boolean): boolean {
    const bucket = bucketOf(high, this.facts.bucketBits);
    return this.#someOf(this.starts[bucket]!, this.starts[bucket + 1]!, { high, low, matches });
  }

  #someOf(from: number, to: number, { high, low, matches }: Key): boolean {
    let view: DataView | undefined;
    for (let rank = from; rank < to; rank++) {
      const nth = rank % PAGE_ENTRIES;
      if (rank === from || nth === 0) {
        const page = this.#readPage(this.facts, Math.floor(rank / PAGE_ENTRIES));
        view = page && new DataView(page.buffer, page.byteOffset, page.byteLength);
      }
      // A damaged page knows no key until its run has been made anew.
      if (view === undefined) continue;
      const at = nth * ENTRY_BYTES;
      if (view.getUint32(at, true) !== high || view.getUint32(at + 4, true) !== low) continue;
      if (matches(view.getUint32(at + 8, true) + view.getUint16(at + 12, true) * 2 ** 32)) return true;
    }
    return false;
  }
}

interface Key {
  readonly high: number;
  readonly low: number;
  readonly matches: (position: Position) => boolean;
}

/** Collects the entries of a run in order and hands out full pages. */
export class RunBuilder {
  readonly bucketBits: number;
  readonly starts: Uint32Array;
  readonly remainders: Uint16Array;
  readonly #emit: (page: number, entries: Uint8Array) => void;
  #page = Buffer.alloc(PAGE_ENTRIES * ENTRY_BYTES);
  #n = 0;
  #bucket = 0;

  constructor(keys: number, emit: (page: number, entries: Uint8Array) => void) {
    this.bucketBits = bucketBitsFor(keys);
    this.starts = new Uint32Array(2 ** this.bucketBits + 1);
    this.remainders = new Uint16Array(keys);
    this.#emit = emit;
  }

  readonly add = (high: number, low: number, position: Position): void => {
    const bucket = bucketOf(high, this.bucketBits);
    while (this.#bucket < bucket) this.starts[++this.#bucket] = this.#n;
    this.remainders[this.#n] = remainderOf(high, this.bucketBits, 0);
    const at = (this.#n % PAGE_ENTRIES) * ENTRY_BYTES;
    this.#page.writeUInt32LE(high, at);
    this.#page.writeUInt32LE(low, at + 4);
    this.#page.writeUIntLE(position, at + 8, 6);
    this.#n++;
    if (this.#n % PAGE_ENTRIES === 0) this.#emitPage(PAGE_ENTRIES);
  };

  end(): void {
    if (this.#n % PAGE_ENTRIES > 0) this.#emitPage(this.#n % PAGE_ENTRIES);
    while (this.#bucket < this.starts.length - 1) this.starts[++this.#bucket] = this.#n;
  }

  #emitPage(entries: number): void {
    this.#emit(Math.ceil(this.#n / PAGE_ENTRIES) - 1, this.#page.subarray(0, entries * ENTRY_BYTES));
    this.#page = Buffer.alloc(PAGE_ENTRIES * ENTRY_BYTES);
  }
}
