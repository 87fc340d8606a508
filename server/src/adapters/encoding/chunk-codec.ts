import { constants, crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Position } from '../../model/event.ts';
import { LINE_FEED } from '../../model/json.ts';
import { findLineOffsets, type JsonLine } from '../../model/serialized-event.ts';
import type { AppendResult, LogPage } from '../../ports/event-log.ts';
import { checksumOf, readChecksum, withChecksum, withoutChecksum, writeChecksum } from './hashes.ts';

/**
 * Encodes a chunk as a row of the table `chunk` and decodes it. A row has four checksums, so that a reader of
 * one part need not read the others:
 *
 * - of the numbers (first … stage), in column "codec" above the codec itself; it is the seed of the other
 *   three;
 * - of batch, answer, sources, times and plans, after the sources;
 * - of the keys, after them;
 * - of the body, after the users, and of the users with that checksum, after both. The body is stored without
 *   a checksum of its own: it is the only large part, and a checksum after it would cost a copy for each
 *   commit.
 *
 * Rows of formats 1 and 2 have no checksums. They are valid below the position at which format 3 began.
 */
const CODECS = 16;

/** The plan number of an event that no destination receives and none skips (plans.ts). */
export const NO_PLAN = 0;

/** A decoded chunk. */
export interface Chunk {
  readonly first: Position;
  readonly n: number;
  readonly stage: number;
  /** Undefined after compaction. */
  readonly batchAnswer: BatchAnswer | undefined;
  /** The lines of its events, with line feeds between them. */
  readonly body: Buffer;
  /** See `findLineOffsets`. */
  readonly starts: Uint32Array;
  readonly sources: Uint32Array;
  readonly times: Float64Array;
  /** Plan numbers (plans.ts). */
  readonly plans: Uint32Array;
  /** The hash of each event's source and messageId: two words, high before low. */
  readonly keys: Uint32Array;
  /** The hash of each event's userId, or without one of its anonymousId; two zeros where it has neither. */
  readonly users: Uint32Array;
}

/** Events to be written as a chunk. */
export interface ChunkEvents {
  readonly n: number;
  readonly lines: Uint8Array;
  /** See `findLineOffsets`. Absent when they are not known yet. */
  readonly starts?: Uint32Array;
  readonly sources: Uint32Array;
  readonly times: Float64Array;
  readonly plans: Uint32Array;
  readonly keys: Uint32Array;
  readonly users: Uint32Array;
}

/** The id of a batch and the answer to it, as `encodeAppended` writes it. */
export interface BatchAnswer {
  readonly batch: string;
  readonly answer: string;
}

/** The first columns of a row. They cost no more than the row's first page. */
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

/** The row of a chunk that begins at `first`. `remembered`: the batch whose answer is kept with it. */
export function encodeChunk(
  first: Position,
  events: ChunkEvents,
  stage: number,
  remembered?: BatchAnswer,
): ChunkRow {
  const { n, lines } = events;
  const { codec, bytes: body } = encodeBody(lines, n);
  const [at, until] = rangeOf(events.times);
  const json = lines.byteLength - (n - 1);
  const seed = checksumOf(first, n, at, until, codec, json, stage);
  const times = at === until ? null : encodeTimes(events.times);
  const plans = hasPlans(events.plans) ? encodeNumbers(events.plans) : null;
  const [batch, answer] = [remembered?.batch ?? null, remembered?.answer ?? null];
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
    users: encodeUsers(events.users, body, seed),
    body,
  };
}

/**
 * The earliest and the latest time. They need not be the first and the last: the clock may have been set
 * back.
 */
function rangeOf(times: Float64Array): [at: number, until: number] {
  let [at, until] = [times[0]!, times[0]!];
  for (const time of times) {
    if (time < at) at = time;
    if (time > until) until = time;
  }
  return [at, until];
}

function hasPlans(plans: Uint32Array): boolean {
  for (const plan of plans) if (plan !== NO_PLAN) return true;
  return false;
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

/** The users, the checksum of the body, and the checksum of both. */
function encodeUsers(users: Uint32Array, body: Uint8Array, seed: number): Uint8Array {
  const end = users.byteLength;
  const bytes = Buffer.allocUnsafe(end + 8);
  bytes.set(bytesOf(users));
  writeChecksum(bytes, end, crc32(body, seed));
  writeChecksum(bytes, end + 4, crc32(bytes.subarray(0, end + 4), seed));
  return bytes;
}

/** The codec of the body and the seed of the other checksums; undefined when the numbers are damaged. */
export function checkNumbers(row: NumbersRow, sumsFrom: Position): ChecksumSeed | undefined {
  const { first, n, at, until, json, stage } = row;
  const codec = row.codec % CODECS;
  if (row.codec < CODECS) return first < sumsFrom ? { codec, sum: undefined } : undefined;
  const sum = Math.floor(row.codec / CODECS);
  return sum === checksumOf(first, n, at, until, codec, json, stage) ? { codec, sum } : undefined;
}

export interface ChecksumSeed {
  readonly codec: number;
  /** Undefined in a row of format 1 or 2, which cannot be checked. */
  readonly sum: number | undefined;
}

/** Source, time and plan of each event; undefined when they are damaged. */
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

/** Two words for each event; undefined when they are damaged. */
export function decodeKeys(keys: unknown, { sum }: ChecksumSeed): Uint32Array | undefined {
  const bytes = sum === undefined ? (keys as Uint8Array) : withoutChecksum(keys, sum);
  return bytes && wordsOf(bytes);
}

/** Two words for each event; undefined when they are damaged. */
export function decodeUsers(users: unknown, { sum }: ChecksumSeed): Uint32Array | undefined {
  if (sum === undefined) return wordsOf(users as Uint8Array);
  const bytes = withoutChecksum(users, sum);
  return bytes && wordsOf(bytes.subarray(0, -4));
}

/** The events of a row; undefined when they are damaged. */
export function decodeLines(
  { body, users, json, n }: Pick<ChunkRow, 'body' | 'users' | 'json' | 'n'>,
  { codec, sum }: ChecksumSeed,
): Pick<Chunk, 'body' | 'starts'> | undefined {
  if (sum !== undefined && !isBodyWhole(body, users, sum)) return undefined;
  try {
    const lines = decodeBody(codec, body, json + n);
    return { body: lines, starts: findLineOffsets(lines, n) };
  } catch {
    // A row without a checksum. zstd itself notices most damage.
    return undefined;
  }
}

/**
 * Whether the checksum of a body holds. It stands before the last checksum of `users`. The users may be
 * damaged.
 */
export function isBodyWhole(body: unknown, users: unknown, sum: number): boolean {
  if (!(body instanceof Uint8Array && users instanceof Uint8Array) || users.byteLength < 8) return false;
  return readChecksum(users, users.byteLength - 8) === crc32(body, sum);
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

/** The words in a row's bytes. Words must be aligned, so bytes that are not are copied. */
function wordsOf(bytes: Uint8Array): Uint32Array {
  const { buffer, byteOffset, byteLength } = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

/**
 * Codecs of a body. The body is compact JSON, one event a line (compact JSON holds no raw line feed). An
 * erased event is an empty line, so that the others keep their places.
 */
export const RAW = 0;
export const ZSTD = 1;

/**
 * The fewest events that are compressed. Starting the compressor takes 20 µs, as long as writing 32 events
 * uncompressed. Compaction merges small chunks into large ones, which are compressed.
 */
const COMPRESS_FROM = 32;

/** The smallest `chunkSize` that zlib accepts. */
const MIN_CHUNK_SIZE = 64;

const ZSTD_LEVEL_1 = { params: { [constants.ZSTD_c_compressionLevel]: 1 } };

export function encodeBody(body: Uint8Array, events: number): { codec: number; bytes: Uint8Array } {
  if (events < COMPRESS_FROM) return { codec: RAW, bytes: body };
  return { codec: ZSTD, bytes: zstdCompressSync(body, ZSTD_LEVEL_1) };
}

/** `size`: about the length of the body, so that memory for it is allocated once. */
export function decodeBody(codec: number, bytes: Uint8Array, size: number): Buffer {
  if (codec === RAW) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (codec === ZSTD) return zstdDecompressSync(bytes, { chunkSize: Math.max(MIN_CHUNK_SIZE, size + 1) });
  throw new Error(`chunk codec ${codec} is unknown`);
}

/** Lines in a buffer of its own, which can move to another thread, with a line feed between them. */
export function concatLines(lines: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let size = Math.max(0, lines.length - 1);
  for (const line of lines) size += line.byteLength;
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const [nth, line] of lines.entries()) {
    if (nth > 0) bytes[at++] = LINE_FEED;
    bytes.set(line, at);
    at += line.byteLength;
  }
  return bytes;
}

/**
 * Gives the memory of bytes back that nobody reads any more. Otherwise it waits for a garbage collection, and
 * because V8 counts it as the heap's, a thread with a small heap collects all of it for a few large buffers.
 * Small bytes share their buffer with others, of which each has less than half, and are left alone.
 */
export function freeBuffer({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength > buffer.byteLength / 2) buffer.transfer(0);
}

/** Consecutive events of one chunk, without its first `skip` ones. */
export interface ChunkSpan extends Pick<Chunk, 'n' | 'body' | 'starts' | 'sources' | 'times'> {
  readonly skip: number;
}

/** The columns of all spans, one behind the other, with a line feed between the lines. */
export function joinSpans(
  spans: readonly ChunkSpan[],
): Pick<LogPage, 'lines' | 'starts' | 'sources' | 'times'> {
  const n = spans.reduce((sum, span) => sum + span.n, 0);
  const [starts, sources, times] = [new Uint32Array(n + 1), new Uint32Array(n), new Float64Array(n)];
  const bodies: Uint8Array[] = [];
  let [index, end] = [0, 0];
  for (const span of spans) {
    const from = span.starts[span.skip]!;
    bodies.push(span.body.subarray(from));
    for (let line = 0; line < span.n; line++)
      starts[index + line] = end + span.starts[span.skip + line]! - from;
    sources.set(span.sources.subarray(span.skip), index);
    times.set(span.times.subarray(span.skip), index);
    index += span.n;
    end += span.body.byteLength - from + 1;
  }
  starts[n] = end;
  const [only] = bodies;
  return {
    lines: only !== undefined && bodies.length === 1 ? only : concatLines(bodies),
    starts,
    sources,
    times,
  };
}

/** Times of consecutive events, as pairs of count (four bytes) and time (eight bytes). */
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

/** `bytes`: null when all events arrived at `at`. */
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

/** Numbers of consecutive events (sources, plans), as pairs of count and number, four bytes each. */
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

/** Lines that stand one behind the other in one buffer, with a line feed between them. */
interface LineSpan extends JsonLine {
  readonly lines: number;
}

/**
 * The lines in their order, in as few spans as possible without copying. The lines of one request are mostly
 * one span.
 */
export function spansOf(lines: readonly JsonLine[]): LineSpan[] {
  const spans: LineSpan[] = [];
  for (let first = 0; first < lines.length; ) {
    const { bytes, from } = lines[first]!;
    let { to } = lines[first]!;
    let next = first + 1;
    for (; next < lines.length; next++) {
      const line = lines[next]!;
      if (line.bytes !== bytes || line.from !== to + 1 || bytes[to] !== LINE_FEED) break;
      to = line.to;
    }
    spans.push({ bytes, from, to, lines: next - first });
    first = next;
  }
  return spans;
}

/** The number of bytes of all lines when joined. */
export function joinedLength(lines: readonly JsonLine[]): number {
  let length = lines.length - 1;
  for (const { from, to } of lines) length += to - from;
  return Math.max(length, 0);
}

/** All lines with a line feed between them, in a new buffer or in one that has just room for them. */
export function joinLines(
  lines: readonly JsonLine[],
  joined: Uint8Array<ArrayBuffer> = Buffer.allocUnsafeSlow(joinedLength(lines)),
): Uint8Array<ArrayBuffer> {
  let end = 0;
  for (const { bytes, from, to } of spansOf(lines)) {
    end += bytes.copy(joined, end, from, to);
    if (end < joined.length) joined[end++] = LINE_FEED;
  }
  return joined;
}

/**
 * The offsets that the lines will have when joined, as `findLineOffsets` would find them, in a new array or
 * in one of zeros.
 */
export function offsetsOf(
  lines: readonly JsonLine[],
  starts: Uint32Array = new Uint32Array(lines.length + 1),
): Uint32Array {
  for (let line = 0; line < lines.length; line++) {
    const { from, to } = lines[line]!;
    starts[line + 1] = starts[line]! + to - from + 1;
  }
  return starts;
}

/**
 * Encodes the answer to a batch, for its chunk and for the main thread. Positions are mostly consecutive and
 * then take two numbers: as an array, a hundred positions cost as much as reading them. JSON has no
 * `undefined`, so null stands for it. `positions`: −1 for a duplicate.
 */
export function encodeAppended(positions: Float64Array, held: AppendResult['held']): string {
  const n = positions.length;
  const first = positions[0];
  if (first !== undefined && areConsecutive(positions))
    return JSON.stringify({ positions: { first, n }, held });
  return JSON.stringify({
    positions: Array.from(positions, (position) => (position < 0 ? null : position)),
    held,
  });
}

function areConsecutive(positions: Float64Array): boolean {
  const first = positions[0]!;
  if (first < 0) return false;
  for (let index = 1; index < positions.length; index++) if (positions[index] !== first + index) return false;
  return true;
}

export function decodeAppended(text: string): AppendResult {
  const { positions, held } = JSON.parse(text) as {
    positions: { first: number; n: number } | (number | null)[];
    held: (number | null)[];
  };
  return {
    positions: Array.isArray(positions)
      ? positions.map((position) => position ?? undefined)
      : Array.from({ length: positions.n }, (_, index) => positions.first + index),
    held: held.map((set) => set ?? undefined),
  };
}
