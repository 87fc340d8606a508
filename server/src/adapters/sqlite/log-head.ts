import { closeSync, openSync, readSync } from 'node:fs';

/** Sizes of the format: sqlite.org/fileformat2.html#walformat. */
const HEADER = 32;
const FRAME_HEADER = 24;
const SMALLEST_PAGE = 512;
const LARGEST_PAGE = 65536;
/** How it begins; the last bit says in which order of bytes the sums were made. */
export const LOG_MAGIC = Buffer.from('377f0682', 'hex');
const MAGIC = LOG_MAGIC.readUInt32BE(0);

/**
 * Whether a write-ahead log begins with a transaction that is whole, its header included. SQLite takes one that does not
 * for empty, and deletes it when it is closed.
 */
export function beginsWhole(path: string): boolean {
  let handle: number;
  try {
    handle = openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  try {
    return hasTransaction(handle);
  } finally {
    closeSync(handle);
  }
}

function hasTransaction(handle: number): boolean {
  const header = Buffer.alloc(HEADER);
  if (!fill(header, handle, 0)) return false;
  const magic = header.readUInt32BE(0);
  const page = header.readUInt32BE(8);
  if ((magic & ~1) >>> 0 !== MAGIC || page < SMALLEST_PAGE || page > LARGEST_PAGE) return false;
  const isBigEndian = (magic & 1) === 1;
  let sum = sumOf(header.subarray(0, 24), [0, 0], isBigEndian);
  if (!stands(sum, header, 24)) return false;
  const frame = Buffer.alloc(FRAME_HEADER + page);
  for (let at = HEADER; fill(frame, handle, at); at += frame.length) {
    if (!frame.subarray(8, 16).equals(header.subarray(16, 24))) return false;
    sum = sumOf(frame.subarray(FRAME_HEADER), sumOf(frame.subarray(0, 8), sum, isBigEndian), isBigEndian);
    if (!stands(sum, frame, 16)) return false;
    // Only the last frame of a transaction says how large the file is after it.
    if (frame.readUInt32BE(4) !== 0) return true;
  }
  return false;
}

/** False when the file ends before. */
function fill(bytes: Buffer, handle: number, at: number): boolean {
  return readSync(handle, bytes, 0, bytes.length, at) === bytes.length;
}

type Sum = readonly [number, number];

/** The checksum of the format, continued from `before`; the bytes are a whole number of pairs of words. */
function sumOf(bytes: Buffer, before: Sum, isBigEndian: boolean): Sum {
  let [first, second] = before;
  const word = (at: number) => (isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at));
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    first = (first + word(at) + second) >>> 0;
    second = (second + word(at + 4) + first) >>> 0;
  }
  return [first, second];
}

function stands([first, second]: Sum, bytes: Buffer, at: number): boolean {
  return bytes.readUInt32BE(at) === first && bytes.readUInt32BE(at + 4) === second;
}
