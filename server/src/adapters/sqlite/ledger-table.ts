import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { LedgerAnswer, LedgerScope } from '../encoding/ledger.ts';
import { CounterSums } from './counter-sums.ts';
import type { Quarantine } from './damage.ts';
import { COUNTS_BYTES, hasTable, readSlots, SLOTS, SlotWriter } from './ledger-slots.ts';
import { RedoSlots } from './redo/slots.ts';

/** The number of transactions that table `ledger` holds, as one of its rows. */
const COMMITS = ['store', 0, 'commits'] as const;

/** The slots, among the steps of a quarantine. */
const TAIL = 'the ledger';

/** Slots that their sum may take: the others are room for the next transactions. */
const KEPT_SLOTS = (SLOTS * 3) / 4;
/**
 * What is too much for the slots is added to `ledger` by turns, so that no transaction takes long for it. A turn are blocks of ids,
 * which stand beside each other in the table.
 */
const TURNS = 8;
const BLOCK = 64;

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

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    this.#all = database.prepare(`select scope, id, name, value from ledger where scope <> 'store'`);
    this.#sources = database.prepare(`select distinct id from ledger where scope = 'source'`);
    this.folded = foldedCommits(database);
    const { counts, used, commits, isWhole } = readSlots(database, this.folded, quarantine);
    // What a damaged slot held is missing in the ledger, whose sums then do not come out.
    if (!isWhole) quarantine.addStep(TAIL);
    this.written = commits;
    this.used = used;
    this.tail = new CounterSums();
    for (const slot of counts) this.tail.decode(slot);
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

  /** In the order of scope, id and name: people are shown reasons in it. */
  all(): LedgerAnswer['counters'] {
    const sums = new CounterSums();
    for (const { scope, id, name, value } of this.#all.all() as unknown as CounterRow[])
      sums.add(scope, id, name, value);
    for (const { scope, id, name, n } of this.tail) sums.add(scope, id, name, n);
    const all = Array.from(sums, ({ scope, id, name, n }) => ({ scope, id, name, value: n }));
    return all.sort((a, b) => compareText(a.scope, b.scope) || a.id - b.id || compareText(a.name, b.name));
  }
}

/**
 * The ledger as its writer sees it. Changes are gathered in memory and written once by the transaction that caused them, so that
 * counters and facts never disagree.
 *
 * The counters of a thousand destinations stand on a hundred pages, and each event changes others of them. A transaction therefore
 * adds its changes to the slot that is being filled, which is one page. When all slots are full, they are added up.
 */
export class LedgerTable extends LedgerReader {
  readonly #add: StatementSync;
  readonly #slots: SlotWriter;
  readonly #quarantine: Quarantine;
  /** What the open transaction has changed so far. */
  #changes = new CounterSums();
  /** What the transactions that wait in the redo log have changed. */
  #deferred = new CounterSums();
  /** What stands in the slot that is being filled. Undefined at first: what an earlier start has written stays as it is. */
  #slot: CounterSums | undefined;
  /** Whose turn it is to be added to `ledger`. */
  #turn = 0;

  constructor(database: DatabaseSync, quarantine: Quarantine) {
    super(database, quarantine);
    this.#add = database.prepare(
      'insert into ledger(scope, id, name, value) values (?, ?, ?, ?) on conflict do update set value = value + excluded.value',
    );
    this.#slots = new SlotWriter(database);
    this.#quarantine = quarantine;
  }

  /** `name` is a counter of model/ledger.ts; counters by reason are written `discarded:<reason>`. */
  add(scope: LedgerScope, id: number, name: string, n: number): void {
    if (n !== 0) this.#changes.add(scope, id, name, n);
  }

  /** What the open transaction has changed so far. */
  get changes(): CounterSums {
    return this.#changes;
  }

  /** Counts the open transaction, which writes its changes into the redo log. `write` or `flush` adds them later. */
  defer(): void {
    this.written++;
    this.tail.addAll(this.#changes);
    this.#deferred.addAll(this.#changes);
    this.#changes = new CounterSums();
  }

  /** Takes the changes of transactions up to this one from the redo log of an earlier start or handle. */
  adopt(changes: CounterSums, commits: number): void {
    this.written = commits;
    this.tail.addAll(changes);
    this.#deferred.addAll(changes);
  }

  /** Counts the open transaction, and writes what it has changed. */
  write(): void {
    this.defer();
    this.flush();
  }

  /** Writes what has been changed so far, and counts nothing. */
  flush(): void {
    this.tail.addAll(this.#changes);
    this.#deferred.addAll(this.#changes);
    this.#changes = new CounterSums();
    const changes = this.#deferred;
    this.#deferred = new CounterSums();
    // A damaged slot, also one that takes no write, leaves the slots alone until the next start.
    const isAdded = this.#quarantine.guard(TAIL, () => {
      if (!this.#addToSlot(changes) && !this.#addSlots(changes)) this.#compact();
      return true;
    });
    if (!isAdded) this.#fold();
  }

  /** Adds to the slot that is being filled. False when it is full: then it stays as it is. */
  #addToSlot(changes: CounterSums): boolean {
    if (this.#slot === undefined) return false;
    this.#slot.addAll(changes);
    const [counts, ...more] = this.#slot.encode(COUNTS_BYTES);
    if (more.length > 0) return false;
    this.#slots.put(this.used - 1, this.written, counts!);
    return true;
  }

  /** Writes to as many further slots as it takes. False when there are too few: then none is written. */
  #addSlots(changes: CounterSums): boolean {
    const pieces = changes.encode(COUNTS_BYTES);
    if (this.used + pieces.length > SLOTS) return false;
    for (const counts of pieces) this.#slots.put(this.used++, this.written, counts);
    this.#slot = new CounterSums();
    this.#slot.decode(pieces.at(-1)!);
    return true;
  }

  /** Writes the sum of all slots to the first ones. As much of it as is too much for them is added to `ledger`. */
  #compact(): void {
    // Voids the slots that are not written now.
    this.#countFolded(this.written - 1);
    let pieces = this.tail.encode(COUNTS_BYTES);
    while (pieces.length > KEPT_SLOTS) {
      const turns = Math.ceil((1 - KEPT_SLOTS / pieces.length) * TURNS);
      const first = this.#turn;
      this.#turn = (first + turns) % TURNS;
      this.#addToLedger(this.tail.take((id) => (Math.floor(id / BLOCK) - first + TURNS) % TURNS < turns));
      pieces = this.tail.encode(COUNTS_BYTES);
    }
    this.used = 0;
    for (const counts of pieces) this.#slots.put(this.used++, this.written, counts);
    this.#slot = undefined;
  }

  /** Adds the sum of all slots to `ledger`. They are void from then on. */
  #fold(): void {
    this.#countFolded(this.written);
    this.#addToLedger(this.tail);
    this.tail = new CounterSums();
    this.#slot = undefined;
    this.used = 0;
  }

  /** In the order of the table, whose pages are then each changed once. */
  #addToLedger(sums: CounterSums): void {
    for (const { scope, id, name, n } of [...sums].sort((a, b) => a.id - b.id))
      this.#add.run(scope, id, name, n);
  }

  #countFolded(commits: number): void {
    this.#add.run(...COMMITS, commits - this.folded);
    this.folded = commits;
  }
}

/** Number of transactions in a file of any format, also in one that has no table yet; at least as many where that is damaged. */
export function countCommits(
  database: DatabaseSync,
  quarantine: Quarantine,
): { readonly commits: number; readonly isWhole: boolean } {
  const counted = countInLedger(database, quarantine);
  if (!hasTable(database, 'redo')) return counted;
  const { newest, isWhole } = new RedoSlots(database).read(() => counted.commits, quarantine);
  return { commits: Math.max(counted.commits, newest), isWhole: counted.isWhole && isWhole };
}

/** The same without the transactions that wait in the redo log. */
export function countInLedger(
  database: DatabaseSync,
  quarantine: Quarantine,
): { readonly commits: number; readonly isWhole: boolean } {
  if (!hasTable(database, 'ledger')) return { commits: 0, isWhole: true };
  return readSlots(database, foldedCommits(database), quarantine);
}

function foldedCommits(database: DatabaseSync): number {
  const counter = database.prepare('select value from ledger where scope = ? and id = ? and name = ?');
  const row = counter.get(...COMMITS) as { value: number } | undefined;
  return row?.value ?? 0;
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

interface CounterRow {
  readonly scope: LedgerScope;
  readonly id: number;
  readonly name: string;
  readonly value: number;
}
