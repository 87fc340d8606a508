import {
  closeSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Skip } from '../../../model/destination.ts';
import { findLineOffsets } from '../../../model/serialized-event.ts';
import type { PendingSetId } from '../../../ports/delivery-queue.ts';
import { decodeAppended } from '../../encoding/chunk-codec.ts';
import { encodePlans } from '../../encoding/plans.ts';
import { redoPath, syncPath } from '../data-folder/files.ts';
import type { AppendMessage } from '../log/log-tables.ts';
import type { SettleMessage } from '../queue/settle.ts';

/** Records begin at multiples of this: no record shares a page, so no later write can tear an earlier one. */
const PAGE = 4096;
/** The file is made at this size, because a write that makes a file longer costs twice the sync. */
const CAPACITY = 128 * PAGE;
/** Length and checksum. */
const RECORD_HEADER = 8;
/** Pages. A longer record is better written into the database at once. */
const LONGEST_RECORD = 4;
/** Milliseconds between two checks that the open file still has its name, and between two attempts to make it. */
const CHECK_INTERVAL = 250;

/** The state of the database that records continue. */
export interface RedoBase {
  readonly id: string;
  /** Number of acknowledged commits in the database. */
  readonly commits: number;
}

/**
 * The redo log: requests that were answered and whose transaction is still open in the database. A small commit costs one page
 * here and four or more in the database, so small commits are synced here and share one commit there (docs/decisions/0026).
 *
 * The first record's checksum continues from the state of the database that it belongs to, and each further one from the
 * record before. So a commit of the database makes all records invalid without a write, and the file is used from its
 * beginning again.
 *
 * ```
 * record  length (4) │ CRC-32 (4) │ bytes … │ zeros up to the next page
 * ```
 */
export class RedoLog {
  readonly #path: string;
  readonly #buffer = Buffer.alloc(LONGEST_RECORD * PAGE);
  #handle: number | undefined;
  #end = 0;
  #sum = 0;
  #base: RedoBase;
  #records: Buffer[] = [];
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string, base: RedoBase) {
    this.#path = redoPath(folder);
    this.#base = base;
    this.restart(base);
  }

  /** The records since the last commit of the database. */
  get records(): readonly Buffer[] {
    return this.#records;
  }

  /** The records, if they continue a database in this state: after a commit in doubt they may not. */
  recordsAfter(commits: number): readonly Buffer[] {
    return commits === this.#base.commits ? this.#records : [];
  }

  /** Call after a commit of the database. The records are not needed any more. */
  restart(base: RedoBase): void {
    this.#base = base;
    this.#records = [];
    this.#end = 0;
    this.#sum = firstSum(base);
  }

  /**
   * Puts a record on stable storage. False when there is no room for it, or no file: the database must take it. After an error
   * the record may be stored or not.
   */
  append({ head, bodies }: RedoRecord): boolean {
    let length = Buffer.byteLength(head);
    for (const body of bodies) length += body.length;
    const pages = pagesOf(RECORD_HEADER + length);
    if (pages > LONGEST_RECORD || this.#end + pages * PAGE > CAPACITY) return false;
    const handle = this.#open();
    if (handle === undefined) return false;
    const bytes = this.#buffer.subarray(0, pages * PAGE);
    let at = RECORD_HEADER + bytes.write(head, RECORD_HEADER);
    for (const body of bodies) {
      bytes.set(body, at);
      at += body.length;
    }
    bytes.fill(0, at);
    const record = Buffer.from(bytes.subarray(RECORD_HEADER, at));
    const sum = crc32(record, this.#sum);
    bytes.writeUInt32LE(length, 0);
    bytes.writeUInt32LE(sum, 4);
    writeAll(handle, bytes, this.#end);
    fdatasyncSync(handle);
    this.#end += bytes.length;
    this.#sum = sum;
    this.#records.push(record);
    return true;
  }

  /** Overwrites every record, so that no byte of an erased event stays. */
  erase(): void {
    if (statSync(this.#path, { throwIfNoEntry: false }) === undefined) return;
    const handle = this.#open();
    if (handle === undefined) throw new Error(`${this.#path} cannot be written`);
    for (let at = 0; at < CAPACITY; at += PAGE) writeAll(handle, Buffer.alloc(PAGE), at);
    fdatasyncSync(handle);
  }

  /** Lets the file go after a failure; the next record opens it again. */
  close(): void {
    if (this.#handle !== undefined) closeSync(this.#handle);
    this.#handle = undefined;
    this.#checkedAt = Number.NEGATIVE_INFINITY;
  }

  /** Removes the file. Call when the database holds everything. */
  remove(): void {
    this.close();
    rmSync(this.#path, { force: true });
  }

  /** The open file. Undefined when it cannot be made, or has lost its name since the last check. */
  #open(): number | undefined {
    const now = performance.now();
    if (now - this.#checkedAt < CHECK_INTERVAL) return this.#handle;
    this.#checkedAt = now;
    try {
      if (this.#handle !== undefined && !this.#hasName(this.#handle)) {
        closeSync(this.#handle);
        this.#handle = undefined;
        // The records so far are in the lost file only. The database takes them together with the next one.
        if (this.#records.length > 0) return undefined;
      }
      this.#handle ??= openFile(this.#path);
    } catch {
      // A full disk, or too many open files: the database takes what comes, and its errors are reported.
      return undefined;
    }
    return this.#handle;
  }

  #hasName(handle: number): boolean {
    const found = statSync(this.#path, { bigint: true, throwIfNoEntry: false });
    const open = fstatSync(handle, { bigint: true });
    return found?.ino === open.ino && found.dev === open.dev && found.size >= CAPACITY;
  }
}

/** The records that continue a database in this state. The file may be missing, torn or of an earlier state. */
export function readRedoLog(folder: string, base: RedoBase): Buffer[] {
  let bytes: Buffer;
  try {
    bytes = readFileSync(redoPath(folder));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const records: Buffer[] = [];
  let sum = firstSum(base);
  for (let at = 0; at + RECORD_HEADER <= bytes.length; ) {
    const length = bytes.readUInt32LE(at);
    const record = bytes.subarray(at + RECORD_HEADER, at + RECORD_HEADER + length);
    if (length === 0 || record.length < length) break;
    sum = crc32(record, sum);
    if (sum !== bytes.readUInt32LE(at + 4)) break;
    records.push(record);
    at += pagesOf(RECORD_HEADER + length) * PAGE;
  }
  return records;
}

function firstSum({ id, commits }: RedoBase): number {
  return crc32(`millrace redo log 1 ${id} ${commits}`);
}

function pagesOf(bytes: number): number {
  return Math.ceil(bytes / PAGE);
}

/** Opens the file, and makes it as long as it gets. Its old records stay: they are invalid. */
function openFile(path: string): number {
  const handle = openOrMake(path);
  try {
    const { size } = fstatSync(handle);
    if (size < CAPACITY) {
      // Page by page: the system counts and writes what was written at once as one piece.
      for (let at = Math.floor(size / PAGE) * PAGE; at < CAPACITY; at += PAGE)
        writeAll(handle, Buffer.alloc(PAGE), at);
      fsyncSync(handle);
      syncPath(dirname(path));
    }
    return handle;
  } catch (error) {
    closeSync(handle);
    throw error;
  }
}

function openOrMake(path: string): number {
  try {
    return openSync(path, 'r+');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return openSync(path, 'wx+', 0o600);
  }
}

function writeAll(handle: number, bytes: Buffer, position: number): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(handle, bytes, at, bytes.length - at, position + at);
}

/** A record before it is written. */
interface RedoRecord {
  readonly head: string;
  readonly bodies: readonly Uint8Array[];
}

/** A request as a record holds it. Messages are those of the format of the store; a later one must still take them. */
export type RedoRequest =
  | { readonly name: 'append'; readonly message: AppendMessage }
  | { readonly name: 'settle'; readonly message: SettleMessage };

/** Larger commits are written into the database at once: there a page costs no more than here. */
const LARGEST_COMMIT = 3 * PAGE;

/** The requests of a commit, if they are few and small enough for the redo log. */
export function redoable(
  writes: readonly { readonly name: string; readonly message?: unknown }[],
): readonly RedoRequest[] | undefined {
  let bytes = 0;
  for (const { name, message } of writes) {
    if (name === 'append') bytes += sizeOfAppend(message as AppendMessage);
    else if (name === 'settle') bytes += sizeOfSettle(message as SettleMessage);
    else return undefined;
  }
  return bytes > LARGEST_COMMIT ? undefined : (writes as readonly RedoRequest[]);
}

function sizeOfAppend({ lines, events, plans, producer }: AppendMessage): number {
  // A producer looks up in the database itself how far it has come.
  if (producer !== undefined) return Number.POSITIVE_INFINITY;
  const texts = [...plans.documents, ...plans.skipSets];
  return texts.reduce((sum, { length }) => sum + length, lines.length + events * 50 + 100);
}

/** Failed attempts have answers of some hundred bytes. */
export function sizeOfSettle({ delivered, others }: SettleMessage): number {
  return delivered.byteLength + others.length * 1000 + 100;
}

/**
 * A record: the requests as one line of JSON, then the events of the batches, as they came. JSON takes a tenth of the time of a
 * structured clone, and a later version can read it. The answers name the sets, which get the same ids when they are stored again.
 */
export function encodeRecord(requests: readonly RedoRequest[], answers: readonly unknown[]): RedoRecord {
  const bodies: Uint8Array[] = [];
  const head = requests.map((request, index) => {
    if (request.name === 'settle') {
      const { delivered, ...rest } = request.message;
      return { name: 'settle', ...rest, delivered: Array.from(delivered) };
    }
    const { lines, starts, sources, keys, users, windows, owed, planIndexes, ...rest } = request.message;
    bodies.push(lines);
    return {
      name: 'append',
      ...rest,
      bytes: lines.length,
      sources: Array.from(sources),
      keys: Array.from(keys),
      users: Array.from(users),
      ...(windows === undefined ? {} : { windows: Array.from(windows) }),
      owed: owed.map(withPlainIndexes),
      planIndexes: Array.from(planIndexes),
      answer: answers[index] as string,
    };
  });
  return { head: `${JSON.stringify(head)}\n`, bodies };
}

function withPlainIndexes<Part extends { readonly indexes: Uint32Array }>(part: Part) {
  return { ...part, indexes: Array.from(part.indexes) };
}

export function decodeRecord(record: Buffer): readonly RedoRequest[] {
  const end = record.indexOf('\n');
  let at = end + 1;
  return (JSON.parse(record.toString('utf8', 0, end)) as PlainRequest[]).map((request): RedoRequest => {
    if (request.name === 'settle') {
      const { name, delivered, ...rest } = request;
      return { name, message: { ...rest, delivered: Float64Array.from(delivered) } };
    }
    const { name, bytes, sources, keys, users, windows, owed, answer, skipped, plans, planIndexes, ...rest } =
      request;
    const lines = Uint8Array.from(record.subarray(at, at + bytes));
    at += bytes;
    const { held } = decodeAppended(answer);
    const message: AppendMessage = {
      ...rest,
      lines,
      starts: findLineOffsets(lines, rest.events),
      sources: Uint32Array.from(sources),
      keys: Uint32Array.from(keys),
      users: Uint32Array.from(users),
      ...(windows === undefined ? {} : { windows: Float64Array.from(windows) }),
      owed: owed.map(({ indexes, ...one }, nth) => {
        const set = held[nth];
        return { ...one, indexes: Uint32Array.from(indexes), ...(set === undefined ? {} : { set }) };
      }),
      ...(skipped === undefined
        ? { plans, planIndexes: Uint32Array.from(planIndexes) }
        : plansOfFormat6(rest.events, owed, skipped)),
    };
    return { name, message };
  });
}

/** Format 6 named the skips of each event, and no plans. */
function plansOfFormat6(
  events: number,
  owed: readonly { readonly destination: number; readonly indexes: readonly number[] }[],
  skipped: readonly SkippedOfFormat6[],
): Pick<AppendMessage, 'plans' | 'planIndexes'> {
  const plans = Array.from({ length: events }, () => ({
    owed: [] as { id: number }[],
    skipped: [] as Skip[],
  }));
  for (const { destination, indexes } of owed)
    for (const index of indexes) plans[index]!.owed.push({ id: destination });
  for (const { destination, reason, indexes } of skipped)
    for (const index of indexes) plans[index]!.skipped.push({ destination, reason });
  return { plans: encodePlans(plans), planIndexes: Uint32Array.from(plans.keys()) };
}

interface SkippedOfFormat6 extends Skip {
  readonly indexes: readonly number[];
}

/** A value as JSON has it. */
type Plain<Value> = Value extends Uint32Array | Float64Array
  ? number[]
  : Value extends object
    ? { [Key in keyof Value]: Plain<Value[Key]> }
    : Value;

type PlainRequest =
  | ({ readonly name: 'settle'; readonly delivered: number[] } & Omit<SettleMessage, 'delivered'>)
  | ({ readonly name: 'append'; readonly bytes: number; readonly answer: string } & Plain<
      Omit<AppendMessage, 'lines' | 'starts'>
    > & { readonly skipped?: readonly SkippedOfFormat6[] });

/** The highest id of a set that these requests name; −1 when they name none. */
export function highestSetOf(requests: readonly RedoRequest[]): PendingSetId {
  const sets = requests.flatMap((request) =>
    request.name === 'append' ? request.message.owed.map(({ set = -1 }) => set) : [],
  );
  return Math.max(-1, ...sets);
}
