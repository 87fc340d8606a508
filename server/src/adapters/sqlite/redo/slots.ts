import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Quarantine } from '../damage.ts';

/** Rows of `redo`, once they were needed. The more there are, the rarer they are carried out. */
export const SLOTS = 64;
/**
 * Bytes of a slot, whatever stands in it: a row that keeps its length is overwritten in its place, and its transaction changes no other
 * page for it. A slot fills a page of 1,024 bytes.
 */
const SLOT_BYTES = 968;
/** A slot begins with its number, which thereby stands in it twice, with its part, the number of parts, and the length of its records. */
const NUMBER_BYTES = 6;
const HEAD_BYTES = NUMBER_BYTES + 4;
const PART_BYTES = SLOT_BYTES - HEAD_BYTES;

/** The most slots that a transaction may take, and the bytes of records that they hold. */
const MAX_PARTS = 4;
export const MAX_RECORD_BYTES = MAX_PARTS * PART_BYTES;

/** The slot whose number is that of the last transaction that is carried out. The others follow it. */
const MARK = 0;

/** A step of the format. */
export function addRedo(database: DatabaseSync): void {
  database.exec(`
    -- Transactions that were written down and wait to be carried out: see redo/redo-log.ts.
    create table redo(
      slot integer primary key,
      -- The number of the transaction. A slot is void unless it is above that of slot 0.
      number integer not null,
      sum integer not null,
      -- The number again, in 6 bytes; part and parts of the transaction; bytes of records in it, and the records.
      bytes blob not null
    ) strict;
  `);
  new RedoSlots(database).mark(0);
}

/** The slots of a file. */
export interface RedoState {
  /** Transactions that are not carried out, in their order. */
  readonly live: readonly { readonly number: number; readonly records: Uint8Array }[];
  /** The number of the newest transaction in a slot that is not void; 0 where all are. */
  readonly newest: number;
  /** False where a slot is damaged or cannot be read, unless it is surely void. */
  readonly isWhole: boolean;
  /** Slots that may hold bytes of events, and those that are damaged. */
  readonly used: readonly number[];
}

/** The rows of table `redo`. */
export class RedoSlots {
  readonly #put: StatementSync;
  readonly #get: StatementSync;
  readonly #all: StatementSync;
  readonly #above: StatementSync;

  constructor(database: DatabaseSync) {
    this.#put = database.prepare(
      `insert into redo(slot, number, sum, bytes) values (?, ?, ?, ?)
       on conflict do update set number = excluded.number, sum = excluded.sum, bytes = excluded.bytes`,
    );
    this.#get = database.prepare('select slot, number, sum, bytes from redo where slot = ?');
    this.#all = database.prepare('select slot, number, sum, bytes from redo');
    this.#above = database.prepare('select slot, number, sum, bytes from redo where slot > 0 and number > ?');
  }

  /** How many slots some records take. */
  static partsOf(records: Uint8Array): number {
    return Math.max(1, Math.ceil(records.length / PART_BYTES));
  }

  /** Writes the records of a transaction, from a slot on. */
  put(first: number, number: number, records: Uint8Array): void {
    const parts = RedoSlots.partsOf(records);
    for (let part = 0; part < parts; part++) {
      const bytes = Buffer.alloc(SLOT_BYTES);
      const own = records.subarray(part * PART_BYTES, (part + 1) * PART_BYTES);
      bytes.writeUIntLE(number, 0, NUMBER_BYTES);
      bytes[NUMBER_BYTES] = part;
      bytes[NUMBER_BYTES + 1] = parts;
      bytes.writeUInt16LE(own.length, NUMBER_BYTES + 2);
      bytes.set(own, HEAD_BYTES);
      this.#put.run(first + part, number, crc32(bytes), bytes);
    }
  }

  /** All transactions up to this one are carried out. */
  mark(number: number): void {
    this.put(MARK, number, NOTHING);
  }

  /** Overwrites a slot with zeros. */
  wipe(slot: number): void {
    this.put(slot, 0, NOTHING);
  }

  /** `counted`: the number of the last transaction by the ledger, asked where the mark is damaged. */
  read(counted: () => number, quarantine: Quarantine): RedoState {
    const rows = this.#rows(quarantine).map(slotIn);
    const mark = rows[MARK]!;
    const done = mark === 'none' || !mark.isWhole ? counted() : mark.number!;
    // Slots are begun in their order and never deleted.
    const written = rows.slice(MARK + 1, rows.findLastIndex((slot) => slot !== 'none') + 1);
    const isLive = (slot: Slot | 'none') =>
      slot !== 'none' && slot.number !== undefined && slot.number > done;
    const transactions = byTransaction(written.filter(isLive) as Slot[]);
    const live = completeOnes(transactions);
    const hasDamage = written.some((slot) => slot === 'none' || slot.number === undefined);
    const hasGap = !written.slice(0, written.findLastIndex(isLive) + 1).every(isLive);
    return {
      live,
      newest: Math.max(0, ...transactions.keys()),
      isWhole: mark !== 'none' && mark.isWhole && live.length === transactions.size && !hasDamage && !hasGap,
      used: written.flatMap((slot, nth) => (slot !== 'none' && slot.number === 0 ? [] : MARK + 1 + nth)),
    };
  }

  /** The number of the last transaction that is carried out; undefined where the mark is damaged. */
  done(quarantine: Quarantine): number | undefined {
    const mark = slotIn(this.#row(MARK, quarantine));
    return mark !== 'none' && mark.isWhole ? mark.number : undefined;
  }

  /** Transactions above a number. Undefined where a slot cannot be read. */
  above(number: number, quarantine: Quarantine): RedoState['live'] | undefined {
    const rows = quarantine.unlessDamaged(() => this.#above.all(number) as unknown as SlotRow[]);
    return rows && completeOnes(byTransaction(rows.map(slotIn) as Slot[]));
  }

  /** By number of the slot; undefined for those that cannot be read. */
  #rows(quarantine: Quarantine): (SlotRow | 'none' | undefined)[] {
    const numbers = Array.from({ length: SLOTS + 1 }, (_, slot) => slot);
    const found = quarantine.unlessDamaged(() => this.#all.all() as unknown as SlotRow[]);
    if (found !== undefined) {
      const bySlot = new Map(found.map((row) => [row.slot, row]));
      return numbers.map((slot) => bySlot.get(slot) ?? 'none');
    }
    // One by one: a scan reads the next page before it ends, and damage of that one would take this row with it.
    return numbers.map((slot) => this.#row(slot, quarantine));
  }

  #row(slot: number, quarantine: Quarantine): SlotRow | 'none' | undefined {
    return quarantine.unlessDamaged(() => (this.#get.get(slot) ?? 'none') as SlotRow | 'none');
  }
}

function byTransaction(slots: readonly Slot[]): Map<number, Slot[]> {
  const transactions = new Map<number, Slot[]>();
  for (const slot of slots) {
    if (slot.number === undefined) continue;
    const parts = transactions.get(slot.number);
    if (parts === undefined) transactions.set(slot.number, [slot]);
    else parts.push(slot);
  }
  return transactions;
}

function completeOnes(transactions: ReadonlyMap<number, readonly Slot[]>): RedoState['live'] {
  return [...transactions].flatMap(([number, parts]) =>
    isComplete(parts) ? { number, records: Buffer.concat(parts.map(({ records }) => records)) } : [],
  );
}

const NOTHING = new Uint8Array();

interface Slot {
  /** Undefined where one of its places is damaged, so that nobody knows whether the slot is void. */
  readonly number: number | undefined;
  readonly part: number;
  readonly parts: number;
  readonly records: Uint8Array;
  readonly isWhole: boolean;
}

const DAMAGED: Slot = { number: undefined, part: 0, parts: 0, records: NOTHING, isWhole: false };

function slotIn(row: SlotRow | 'none' | undefined): Slot | 'none' {
  if (row === 'none') return 'none';
  if (row === undefined || !(row.bytes instanceof Uint8Array) || row.bytes.length !== SLOT_BYTES)
    return DAMAGED;
  const bytes = Buffer.from(row.bytes.buffer, row.bytes.byteOffset, SLOT_BYTES);
  if (bytes.readUIntLE(0, NUMBER_BYTES) !== row.number) return DAMAGED;
  return {
    number: row.number,
    part: bytes[NUMBER_BYTES]!,
    parts: bytes[NUMBER_BYTES + 1]!,
    records: bytes.subarray(HEAD_BYTES, HEAD_BYTES + bytes.readUInt16LE(NUMBER_BYTES + 2)),
    isWhole: row.sum === crc32(bytes),
  };
}

/** Whether these slots are all parts of a transaction, in their order. */
function isComplete(slots: readonly Slot[]): boolean {
  return slots.every(({ isWhole, part, parts }, nth) => isWhole && part === nth && parts === slots.length);
}

/** As the table holds it. The types are those of a row that is not damaged. */
interface SlotRow {
  readonly slot: number;
  readonly number: number;
  readonly sum: number;
  readonly bytes: Uint8Array;
}
