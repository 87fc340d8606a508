import type { Position } from '../../../model/event.ts';
import { invariant } from '../../../model/invariant.ts';

/**
 * Entries of one page. A sorted run is up to a million keys on disk, in order, each with its position
 * (key-index.ts). Each page of it is a row, small enough for one page of the file. An entry is high word (4
 * bytes), low word (4) and position (6), little endian.
 *
 * The filter of a run is not a Bloom filter: it holds 16 bits of every high word, in order, in buckets. It
 * rejects all but one in many thousands of keys that the run does not hold, it leads to the entry of a key
 * that the run may hold, and it costs two bytes a key. Over the memory budget a run keeps only the bounds of
 * its buckets, which still lead to the right page.
 */
export const PAGE_ENTRIES = 256;
const ENTRY_BYTES = 14;

/** The most keys that a bucket holds on average. */
const BUCKET_KEYS = 16;
export const MAX_BUCKET_BITS = 16;
/** A run of so many keys or fewer has fewer buckets, and its filter cannot be merged with others. */
export const MOST_UNMERGED_KEYS = BUCKET_KEYS * 2 ** (MAX_BUCKET_BITS - 1);

function bucketBitsFor(keys: number): number {
  return Math.min(MAX_BUCKET_BITS, Math.max(0, Math.ceil(Math.log2(Math.max(1, keys / BUCKET_KEYS)))));
}

export interface SortedRunFacts {
  readonly id: number;
  readonly n: number;
  readonly bucketBits: number;
  /** Positions of its events: from (inclusive) to (exclusive). */
  readonly fromPosition: Position;
  readonly toPosition: Position;
  /** When the newest of its events arrived. */
  readonly youngest: number;
  /** Whether its pages and its filter carry checksums. Those of format 1 have none. */
  readonly hasSums: boolean;
}

/** Reads one page of a run; undefined when the page is damaged. */
export type ReadPage = (run: SortedRunFacts, page: number) => Uint8Array | undefined;

export class SortedRun {
  readonly facts: SortedRunFacts;
  /** The rank of the first key of each bucket, and the number of keys at the end. */
  readonly starts: Uint32Array;
  /**
   * The 16 bits after the bucket bits of each high word, by rank. Absent over the memory budget, or in a
   * merged filter.
   */
  #remainders: Uint16Array | undefined;
  readonly #readPage: ReadPage;

  constructor(
    facts: SortedRunFacts,
    starts: Uint32Array,
    remainders: Uint16Array | undefined,
    readPage: ReadPage,
  ) {
    this.facts = facts;
    this.starts = starts;
    this.#remainders = remainders;
    this.#readPage = readPage;
  }

  /** Bytes of memory that the filter takes. */
  get filterBytes(): number {
    return this.#remainders?.byteLength ?? 0;
  }

  /** Undefined over the memory budget, or when a merged filter took its place. */
  get filter(): KeyFilter | undefined {
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

  /** Sets `found[n]` to 1 for each key that the run may hold. Without a filter that is every key. */
  markPossible(keys: Uint32Array, found: Uint8Array): void {
    const { filter } = this;
    if (filter === undefined) found.fill(1);
    else markPossible(filter, keys, found);
  }

  /** Whether `matches` accepts any position of this key. */
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

  /** The same without the filter: reads the one or two pages of the key's bucket. */
  someWithoutFilter(high: number, low: number, matches: (position: Position) => boolean): boolean {
    const bucket = bucketOf(high, this.facts.bucketBits);
    return this.#someOf(this.starts[bucket]!, this.starts[bucket + 1]!, { high, low, matches });
  }

  #someOf(from: number, to: number, { high, low, matches }: KeyQuery): boolean {
    let view: DataView | undefined;
    for (let rank = from; rank < to; rank++) {
      const nth = rank % PAGE_ENTRIES;
      if (rank === from || nth === 0) {
        const page = this.#readPage(this.facts, Math.floor(rank / PAGE_ENTRIES));
        view = page && new DataView(page.buffer, page.byteOffset, page.byteLength);
      }
      // The keys of a damaged page are unknown until the run is rebuilt.
      if (view === undefined) continue;
      const at = nth * ENTRY_BYTES;
      if (view.getUint32(at, true) !== high || view.getUint32(at + 4, true) !== low) continue;
      if (matches(view.getUint32(at + 8, true) + view.getUint16(at + 12, true) * 2 ** 32)) return true;
    }
    return false;
  }
}

interface KeyQuery {
  readonly high: number;
  readonly low: number;
  readonly matches: (position: Position) => boolean;
}

/** Takes the entries of a run in order, hands out its pages as they fill, and makes its filter. */
export class SortedRunBuilder {
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
    invariant(bucket >= this.#bucket, 'the keys of a run ascend');
    invariant(this.#n < this.remainders.length, 'a run has no more keys than it was made for');
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

/**
 * Keys in memory, in part: the first bits of the high word choose a bucket, and an entry keeps the next ones.
 * The filter of one run keeps sixteen. A merged filter for 2, 4, 8 or 16 runs has 1, 2, 3 or 4 more bucket
 * bits; its entries keep as many bits fewer and have the number of the run in their place. It therefore takes
 * no more memory than a filter for each run, and its buckets are as long.
 */
export interface KeyFilter {
  /** Where each bucket begins in `entries`, and the number of entries at the end. */
  readonly starts: Uint32Array;
  readonly entries: Uint16Array;
  /** Bits of the high word that choose the bucket. */
  readonly bucketBits: number;
  /** Bits of an entry that name its run. */
  readonly runBits: number;
}

export function bucketOf(high: number, bits: number): number {
  return bits === 0 ? 0 : high >>> (32 - bits);
}

/** The bits of a high word that an entry keeps. */
export function remainderOf(high: number, bucketBits: number, runBits: number): number {
  return ((high << bucketBits) >>> 16) >>> runBits;
}

/** For each key: the start of its bucket, its end, and its first entry. Reused by every call. */
let scratch = new Uint32Array(3 * 1024);

/**
 * Sets `found[n]` to 1 for each key that the filter may hold. `keys` are pairs of words, high before low.
 *
 * A lookup is two reads from memory that no cache holds. Key by key, an append would wait for each of them;
 * in passes over all keys, the reads overlap.
 */
export function markPossible(filter: KeyFilter, keys: Uint32Array, found: Uint8Array): void {
  const { starts, entries, bucketBits, runBits } = filter;
  const n = keys.length >>> 1;
  if (scratch.length < 3 * n) scratch = new Uint32Array(3 * n);
  const all = scratch;
  for (let nth = 0; nth < n; nth++) {
    const bucket = bucketOf(keys[nth * 2]!, bucketBits);
    all[nth * 3] = starts[bucket]!;
    all[nth * 3 + 1] = starts[bucket + 1]!;
  }
  const last = Math.max(0, entries.length - 1);
  for (let nth = 0; nth < n; nth++) all[nth * 3 + 2] = entries[Math.min(all[nth * 3]!, last)]!;
  for (let nth = 0; nth < n; nth++) {
    const remainder = remainderOf(keys[nth * 2]!, bucketBits, runBits);
    const end = all[nth * 3 + 1]!;
    let entry = all[nth * 3 + 2]!;
    for (let at = all[nth * 3]!; at < end; entry = entries[++at]!) {
      if (entry >>> runBits === remainder) {
        found[nth] = 1;
        break;
      }
    }
  }
}
