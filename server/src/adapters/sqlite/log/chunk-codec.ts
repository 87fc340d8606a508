import { constants, crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Position } from '../../../model/event.ts';
import { findLineOffsets } from '../../../model/serialized-event.ts';
import { checksumOf, readChecksum, withChecksum, withoutChecksum, writeChecksum } from '../damage.ts';
import { NO_PLAN } from './plans.ts';

/**
 * How a chunk becomes a row and a row a chunk, with four checksums, so that a reader who needs a part of the row need not read
 * all of it:
 *
 * - of the numbers (first … stage), in column "codec" above the codec itself; it seeds the other three;
 * - of batch, answer, sources, times and plans, behind the sources;
 * - of the keys, behind them;
 * - of the body, and of users and that checksum, both behind the users. The body itself is stored as it is: it is the only
 *   large part, and one with its checksum behind it would be a copy more for each commit.
 *
 * Rows of formats 1 and 2 have none; they are valid below the position at which format 3 began.
 */
const CODECS = 16;

/** One decoded chunk. */
export interface Chunk {
  readonly first: Position;
  readonly n: number;
  readonly stage: number;
  /** Absent once it is sealed. */
  readonly batchAnswer: BatchAnswer | undefined;
  readonly body: Buffer;
  readonly starts: Uint32Array;
  readonly sources: Uint32Array;
  readonly times: Float64Array;
  /** Numbers of `plans.ts`. */
  readonly plans: Uint32Array;
  /** Two words for each event. */
  readonly keys: Uint32Array;
  readonly users: Uint32Array;
}

/** Events to be written, or a chunk to be written anew. */
export interface ChunkEvents {
  readonly n: number;
  readonly lines: Uint8Array;
  /** See `findLineOffsets`; where they are known without a look at the lines. */
  readonly starts?: Uint32Array;
  readonly sources: Uint32Array;
  readonly times: Float64Array;
  readonly plans: Uint32Array;
  readonly keys: Uint32Array;
  readonly users: Uint32Array;
}

/** The batch that events came with, and the answer it got, as `batches.ts` writes it. */
export interface BatchAnswer {
  readonly batch: string;
  readonly answer: string;
}

/** The numbers of a row, as they stand in its first columns. */
export interface NumbersRow {
  readonly first: number;
  readonly n: number;
  readonly at: number;
  readonly until: number;
  readonly codec: number;
  readonly json: number;
  readonly stage: number;
}

export interface HeadRow extends NumbersRow {
  readonly batch: string | null;
  readonly answer: string | null;
  readonly sources: Uint8Array;
  readonly times: Uint8Array | null;
  readonly plans: Uint8Array | null;
}

export interface ChunkRow extends HeadRow {
  readonly keys: Uint8Array;
  readonly users: Uint8Array;
  readonly body: Uint8Array;
}

export function encodeChunk(
  first: Position,
  events: ChunkEvents,
  stage: number,
  origin?: BatchAnswer,
): ChunkRow {
  const { n, lines } = events;
  const { codec, bytes: body } = encodeBody(lines, n);
  // The clock may have been set back between two of them.
  const [at, until] = [Math.min(...events.times), Math.max(...events.times)];
  const json = lines.byteLength - (n - 1);
  const seed = checksumOf(first, n, at, until, codec, json, stage);
  const times = at === until ? null : encodeTimes(events.times);
  const plans = events.plans.some((plan) => plan !== NO_PLAN) ? encodeNumbers(events.plans) : null;
  const [batch, answer] = [origin?.batch ?? null, origin?.answer ?? null];
  return {
    first,
    n,
    at,
    until,
    codec: codec + CODECS * seed,
    json,
    stage,
    batch,
    answer,
    sources: withChecksum(encodeNumbers(events.sources), headSeed({ batch, answer, times, plans }, seed)),
    times,
    plans,
    keys: withChecksum(bytesOf(events.keys), seed),
    users: withBodySum(bytesOf(events.users), body, seed),
    body,
  };
}

function headSeed(
  { batch, answer, times, plans }: Pick<HeadRow, 'batch' | 'answer' | 'times' | 'plans'>,
  seed: number,
): number {
  let sum = seed;
  if (batch !== null) sum = crc32(batch, sum);
  if (answer !== null) sum = crc32(answer, sum);
  if (times !== null) sum = crc32(times, sum);
  if (plans !== null) sum = crc32(plans, sum);
  return sum;
}

function withBodySum(users: Uint8Array, body: Uint8Array, seed: number): Uint8Array {
  const bytes = new Uint8Array(users.byteLength + 4);
  bytes.set(users);
  writeChecksum(bytes, users.byteLength, crc32(body, seed));
  return withChecksum(bytes, seed);
}

/** The codec of the body and what seeds the other checksums, or undefined where the numbers are damaged. */
export function checkNumbers(row: NumbersRow, sumsFrom: Position): ChecksumSeed | undefined {
  const { first, n, at, until, json, stage } = row;
  const codec = row.codec % CODECS;
  if (row.codec < CODECS) return first < sumsFrom ? { codec, sum: undefined } : undefined;
  const sum = Math.floor(row.codec / CODECS);
  return sum === checksumOf(first, n, at, until, codec, json, stage) ? { codec, sum } : undefined;
}

export interface ChecksumSeed {
  readonly codec: number;
  /** Undefined in a row of format 1: nothing of it can be checked. */
  readonly sum: number | undefined;
}

/** What the head of a row says of each event; undefined where it is damaged. */
export function decodeHead(
  row: HeadRow,
  { sum }: ChecksumSeed,
): Pick<Chunk, 'sources' | 'times' | 'plans'> | undefined {
  const sources = sum === undefined ? row.sources : withoutChecksum(row.sources, headSeed(row, sum));
  if (sources === undefined) return undefined;
  const { n, at, times, plans } = row;
  return {
    sources: decodeNumbers(sources, n),
    times: decodeTimes(times, n, at),
    plans: plans === null ? new Uint32Array(n).fill(NO_PLAN) : decodeNumbers(plans, n),
  };
}

/** Two words for each event; undefined where they are damaged. */
export function decodeKeys(keys: unknown, { sum }: ChecksumSeed): Uint32Array | undefined {
  const bytes = sum === undefined ? (keys as Uint8Array) : withoutChecksum(keys, sum);
  return bytes && wordsOf(bytes);
}

/** Two words for each event; undefined where they are damaged. */
export function decodeUsers(users: unknown, { sum }: ChecksumSeed): Uint32Array | undefined {
  if (sum === undefined) return wordsOf(users as Uint8Array);
  const bytes = withoutChecksum(users, sum);
  return bytes && wordsOf(bytes.subarray(0, -4));
}

/** The events of a row; undefined where they are damaged. */
export function decodeLines(
  { body, users, json, n }: ChunkRow,
  { codec, sum }: ChecksumSeed,
): Pick<Chunk, 'body' | 'starts'> | undefined {
  if (sum !== undefined && !isBodyWhole(body, users, sum)) return undefined;
  try {
    const lines = decodeBody(codec, body, json + n);
    return { body: lines, starts: findLineOffsets(lines, n) };
  } catch {
    // Only of format 1, without a checksum: zstd itself finds much of what goes wrong.
    return undefined;
  }
}

/** Whether a body is what was written. Its checksum stands before the last one of `users`, which may itself be damaged. */
export function isBodyWhole(body: unknown, users: unknown, sum: number): boolean {
  if (!(body instanceof Uint8Array && users instanceof Uint8Array) || users.byteLength < 8) return false;
  return readChecksum(users, users.byteLength - 8) === crc32(body, sum);
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

/** A copy, because the bytes of a row may begin anywhere and words may not. */
function wordsOf(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(bytes.slice().buffer);
}

/**
 * How the body of a chunk is written: its events as compact JSON, one a line (compact JSON holds no raw line feed).
 * An erased event is an empty line, so that the others keep their places.
 */
export const RAW = 0;
export const ZSTD = 1;

/**
 * Below this many events compressing costs more than it saves: to begin takes 20 µs, as long as writing 32 events as they
 * are. Sealing makes large chunks of such small ones, and those are compressed.
 */
const COMPRESS_FROM = 32;

/** The library refuses less. */
const MIN_ROOM = 64;

const ZSTD_LEVEL_1 = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

export function encodeBody(body: Uint8Array, events: number): { codec: number; bytes: Uint8Array } {
  if (events < COMPRESS_FROM) return { codec: RAW, bytes: body };
  return { codec: ZSTD, bytes: zstdCompressSync(body, ZSTD_LEVEL_1) };
}

/** `size`: how long the body is, or about that; room for it is then made at once, and not piece by piece. */
export function decodeBody(codec: number, bytes: Uint8Array, size: number): Buffer {
  if (codec === RAW) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (codec === ZSTD) return zstdDecompressSync(bytes, { chunkSize: Math.max(MIN_ROOM, size + 1) });
  throw new Error(`chunk codec ${codec} is unknown`);
}

/** Times of consecutive events, as pairs of (how many, when): four bytes and eight. */
function encodeTimes(times: Float64Array): Uint8Array {
  const pairs: { n: number; at: number }[] = [];
  for (const at of times) {
    const last = pairs.at(-1);
    if (last?.at === at) last.n++;
    else pairs.push({ n: 1, at });
  }
  const bytes = Buffer.alloc(pairs.length * 12);
  pairs.forEach(({ n, at }, index) => {
    bytes.writeUInt32LE(n, index * 12);
    bytes.writeDoubleLE(at, index * 12 + 4);
  });
  return bytes;
}

/** `null` stands for events that all arrived at `at`. */
function decodeTimes(bytes: Uint8Array | null, events: number, at: number): Float64Array {
  const times = new Float64Array(events);
  if (bytes === null) return times.fill(at);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let index = 0;
  for (let pair = 0; pair < bytes.byteLength; pair += 12) {
    const n = view.getUint32(pair, true);
    times.fill(view.getFloat64(pair + 4, true), index, index + n);
    index += n;
  }
  return times;
}

/** Numbers of consecutive events (sources, plans), as pairs of (how many, which), four bytes each. */
export function encodeNumbers(numbers: Uint32Array): Uint8Array {
  const pairs: number[] = [];
  for (const number of numbers) {
    if (pairs.length > 0 && pairs[pairs.length - 1] === number) pairs[pairs.length - 2]!++;
    else pairs.push(1, number);
  }
  return new Uint8Array(Uint32Array.from(pairs).buffer);
}

export function decodeNumbers(bytes: Uint8Array, events: number): Uint32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const numbers = new Uint32Array(events);
  let index = 0;
  for (let at = 0; at < bytes.byteLength; at += 8) {
    const count = view.getUint32(at, true);
    numbers.fill(view.getUint32(at + 4, true), index, index + count);
    index += count;
  }
  return numbers;
}
