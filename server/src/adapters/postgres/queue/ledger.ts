import type { Ledger } from '../../../model/ledger.ts';
import { type LedgerAnswer, type LedgerCount, ledgerOf } from '../../encoding/ledger.ts';
import { countedSets, spreadSkipSets } from '../../encoding/plans.ts';
import type { Database, Statement, Transaction } from '../database.ts';
import type { PlanNumbers } from '../log/plans.ts';

/** Each process counts in rows of its own, because a row is locked until the commit is on stable storage. */
const COUNT: Statement = {
  name: 'ledger.count',
  text: `insert into ledger(process, scope, id, name, value)
    select $1::bigint, * from unnest($2::text[], $3::int[], $4::text[], $5::bigint[])
    on conflict (process, scope, id, name) do update set value = ledger.value + excluded.value`,
};

/** One statement, one snapshot: the sums hold at any moment, whoever is writing. */
const ALL: Statement = {
  name: 'ledger.all',
  text: `select scope, id, name, sum(value) as value from ledger group by scope, id, name
    union all select 'pending', destination, '', sum(n) from pending group by destination`,
};

/**
 * Counts inside the transaction of what is counted. Call it once, at the end: the counters stay locked until
 * the commit.
 */
export function count(transaction: Transaction, counts: readonly LedgerCount[]): void {
  for (const one of counts) transaction.balance.count(one);
  write(transaction, counts);
}

/** Counts what damaged rows have held. */
export function countLost(transaction: Transaction, counts: readonly LedgerCount[]): void {
  write(transaction, counts);
}

function write(transaction: Transaction, counts: readonly LedgerCount[]): void {
  const sums = new Map<string, LedgerCount>();
  for (const one of counts) {
    const key = `${one.scope}/${one.id}/${one.name}`;
    sums.set(key, { ...one, n: one.n + (sums.get(key)?.n ?? 0) });
  }
  // Every transaction locks the rows in the same order, so that two of one process never wait for each other.
  const rows = [...sums]
    .filter(([, { n }]) => n !== 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, row]) => row);
  if (rows.length === 0) return;
  transaction.later(COUNT, [
    transaction.process,
    rows.map(({ scope }) => scope),
    rows.map(({ id }) => id),
    rows.map(({ name }) => name),
    rows.map(({ n }) => n),
  ]);
}

/** All counters of all processes. */
export async function readLedger(database: Database, log: Pick<PlanNumbers, 'skipSets'>): Promise<Ledger> {
  return await database.read(async (read) => {
    const rows = await read.rows<LedgerAnswer['counters'][number]>(ALL);
    const counters = rows.filter(({ scope }) => scope !== 'pending');
    const pending = rows.filter(({ scope }) => scope === 'pending');
    const sets = await log.skipSets(read, countedSets(counters));
    return ledgerOf({
      counters: spreadSkipSets(counters, (set) => sets.get(set)),
      pending: pending.map(({ id, value }) => ({ destination: id, n: value })),
    });
  });
}
