import { endianness } from 'node:os';

/** Words of 32 bits in a block: half a cache line, so that a lookup waits for memory once. */
const BLOCK_WORDS = 8;

/** Bits of memory for a key. With 16 of them a full filter takes one key of a thousand for one of its own. */
const BITS_PER_KEY = 16;

/** Odd numbers, one for each word of a block: Apache Parquet, "Parquet Bloom Filter". */
const SALTS = Int32Array.of(
  ...[0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31],
);

/** Two words for each of the keys whose blocks are read ahead at once. */
const READ_AHEAD_WORDS = 512;

function blocksFor(keys: number): number {
  return Math.max(1, Math.ceil((keys * BITS_PER_KEY) / (BLOCK_WORDS * 32)));
}

/**
 * A split block Bloom filter: says of a key that it was certainly not added, or that it may have been. Keys
 * are hashes of 64 bits as two words: the high one chooses a block, and the low one a bit in each word of it.
 */
export class SplitBlockFilter {
  readonly #blocks: number;
  readonly #words: Int32Array;
  /** Of reads whose result means nothing, so that they are not optimized away. */
  #seen = 0;

  /** An empty filter for so many keys, or one with these words. */
  constructor(from: number | Int32Array) {
    this.#words = typeof from === 'number' ? new Int32Array(blocksFor(from) * BLOCK_WORDS) : from;
    this.#blocks = this.#words.length / BLOCK_WORDS;
  }

  /** The filter whose bytes these are. Keeps them. */
  static of(bytes: Buffer): SplitBlockFilter {
    return new SplitBlockFilter(
      new Int32Array(littleEndian(bytes).buffer, bytes.byteOffset, bytes.length / 4),
    );
  }

  /** Its words in the order of bytes that all machines store. */
  toBytes(): Buffer {
    return littleEndian(Buffer.from(this.#words.slice().buffer));
  }

  get bytes(): number {
    return this.#words.byteLength;
  }

  /** Adds keys as pairs of words, high before low. Two zeros are no key. */
  addAll(keys: Uint32Array): void {
    for (let from = 0; from < keys.length; from += READ_AHEAD_WORDS) {
      const some = keys.subarray(from, from + READ_AHEAD_WORDS);
      this.#readAhead(some);
      for (let at = 0; at < some.length; at += 2)
        if ((some[at]! | some[at + 1]!) !== 0) this.#add(some[at]!, some[at + 1]!);
    }
  }

  /** The salts as literals: a quarter of the time goes without the loop and the look at an array. */
  #add(high: number, low: number): void {
    const words = this.#words;
    const block = this.#blockOf(high);
    words[block]! |= bitOf(low, 0x47b6137b);
    words[block + 1]! |= bitOf(low, 0x44974d91);
    words[block + 2]! |= bitOf(low, 0x8824ad5b);
    words[block + 3]! |= bitOf(low, 0xa2b7289d);
    words[block + 4]! |= bitOf(low, 0x705495c7);
    words[block + 5]! |= bitOf(low, 0x2df1424b);
    words[block + 6]! |= bitOf(low, 0x9efc4947);
    words[block + 7]! |= bitOf(low, 0x5c6bfb31);
  }

  /** The indexes of keys that may have been added, among those from the index `first` on. */
  among(keys: Uint32Array, first: number): number[] {
    const found: number[] = [];
    for (let from = first * 2; from < keys.length; from += READ_AHEAD_WORDS) {
      const to = Math.min(from + READ_AHEAD_WORDS, keys.length);
      this.#readAhead(keys.subarray(from, to));
      for (let at = from; at < to; at += 2) if (this.mayHave(keys[at]!, keys[at + 1]!)) found.push(at / 2);
    }
    return found;
  }

  mayHave(high: number, low: number): boolean {
    const block = this.#blockOf(high);
    for (let word = 0; word < BLOCK_WORDS; word++)
      if ((this.#words[block + word]! & bitOf(low, SALTS[word]!)) === 0) return false;
    return true;
  }

  /** Reads the blocks of keys into the processor's cache: independent reads overlap. */
  #readAhead(keys: Uint32Array): void {
    const words = this.#words;
    let seen = 0;
    for (let at = 0; at < keys.length; at += 2) seen ^= words[this.#blockOf(keys[at]!)]!;
    this.#seen ^= seen;
  }

  /** The first word of a key's block. */
  #blockOf(high: number): number {
    return Math.floor((high / 2 ** 32) * this.#blocks) * BLOCK_WORDS;
  }
}

function bitOf(low: number, salt: number): number {
  return 1 << (Math.imul(low, salt) >>> 27);
}

/** Turns words of this machine into little-endian ones, or back. */
function littleEndian(bytes: Buffer): Buffer {
  return endianness() === 'LE' ? bytes : bytes.swap32();
}
