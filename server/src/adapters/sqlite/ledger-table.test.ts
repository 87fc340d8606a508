import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { seeded } from '../../../test/support/seeded.ts';
import type { PartCursor, PartPage, RowOf } from '../../ports/installation.ts';
import { Quarantine } from './damage.ts';
import { openDatabase } from './database.ts';
import { countCommits, LedgerReader, LedgerTable } from './ledger-table.ts';
import { storeReaders } from './migration/store-tables.ts';
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
    expect(countCommits(database, new Quarantine()).commits).toBe(500);
  });

  it.each([
    ['few enough for the slots', 1000],
    ['too many for the slots', 30_000],
  ])('says the same sums and commits to itself, to a reader and after a start: %s', (_, destinations) => {
    const random = seeded(7);
    const expected = new Map<string, number>();
    for (let n = 1; n <= 1000; n++) {
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
      if (n % 250 !== 0) continue;
      const all = [...expected].flatMap(([key, value]) => (value === 0 ? [] : [`${key} ${value}`])).sort();
      expect(counters(ledger)).toEqual(all);
      expect(counters(new LedgerReader(database, new Quarantine()))).toEqual(all);
      if (random() < 0.5) reopen();
      expect([ledger.commits, countCommits(database, new Quarantine()).commits]).toEqual([n, n]);
    }
    expect(slots()).toBe(64);
    // Without the number of commits.
    if (destinations === 1000) expect(rows()).toBe(1);
    else expect(rows()).toBeGreaterThan(5000);
  });

  it('says its counters in one order, whichever changed first', () => {
    commit([[2, 'owed', 1]]);
    commit([
      [2, 'dead:status_400', 1],
      [1, 'owed', 1],
      [2, 'delivered', 1],
    ]);
    const names = ledger.all().map(({ id, name }) => `${id} ${name}`);
    expect(names).toEqual(['1 owed', '2 dead:status_400', '2 delivered', '2 owed']);
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

  it('takes a transaction that fails while the slots are added up for one that never was', () => {
    const wide = (from: number) =>
      Array.from({ length: 12_000 }, (_, nth) => [from + 200 * nth, 'owed', 1] as const);
    commit(wide(0));
    database.exec(`pragma max_page_count = ${count('select page_count as n from pragma_page_count')}`);
    // SQLite takes it back.
    expect(() => commit(wide(100))).toThrow('full');
    expect(database.isTransaction).toBe(false);
    reopen();
    expect([ledger.commits, ledger.total('destination', 'owed')]).toEqual([1, 12_000]);
    database.exec('pragma max_page_count = 1000000');
    commit(wide(100));
    expect(rows()).toBeGreaterThan(1000);
    reopen();
    expect([ledger.commits, ledger.total('destination', 'owed')]).toEqual([2, 24_000]);
  });

  /** Five commits of one event each, in a slot each. */
  function fiveSlots(): void {
    for (let id = 1; id <= 5; id++) {
      commit([[id, 'owed', 1]]);
      reopen();
    }
  }

  /** Opens the ledger of a damaged file: its number of commits, what is owed, and the steps that are not done. */
  function opened(): { readonly commits: number; readonly owed: number; readonly steps: readonly string[] } {
    const quarantine = new Quarantine();
    reopen(quarantine);
    const { commits } = ledger;
    expect(countCommits(database, new Quarantine())).toMatchObject({
      commits,
      isWhole: quarantine.steps.length === 0,
    });
    return { commits, owed: ledger.total('destination', 'owed'), steps: quarantine.steps };
  }

  it('names a damaged slot, keeps the counters of the others, and goes on', () => {
    fiveSlots();
    database.exec('update ledger_tail set counts = cast(substr(counts, 1, 6) || zeroblob(954) as blob)');
    expect(opened()).toEqual({ commits: 5, owed: 0, steps: ['the ledger'] });
    commit([[2, 'owed', 1]]);
    expect(counters(ledger)).toEqual(['destination 2 owed 1']);
    expect(opened()).toEqual({ commits: 6, owed: 1, steps: [] });
    commit([[2, 'owed', 1]]);
    expect(opened()).toEqual({ commits: 7, owed: 2, steps: [] });
  });

  it.each([
    ['lower number', 'number = 0'],
    ['higher number', 'number = number + 1000000'],
    ['number beyond all numbers', 'number = 9007199254740993'],
    ['number that is a text', `number = 'text'`],
    ['number that is a fraction', 'number = 1e300'],
    ['number that is none', 'number = null'],
    ['text instead of counters', `counts = 'text'`],
    ['number instead of counters', 'counts = 5'],
    ['no counters', 'counts = null'],
    ['shorter counters', 'counts = substr(counts, 1, 100)'],
    ['other counters', 'counts = cast(substr(counts, 1, 10) || zeroblob(950) as blob)'],
    ['no checksum', 'sum = null'],
    ['other place', 'slot = 7'],
  ])('loses what one slot counted and says so where damage leaves it a %s', (_, damage) => {
    fiveSlots();
    // Without types, which damage does not heed either.
    database.exec(`
      create table damaged(slot integer primary key, number, sum, counts);
      insert into damaged select * from ledger_tail;
      drop table ledger_tail;
      alter table damaged rename to ledger_tail;
    `);
    database.exec(`update ledger_tail set ${damage} where slot = 2`);
    // In another place it is found all the same.
    const owed = damage === 'slot = 7' ? 5 : 4;
    expect(opened()).toEqual({ commits: 5, owed, steps: ['the ledger'] });
    commit([[1, 'owed', 1]]);
    expect(opened()).toMatchObject({ commits: 6, owed: owed + 1 });
  });

  /** Changes the bytes of the page that holds the nth slot, which fills it. */
  function damagePage(nth: number, change: (page: Buffer) => void): void {
    database.exec('pragma wal_checkpoint(truncate)');
    const pages = database
      .prepare(`select pageno from dbstat where name = 'ledger_tail' and pagetype = 'leaf' order by path`)
      .all() as { pageno: number }[];
    database.close();
    const file = join(folder, 'millrace.db');
    const bytes = readFileSync(file);
    const end = pages[nth]!.pageno * 1024;
    change(bytes.subarray(end - 1024, end));
    writeFileSync(file, bytes);
    database = openDatabase(folder, { isNew: false });
  }

  it.each([
    [0, 5],
    [2, 5],
    // The number of commits is that of the slot before: the high-water mark then has the store refused.
    [4, 4],
  ])('loses what one slot counted, and no more, where its page cannot be read: slot %i', (nth, commits) => {
    fiveSlots();
    damagePage(nth, (page) => page.fill(0xa5));
    expect(opened()).toEqual({ commits, owed: 4, steps: ['the ledger'] });
    commit([[1, 'owed', 1]]);
    expect(opened()).toMatchObject({ commits: commits + 1, owed: 5 });
  });

  it('leaves the slots alone when one of them cannot be written', () => {
    for (let nth = 0; nth < 65; nth++) {
      reopen();
      commit([[1, 'owed', 1]]);
    }
    // The next slot to be written, which is void; SQLite finds that out when it takes the old row away.
    damagePage(1, (page) => page.writeUInt16BE(0xfff0, 1));
    const quarantine = new Quarantine();
    reopen(quarantine);
    expect(quarantine.steps).toEqual([]);
    let failure: unknown;
    try {
      commit([[1, 'owed', 1]]);
    } catch (error) {
      failure = error;
    }
    expect(quarantine.learnFrom(failure)).toBe(true);
    database.exec('rollback');
    reopen(quarantine);
    expect([ledger.commits, ledger.total('destination', 'owed')]).toEqual([65, 65]);
    commit([[1, 'owed', 1]]);
    expect(opened()).toMatchObject({ commits: 66, owed: 66 });
  });

  it('moves to another engine without a damaged slot, which counts as a row that was left out', () => {
    const moved = () => {
      let leftOut = 0;
      const readers = storeReaders(database, (n) => {
        leftOut += n;
      });
      const [owed, pages] = [[] as number[], [] as number[]];
      for (let after: PartCursor | undefined = [0]; after !== undefined; ) {
        const page: PartPage<RowOf<'ledger'>> = readers.ledger.page(after);
        for (const { id } of page.rows) owed.push(id);
        pages.push(page.rows.length);
        after = page.next;
      }
      return { owed, pages, leftOut };
    };
    const ids = Array.from({ length: 2500 }, (_, nth) => nth + 1);
    commit(ids.map((id) => [id, 'owed', 1]));
    expect(moved()).toEqual({ owed: ids, pages: [1000, 1000, 500], leftOut: 0 });
    database.exec('update ledger_tail set sum = 0 where slot = 0');
    const { owed, leftOut } = moved();
    expect(leftOut).toBe(1);
    expect(owed.length).toBeLessThan(2500);
    expect(owed.at(-1)).toBe(2500);
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
