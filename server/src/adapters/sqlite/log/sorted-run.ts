import type { Position } from '../../../model/event.ts';

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

export interface SortedRunFacts {
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
export type ReadPage = (run: SortedRunFacts, page: number) => Uint8Array | undefined;

export class SortedRun {
  readonly facts: SortedRunFacts;
  /** Rank of the first key of each bucket, and one more: the number of keys. */
  readonly starts: Uint32Array;
  /** Bits 16…31 below the bucket bits of each high word, by rank; absent over the memory budget, or in a group. */
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

  /** Bytes of memory the array takes. */
  get filterBytes(): number {
    return this.#remainders?.byteLength ?? 0;
  }

  /** Absent over the memory budget, or in a group. */
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

  /** Sets `found[n]` to 1 for each key that may be in it: every one when there is no filter to say no. */
  markPossible(keys: Uint32Array, found: Uint8Array): void {
    const { filter } = this;
    if (filter === undefined) found.fill(1);
    else markPossible(filter, keys, found);
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

  #someOf(from: number, to: number, { high, low, matches }: KeyQuery): boolean {
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

interface KeyQuery {
  readonly high: number;
  readonly low: number;
  readonly matches: (position: Position) => boolean;
}

/** Collects the entries of a run in order and hands out full pages. */
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
 * The keys of runs in memory, as far as it takes to say where one may be: bucketed by the first bits of their high words,
 * with sixteen bits more of each. In the filter of one run those are the next bits of the word; in one that stands for
 * 2, 4, 8 or 16 runs, as many bits fewer, and behind them the number of the run. So a filter for many runs takes no more
 * memory than one for each of them, and has as long buckets, since it has as many bits more to tell them apart.
 */
export interface KeyFilter {
  /** Where each bucket begins in `entries`, and one more: how many there are. */
  readonly starts: Uint32Array;
  readonly entries: Uint16Array;
  /** Bits of the high word that choose the bucket. */
  readonly bucketBits: number;
  /** Bits of an entry that say which run it is of. */
  readonly runBits: number;
}

export function bucketOf(high: number, bits: number): number {
  return bits === 0 ? 0 : high >>> (32 - bits);
}

/** The bits of the high word that an entry keeps. */
export function remainderOf(high: number, bucketBits: number, runBits: number): number {
  return ((high << bucketBits) >>> 16) >>> runBits;
}

/** For each key where its bucket begins, where it ends, and the first entry in it; used again and again. */
let scratch = new Uint32Array(3 * 1024);

/**
 * Sets `found[n]` to 1 for each key that may be among those of the filter. `keys` are pairs of words, high before low.
 *
 * Each question costs two visits to memory that no cache holds. Asked one key after the other, an append would wait for
 * each of them in turn; in steps over all keys, the processor makes many visits at once.
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
