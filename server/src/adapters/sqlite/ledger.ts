import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { LedgerAnswer, LedgerScope } from '../encoding/ledger.ts';

/** The number of transactions is a row here, because every transaction writes this page anyway. */
const COMMITS = ['store', 0, 'commits'] as const;

/**
 * The ledger's counters. Deltas are gathered in memory and written once by the transaction that caused them, so that
 * counters and facts never disagree.
 */
export class LedgerTable {
  readonly #add: StatementSync;
  readonly #all: StatementSync;
  readonly #sources: StatementSync;
  #commits: number;
  readonly #deltas = new Map<string, { scope: LedgerScope; id: number; name: string; n: number }>();

  constructor(database: DatabaseSync) {
    this.#add = database.prepare(
      'insert into ledger(scope, id, name, value) values (?, ?, ?, ?) on conflict do update set value = value + excluded.value',
    );
    this.#all = database.prepare(`select scope, id, name, value from ledger where scope <> 'store'`);
    this.#sources = database.prepare(`select distinct id from ledger where scope = 'source'`);
    const count = database.prepare('select value from ledger where scope = ? and id = ? and name = ?');
    this.#commits = (count.get(...COMMITS) as { value: number } | undefined)?.value ?? 0;
  }

  /** `name` is a counter of model/ledger.ts; counters by reason are written `discarded:<reason>`. */
  add(scope: LedgerScope, id: number, name: string, n: number): void {
    if (n === 0) return;
    const key = `${scope}/${id}/${name}`;
    const delta = this.#deltas.get(key);
    if (delta) delta.n += n;
    else this.#deltas.set(key, { scope, id, name, n });
  }

  /** Number of transactions before the open one. */
  get commits(): number {
    return this.#commits;
  }

  write(): void {
    this.#add.run(...COMMITS, 1);
    this.#commits++;
    for (const { scope, id, name, n } of this.#deltas.values()) this.#add.run(scope, id, name, n);
    this.#deltas.clear();
  }

  /** Ids of all sources that ever sent an event, also of removed ones. */
  sources(): number[] {
    return this.#sources.all().map((row) => (row as { id: number }).id);
  }

  /** The sum of one counter over all sources, or over all destinations. */
  total(scope: LedgerScope, name: string): number {
    return this.all().reduce(
      (sum, row) => (row.scope === scope && row.name === name ? sum + row.value : sum),
      0,
    );
  }

  all(): LedgerAnswer['counters'] {
    return this.#all.all() as unknown as LedgerAnswer['counters'];
  }
}
