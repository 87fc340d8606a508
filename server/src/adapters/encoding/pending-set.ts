import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import { invariant } from '../../model/invariant.ts';
import type { Monotonic } from '../../model/time.ts';
import type { PendingSetId } from '../../ports/delivery-queue.ts';
import { checksumOf, withChecksum, withoutChecksum } from './hashes.ts';

/**
 * A pending set is encoded in one of two forms, told apart by the first byte.
 *
 * *Runs*, for deliveries that were never tried: pairs of varints (gap since the end of the run before,
 * length). In an outage, a destination that owes everything that arrives costs a few bytes a second, whatever
 * the rate.
 *
 * *Records*, for sets with a delivery that failed before: 16 bytes each, little endian: position (6), first
 * failure (6), rounds (1), endpoints (1), settings version modulo 65,536 (2).
 *
 * In a table a checksum follows either form. It covers the destination too: a set must not go to another one.
 */
const RUNS = 1;
const RECORDS = 2;
const RECORD_BYTES = 16;

/** The set of a row for readers that change nothing. A damaged set reads as empty. */
export function setOrEmpty(destination: number, stored: Uint8Array): Uint8Array {
  return withoutSetChecksum(destination, stored) ?? Uint8Array.of(RUNS);
}

/** A set as a row of this destination stores it. */
export function withSetChecksum(destination: number, encoded: Uint8Array): Uint8Array {
  return withChecksum(encoded, checksumOf(destination));
}

/** The set of such a row. Undefined where it is damaged. */
export function withoutSetChecksum(destination: number, stored: Uint8Array): Uint8Array | undefined {
  return withoutChecksum(stored, checksumOf(destination));
}

/**
 * Runs that grow: a row that takes new deliveries a thousand times a second is not encoded anew each time.
 */
export class RunEncoder {
  readonly #closed: number[] = [RUNS];
  #closedEnd = 0;
  #start = -1;
  #end = -1;
  #size = 0;

  /** Runs that begin with those of a set; undefined for records, which do not grow. */
  static resume(encoded: Uint8Array): RunEncoder | undefined {
    const reader = new SetReader(encoded);
    if (!reader.isRuns) return undefined;
    const runs = new RunEncoder();
    while (reader.next()) runs.addRun(reader.start, reader.end);
    return runs;
  }

  get size(): number {
    return this.#size;
  }

  /** The position after the last one; -1 before the first. */
  get end(): Position {
    return this.#end;
  }

  /** A run behind all others and not touching them, from a position on and below another. */
  addRun(start: Position, end: Position): void {
    this.add(start);
    this.#size += end - start - 1;
    this.#end = end;
  }

  /**
   * Positions must ascend, each once. Throws a `RangeError` otherwise, because the bytes would be unreadable.
   */
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

/** Whether the delivery was never tried and has nothing but its position. */
export function isNew({ rounds, firstFailedAt }: Delivery): boolean {
  return rounds === 0 && firstFailedAt === undefined;
}

/**
 * Runs where the deliveries allow it. A delivery that is not new, or a position out of order, makes records
 * of all: deliveries handed back by a worker come in the order of its queue, and an event owed twice has one
 * position twice.
 */
export function encodeSet(deliveries: readonly Delivery[]): Uint8Array {
  let end = 0;
  for (const delivery of deliveries) {
    if (!isNew(delivery) || delivery.position < end) return encodeRecords(deliveries);
    end = delivery.position + 1;
  }
  return encodePositions(deliveries.map(({ position }) => position));
}

/**
 * Reads an encoded set from front to back. Each step is a range of positions `[start, end)`: a run, or the
 * one position of a record. Not a generator, because every claim and every commit reads sets.
 */
class SetReader {
  start: Position = 0;
  end: Position = 0;
  /** Runs ascend. Records stand in any order, and a position may stand in two of them. */
  readonly isRuns: boolean;
  readonly #bytes: Buffer;
  /** Offset of the first byte behind the range. */
  at = 1;

  constructor(encoded: Uint8Array) {
    if (encoded[0] !== RUNS && encoded[0] !== RECORDS)
      throw new Error(`pending set of unknown form ${encoded[0]}`);
    this.isRuns = encoded[0] === RUNS;
    this.#bytes = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  }

  /** Moves to the next range. False at the end of the set. */
  next(): boolean {
    const bytes = this.#bytes;
    if (this.at >= bytes.length) return false;
    if (this.isRuns) {
      this.start = this.end + readVarint(bytes, this);
      this.end = this.start + readVarint(bytes, this);
    } else {
      this.start = bytes.readUIntLE(this.at, 6);
      this.end = this.start + 1;
      this.at += RECORD_BYTES;
    }
    return true;
  }

  /** Whether the deliveries of the range were tried before. */
  isTried(): boolean {
    return !this.isRuns && this.#bytes[this.at - RECORD_BYTES + 12]! > 0;
  }

  /** The delivery at a position of the range. One that was never tried has zero rounds and nothing else. */
  delivery(position: Position): Delivery {
    if (this.isRuns) return { position, rounds: 0 };
    const at = this.at - RECORD_BYTES;
    const firstFailedAt = this.#bytes.readUIntLE(at + 6, 6);
    const endpoints = this.#bytes[at + 13]!;
    return {
      position,
      rounds: this.#bytes[at + 12]!,
      firstFailedAt: firstFailedAt === 0 ? undefined : firstFailedAt,
      // No endpoint at all stands for "unknown": every endpoint is tried then, with any settings.
      endpoints: endpoints === 0 ? undefined : endpoints,
      settingsVersion: endpoints === 0 ? undefined : this.#bytes.readUInt16LE(at + 14),
    };
  }

  /** The set without what was read before a position of the range. */
  restFrom(position: Position): Uint8Array {
    if (!this.isRuns)
      return Buffer.concat([this.#bytes.subarray(0, 1), this.#bytes.subarray(this.at - RECORD_BYTES)]);
    // The runs behind the cut are relative to each other. Only the first one left is written anew.
    const head: number[] = [RUNS];
    pushVarint(head, position);
    pushVarint(head, this.end - position);
    return Buffer.concat([Uint8Array.from(head), this.#bytes.subarray(this.at)]);
  }
}

/** Every delivery of a set, in its order. */
export function decodeSet(encoded: Uint8Array): Delivery[] {
  const deliveries: Delivery[] = [];
  const reader = new SetReader(encoded);
  while (reader.next()) {
    for (let position = reader.start; position < reader.end; position++)
      deliveries.push(reader.delivery(position));
  }
  return deliveries;
}

/** The first deliveries of a set, and the set without them; `rest` is absent when nothing is left. */
interface SetSplit {
  readonly taken: Delivery[];
  readonly rest?: Uint8Array;
}

/** Costs as much as what is taken: a set may hold a hundred times what one claim takes. */
export function splitSet(encoded: Uint8Array, max: number): SetSplit {
  invariant(max > 0, 'a claim takes something of a set');
  const taken: Delivery[] = [];
  const reader = new SetReader(encoded);
  while (reader.next()) {
    let position = reader.start;
    for (; position < reader.end && taken.length < max; position++) taken.push(reader.delivery(position));
    if (position < reader.end) return { taken, rest: reader.restFrom(position) };
  }
  return { taken };
}

/** Columns that stand beside a set in its row, so that the set need not be read for them. */
interface SetSummary {
  /** The lowest and the highest position. */
  readonly first: Position;
  readonly last: Position;
  /** How many of its deliveries were tried before. */
  readonly tried: number;
}

/** The set must not be empty. */
export function summaryOf(encoded: Uint8Array): SetSummary {
  let [first, last, tried] = [Number.POSITIVE_INFINITY, 0, 0];
  const reader = new SetReader(encoded);
  while (reader.next()) {
    if (reader.start < first) first = reader.start;
    if (reader.end > last) last = reader.end - 1;
    if (reader.isTried()) tried++;
  }
  invariant(first <= last, 'a set that is stored has a delivery');
  return { first, last, tried };
}

/**
 * The `since` of a row: the start of its oldest retry window. A delivery without a first failure counts from
 * `due`.
 */
export function earliestFailure(deliveries: readonly Delivery[], due: Monotonic): Monotonic {
  return deliveries.reduce(
    (since, one) => Math.min(since, one.firstFailedAt ?? due),
    Number.POSITIVE_INFINITY,
  );
}

/** Whether the set may hold deliveries that were tried before. */
export function hasRecords(encoded: Uint8Array): boolean {
  return encoded[0] === RECORDS;
}

/**
 * The highest `max` positions below another, descending: of all deliveries, or only of those tried before or
 * never.
 */
export function positionsBelow(
  encoded: Uint8Array,
  below: Position,
  { max, tried }: { readonly max: number; readonly tried: boolean | undefined },
): Position[] {
  const ranges: (readonly [start: Position, end: Position])[] = [];
  const reader = new SetReader(encoded);
  while (reader.next()) {
    if (reader.start >= below && reader.isRuns) break;
    if (reader.start >= below || (tried ?? reader.isTried()) !== reader.isTried()) continue;
    ranges.push([reader.start, Math.min(reader.end, below)]);
  }
  const positions: Position[] = [];
  for (const [start, end] of ranges.sort((a, b) => b[0] - a[0])) {
    for (let position = end - 1; position >= start && positions.length < max; position--)
      positions.push(position);
    if (positions.length === max) break;
  }
  return positions;
}

/** The positions of a set from one on and below another, in the order of the set. */
export function* positionsBetween(encoded: Uint8Array, from: Position, below: Position): Generator<Position> {
  const reader = new SetReader(encoded);
  while (reader.next()) {
    if (reader.start >= below && reader.isRuns) return;
    const end = Math.min(reader.end, below);
    for (let position = Math.max(reader.start, from); position < end; position++) yield position;
  }
}

/** The delivery at a position; undefined where the set does not hold it. Stops at the position. */
export function deliveryIn(encoded: Uint8Array, position: Position): Delivery | undefined {
  const reader = new SetReader(encoded);
  while (reader.next()) {
    if (position >= reader.start && position < reader.end) return reader.delivery(position);
    if (reader.isRuns && position < reader.start) return undefined;
  }
  return undefined;
}

/**
 * Writes a number from 0 on, seven bits a byte, the low ones first. Division instead of shifts, for numbers
 * beyond 32 bits.
 */
export function pushVarint(bytes: number[], value: number): void {
  invariant(value >= 0, 'a number of a row is not below nothing');
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

/**
 * The pending sets that this process holds, in memory. Their rows are in no index, so every search for held
 * deliveries asks here.
 */
export class HeldSets {
  readonly #sets = new Map<PendingSetId, HeldSet>();
  /** Sets that an earlier start of the program held, until `recoverOrphans`. */
  #orphans: readonly HeldSet[];

  constructor(orphans: readonly HeldSet[]) {
    this.#orphans = orphans;
  }

  get(id: PendingSetId): HeldSet | undefined {
    return this.#sets.get(id);
  }

  put(id: PendingSetId, set: HeldSet): void {
    this.#sets.set(id, set);
  }

  delete(id: PendingSetId): void {
    this.#sets.delete(id);
  }

  /** The sets of this process, without orphans. */
  entries(): Iterable<[PendingSetId, HeldSet]> {
    return this.#sets.entries();
  }

  dropOrphans(): void {
    this.#orphans = [];
  }

  /**
   * The lowest position from `from` on that this process delivers from memory; infinite when there is none.
   */
  lowestFrom(from: Position): Position {
    let lowest = Number.POSITIVE_INFINITY;
    for (const { first } of this.#sets.values()) if (first >= from && first < lowest) lowest = first;
    return lowest;
  }

  /** The held delivery of an event to a destination; undefined when there is none. */
  at(destination: number, position: Position): Delivery | undefined {
    for (const set of this.#setsOf(destination)) {
      const delivery = set.at(position);
      if (delivery !== undefined) return delivery;
    }
    return undefined;
  }

  /** All held deliveries of a destination. */
  of(destination: number): Delivery[] {
    return this.#setsOf(destination).flatMap((set) => set.deliveries());
  }

  #setsOf(destination: number): HeldSet[] {
    return [...this.#sets.values(), ...this.#orphans].filter((set) => set.destination === destination);
  }
}

/** The unsettled deliveries of one held set. Settling a delivery sets a flag and runs no statement. */
export class HeldSet {
  readonly destination: number;
  /** The replay or redelivery that enqueued it; undefined for a set of new events. */
  readonly origin: string | undefined;
  /** Ascending. */
  readonly #positions: Float64Array;
  /** In the same order, only where some were tried before: a crash must not lose their rounds. */
  readonly #tried: readonly Delivery[] | undefined;
  readonly #taken: Uint8Array;
  #left: number;
  /** Taken since `drainTaken`. */
  #newlyTaken = 0;

  private constructor(
    { destination, origin }: Pick<HeldSet, 'destination' | 'origin'>,
    positions: Float64Array,
    tried: readonly Delivery[] | undefined,
  ) {
    this.destination = destination;
    this.origin = origin;
    this.#positions = positions;
    this.#tried = tried;
    this.#taken = new Uint8Array(positions.length);
    this.#left = positions.length;
  }

  /**
   * For deliveries that were never tried, at ascending positions: the healthy path makes no object for each.
   */
  static fromPositions(destination: number, positions: readonly Position[]): HeldSet {
    invariant(positions.length > 0, 'a set of new deliveries has one at least');
    for (let nth = 1; nth < positions.length; nth++)
      invariant(positions[nth]! > positions[nth - 1]!, 'the positions of a set of new deliveries ascend');
    return new HeldSet({ destination, origin: undefined }, Float64Array.from(positions), undefined);
  }

  static fromDeliveries(
    destination: number,
    deliveries: readonly Delivery[],
    origin?: string | null,
  ): HeldSet {
    const isOrdered = deliveries.every((one, n) => n === 0 || one.position >= deliveries[n - 1]!.position);
    const ordered = isOrdered ? deliveries : deliveries.toSorted((a, b) => a.position - b.position);
    const tried = ordered.every(isNew) ? undefined : ordered;
    return new HeldSet(
      { destination, origin: origin ?? undefined },
      Float64Array.from(ordered, (delivery) => delivery.position),
      tried,
    );
  }

  /** The lowest position of the set when it was made. */
  get first(): Position {
    return this.#positions[0] ?? Number.POSITIVE_INFINITY;
  }

  get left(): number {
    return this.#left;
  }

  /** False when the position is not in the set, or was taken as often as it stands there. */
  take(position: Position): boolean {
    const found = this.#indexOf(position);
    if (found < 0) return false;
    const index = this.#taken[found] === 0 ? found : this.#untakenBeside(found);
    if (index < 0) return false;
    this.#taken[index] = 1;
    this.#left--;
    this.#newlyTaken++;
    return true;
  }

  /** How many were taken since the last call. */
  drainTaken(): number {
    const taken = this.#newlyTaken;
    this.#newlyTaken = 0;
    return taken;
  }

  /** The unsettled delivery at a position. */
  at(position: Position): Delivery | undefined {
    const found = this.#indexOf(position);
    if (found < 0) return undefined;
    const index = this.#taken[found] === 0 ? found : this.#untakenBeside(found);
    return index < 0 ? undefined : (this.#tried?.[index] ?? { position, rounds: 0 });
  }

  /** An event that is owed twice, once new and once replayed, may stand twice in one set. */
  #untakenBeside(found: number): number {
    const positions = this.#positions;
    let index = found;
    while (index > 0 && positions[index - 1] === positions[found]) index--;
    for (; positions[index] === positions[found]; index++) if (this.#taken[index] === 0) return index;
    return -1;
  }

  /** All unsettled deliveries. */
  deliveries(): Delivery[] {
    const left: Delivery[] = [];
    for (let index = 0; index < this.#positions.length; index++) {
      if (this.#taken[index] === 0)
        left.push(this.#tried?.[index] ?? { position: this.#positions[index]!, rounds: 0 });
    }
    return left;
  }

  #indexOf(position: Position): number {
    const positions = this.#positions;
    // The positions of one append have no gaps, so the first guess is nearly always right.
    const guess = position - positions[0]!;
    if (positions[guess] === position) return guess;
    let low = 0;
    let high = positions.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = positions[middle]!;
      if (found === position) return middle;
      if (found < position) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}
