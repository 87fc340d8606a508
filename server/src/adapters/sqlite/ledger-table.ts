import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { LedgerAnswer, LedgerScope } from '../encoding/ledger.ts';
import { CounterSums } from './counter-sums.ts';
import { Quarantine } from './damage.ts';

/** The number of transactions that table `ledger` holds, as one of its rows. */
const COMMITS = ['store', 0, 'commits'] as const;

/** Rows of `ledger_tail`, once they were needed. The more there are, the rarer they are added up. */
const SLOTS = 64;
/**
 * Bytes of a slot, whatever stands in it: a row that keeps its length is overwritten in its place, and its transaction changes no other
 * page for it. A slot fills a page of 1,024 bytes.
 */
const SLOT_BYTES = 960;

/** A step of the format. */
export const LEDGER_TAIL = `
  -- What the latest transactions have added to "ledger": see ledger-table.ts.
  create table ledger_tail(
    slot integer primary key,
    -- The number of the last transaction in it. A slot is void unless "ledger" holds fewer transactions.
    number integer not null,
    sum integer not null,
    -- See counter-sums.ts.
    counts blob not null
  ) strict;
`;

/** The ledger's counters in a file that may be of an earlier format. A counter is the sum of its row in `ledger` and of the slots. */
export class LedgerReader {
  readonly #all: StatementSync;
  readonly #sources: StatementSync;
  /** Transactions in `ledger`, and in the file. */
  protected folded: number;
  protected written: number;
  /** What stands in the slots, and how many of them hold anything. */
  protected tail: CounterSums;
  protected used: number;
  /** False where a slot is damaged. */
  protected readonly isTailWhole: boolean;

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    this.#all = database.prepare(`select scope, id, name, value from ledger where scope <> 'store'`);
    this.#sources = database.prepare(`select distinct id from ledger where scope = 'source'`);
    this.folded = foldedCommits(database);
    const { slots, isWhole } = readSlots(database, this.folded, quarantine);
    this.isTailWhole = isWhole && slots.every(isSlotWhole);
    // What a damaged slot held is missing in the ledger, whose sums then do not come out.
    if (!this.isTailWhole) quarantine.addStep('the ledger');
    this.written = slots.at(-1)?.number ?? this.folded;
    this.used = Math.max(0, ...slots.map(({ slot }) => slot + 1));
    this.tail = new CounterSums();
    for (const slot of slots) if (isSlotWhole(slot)) this.tail.decode(slot.counts);
  }

  /** Number of transactions before the open one. */
  get commits(): number {
    return this.written;
  }

  /** Ids of all sources that ever sent an event, also of removed ones. */
  sources(): number[] {
    const ids = new Set(this.#sources.all().map((row) => (row as { id: number }).id));
    for (const { scope, id } of this.tail) if (scope === 'source') ids.add(id);
    return [...ids];
  }

  /** The sum of one counter over all sources, or over all destinations. */
  total(scope: LedgerScope, name: string): number {
    return this.all().reduce(
      (sum, row) => (row.scope === scope && row.name === name ? sum + row.value : sum),
      0,
    );
  }

  all(): LedgerAnswer['counters'] {
    const sums = new CounterSums();
    for (const { scope, id, name, value } of this.#all.all() as unknown as CounterRow[])
      sums.add(scope, id, name, value);
    for (const { scope, id, name, n } of this.tail) sums.add(scope, id, name, n);
    return Array.from(sums, ({ scope, id, name, n }) => ({ scope, id, name, value: n }));
  }
}

/**
 * The ledger as its writer sees it. Changes are gathered in memory and written once by the transaction that caused them, so that
 * counters and facts never disagree.
 *
 * The counters of a thousand destinations stand on a hundred pages, and each event changes others of them. A transaction therefore
 * adds its changes to the slot that is being filled, which is one page. When all slots are full, they are added up into `ledger`.
 */
export class LedgerTable extends LedgerReader {
  readonly #add: StatementSync;
  readonly #put: StatementSync;
  /** What the open transaction has changed so far. */
  #changes = new CounterSums();
  /** What stands in the slot that is being filled. Undefined at first: what an earlier start has written stays as it is. */
  #slot: CounterSums | undefined;

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    super(database, quarantine);
    this.#add = database.prepare(
      'insert into ledger(scope, id, name, value) values (?, ?, ?, ?) on conflict do update set value = value + excluded.value',
    );
    this.#put = database.prepare(
      `insert into ledger_tail(slot, number, sum, counts) values (?, ?, ?, ?)
       on conflict do update set number = excluded.number, sum = excluded.sum, counts = excluded.counts`,
    );
  }

  /** `name` is a counter of model/ledger.ts; counters by reason are written `discarded:<reason>`. */
  add(scope: LedgerScope, id: number, name: string, n: number): void {
    if (n !== 0) this.#changes.add(scope, id, name, n);
  }

  /** Counts the open transaction, and writes what it has changed. */
  write(): void {
    const changes = this.#changes;
    this.#changes = new CounterSums();
    this.written++;
    this.tail.addAll(changes);
    if (this.isTailWhole && (this.#addToSlot(changes) || this.#addSlots(changes) || this.#compact())) return;
    this.#fold();
  }

  /** Adds to the slot that is being filled. False when it is full: then it stays as it is. */
  #addToSlot(changes: CounterSums): boolean {
    if (this.#slot === undefined) return false;
    this.#slot.addAll(changes);
    const counts = this.#slot.encode();
    if (counts.length > SLOT_BYTES) return false;
    this.#putSlot(this.used - 1, counts);
    return true;
  }

  /** Writes to as many further slots as it takes. False when there are too few: then none is written. */
  #addSlots(changes: CounterSums): boolean {
    const parts = partsOf(changes);
    if (this.used + parts.length > SLOTS) return false;
    for (const { counts } of parts) this.#putSlot(this.used++, counts);
    this.#slot = parts.at(-1)!.sums;
    return true;
  }

  #putSlot(slot: number, counts: Buffer): void {
    const bytes = Buffer.alloc(SLOT_BYTES);
    counts.copy(bytes);
    this.#put.run(slot, this.written, slotChecksum(this.written, bytes), bytes);
  }

  /** Writes the sum of all slots to the first ones. False when it takes more than half of them: that would soon be done again. */
  #compact(): boolean {
    const parts = partsOf(this.tail);
    if (parts.length > SLOTS / 2) return false;
    // Voids the slots that are not written now.
    this.#countFolded(this.written - 1);
    this.used = 0;
    for (const { counts } of parts) this.#putSlot(this.used++, counts);
    this.#slot = undefined;
    return true;
  }

  /** Adds the sum of all slots to `ledger`. They are void from then on. */
  #fold(): void {
    this.#countFolded(this.written);
    for (const { scope, id, name, n } of this.tail) this.#add.run(scope, id, name, n);
    this.tail = new CounterSums();
    this.#slot = undefined;
    this.used = 0;
  }

  #countFolded(commits: number): void {
    this.#add.run(...COMMITS, commits - this.folded);
    this.folded = commits;
  }
}

/** Number of transactions in a file of any format, also in one that has no table yet. */
export function countCommits(database: DatabaseSync): number {
  if (!hasTable(database, 'ledger')) return 0;
  const folded = foldedCommits(database);
  return readSlots(database, folded, new Quarantine()).slots.at(-1)?.number ?? folded;
}

function foldedCommits(database: DatabaseSync): number {
  const counter = database.prepare('select value from ledger where scope = ? and id = ? and name = ?');
  const row = counter.get(...COMMITS) as { value: number } | undefined;
  return row?.value ?? 0;
}

/** The counters in parts that each fit a slot. */
function partsOf(sums: CounterSums): { readonly sums: CounterSums; readonly counts: Buffer }[] {
  const counts = sums.encode();
  return counts.length <= SLOT_BYTES ? [{ sums, counts }] : sums.halves().flatMap(partsOf);
}

/** Slots that hold what `ledger` does not, in the order in which they were filled; `isWhole`: none is on a damaged page. */
function readSlots(
  database: DatabaseSync,
  folded: number,
  quarantine: Quarantine,
): { readonly slots: SlotRow[]; readonly isWhole: boolean } {
  if (!hasTable(database, 'ledger_tail')) return { slots: [], isWhole: true };
  const select = database.prepare(
    'select slot, number, sum, counts from ledger_tail where slot >= ? and slot <= ? and number > ? order by slot',
  );
  const between = (first: number, last: number) =>
    quarantine.unlessDamaged(() => select.all(first, last, folded) as unknown as SlotRow[]);
  const all = between(0, SLOTS);
  if (all !== undefined) return { slots: all, isWhole: true };
  const readable = Array.from({ length: SLOTS }, (_, slot) => between(slot, slot) ?? []);
  return { slots: readable.flat(), isWhole: false };
}

function hasTable(database: DatabaseSync, name: string): boolean {
  const table = database.prepare(`select 1 from sqlite_schema where type = 'table' and name = ?`);
  return table.get(name) !== undefined;
}

function isSlotWhole({ number, sum, counts }: SlotRow): boolean {
  return sum === slotChecksum(number, counts);
}

function slotChecksum(number: number, counts: Uint8Array): number {
  return crc32(counts, crc32(String(number)));
}

interface SlotRow {
  readonly slot: number;
  readonly number: number;
  readonly sum: number;
  readonly counts: Uint8Array;
}

interface CounterRow {
  readonly scope: LedgerScope;
  readonly id: number;
  readonly name: string;
  readonly value: number;
}
