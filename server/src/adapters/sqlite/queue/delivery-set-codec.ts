import type { Delivery } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import { checksumOf, withChecksum, withoutChecksum } from '../damage.ts';

/**
 * How the deliveries of a pending set are written.
 *
 * *Runs*, for deliveries that were never tried: pairs of varints (gap since the end of the run before, length). An outage
 * in which a destination owes everything that arrives costs a few bytes a second, whatever the rate.
 *
 * *Records*, for deliveries that failed before, or that stand beside such: 16 bytes each, little endian: position (6), first failure (6),
 * rounds (1), endpoints (1), settings version modulo 65,536 (2).
 *
 * In a table either stands with a checksum behind it, which covers the destination too: a set must not go to another one.
 */
const RUNS = 1;
const RECORDS = 2;
const RECORD_BYTES = 16;

/** The set of a row for those who only look: empty where it is damaged. */
export function setOrEmpty(destination: number, stored: Uint8Array): Uint8Array {
  return withoutSetChecksum(destination, stored) ?? Uint8Array.of(RUNS);
}

/** A set as it stands in the row of a destination. */
export function withSetChecksum(destination: number, encoded: Uint8Array): Uint8Array {
  return withChecksum(encoded, checksumOf(destination));
}

/** The set of such a row; undefined where it is damaged. */
export function withoutSetChecksum(destination: number, stored: Uint8Array): Uint8Array | undefined {
  return withoutChecksum(stored, checksumOf(destination));
}

/** Runs that can grow: a row that takes in new deliveries a thousand times a second is not encoded anew each time. */
export class RunEncoder {
  readonly #closed: number[] = [RUNS];
  #closedEnd = 0;
  #start = -1;
  #end = -1;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Positions must come in ascending order, each once: anything else would be written as something unreadable. */
  add(position: Position): void {
    if (position < this.#end)
      throw new RangeError(`position ${position} does not come after ${this.#end - 1}`);
    this.#size++;
    if (position === this.#end) {
      this.#end++;
      return;
    }
    if (this.#start >= 0) {
      pushVarint(this.#closed, this.#start - this.#closedEnd);
      pushVarint(this.#closed, this.#end - this.#start);
      this.#closedEnd = this.#end;
    }
    this.#start = position;
    this.#end = position + 1;
  }

  bytes(): Uint8Array {
    const last: number[] = [];
    if (this.#start >= 0) {
      pushVarint(last, this.#start - this.#closedEnd);
      pushVarint(last, this.#end - this.#start);
    }
    const bytes = new Uint8Array(this.#closed.length + last.length);
    bytes.set(this.#closed);
    bytes.set(last, this.#closed.length);
    return bytes;
  }
}

/** `positions` ascending. */
export function encodePositions(positions: Iterable<Position>): Uint8Array {
  const runs = new RunEncoder();
  for (const position of positions) runs.add(position);
  return runs.bytes();
}

function encodeRecords(deliveries: readonly Delivery[]): Uint8Array {
  const bytes = Buffer.alloc(1 + deliveries.length * RECORD_BYTES);
  bytes[0] = RECORDS;
  let at = 1;
  for (const delivery of deliveries) {
    bytes.writeUIntLE(delivery.position, at, 6);
    bytes.writeUIntLE(delivery.firstFailedAt ?? 0, at + 6, 6);
    bytes[at + 12] = Math.min(delivery.rounds, 255);
    bytes[at + 13] = delivery.endpoints ?? 0;
    bytes.writeUInt16LE((delivery.settingsVersion ?? 0) & 0xffff, at + 14);
    at += RECORD_BYTES;
  }
  return bytes;
}

/** Never tried, and nothing is known of it but its position. */
export function isNew({ rounds, firstFailedAt }: Delivery): boolean {
  return rounds === 0 && firstFailedAt === undefined;
}

/**
 * Runs where the deliveries allow it. One that is not new makes records of all, and so do positions in another order:
 * deliveries that a lane hands back come as they stood in its queue, and an event owed twice has one position twice.
 */
export function encodeSet(deliveries: readonly Delivery[]): Uint8Array {
  let end = 0;
  for (const delivery of deliveries) {
    if (!isNew(delivery) || delivery.position < end) return encodeRecords(deliveries);
    end = delivery.position + 1;
  }
  return encodePositions(deliveries.map(({ position }) => position));
}

/** The first deliveries of a set, and the set that is left without them; absent when nothing is left. */
export interface SetSplit {
  readonly taken: Delivery[];
  readonly rest?: Uint8Array;
}

/** Costs what is taken, not what the set holds: a set may hold a hundred times what is claimed at once. */
export function splitSet(encoded: Uint8Array, max: number): SetSplit {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  if (bytes[0] === RUNS) return splitRuns(bytes, max);
  const cut = 1 + max * RECORD_BYTES;
  const taken = decodeSet(bytes.subarray(0, cut));
  return cut >= bytes.length
    ? { taken }
    : { taken, rest: Buffer.concat([bytes.subarray(0, 1), bytes.subarray(cut)]) };
}

function splitRuns(bytes: Buffer, max: number): SetSplit {
  const taken: Delivery[] = [];
  const cursor = { at: 1 };
  let position = 0;
  while (cursor.at < bytes.length) {
    position += readVarint(bytes, cursor);
    const end = position + readVarint(bytes, cursor);
    for (; position < end && taken.length < max; position++) taken.push({ position, rounds: 0 });
    if (position === end) continue;
    // The runs behind the cut are relative to each other; only the first one left must be written anew.
    const head: number[] = [RUNS];
    pushVarint(head, position);
    pushVarint(head, end - position);
    return { taken, rest: Buffer.concat([Uint8Array.from(head), bytes.subarray(cursor.at)]) };
  }
  return { taken };
}

/** What a row says of its set, so that it need not be read for it. */
export interface SetSummary {
  /** The lowest and the highest position. */
  readonly first: Position;
  readonly last: Position;
  /** How many of its deliveries were tried before. */
  readonly tried: number;
}

/** Of a set that is not empty. */
export function summaryOf(encoded: Uint8Array): SetSummary {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  if (bytes[0] === RUNS) return summaryOfRuns(bytes);
  let [first, last, tried] = [Number.POSITIVE_INFINITY, 0, 0];
  for (let at = 1; at < bytes.length; at += RECORD_BYTES) {
    const position = bytes.readUIntLE(at, 6);
    if (position < first) first = position;
    if (position > last) last = position;
    if (bytes[at + 12]! > 0) tried++;
  }
  return { first, last, tried };
}

function summaryOfRuns(bytes: Buffer): SetSummary {
  const cursor = { at: 1 };
  const first = readVarint(bytes, cursor);
  let end = first + readVarint(bytes, cursor);
  while (cursor.at < bytes.length) {
    end += readVarint(bytes, cursor);
    end += readVarint(bytes, cursor);
  }
  return { first, last: end - 1, tried: 0 };
}

/** Whether the set may hold deliveries that were tried before. */
export function hasRecords(encoded: Uint8Array): boolean {
  return encoded[0] === RECORDS;
}

/** The lowest and the highest position of a set that is not empty. */
export function rangeOf(encoded: Uint8Array): { first: Position; last: Position } {
  let last = 0;
  for (const { position } of decodeSet(encoded)) last = Math.max(last, position);
  return { first: lowestPosition(encoded), last };
}

/** The lowest position of a set that is not empty. */
export function lowestPosition(encoded: Uint8Array): Position {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  if (bytes[0] === RUNS) return readVarint(bytes, { at: 1 });
  let first = Number.POSITIVE_INFINITY;
  for (let at = 1; at < bytes.length; at += RECORD_BYTES) first = Math.min(first, bytes.readUIntLE(at, 6));
  return first;
}

/** Never tried deliveries come back with zero rounds and nothing else. */
export function decodeSet(encoded: Uint8Array): Delivery[] {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  if (bytes[0] === RUNS) return decodeRuns(bytes);
  if (bytes[0] === RECORDS) return decodeRecords(bytes);
  throw new Error(`pending set of unknown form ${bytes[0]}`);
}

function decodeRuns(bytes: Buffer): Delivery[] {
  const deliveries: Delivery[] = [];
  const cursor = { at: 1 };
  let position = 0;
  while (cursor.at < bytes.length) {
    position += readVarint(bytes, cursor);
    const end = position + readVarint(bytes, cursor);
    for (; position < end; position++) deliveries.push({ position, rounds: 0 });
  }
  return deliveries;
}

function decodeRecords(bytes: Buffer): Delivery[] {
  const deliveries: Delivery[] = [];
  for (let at = 1; at < bytes.length; at += RECORD_BYTES) {
    const endpoints = bytes[at + 13]!;
    const firstFailedAt = bytes.readUIntLE(at + 6, 6);
    deliveries.push({
      position: bytes.readUIntLE(at, 6),
      rounds: bytes[at + 12]!,
      ...(firstFailedAt === 0 ? {} : { firstFailedAt }),
      // No endpoint at all stands for "not said": then every one is tried, with whatever settings there are.
      ...(endpoints === 0 ? {} : { endpoints, settingsVersion: bytes.readUInt16LE(at + 14) }),
    });
  }
  return deliveries;
}

/** The highest `max` positions below another, descending: of all deliveries, or of those that were tried or not. */
export function positionsBelow(
  encoded: Uint8Array,
  below: Position,
  { max, tried }: { readonly max: number; readonly tried: boolean | undefined },
): Position[] {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  if (bytes[0] === RUNS) return tried === true ? [] : runsBelow(bytes, below, max);
  const positions = decodeSet(encoded)
    .filter((one) => one.position < below && (tried ?? one.rounds > 0) === one.rounds > 0)
    .map(({ position }) => position);
  return positions.sort((a, b) => b - a).slice(0, max);
}

function runsBelow(bytes: Buffer, below: Position, max: number): Position[] {
  const runs: [start: Position, end: Position][] = [];
  const cursor = { at: 1 };
  let start = 0;
  while (cursor.at < bytes.length) {
    start += readVarint(bytes, cursor);
    const end = start + readVarint(bytes, cursor);
    if (start >= below) break;
    runs.push([start, Math.min(end, below)]);
    start = end;
  }
  const positions: Position[] = [];
  for (const [from, to] of runs.reverse()) {
    for (let position = to - 1; position >= from && positions.length < max; position--)
      positions.push(position);
    if (positions.length === max) break;
  }
  return positions;
}

/** The positions of a set from one on and below another, in the order of the set. */
export function* positionsBetween(encoded: Uint8Array, from: Position, below: Position): Generator<Position> {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  if (bytes[0] !== RUNS) {
    for (const { position } of decodeSet(encoded)) if (position >= from && position < below) yield position;
    return;
  }
  const cursor = { at: 1 };
  let start = 0;
  while (cursor.at < bytes.length) {
    start += readVarint(bytes, cursor);
    const end = start + readVarint(bytes, cursor);
    if (start >= below) return;
    for (let position = Math.max(start, from); position < Math.min(end, below); position++) yield position;
    start = end;
  }
}

/** The delivery at a position, without looking further than that; nothing where the set does not hold it. */
export function deliveryIn(encoded: Uint8Array, wanted: Position): Delivery | undefined {
  const bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  if (bytes[0] !== RUNS) return decodeSet(encoded).find(({ position }) => position === wanted);
  const cursor = { at: 1 };
  let position = 0;
  while (cursor.at < bytes.length && position <= wanted) {
    position += readVarint(bytes, cursor);
    const end = position + readVarint(bytes, cursor);
    if (wanted >= position && wanted < end) return { position: wanted, rounds: 0 };
    position = end;
  }
  return undefined;
}

/** Numbers from 0 on, seven bits a byte, the low ones first. They go beyond 32 bits, so the arithmetic is division. */
export function pushVarint(bytes: number[], value: number): void {
  while (value >= 0x80) {
    bytes.push((value % 0x80) | 0x80);
    value = Math.floor(value / 0x80);
  }
  bytes.push(value);
}

export function readVarint(bytes: Uint8Array, cursor: { at: number }): number {
  let value = 0;
  let scale = 1;
  for (;;) {
    const byte = bytes[cursor.at++];
    if (byte === undefined) throw new Error('a row ends in the middle of a number');
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return value;
    scale *= 0x80;
  }
}
