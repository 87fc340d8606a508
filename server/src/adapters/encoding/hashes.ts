import { crc32 } from 'node:zlib';
import { idText, LineIds, type Utf8Slice } from '../../model/line-ids.ts';
import type { JsonLine } from '../../model/serialized-event.ts';
import type { NewEvent } from '../../ports/event-log.ts';
import type { IdHash } from '../../ports/regulations.ts';

/**
 * HalfSipHash-2-4 with a 64-bit result (Aumasson and Bernstein, https://github.com/veorq/SipHash): a keyed
 * hash of 32-bit operations, which JavaScript runs at full speed. Its key is a secret per installation, so
 * that no client can choose messageIds with equal hashes. The message is the source id in four bytes, little
 * endian, and the messageId in UTF-8. The hash only narrows a search: every match is compared with the stored
 * event.
 */
export type KeyHash = (source: number, messageId: string | Utf8Slice, out: Uint32Array, at: number) => void;

/** `secret` is 8 bytes. The hash is written as two 32-bit words to `out[at]` and `out[at + 1]`. */
export function keyHash(secret: Uint8Array): KeyHash {
  const view = new DataView(secret.buffer, secret.byteOffset, 8);
  const k0 = view.getUint32(0, true);
  const k1 = view.getUint32(4, true);

  return (source, messageId, out, at) => {
    const { bytes, from, to } = typeof messageId === 'string' ? toUtf8(messageId) : messageId;
    let v0 = k0;
    let v1 = k1 ^ 0xee;
    let v2 = k0 ^ 0x6c796765;
    let v3 = k1 ^ 0x74656462;
    let m = source;
    // `next` is where the next word begins. The last word holds the remaining bytes and the length.
    for (let next = from; ; next += 4) {
      v3 ^= m;
      for (let round = 0; round < 2; round++) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
      v0 ^= m;
      if (next > to) break;
      m =
        next + 4 <= to
          ? bytes[next]! | (bytes[next + 1]! << 8) | (bytes[next + 2]! << 16) | (bytes[next + 3]! << 24)
          : lastWord(bytes, next, to) | ((4 + to - from) << 24);
    }
    v2 ^= 0xee;
    for (let half = 0; half < 2; half++) {
      for (let round = 0; round < 4; round++) {
        v0 = (v0 + v1) | 0;
        v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
        v0 = (v0 << 16) | (v0 >>> 16);
        v2 = (v2 + v3) | 0;
        v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
        v0 = (v0 + v3) | 0;
        v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
        v2 = (v2 + v1) | 0;
        v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
        v2 = (v2 << 16) | (v2 >>> 16);
      }
      out[at + half] = v1 ^ v3;
      v1 ^= 0xdd;
    }
  };
}

/** The last bytes of a message, at most three, as a word. */
function lastWord(bytes: Uint8Array, from: number, to: number): number {
  let word = 0;
  for (let at = from; at < to; at++) word |= bytes[at]! << ((at - from) * 8);
  return word;
}

function toUtf8(text: string): Utf8Slice {
  const bytes = Buffer.from(text);
  return { bytes, from: 0, to: bytes.length };
}

/**
 * Stand for the source when a userId or an anonymousId is hashed, because these are the same in all sources.
 */
export const USER_NAMESPACE = 0;
export const ANONYMOUS_NAMESPACE = 0xffff_ffff;

/** The hash of an id of a user, the same as in the column of users. */
export function idHash(hash: KeyHash): IdHash {
  return (kind, id, out, at) => hash(kind === 'user' ? USER_NAMESPACE : ANONYMOUS_NAMESPACE, id, out, at);
}

/**
 * Hashes identities of users to integers of 53 bits. The upper bits of the hash of a userId in the log are
 * its identity, so that the two can be compared; any other identity is hashed with its kind before it.
 */
export function identityHash(hash: KeyHash): (kind: string, value: string) => number {
  const words = new Uint32Array(2);
  return (kind, value) => {
    hash(USER_NAMESPACE, kind === 'user' ? value : `${kind}\n${value}`, words, 0);
    return words[0]! * 2 ** 21 + (words[1]! >>> 11);
  };
}

/** Two words for each event. */
export interface IdHashes {
  /** The hash of source and messageId. */
  readonly keys: Uint32Array;
  /** The hash of the userId, or without one of the anonymousId; two zeros when the event has neither. */
  readonly users: Uint32Array;
}

type HasIds = Pick<NewEvent, 'source' | 'messageId' | 'userId' | 'idRanges'>;

/**
 * Hashes the bytes of the ids where they are known: making strings of them costs as much as hashing them.
 * `lines` are those of the events. The hashes stand in new arrays, or in given ones of zeros.
 */
export function hashIds(
  hash: KeyHash,
  events: readonly HasIds[],
  lines: readonly JsonLine[],
  { keys, users }: IdHashes = {
    keys: new Uint32Array(events.length * 2),
    users: new Uint32Array(events.length * 2),
  },
): IdHashes {
  for (let index = 0; index < events.length; index++) {
    const event = events[index]!;
    const { source, idRanges } = event;
    if (idRanges === undefined) {
      const { messageId, userId } = event;
      hash(source, messageId, keys, index * 2);
      if (userId !== undefined) hash(USER_NAMESPACE, userId, users, index * 2);
      else hashAnonymousId(hash, lines[index]!, users, index * 2);
      continue;
    }
    const { bytes, idFrom, idTo, userFrom, userTo } = idRanges;
    hash(source, { bytes, from: idFrom, to: idTo }, keys, index * 2);
    if (userTo > 0) hash(USER_NAMESPACE, { bytes, from: userFrom, to: userTo }, users, index * 2);
    else hashAnonymousId(hash, lines[index]!, users, index * 2);
  }
  return { keys, users };
}

const lineIds = new LineIds();

/** Writes the hash of the anonymousId of a line, if it has one. */
function hashAnonymousId(hash: KeyHash, { bytes, from, to }: JsonLine, out: Uint32Array, at: number): void {
  if (lineIds.scan(bytes, from, to)) {
    const { anonymousFrom, anonymousTo, isEscaped } = lineIds;
    if (anonymousTo === 0) return;
    const id = isEscaped
      ? idText(bytes, anonymousFrom, anonymousTo)
      : { bytes, from: anonymousFrom, to: anonymousTo };
    hash(ANONYMOUS_NAMESPACE, id, out, at);
    return;
  }
  const { anonymousId } = JSON.parse(bytes.toString('utf8', from, to)) as { anonymousId?: string };
  if (anonymousId !== undefined) hash(ANONYMOUS_NAMESPACE, anonymousId, out, at);
}

/** The part of a chunk that the ids are read from. */
interface HasLines {
  readonly n: number;
  readonly body: Buffer;
  readonly starts: Uint32Array;
  readonly sources: Uint32Array;
}

/** The hashes of the events of a chunk; two zeros for an erased event. */
export function hashLines(hash: KeyHash, { n, body, starts, sources }: HasLines): IdHashes {
  const keys = new Uint32Array(n * 2);
  const users = new Uint32Array(n * 2);
  for (let index = 0; index < n; index++) {
    const line = body.subarray(starts[index]!, starts[index + 1]! - 1);
    if (line.length === 0) continue;
    const { messageId, userId, anonymousId } = idsOf(line);
    hash(sources[index]!, messageId, keys, index * 2);
    if (userId !== undefined) hash(USER_NAMESPACE, userId, users, index * 2);
    else if (anonymousId !== undefined) hash(ANONYMOUS_NAMESPACE, anonymousId, users, index * 2);
  }
  return { keys, users };
}

/** The ids of a stored line: an event, or only a messageId. */
export function idsOf(line: Buffer): { messageId: string; userId?: string; anonymousId?: string } {
  const parsed = JSON.parse(line.toString()) as string | ReturnType<typeof idsOf>;
  return typeof parsed === 'string' ? { messageId: parsed } : parsed;
}

/**
 * Bytes of a checksum: CRC-32, little endian, after the bytes it covers. It is computed over numbers that
 * name the row and then over the bytes, so that the right bytes in the wrong row fail too.
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
