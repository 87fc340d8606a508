import { crc32 } from 'node:zlib';

/**
 * Bytes of a checksum: CRC-32, little endian, after the bytes it covers. It is computed over numbers that name the row and then
 * over the bytes, so that the right bytes in the wrong row fail too.
 */
const CHECKSUM_BYTES = 4;

const numberBuffer = new Float64Array(8);

/** The first bytes of the buffer, by how many numbers they hold. */
const numberBytes = Array.from(
  { length: numberBuffer.length + 1 },
  (_, n) => new Uint8Array(numberBuffer.buffer, 0, n * 8),
);

/** CRC-32 of at most eight numbers, as 64-bit floats. */
export function checksumOf(...values: readonly number[]): number {
  for (let nth = 0; nth < values.length; nth++) numberBuffer[nth] = values[nth]!;
  return crc32(numberBytes[values.length]!);
}

/** The bytes with their checksum after them. `seed`: `checksumOf` the numbers that name the row. */
export function withChecksum(bytes: Uint8Array, seed: number): Uint8Array {
  // From the pool: most are short, and a buffer of its own costs more than its bytes.
  const whole = Buffer.allocUnsafe(bytes.byteLength + CHECKSUM_BYTES);
  whole.set(bytes);
  writeChecksum(whole, bytes.byteLength, crc32(bytes, seed));
  return whole;
}

/** The bytes without their checksum, not copied; undefined when it does not hold or `stored` is no blob. */
export function withoutChecksum(stored: unknown, seed: number): Uint8Array | undefined {
  if (!(stored instanceof Uint8Array)) return undefined;
  const end = stored.byteLength - CHECKSUM_BYTES;
  if (end < 0) return undefined;
  const bytes = stored.subarray(0, end);
  return readChecksum(stored, end) === crc32(bytes, seed) ? bytes : undefined;
}

/** Writes a checksum of 32 bits. */
export function writeChecksum(bytes: Uint8Array, at: number, sum: number): void {
  bytes[at] = sum;
  bytes[at + 1] = sum >>> 8;
  bytes[at + 2] = sum >>> 16;
  bytes[at + 3] = sum >>> 24;
}

export function readChecksum(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
}
