import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { StorageError } from '../../ports/event-log.ts';
import { readVarint } from '../encoding/pending-set.ts';
import { ledgerCommits } from './ledger-table.ts';

/**
 * Reads the slots that files of formats 7 to 9 have beside their tables: `ledger_tail` has the latest
 * counters, and from format 8 on `redo` has the latest small transactions, to be carried out later. The step
 * to format 10 empties both, and nothing else knows of them. docs/decisions/0057-plain-commits.md
 *
 * A slot begins with its number in 6 bytes, which also stands in its row. It is void unless its number is
 * above that of the last transaction that its table has taken in.
 */
const NUMBER_BYTES = 6;

/** A slot of `redo` has its part, the number of parts and the length of its records behind the number. */
const REDO_HEAD_BYTES = NUMBER_BYTES + 4;

/** The slot of `redo` whose number is that of the last transaction that was carried out. */
const MARK = 0;

/** The statements of a transaction in `redo`, by the number that a record begins with. */
const STATEMENTS: ReadonlyMap<number, string> = new Map([
  [
    1,
    `insert or replace into chunk(first, n, at, until, codec, json, stage, batch, answer, sources, times, plans, keys, users, body)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ],
  [
    2,
    `insert or replace into pending(id, destination, state, owner, due, since, n, refs, first, last, tried)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ],
  [3, 'delete from pending where id = ?'],
  [4, 'update pending set n = ?, refs = ?, first = ?, last = ?, tried = ? where id = ?'],
  [
    5,
    'insert into accepted_attempt(destination, endpoint, first, last, at, facts) values (?, ?, ?, ?, ?, ?)',
  ],
]);

/** A record of what a transaction adds to the ledger: for each counter its group, its id and the number. */
const LEDGER_RECORD = 6;

/** Counters that stand in such a record by their number. */
const FREQUENT_GROUPS = [
  'source/received',
  'source/accepted',
  'source/duplicates',
  'destination/owed',
  'destination/delivered',
];

/**
 * Number of transactions in a file of any format, also in one that has no table yet. `isWhole` is false where
 * a slot is damaged: then there are at least as many.
 */
export function commitsIn(database: DatabaseSync): { readonly commits: number; readonly isWhole: boolean } {
  const counted = ledgerCommits(database);
  const slots = [...slotsOf(database, 'ledger_tail'), ...slotsOf(database, 'redo')];
  const whole = slots.filter(({ isWhole }) => isWhole);
  return {
    commits: Math.max(counted, ...whole.map(({ number }) => number)),
    isWhole: whole.length === slots.length,
  };
}

/**
 * Adds the counters to the ledger and carries the transactions out, inside the caller's transaction. Throws a
 * `StorageError` where a slot or what it is to change is damaged: the version that wrote the file knows how
 * to go around that.
 */
export function emptySlots(database: DatabaseSync): void {
  try {
    const counted = ledgerCommits(database);
    const tail = slotsOf(database, 'ledger_tail');
    const redo = slotsOf(database, 'redo');
    if (![...tail, ...redo].every(({ isWhole }) => isWhole)) throw new Error('a slot is damaged');
    const add = database.prepare(
      'insert into ledger(scope, id, name, value) values (?, ?, ?, ?) on conflict do update set value = value + excluded.value',
    );
    const addTo = (group: string, id: number, n: number) => {
      const slash = group.indexOf('/');
      add.run(group.slice(0, slash), id, group.slice(slash + 1), n);
    };
    for (const { number, content } of tail)
      if (number > counted) for (const [group, id, n] of countersIn(content)) addTo(group, id, n);
    const done = redo.find(({ slot }) => slot === MARK)?.number ?? 0;
    carryOut(
      database,
      redo.filter(({ slot, number }) => slot !== MARK && number > done),
      addTo,
    );
    add.run('store', 0, 'commits', Math.max(0, ...[...tail, ...redo].map(({ number }) => number - counted)));
  } catch (error) {
    const { errstr, message } = error as { errstr?: string; message: string };
    throw new StorageError(
      `the latest transactions in millrace.db cannot be brought to this version (${errstr ?? message}): start the version that ran here ` +
        'before, which goes around the damage and names it, stop it without a kill, and then start this one; or restore a backup',
      { cause: error },
    );
  }
}

/** Runs the statements of some transactions, whose slots stand in their order. */
function carryOut(
  database: DatabaseSync,
  slots: readonly Slot[],
  addTo: (group: string, id: number, n: number) => void,
): void {
  const statements = new Map([...STATEMENTS].map(([kind, sql]) => [kind, database.prepare(sql)]));
  for (let at = 0; at < slots.length; ) {
    const parts = slots[at]!.content[1]!;
    const records = slots.slice(at, at + parts).map(({ content }) => {
      const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
      return bytes.subarray(REDO_HEAD_BYTES - NUMBER_BYTES).subarray(0, bytes.readUInt16LE(2));
    });
    if (records.length < parts) throw new Error('a slot is missing');
    for (const { kind, values } of recordsIn(Buffer.concat(records))) {
      if (kind !== LEDGER_RECORD) statements.get(kind)!.run(...values);
      else
        for (let nth = 0; nth < values.length; nth += 3) {
          const [group, id, n] = values.slice(nth, nth + 3) as [number | string, number, number];
          addTo(typeof group === 'number' ? FREQUENT_GROUPS[group]! : group, id, n);
        }
    }
    at += parts;
  }
}

interface Slot {
  readonly slot: number;
  readonly number: number;
  /** Behind the number. */
  readonly content: Uint8Array;
  readonly isWhole: boolean;
}

/** In their order. None where the format has no such table. */
function slotsOf(database: DatabaseSync, table: 'ledger_tail' | 'redo'): Slot[] {
  const known = database.prepare(`select 1 from sqlite_schema where type = 'table' and name = ?`);
  if (known.get(table) === undefined) return [];
  const column = table === 'redo' ? 'bytes' : 'counts';
  const rows = database.prepare(`select slot, number, sum, ${column} as bytes from ${table} order by slot`);
  return (rows.all() as unknown as SlotRow[]).map(({ slot, number, sum, bytes }) => {
    const isWhole =
      bytes instanceof Uint8Array &&
      bytes.length > REDO_HEAD_BYTES &&
      sum === crc32(bytes) &&
      number === Buffer.from(bytes).readUIntLE(0, NUMBER_BYTES);
    return { slot, number, content: isWhole ? bytes.subarray(NUMBER_BYTES) : NOTHING, isWhole };
  });
}

const NOTHING = new Uint8Array();

interface SlotRow {
  readonly slot: number;
  readonly number: number;
  readonly sum: number;
  readonly bytes: Uint8Array;
}

/**
 * Counters by group, whose name comes first: gap since the id before, and the number with its sign in the
 * lowest bit. Zero ends a group.
 */
function* countersIn(bytes: Uint8Array): Generator<[group: string, id: number, n: number]> {
  const cursor = { at: 0 };
  while (cursor.at < bytes.length) {
    const length = readVarint(bytes, cursor);
    if (length === 0) return;
    const group = Buffer.from(bytes.subarray(cursor.at, cursor.at + length)).toString();
    cursor.at += length;
    let id = -1;
    for (let gap = readVarint(bytes, cursor); gap > 0; gap = readVarint(bytes, cursor)) {
      id += gap;
      const signed = readVarint(bytes, cursor);
      yield [group, id, signed % 2 === 1 ? -(signed + 1) / 2 : signed / 2];
    }
  }
}

type ColumnValue = number | string | null | Uint8Array;

/** Records one behind the other: kind, number of values, and each value behind its type. */
function* recordsIn(bytes: Uint8Array): Generator<{ kind: number; values: ColumnValue[] }> {
  const cursor = { at: 0 };
  while (cursor.at < bytes.length) {
    const kind = bytes[cursor.at++]!;
    const n = bytes[cursor.at++]!;
    yield { kind, values: Array.from({ length: n }, () => valueAt(bytes, cursor)) };
  }
}

/** Types of values: 0 null, 1 a whole number, 2 any other number, 3 a text, 4 bytes. */
function valueAt(bytes: Uint8Array, cursor: { at: number }): ColumnValue {
  const type = bytes[cursor.at++];
  if (type === 0) return null;
  if (type === 1) return readVarint(bytes, cursor);
  const length = type === 2 ? 8 : readVarint(bytes, cursor);
  const value = Buffer.from(bytes.subarray(cursor.at, cursor.at + length));
  cursor.at += length;
  if (type === 2) return value.readDoubleLE();
  return type === 3 ? value.toString() : value;
}
