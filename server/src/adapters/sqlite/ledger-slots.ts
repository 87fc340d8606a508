import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Quarantine } from './damage.ts';

/** Rows of `ledger_tail`, once they were needed. The more there are, the rarer they are added up. */
export const SLOTS = 64;
/**
 * Bytes of a slot, whatever stands in it: a row that keeps its length is overwritten in its place, and its transaction changes no other
 * page for it. A slot fills a page of 1,024 bytes.
 */
const SLOT_BYTES = 960;
/** A slot begins with its number, which thereby stands in it twice: then damage of the counters leaves it readable. */
const NUMBER_BYTES = 6;
export const COUNTS_BYTES = SLOT_BYTES - NUMBER_BYTES;

/** A step of the format. */
export const LEDGER_TAIL = `
  -- What the latest transactions have added to "ledger": see ledger-table.ts.
  create table ledger_tail(
    slot integer primary key,
    -- The number of the last transaction in it. A slot is void unless "ledger" holds fewer transactions.
    number integer not null,
    sum integer not null,
    -- The number again, in 6 bytes, then the counters: see counter-sums.ts.
    counts blob not null
  ) strict;
`;

/** The slots of a file that may be of a format without them. */
export interface Slots {
  /** Counters of the slots that are not void, in the order in which these were filled. */
  readonly counts: readonly Uint8Array[];
  /** Slots up to the last one that is not void. */
  readonly used: number;
  /** The number of the last transaction in any slot; that of `ledger` where all are void. */
  readonly commits: number;
  /** False where a slot is damaged or cannot be read, unless it is surely void. */
  readonly isWhole: boolean;
}

/** `folded`: number of transactions in `ledger`. */
export function readSlots(database: DatabaseSync, folded: number, quarantine: Quarantine): Slots {
  const counts: Uint8Array[] = [];
  let [used, commits, isWhole] = [0, folded, true];
  if (!hasTable(database, 'ledger_tail')) return { counts, used, commits, isWhole };
  const select = database.prepare('select number, sum, counts from ledger_tail where slot = ?');
  // One by one: a scan reads the next page before it ends, and damage of that one would take this row with it.
  const rows = Array.from({ length: SLOTS }, (_, slot) =>
    quarantine.unlessDamaged(() => (select.get(slot) ?? 'none') as SlotRow | 'none'),
  );
  const written = rows.findLastIndex((row) => row !== 'none') + 1;
  for (const [slot, row] of rows.slice(0, written).entries()) {
    // Slots are begun in their order and never deleted.
    const number = row === undefined || row === 'none' ? undefined : numberOf(row);
    if (number === undefined) isWhole = false;
    else if (number > folded) {
      commits = Math.max(commits, number);
      used = slot + 1;
      const { sum, counts: bytes } = row as SlotRow;
      if (sum === slotChecksum(bytes)) counts.push(bytes.subarray(NUMBER_BYTES));
      else isWhole = false;
    }
  }
  return { counts, used, commits, isWhole };
}

export class SlotWriter {
  readonly #put: StatementSync;

  constructor(database: DatabaseSync) {
    this.#put = database.prepare(
      `insert into ledger_tail(slot, number, sum, counts) values (?, ?, ?, ?)
       on conflict do update set number = excluded.number, sum = excluded.sum, counts = excluded.counts`,
    );
  }

  put(slot: number, number: number, counts: Uint8Array): void {
    const bytes = Buffer.alloc(SLOT_BYTES);
    bytes.writeUIntLE(number, 0, NUMBER_BYTES);
    bytes.set(counts, NUMBER_BYTES);
    this.#put.run(slot, number, slotChecksum(bytes), bytes);
  }
}

export function hasTable(database: DatabaseSync, name: string): boolean {
  const table = database.prepare(`select 1 from sqlite_schema where type = 'table' and name = ?`);
  return table.get(name) !== undefined;
}

/** The number of a slot. Undefined where one of its places is damaged, so that nobody knows whether the slot is void. */
function numberOf({ number, counts }: SlotRow): number | undefined {
  if (!(counts instanceof Uint8Array) || counts.length !== SLOT_BYTES) return undefined;
  return Buffer.from(counts).readUIntLE(0, NUMBER_BYTES) === number ? number : undefined;
}

function slotChecksum(bytes: Uint8Array): number {
  return crc32(bytes);
}

/** As the table holds it. The types are those of a row that is not damaged. */
interface SlotRow {
  readonly number: number;
  readonly sum: number;
  readonly counts: Uint8Array;
}
