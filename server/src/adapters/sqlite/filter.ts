/**
 * The keys of runs in memory, as far as it takes to say where one may be: bucketed by the first bits of their high words,
 * with sixteen bits more of each. In the filter of one run those are the next bits of the word; in one that stands for
 * 2, 4, 8 or 16 runs, as many bits fewer, and behind them the number of the run. So a filter for many runs takes no more
 * memory than one for each of them, and has as long buckets, since it has as many bits more to tell them apart.
 */
export interface Filter {
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
let looks = new Uint32Array(3 * 1024);

/**
 * Sets `found[n]` to 1 for each key that may be among those of the filter. `keys` are pairs of words, high before low.
 *
 * Each question costs two visits to memory that no cache holds. Asked one key after the other, an append would wait for
 * each of them in turn; in steps over all keys, the processor makes many visits at once.
 */
export function markKnown(filter: Filter, keys: Uint32Array, found: Uint8Array): void {
  const { starts, entries, bucketBits, runBits } = filter;
  const n = keys.length >>> 1;
  if (looks.length < 3 * n) looks = new Uint32Array(3 * n);
  const all = looks;
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
