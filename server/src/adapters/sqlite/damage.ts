import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Damage } from '../../ports/event-log.ts';

/**
 * Errors of SQLite and of Node that stand for damaged bytes, and not for a disk that fails for a while: a page that makes
 * no sense (SQLITE_CORRUPT), a file that is none (SQLITE_NOTADB), a length beyond all bounds (SQLITE_TOOBIG), a number that no
 * row of ours holds.
 */
const DAMAGE_CODES: ReadonlySet<number> = new Set([11, 26, 18]);

/**
 * Whether what looks like damage is believed, in this thread. A disk that fails for a moment can look like it too, so the writer
 * believes it only after a second handle has met it.
 */
let isConfirmed = true;

export function confirmDamage(believed: boolean): void {
  isConfirmed = believed;
}

export function isConfirmedDamage(error: unknown): boolean {
  return isConfirmed && isDamageError(error);
}

export function isDamageError(error: unknown): boolean {
  const { errcode, code } = error as { errcode?: number; code?: string };
  return code === 'ERR_OUT_OF_RANGE' || (errcode !== undefined && DAMAGE_CODES.has(errcode & 0xff));
}

/** What `read` returns, or undefined where damage keeps it from returning anything. */
export function unlessDamaged<Of>(read: () => Of): Of | undefined {
  try {
    return read();
  } catch (error) {
    if (isConfirmedDamage(error)) return undefined;
    throw error;
  }
}

/**
 * Rows in the order of `rowsFrom(key)`, past those that damage makes unreadable. A damaged page takes all rows on it with
 * it; the next readable row is looked for in steps that double, and then more closely.
 */
export function* readableRows<Row>(
  rowsFrom: (key: number) => Iterable<Row>,
  { start, end, towards, keyBehind, holes }: RowScan<Row>,
): Generator<Row> {
  let key = start;
  for (;;) {
    key = holes?.past(key, towards) ?? key;
    if ((end - key) * towards < 0) return;
    let isAtHole = false;
    try {
      for (const row of rowsFrom(key)) {
        const next = keyBehind(row);
        // A page in the wrong place breaks the order of keys; going back by one would never end.
        if ((next - key) * towards <= 0) continue;
        yield row;
        key = next;
        // One step further SQLite would read the page.
        isAtHole = holes !== undefined && holes.past(key, towards) !== key;
        if (isAtHole) break;
      }
      if (!isAtHole) return;
    } catch (error) {
      if (!isConfirmedDamage(error)) throw error;
      const next = nextReadable(rowsFrom, key, end, towards);
      const [from, to] = towards > 0 ? [key, next ?? end + 1] : [next ?? 0, key];
      holes?.found(from, to);
      if (next === undefined) return;
      key = next;
    }
  }
}

export interface RowScan<Row> {
  readonly start: number;
  /** The last key that is worth a look. */
  readonly end: number;
  /** 1 for ascending keys, −1 for descending. */
  readonly towards: 1 | -1;
  /** Where to go on after a row. */
  readonly keyBehind: (row: Row) => number;
  readonly holes?: UnreadableRanges;
}

/** Ranges of keys that are known to be unreadable. */
export interface UnreadableRanges {
  /** The key itself, or where the hole ends that it leads into. */
  past(key: number, towards: 1 | -1): number;
  /** Rows of these keys, from (inclusive) to (exclusive), cannot be read. */
  found(from: number, to: number): void;
}

function nextReadable(
  rowsFrom: (key: number) => Iterable<unknown>,
  from: number,
  end: number,
  towards: 1 | -1,
): number | undefined {
  const isReadable = (distance: number) =>
    unlessDamaged(() => {
      for (const _ of rowsFrom(from + distance * towards)) break;
      return true;
    }) === true;
  let step = 1;
  while (!isReadable(step)) {
    if ((end - (from + step * towards)) * towards < 0) return undefined;
    step *= 2;
  }
  let [bad, good] = [Math.floor(step / 2), step];
  while (good - bad > 1) {
    const middle = Math.floor((bad + good) / 2);
    if (isReadable(middle)) good = middle;
    else bad = middle;
  }
  return from + good * towards;
}

/** Chunks that cannot be written or deleted, because a page that they lie on is damaged. */
export class UnwritableChunksError extends Error {
  readonly first: Position;
  readonly end: Position;

  constructor(first: Position, end: Position, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = 'UnwritableChunks';
    this.first = first;
    this.end = end;
  }
}

/** A transaction has read a damaged page: SQLite writes nothing more in it, so it is to be done again without that page. */
class RetryTransaction extends Error {}

/** A step of upkeep that met a damaged page. */
class DamagedStepError extends Error {
  readonly step: string;

  constructor(step: string, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = 'DamagedStep';
    this.step = step;
  }
}

/**
 * What the store leaves alone from now on, because it met a damaged page there. A transaction that meets one is rolled back and
 * done again without it, so that one bad page stops neither the commits nor the rest of upkeep. Forgotten at a restart.
 */
export class Quarantine {
  readonly #ranges: { readonly first: Position; readonly end: Position }[] = [];
  readonly #pages = new Set<number>();
  readonly #steps = new Set<string>();

  /** False when nothing is to be learned from an error, so that doing it again would end the same way. */
  learnFrom(error: unknown): boolean {
    if (error instanceof RetryTransaction) return true;
    if (error instanceof DamagedStepError && !this.#steps.has(error.step)) {
      this.#steps.add(error.step);
      return true;
    }
    if (!(error instanceof UnwritableChunksError) || this.overlaps(error)) return false;
    this.#ranges.push(error);
    return true;
  }

  /** Positions that cannot be read. Throws in a transaction, as that has to be done again. */
  addRange(first: Position, end: Position, database: DatabaseSync): void {
    if (first >= end || this.#ranges.some((range) => first >= range.first && end <= range.end)) return;
    this.#ranges.push({ first, end });
    if (database.isTransaction) throw new RetryTransaction('a damaged page was read');
  }

  /** The same of a page of a run of keys, by its number. */
  addPage(page: number, database: DatabaseSync): void {
    if (this.#pages.has(page)) return;
    this.#pages.add(page);
    if (database.isTransaction) throw new RetryTransaction('a damaged page was read');
  }

  hasPage(page: number): boolean {
    return this.#pages.has(page);
  }

  /** Whether a chunk lies, with a part of it, where nothing can be read or written. */
  overlaps({ first, end }: { readonly first: Position; readonly end: Position }): boolean {
    return this.#ranges.some((range) => first < range.end && end > range.first);
  }

  /** As `Holes.past`. Descending, a key is one above the rows that are wanted. */
  past(key: Position, towards: 1 | -1): Position {
    for (let at = key; ; ) {
      const range = this.#ranges.find(({ first, end }) =>
        towards > 0 ? at >= first && at < end : at > first && at <= end,
      );
      if (range === undefined) return at;
      at = towards > 0 ? range.end : range.first;
    }
  }

  /** Does a step of upkeep, unless it has met damage before. */
  guard(step: string, run: () => boolean): boolean {
    if (this.#steps.has(step)) return false;
    try {
      return run();
    } catch (error) {
      if (error instanceof UnwritableChunksError || !isConfirmedDamage(error)) throw error;
      throw new DamagedStepError(step, error);
    }
  }

  /** Something failed for a damaged page, and will again. */
  addStep(what: string): void {
    this.#steps.add(what);
  }

  /** What is left undone. */
  get steps(): readonly string[] {
    return [...this.#steps];
  }
}

/** An error that says what to go around; thrown of damage that is believed. */
export function canBeAvoided(error: unknown): boolean {
  return (
    error instanceof RetryTransaction ||
    error instanceof DamagedStepError ||
    error instanceof UnwritableChunksError
  );
}

/** Builds every index anew from its table: a damaged page of an index then costs nothing. */
export function rebuildIndexes(database: DatabaseSync): void {
  const indexes = database.prepare(
    `select name from sqlite_master where type = 'index' order by tbl_name = 'pending' desc`,
  );
  for (const { name } of indexes.all() as unknown as { name: string }[])
    unlessDamaged(() => database.exec(`reindex "${name}"`));
}

/** Kinds of rows in which damage is counted. */
export type DamagedPart = 'chunk' | 'pending';

/** Damage found so far, by the row it was found in. Each row counts once, however often it is met. */
export class DamageTable {
  readonly #put: StatementSync;
  readonly #drop: StatementSync;
  readonly #found: DamageRow[];
  #news: Omit<DamageRow, 'foundAt'>[] = [];

  constructor(database: DatabaseSync) {
    this.#put = database.prepare('insert or ignore into damage(part, id, n, found_at) values (?, ?, ?, ?)');
    this.#drop = database.prepare(`delete from damage where part = 'chunk' and id + n <= ?`);
    const all = database.prepare('select part, id, n, found_at as foundAt from damage');
    this.#found = unlessDamaged(() => all.all() as unknown as DamageRow[]) ?? [];
  }

  /** Cheap for what is known. It is kept with the next `write`. `n`: how many events or deliveries cannot be read. */
  note(part: DamagedPart, id: number, n: number): void {
    const isSame = (one: Omit<DamageRow, 'foundAt'>) => one.part === part && one.id === id;
    if (!this.#found.some(isSame) && !this.#news.some(isSame)) this.#news.push({ part, id, n });
  }

  /** Writes down what was noted, inside the caller's transaction. */
  write(foundAt: Time): void {
    for (const { part, id, n } of this.#news) {
      this.#put.run(part, id, n, foundAt);
      this.#found.push({ part, id, n, foundAt });
    }
    this.#news = [];
  }

  /** Chunks that end there or before are past their retention, and their damage with them. */
  forgetBelow(position: Position): void {
    const isGone = ({ part, id, n }: DamageRow) => part === 'chunk' && id + n <= position;
    const left = this.#found.filter((one) => !isGone(one));
    if (left.length === this.#found.length) return;
    this.#drop.run(position);
    this.#found.splice(0, this.#found.length, ...left);
  }

  /** Undefined when nothing was found. `others`: what else damage has come to. */
  summary(others: readonly string[]): Damage | undefined {
    const all = [...this.#found, ...this.#news];
    if (all.length + others.length === 0) return undefined;
    const sumOf = (wanted: DamagedPart) =>
      all.reduce((sum, { part, n }) => (part === wanted ? sum + n : sum), 0);
    const foundAt = this.#found.reduce(
      (first, one) => Math.min(first, one.foundAt),
      Number.POSITIVE_INFINITY,
    );
    return {
      events: sumOf('chunk'),
      deliveries: sumOf('pending'),
      ...(Number.isFinite(foundAt) ? { foundAt } : {}),
      ...(others.length === 0 ? {} : { others }),
    };
  }
}

interface DamageRow {
  readonly part: DamagedPart;
  /** The position at which the chunk begins, or the id of the pending set. */
  readonly id: number;
  readonly n: number;
  readonly foundAt: Time;
}

/**
 * Checksums of what the store keeps: CRC-32, four bytes, little endian, behind the bytes it covers. It is computed over
 * numbers that say which row the bytes belong to, and then over the bytes, so that the right bytes in the wrong row fail too.
 */
const CHECKSUM_BYTES = 4;

const numberBuffer = new Float64Array(8);

/** CRC-32 of at most eight numbers, as 64-bit floats. */
export function checksumOf(...values: readonly number[]): number {
  numberBuffer.set(values);
  return crc32(new Uint8Array(numberBuffer.buffer, 0, values.length * 8));
}

/** The bytes with their checksum behind them. `seed`: what they belong to, as `sumOf` has it. */
export function withChecksum(bytes: Uint8Array, seed: number): Uint8Array {
  const whole = new Uint8Array(bytes.byteLength + CHECKSUM_BYTES);
  whole.set(bytes);
  writeChecksum(whole, bytes.byteLength, crc32(bytes, seed));
  return whole;
}

/** The bytes without their checksum, in place; undefined where it does not hold, or where `stored` is no blob at all. */
export function withoutChecksum(stored: unknown, seed: number): Uint8Array | undefined {
  if (!(stored instanceof Uint8Array)) return undefined;
  const end = stored.byteLength - CHECKSUM_BYTES;
  if (end < 0) return undefined;
  const bytes = stored.subarray(0, end);
  return readChecksum(stored, end) === crc32(bytes, seed) ? bytes : undefined;
}

/** Takes 32 bits. */
export function writeChecksum(bytes: Uint8Array, at: number, sum: number): void {
  bytes[at] = sum;
  bytes[at + 1] = sum >>> 8;
  bytes[at + 2] = sum >>> 16;
  bytes[at + 3] = sum >>> 24;
}

export function readChecksum(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
}
