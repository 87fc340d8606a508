/** Words of 32 bits in a block: half a cache line, so that a lookup waits for memory once. */
const BLOCK_WORDS = 8;

/** Bits of memory for a key. With 16 of them a full filter takes one key of a thousand for one of its own. */
const BITS_PER_KEY = 16;

/** Odd numbers, one for each word of a block: Apache Parquet, "Parquet Bloom Filter". */
const SALTS = [
  0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31,
] as const;

/** Bytes of a filter for so many keys. */
export function filterBytesFor(keys: number): number {
  return blocksFor(keys) * BLOCK_WORDS * 4;
}

function blocksFor(keys: number): number {
  return Math.max(1, Math.ceil((keys * BITS_PER_KEY) / (BLOCK_WORDS * 32)));
}

/**
 * A split block Bloom filter: says of a key that it was certainly not added, or that it may have been. Keys are hashes of 64 bits
 * as two words: the high one chooses a block, and the low one a bit in each word of it.
 */
export class SplitBlockFilter {
  readonly #blocks: number;
  readonly #words: Uint32Array;

  constructor(keys: number) {
    this.#blocks = blocksFor(keys);
    this.#words = new Uint32Array(this.#blocks * BLOCK_WORDS);
  }

  get bytes(): number {
    return this.#words.byteLength;
  }

  add(high: number, low: number): void {
    const block = this.#blockOf(high);
    for (let word = 0; word < BLOCK_WORDS; word++) this.#words[block + word]! |= bitOf(low, word);
  }

  mayHave(high: number, low: number): boolean {
    const block = this.#blockOf(high);
    for (let word = 0; word < BLOCK_WORDS; word++)
      if ((this.#words[block + word]! & bitOf(low, word)) === 0) return false;
    return true;
  }

  /** The first word of a key's block. */
  #blockOf(high: number): number {
    return Math.floor((high / 2 ** 32) * this.#blocks) * BLOCK_WORDS;
  }
}

function bitOf(low: number, word: number): number {
  return 1 << (Math.imul(low, SALTS[word]!) >>> 27);
}
