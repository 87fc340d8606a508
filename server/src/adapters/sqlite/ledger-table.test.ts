import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { seeded } from '../../../test/support/seeded.ts';
import { Quarantine } from './damage.ts';
import { openDatabase } from './database.ts';
import { countCommits, LedgerReader, LedgerTable } from './ledger-table.ts';
import { verifyFile } from './upkeep/verification.ts';

describe('the ledger of the SQLite store', () => {
  let folder: string;
  let database: DatabaseSync;
  let ledger: LedgerTable;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-ledger-'));
    database = openDatabase(folder, { isNew: true });
    // Thousands of commits, of which none has to survive.
    database.exec('pragma synchronous = off');
    ledger = new LedgerTable(database, new Quarantine());
  });

  afterEach(() => {
    database.close();
    rmSync(folder, { recursive: true });
  });

  const reopen = (quarantine = new Quarantine()) => {
    ledger = new LedgerTable(database, quarantine);
  };

  /** One transaction that changes these counters of destinations. */
  function commit(changes: readonly (readonly [id: number, name: string, n: number])[]): void {
    database.exec('begin immediate');
    for (const [id, name, n] of changes) ledger.add('destination', id, name, n);
    ledger.write();
    database.exec('commit');
  }

  /** Every counter that is not 0, as text. */
  function counters(of: LedgerReader): string[] {
    const rows = of.all().filter(({ value }) => value !== 0);
    return rows.map(({ scope, id, name, value }) => `${scope} ${id} ${name} ${value}`).sort();
  }

  const count = (sql: string) => (database.prepare(sql).get() as { n: number }).n;
  const slots = () => count('select count(*) as n from ledger_tail');
  const rows = () => count('select count(*) as n from ledger');

  it('keeps few counters in one slot, however many commits change them', () => {
    const changes = [
      [1, 'owed', 2],
      [1, 'delivered', 1],
    ] as const;
    for (let n = 0; n < 500; n++) commit(changes);
    expect([slots(), rows()]).toEqual([1, 0]);
    expect(counters(ledger)).toEqual(['destination 1 delivered 500', 'destination 1 owed 1000']);
    expect(countCommits(database)).toBe(500);
  });

  it.each([
    ['few enough for the slots', 1000],
    ['too many for the slots', 30_000],
  ])('says the same sums and commits to itself, to a reader and after a start: %s', (_, destinations) => {
    const random = seeded(7);
    const expected = new Map<string, number>();
    for (let n = 1; n <= 2000; n++) {
      const size = random() < 0.01 ? 3000 : Math.floor(random() * 40);
      const changes = Array.from({ length: size }, () => {
        const name = ['owed', 'delivered', 'dead:status_400', 'skipped:filter'][Math.floor(random() * 4)]!;
        return [1 + Math.floor(random() * destinations), name, Math.floor(random() * 5) - 1] as const;
      });
      commit(changes);
      for (const [id, name, by] of changes) {
        const key = `destination ${id} ${name}`;
        expected.set(key, (expected.get(key) ?? 0) + by);
      }
      if (n % 100 !== 0) continue;
      const all = [...expected].flatMap(([key, value]) => (value === 0 ? [] : [`${key} ${value}`])).sort();
      expect(counters(ledger)).toEqual(all);
      expect(counters(new LedgerReader(database, new Quarantine()))).toEqual(all);
      if (random() < 0.5) reopen();
      expect([ledger.commits, countCommits(database)]).toEqual([n, n]);
    }
    expect(slots()).toBe(64);
    // Without the number of commits.
    if (destinations === 1000) expect(rows()).toBe(1);
    else expect(rows()).toBeGreaterThan(10_000);
  });

  it('adds up no slot twice', () => {
    const wide = Array.from({ length: 1000 }, (_, id) => [id, 'owed', 1] as const);
    for (let n = 0; n < 200; n++) commit(wide);
    expect(slots()).toBe(64);
    reopen();
    expect(ledger.total('destination', 'owed')).toBe(200_000);
  });

  it('takes a rolled back transaction for one that never was', () => {
    commit([[1, 'owed', 1]]);
    database.exec('begin immediate');
    ledger.add('destination', 1, 'owed', 5);
    ledger.write();
    database.exec('rollback');
    reopen();
    commit([[1, 'owed', 1]]);
    expect(counters(ledger)).toEqual(['destination 1 owed 2']);
    expect(ledger.commits).toBe(2);
  });

  it('names a damaged slot, keeps the counters of the others, and goes on', () => {
    commit([[1, 'owed', 1]]);
    reopen();
    commit([[2, 'owed', 1]]);
    database.exec('update ledger_tail set counts = zeroblob(960) where slot = 0');
    const quarantine = new Quarantine();
    reopen(quarantine);
    expect(quarantine.steps).toEqual(['the ledger']);
    expect(counters(ledger)).toEqual(['destination 2 owed 1']);
    commit([[2, 'owed', 1]]);
    expect(counters(ledger)).toEqual(['destination 2 owed 2']);
    expect(ledger.commits).toBe(3);
    const afterwards = new Quarantine();
    reopen(afterwards);
    expect(afterwards.steps).toEqual([]);
    expect(counters(ledger)).toEqual(['destination 2 owed 2']);
  });

  it('has a damaged slot named by the verification of a file', () => {
    const verified = () => {
      database.exec('pragma wal_checkpoint(truncate)');
      return verifyFile(join(folder, 'millrace.db'));
    };
    commit([[1, 'owed', 1]]);
    expect(verified()).toBeUndefined();
    database.exec('update ledger_tail set counts = zeroblob(960) where slot = 0');
    expect(verified()).toEqual({ events: 0, deliveries: 0, others: ['the ledger'] });
  });
});
