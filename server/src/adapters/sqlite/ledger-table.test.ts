import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it } from 'vitest';
import { LedgerReader, LedgerTable, ledgerCommits } from './ledger-table.ts';
import { migrate } from './schema.ts';

describe('the ledger of the SQLite store', () => {
  let database: DatabaseSync;
  let ledger: LedgerTable;

  beforeEach(() => {
    database = new DatabaseSync(':memory:');
    migrate(database);
    ledger = new LedgerTable(database);
  });

  /** One transaction that changes these counters of destinations. */
  function commit(...changes: readonly (readonly [id: number, name: string, n: number])[]): void {
    database.exec('begin immediate');
    for (const [id, name, n] of changes) ledger.add('destination', id, name, n);
    ledger.write();
    database.exec('commit');
  }

  const counters = (of: LedgerReader = ledger) => of.all().map(({ id, name, value }) => [id, name, value]);

  it('adds up what the transactions have changed, in one order, and counts them', () => {
    commit([2, 'owed', 1], [2, 'dead:status_400', 1], [2, 'owed', 2]);
    commit([1, 'owed', 1], [2, 'delivered', 1], [2, 'owed', -1]);
    commit();
    const expected = [
      [1, 'owed', 1],
      [2, 'dead:status_400', 1],
      [2, 'delivered', 1],
      [2, 'owed', 2],
    ];
    expect(counters()).toEqual(expected);
    expect(counters(new LedgerReader(database))).toEqual(expected);
    expect(ledger.total('destination', 'owed')).toBe(3);
    expect(ledger.total('source', 'accepted')).toBe(0);
    expect([ledger.commits, ledgerCommits(database)]).toEqual([3, 3]);
  });

  it('takes a rolled back transaction for one that never was', () => {
    commit([1, 'owed', 1]);
    database.exec('begin immediate');
    ledger.add('destination', 1, 'owed', 5);
    ledger.write();
    database.exec('rollback');
    ledger = new LedgerTable(database);
    commit([1, 'owed', 1]);
    expect(counters()).toEqual([[1, 'owed', 2]]);
    expect(ledger.commits).toBe(2);
  });

  it('names every source that ever sent an event', () => {
    for (const source of [7, 3, 7]) ledger.add('source', source, 'accepted', 1);
    commit([5, 'owed', 1]);
    expect(ledger.sources()).toEqual([3, 7]);
  });

  it('counts no transactions in a file that has no tables yet', () => {
    expect(ledgerCommits(new DatabaseSync(':memory:'))).toBe(0);
  });
});
