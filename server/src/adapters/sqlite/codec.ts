import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

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
export function encodeTimes(times: Float64Array): Uint8Array {
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
export function decodeTimes(bytes: Uint8Array | null, events: number, at: number): Float64Array {
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
