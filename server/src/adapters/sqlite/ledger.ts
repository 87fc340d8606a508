import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { DestinationCounts, Ledger, SourceCounts } from '../../model/ledger.ts';

export type LedgerScope = 'source' | 'destination';

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

/** Rows of the ledger, and the number of pending deliveries by destination. */
export interface LedgerAnswer {
  readonly counters: readonly { scope: string; id: number; name: string; value: number }[];
  readonly pending: readonly { destination: number; n: number }[];
}

/** The ledger of model/ledger.ts from its rows. `pending` is counted from the pending sets; it has no counter. */
export function ledgerOf({ counters, pending }: LedgerAnswer): Ledger {
  const sources = new Map<number, Writable<SourceCounts>>();
  const destinations = new Map<number, Writable<DestinationCounts>>();
  for (const { scope, id, name, value } of counters) {
    const counts =
      scope === 'source' ? getOrCreate(sources, id, noSource) : getOrCreate(destinations, id, noDestination);
    const [counter, reason] = splitCounterName(name);
    const field = (counts as Record<string, number | Record<string, number>>)[counter];
    // A count by reason falls to zero when its dead letters are redelivered.
    if (typeof field === 'object' && value === 0) continue;
    if (typeof field === 'object') field[reason] = value;
    else (counts as Record<string, number | Record<string, number>>)[counter] = value;
  }
  for (const { destination, n } of pending) getOrCreate(destinations, destination, noDestination).pending = n;
  return { sources, destinations };
}

type Writable<Counts> = { -readonly [Name in keyof Counts]: Counts[Name] };

const noSource = (): Writable<SourceCounts> => ({ received: 0, accepted: 0, duplicates: 0, discarded: {} });

const noDestination = (): Writable<DestinationCounts> => ({
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  erased: 0,
  skipped: {},
});

function getOrCreate<Value>(map: Map<number, Value>, id: number, make: () => Value): Value {
  let value = map.get(id);
  if (value === undefined) {
    value = make();
    map.set(id, value);
  }
  return value;
}

function splitCounterName(name: string): [counter: string, reason: string] {
  const colon = name.indexOf(':');
  return colon < 0 ? [name, ''] : [name.slice(0, colon), name.slice(colon + 1)];
}
