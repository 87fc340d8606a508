import { crc32 } from 'node:zlib';
import type { Position } from '../../model/event.ts';
import { lineStarts } from '../../model/lines.ts';
import { readSum, sumOf, withoutSum, withSum, writeSum } from './checksum.ts';
import { decodeBody, decodeNumbers, decodeTimes, encodeBody, encodeNumbers, encodeTimes } from './codec.ts';
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
  readonly origin: Origin | undefined;
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
  /** See `lineStarts`; where they are known without a look at the lines. */
  readonly starts?: Uint32Array;
  readonly sources: Uint32Array;
  readonly times: Float64Array;
  readonly plans: Uint32Array;
  readonly keys: Uint32Array;
  readonly users: Uint32Array;
}

/** The batch that events came with, and the answer it got, as `batches.ts` writes it. */
export interface Origin {
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

export function encodeChunk(first: Position, events: ChunkEvents, stage: number, origin?: Origin): ChunkRow {
  const { n, lines } = events;
  const { codec, bytes: body } = encodeBody(lines, n);
  // The clock may have been set back between two of them.
  const [at, until] = [Math.min(...events.times), Math.max(...events.times)];
  const json = lines.byteLength - (n - 1);
  const seed = sumOf(first, n, at, until, codec, json, stage);
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
    sources: withSum(encodeNumbers(events.sources), headSeed({ batch, answer, times, plans }, seed)),
    times,
    plans,
    keys: withSum(bytesOf(events.keys), seed),
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
  writeSum(bytes, users.byteLength, crc32(body, seed));
  return withSum(bytes, seed);
}

/** The codec of the body and what seeds the other checksums, or undefined where the numbers are damaged. */
export function checkNumbers(row: NumbersRow, sumsFrom: Position): Seed | undefined {
  const { first, n, at, until, json, stage } = row;
  const codec = row.codec % CODECS;
  if (row.codec < CODECS) return first < sumsFrom ? { codec, sum: undefined } : undefined;
  const sum = Math.floor(row.codec / CODECS);
  return sum === sumOf(first, n, at, until, codec, json, stage) ? { codec, sum } : undefined;
}

export interface Seed {
  readonly codec: number;
  /** Undefined in a row of format 1: nothing of it can be checked. */
  readonly sum: number | undefined;
}

/** What the head of a row says of each event; undefined where it is damaged. */
export function decodeHead(
  row: HeadRow,
  { sum }: Seed,
): Pick<Chunk, 'sources' | 'times' | 'plans'> | undefined {
  const sources = sum === undefined ? row.sources : withoutSum(row.sources, headSeed(row, sum));
  if (sources === undefined) return undefined;
  const { n, at, times, plans } = row;
  return {
    sources: decodeNumbers(sources, n),
    times: decodeTimes(times, n, at),
    plans: plans === null ? new Uint32Array(n).fill(NO_PLAN) : decodeNumbers(plans, n),
  };
}

/** Two words for each event; undefined where they are damaged. */
export function decodeKeys(keys: unknown, { sum }: Seed): Uint32Array | undefined {
  const bytes = sum === undefined ? (keys as Uint8Array) : withoutSum(keys, sum);
  return bytes && wordsOf(bytes);
}

/** Two words for each event; undefined where they are damaged. */
export function decodeUsers(users: unknown, { sum }: Seed): Uint32Array | undefined {
  if (sum === undefined) return wordsOf(users as Uint8Array);
  const bytes = withoutSum(users, sum);
  return bytes && wordsOf(bytes.subarray(0, -4));
}

/** The events of a row; undefined where they are damaged. */
export function decodeLines(
  { body, users, json, n }: ChunkRow,
  { codec, sum }: Seed,
): Pick<Chunk, 'body' | 'starts'> | undefined {
  if (sum !== undefined && !isBodyWhole(body, users, sum)) return undefined;
  try {
    const lines = decodeBody(codec, body, json + n);
    return { body: lines, starts: lineStarts(lines, n) };
  } catch {
    // Only of format 1, without a checksum: zstd itself finds much of what goes wrong.
    return undefined;
  }
}

/** Whether a body is what was written. Its checksum stands before the last one of `users`, which may itself be damaged. */
export function isBodyWhole(body: unknown, users: unknown, sum: number): boolean {
  if (!(body instanceof Uint8Array && users instanceof Uint8Array) || users.byteLength < 8) return false;
  return readSum(users, users.byteLength - 8) === crc32(body, sum);
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

/** A copy, because the bytes of a row may begin anywhere and words may not. */
function wordsOf(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(bytes.slice().buffer);
}
