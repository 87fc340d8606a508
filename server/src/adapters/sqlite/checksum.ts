import { crc32 } from 'node:zlib';

/**
 * Checksums of what the store keeps: CRC-32, four bytes, little endian, behind the bytes it covers. It is computed over
 * numbers that say which row the bytes belong to, and then over the bytes, so that the right bytes in the wrong row fail too.
 */
const SUM_BYTES = 4;

const numbers = new Float64Array(8);

/** CRC-32 of at most eight numbers, as 64-bit floats. */
export function sumOf(...values: readonly number[]): number {
  numbers.set(values);
  return crc32(new Uint8Array(numbers.buffer, 0, values.length * 8));
}

/** The bytes with their checksum behind them. `seed`: what they belong to, as `sumOf` has it. */
export function withSum(bytes: Uint8Array, seed: number): Uint8Array {
  const whole = new Uint8Array(bytes.byteLength + SUM_BYTES);
  whole.set(bytes);
  writeSum(whole, bytes.byteLength, crc32(bytes, seed));
  return whole;
}

/** The bytes without their checksum, in place; undefined where it does not hold, or where `stored` is no blob at all. */
export function withoutSum(stored: unknown, seed: number): Uint8Array | undefined {
  if (!(stored instanceof Uint8Array)) return undefined;
  const end = stored.byteLength - SUM_BYTES;
  if (end < 0) return undefined;
  const bytes = stored.subarray(0, end);
  return readSum(stored, end) === crc32(bytes, seed) ? bytes : undefined;
}

/** Takes 32 bits. */
export function writeSum(bytes: Uint8Array, at: number, sum: number): void {
  bytes[at] = sum;
  bytes[at + 1] = sum >>> 8;
  bytes[at + 2] = sum >>> 16;
  bytes[at + 3] = sum >>> 24;
}

export function readSum(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
}
