import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { LedgerAnswer, LedgerCount, LedgerScope } from '../encoding/ledger.ts';
import { LedgerBalance } from '../encoding/ledger.ts';

/** The number of transactions, among the counters. */
const COMMITS = ['store', 0, 'commits'] as const;

/** The counters of a file: table `ledger`. */
export class LedgerReader {
  readonly #all: StatementSync;
  readonly #total: StatementSync;
  readonly #sources: StatementSync;

  constructor(database: DatabaseSync) {
    // The order of the table's key: people are shown reasons in it.
    this.#all = database.prepare(
      `select scope, id, name, value from ledger where scope <> 'store' order by scope, id, name`,
    );
    this.#total = database.prepare(
      'select coalesce(sum(value), 0) as sum from ledger where scope = ? and name = ?',
    );
    this.#sources = database.prepare(`select distinct id from ledger where scope = 'source'`);
  }

  /** Ids of all sources that ever sent an event, also of removed ones. */
  sources(): number[] {
    return this.#sources.all().map((row) => (row as { id: number }).id);
  }

  /** The sum of one counter over all sources, or over all destinations. */
  total(scope: LedgerScope, name: string): number {
    return (this.#total.get(scope, name) as { sum: number }).sum;
  }

  /** In the order of scope, id and name. */
  all(): LedgerAnswer['counters'] {
    return this.#all.all() as unknown as LedgerAnswer['counters'];
  }
}

/**
 * The ledger as its writer sees it. Changes are gathered in memory and written once by the transaction that
 * caused them, so that counters and facts never disagree.
 */
export class LedgerTable extends LedgerReader {
  readonly #add: StatementSync;
  /** Of the open transaction. */
  readonly balance = new LedgerBalance();
  #commits: number;
  /** Changes of the open transaction so far, by scope, id and name. */
  #changes = new Map<string, { scope: LedgerScope; id: number; name: string; n: number }>();

  constructor(database: DatabaseSync) {
    super(database);
    this.#add = database.prepare(
      'insert into ledger(scope, id, name, value) values (?, ?, ?, ?) on conflict do update set value = value + excluded.value',
    );
    this.#commits = ledgerCommits(database);
  }

  /** Number of transactions before the open one. */
  get commits(): number {
    return this.#commits;
  }

  /** `name` is a counter of model/ledger.ts; counters by reason are written `discarded:<reason>`. */
  add(scope: LedgerScope, id: number, name: string, n: number): void {
    if (n === 0) return;
    this.balance.count({ scope, id, name, n });
    this.#change({ scope, id, name, n });
  }

  /** Counts what a damaged row has held. */
  addLost(count: LedgerCount): void {
    this.#change(count);
  }

  #change({ scope, id, name, n }: LedgerCount): void {
    const key = `${scope}/${id}/${name}`;
    const change = this.#changes.get(key);
    if (change === undefined) this.#changes.set(key, { scope, id, name, n });
    else change.n += n;
  }

  /** The last step of a transaction: counts it, and writes what it has changed. */
  write(): void {
    // In the order of the table, whose pages are then each changed once.
    const changes = [...this.#changes.values()].sort((a, b) => a.id - b.id);
    this.#changes = new Map();
    for (const { scope, id, name, n } of changes) this.#add.run(scope, id, name, n);
    this.#add.run(...COMMITS, 1);
    this.#commits++;
  }
}

/** Number of transactions in the ledger of a file, which may have none yet. */
export function ledgerCommits(database: DatabaseSync): number {
  const known = database.prepare(`select 1 from sqlite_schema where type = 'table' and name = 'ledger'`);
  if (known.get() === undefined) return 0;
  const counter = database.prepare('select value from ledger where scope = ? and id = ? and name = ?');
  return (counter.get(...COMMITS) as { value: number } | undefined)?.value ?? 0;
}
