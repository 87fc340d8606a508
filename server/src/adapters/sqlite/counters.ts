import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { LedgerMessage } from './protocol.ts';

export type Scope = 'source' | 'destination';

/** Number of transactions; it shares the page that every transaction writes anyway. */
const COMMITS = ['store', 0, 'commits'] as const;

/**
 * The ledger's counters. What a transaction adds is gathered in memory and written once, by the same transaction, so
 * that counters and facts can never disagree.
 */
export class Counters {
  readonly #add: StatementSync;
  readonly #all: StatementSync;
  readonly #sources: StatementSync;
  #commits: number;
  readonly #deltas = new Map<string, { scope: Scope; id: number; name: string; n: number }>();

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
  add(scope: Scope, id: number, name: string, n: number): void {
    if (n === 0) return;
    const key = `${scope}/${id}/${name}`;
    const delta = this.#deltas.get(key);
    if (delta) delta.n += n;
    else this.#deltas.set(key, { scope, id, name, n });
  }

  /** Transactions before the one that is open now. */
  get commits(): number {
    return this.#commits;
  }

  write(): void {
    this.#add.run(...COMMITS, 1);
    this.#commits++;
    for (const { scope, id, name, n } of this.#deltas.values()) this.#add.run(scope, id, name, n);
    this.#deltas.clear();
  }

  /** Every source that an event ever came from, also one that the settings know no more. */
  sources(): number[] {
    return this.#sources.all().map((row) => (row as { id: number }).id);
  }

  /** One counter of all sources, or of all destinations, together. */
  sumOf(scope: Scope, name: string): number {
    return this.all().reduce(
      (sum, row) => (row.scope === scope && row.name === name ? sum + row.value : sum),
      0,
    );
  }

  all(): LedgerMessage['counters'] {
    return this.#all.all() as unknown as LedgerMessage['counters'];
  }
}
