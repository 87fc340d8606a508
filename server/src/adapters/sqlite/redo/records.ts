import type { LedgerScope } from '../../encoding/ledger.ts';
import { readVarint } from '../../encoding/pending-set.ts';
import type { CounterSums } from '../counter-sums.ts';

/** A value in a column of a row. */
export type ColumnValue = number | string | null | Uint8Array;

/** The columns of table `chunk`, in the order of their values in a record. */
export const CHUNK_COLUMNS =
  'first, n, at, until, codec, json, stage, batch, answer, sources, times, plans, keys, users, body'.split(
    ', ',
  );

/**
 * The statements that a small transaction writes down instead of carrying them out, by the number that a record begins with. They
 * are part of the format: a number keeps its meaning. None fails where it was carried out before.
 */
export const STATEMENTS = {
  putChunk: {
    kind: 1,
    sql: `insert or replace into chunk(${CHUNK_COLUMNS.join(', ')}) values (${CHUNK_COLUMNS.map(() => '?').join(', ')})`,
  },
  insertPending: {
    kind: 2,
    sql: `insert or replace into pending(id, destination, state, owner, due, since, n, refs, first, last, tried)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  },
  deletePending: { kind: 3, sql: 'delete from pending where id = ?' },
  rewritePending: {
    kind: 4,
    sql: 'update pending set n = ?, refs = ?, first = ?, last = ?, tried = ? where id = ?',
  },
  insertAccepted: {
    kind: 5,
    sql: 'insert into accepted_attempt(destination, endpoint, first, last, at, facts) values (?, ?, ?, ?, ?, ?)',
  },
} as const;

export type StatementName = keyof typeof STATEMENTS;

/** The record of what a transaction adds to the ledger: for each counter its group, its id and the number. */
export const LEDGER_KIND = 6;

/** Counters that nearly every transaction changes, by the number that stands for scope and name. Also part of the format. */
const FREQUENT_COUNTERS: readonly (readonly [LedgerScope, string])[] = [
  ['source', 'received'],
  ['source', 'accepted'],
  ['source', 'duplicates'],
  ['destination', 'owed'],
  ['destination', 'delivered'],
];

/** The values of such a record. */
export function ledgerValues(sums: CounterSums): ColumnValue[] {
  const values: ColumnValue[] = [];
  for (const { scope, id, name, n } of sums) {
    const frequent = FREQUENT_COUNTERS.findIndex((one) => one[0] === scope && one[1] === name);
    values.push(frequent < 0 ? `${scope}/${name}` : frequent, id, n);
  }
  return values;
}

/** Adds what such a record holds. */
export function addLedgerValues(sums: CounterSums, values: readonly ColumnValue[]): void {
  for (let at = 0; at < values.length; at += 3) {
    const [group, id, n] = values.slice(at, at + 3) as [number | string, number, number];
    const [scope, name] = typeof group === 'number' ? FREQUENT_COUNTERS[group]! : splitGroup(group);
    sums.add(scope, id, name, n);
  }
}

function splitGroup(group: string): [LedgerScope, string] {
  const slash = group.indexOf('/');
  return [group.slice(0, slash) as LedgerScope, group.slice(slash + 1)];
}

/** One statement with its values, or the changes of the ledger. */
export interface RedoRecord {
  readonly kind: number;
  readonly values: readonly ColumnValue[];
}

/** Before each value. A number that is not a whole one from 0 on stands as eight bytes. */
const NULL = 0;
const WHOLE = 1;
const DOUBLE = 2;
const TEXT = 3;
const BYTES = 4;

/**
 * Writes records one behind the other into a buffer of a fixed length: kind, number of values, and each value behind its type.
 */
export class RecordWriter {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(limit: number) {
    this.#bytes = Buffer.allocUnsafe(limit);
  }

  /** False when there is no room for a record: then nothing of it is written. */
  add(kind: number, values: readonly ColumnValue[]): boolean {
    if (values.length > MAX_VALUES) return false;
    const start = this.#at;
    if (this.#fits(2) && this.#addAll(kind, values)) return true;
    this.#at = start;
    return false;
  }

  #addAll(kind: number, values: readonly ColumnValue[]): boolean {
    this.#bytes[this.#at++] = kind;
    this.#bytes[this.#at++] = values.length;
    return values.every((value) => this.#addValue(value));
  }

  #addValue(value: ColumnValue): boolean {
    if (value === null) return this.#fits(1) && this.#type(NULL);
    if (typeof value === 'number') return this.#addNumber(value);
    const length = typeof value === 'string' ? Buffer.byteLength(value) : value.length;
    if (!this.#fits(1 + VARINT_BYTES + length)) return false;
    this.#type(typeof value === 'string' ? TEXT : BYTES);
    this.#varint(length);
    if (typeof value === 'string') this.#bytes.write(value, this.#at);
    else this.#bytes.set(value, this.#at);
    this.#at += length;
    return true;
  }

  #addNumber(value: number): boolean {
    if (!this.#fits(1 + VARINT_BYTES)) return false;
    if (Number.isSafeInteger(value) && value >= 0) {
      this.#type(WHOLE);
      this.#varint(value);
    } else {
      this.#type(DOUBLE);
      this.#at = this.#bytes.writeDoubleLE(value, this.#at);
    }
    return true;
  }

  #fits(bytes: number): boolean {
    return this.#at + bytes <= this.#bytes.length;
  }

  #type(type: number): true {
    this.#bytes[this.#at++] = type;
    return true;
  }

  #varint(value: number): void {
    let left = value;
    for (; left >= 0x80; left = Math.floor(left / 0x80)) this.#bytes[this.#at++] = (left % 0x80) | 0x80;
    this.#bytes[this.#at++] = left;
  }

  /** The records so far, as a copy. Empties the buffer. */
  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#at));
    this.#at = 0;
    return taken;
  }
}

/** Their number is one byte. */
const MAX_VALUES = 255;

/** The most that a number of 53 bits takes; a double takes as many. */
const VARINT_BYTES = 8;

/** The records in some bytes. Bytes in them are views, and not copies. Throws at bytes that are no records. */
export function* readRecords(bytes: Uint8Array): Generator<RedoRecord> {
  const cursor = { at: 0 };
  while (cursor.at < bytes.length) {
    const kind = bytes[cursor.at++]!;
    const n = bytes[cursor.at++]!;
    const values: ColumnValue[] = [];
    for (let nth = 0; nth < n; nth++) values.push(readValue(bytes, cursor));
    yield { kind, values };
  }
}

function readValue(bytes: Uint8Array, cursor: { at: number }): ColumnValue {
  const type = bytes[cursor.at++];
  if (type === NULL) return null;
  if (type === WHOLE) return readVarint(bytes, cursor);
  if (type === DOUBLE) {
    const value = Buffer.from(bytes.buffer, bytes.byteOffset + cursor.at, 8).readDoubleLE();
    cursor.at += 8;
    return value;
  }
  if (type !== TEXT && type !== BYTES) throw new Error(`a record holds a value of the unknown type ${type}`);
  const length = readVarint(bytes, cursor);
  const value = bytes.subarray(cursor.at, cursor.at + length);
  cursor.at += length;
  return type === TEXT ? Buffer.from(value).toString() : value;
}
