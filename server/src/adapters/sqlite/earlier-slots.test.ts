import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from './database.ts';
import { commitsIn, emptySlots } from './earlier-slots.ts';
import { LedgerReader, ledgerCommits } from './ledger-table.ts';

const FORMATS = join(import.meta.dirname, '../../../test/adapters/formats');

/**
 * Files that earlier versions have left after a kill, with counters and transactions in slots. See
 * test/adapters/formats.test.ts.
 */
describe('slots of earlier formats', () => {
  let folder: string;
  const path = () => join(folder, 'millrace.db');

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-slots-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const take = (format: number) => copyFileSync(join(FORMATS, `${format}.db`), path());

  /** Reads or changes the file while nobody has it open. */
  function inFile<Of>(run: (database: DatabaseSync) => Of): Of {
    const database = new DatabaseSync(path());
    try {
      return run(database);
    } finally {
      database.close();
    }
  }

  const upgrade = () => openDatabase(folder).close();

  it.each([7, 8, 9])('are counted before the upgrade from format %i as after it', (format) => {
    take(format);
    const before = inFile(commitsIn);
    expect(inFile(ledgerCommits)).toBeLessThan(before.commits);
    upgrade();
    expect(inFile(commitsIn)).toEqual(before);
    expect(inFile(ledgerCommits)).toBe(before.commits);
    const tables = inFile((database) => database.prepare('select name from sqlite_schema').all());
    expect(tables).not.toContainEqual(
      expect.objectContaining({ name: expect.stringMatching(/^(redo|ledger_tail)$/) }),
    );
  });

  it('are taken in once when the upgrade was cut off and is begun anew', () => {
    const accepted = () => inFile((database) => new LedgerReader(database).total('source', 'accepted'));
    take(9);
    upgrade();
    const [once, commits] = [accepted(), inFile(ledgerCommits)];
    take(9);
    inFile((database) => {
      database.exec('begin immediate');
      emptySlots(database);
      expect(new LedgerReader(database).total('source', 'accepted')).toBe(once);
      database.exec('rollback');
    });
    for (let nth = 0; nth < 2; nth++) upgrade();
    expect([accepted(), inFile(ledgerCommits)]).toEqual([once, commits]);
  });

  it.each([
    ['counters of another checksum', 'update ledger_tail set sum = sum + 1 where slot = 0'],
    ['counters with another number', 'update ledger_tail set number = number + 1 where slot = 0'],
    ['a transaction of another checksum', 'update redo set sum = sum + 1 where slot = 1'],
    ['a transaction with another number', 'update redo set number = 0 where slot = 2'],
    ['a mark without bytes', `update redo set bytes = x'' where slot = 0`],
  ])('stop the upgrade, which says what to do, and stay as they are: %s', (_, damage) => {
    take(9);
    inFile((database) => database.exec(damage));
    expect(inFile(commitsIn).isWhole).toBe(false);
    const content = () =>
      inFile((database) =>
        JSON.stringify([
          database.prepare('select * from redo').all(),
          database.prepare('select * from ledger_tail').all(),
          database.prepare('select * from ledger').all(),
          database.prepare('pragma user_version').all(),
        ]),
      );
    const before = content();
    expect(upgrade).toThrow(
      /cannot be brought to this version \(a slot is damaged\): start the version that ran here before/,
    );
    expect(content()).toBe(before);
  });

  it('stop the upgrade where the page that a transaction changes is destroyed', () => {
    take(9);
    const page = inFile(
      (database) =>
        (
          database
            .prepare(`select max(pageno) as page from dbstat where name = 'chunk' and pagetype = 'leaf'`)
            .get() as { page: number }
        ).page,
    );
    const size = inFile(
      (database) => (database.prepare('pragma page_size').get() as { page_size: number }).page_size,
    );
    const bytes = readFileSync(path());
    bytes.fill(0xa5, (page - 1) * size, page * size);
    writeFileSync(path(), bytes);
    expect(upgrade).toThrow(/cannot be brought to this version/);
  });
});
