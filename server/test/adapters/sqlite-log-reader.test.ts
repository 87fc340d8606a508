import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLogReader } from '../../src/adapters/sqlite/log/log-reader.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { Event, Position } from '../../src/model/event.ts';
import { type LogReader, StorageError } from '../../src/ports/event-log.ts';
import { batch, events } from '../conformance/batches.ts';
import { START } from '../conformance/harness.ts';
import { FOR_EVER } from '../conformance/upkeep.ts';
import { openStore } from '../support/shared-writer.ts';

/** Promises of the SQLite reader beyond the port: damage, checkpoints, files that are moved. */
describe('a reader of the log', () => {
  let folder: string;
  let store: SqliteStore;
  let reader: LogReader;
  const file = () => join(folder, 'millrace.db');

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-reader-'));
    store = await openStore({ folder });
    reader = openLogReader(folder);
  });
  afterEach(async () => {
    await reader.stop();
    await store.stop();
    rmSync(folder, { recursive: true });
  });

  async function behindItsBack(change: () => void): Promise<void> {
    await reader.stop();
    await store.stop();
    change();
    store = await openStore({ folder });
    reader = openLogReader(folder);
  }

  function sql(text: string): void {
    const database = new DatabaseSync(file());
    database.exec(text);
    database.close();
  }

  const append = (n: number, prefix: string) => store.log.append(batch(events(n, prefix)));

  /** The messageId of every position that can be read. */
  async function idsFrom(from: Position, max = 60): Promise<Map<Position, string>> {
    const ids = new Map<Position, string>();
    for (let at = from; ; ) {
      const { first, lines, starts, next, sources } = await reader.page(at, max);
      for (let nth = 0; nth < sources.length; nth++) {
        const line = Buffer.from(lines.subarray(starts[nth]!, starts[nth + 1]! - 1)).toString();
        if (line !== '') ids.set(first + nth, (JSON.parse(line) as Event).messageId);
      }
      if (next === at) return ids;
      at = next;
    }
  }

  it.each(['body', 'sources', 'n', 'stage'])(
    'gives no event of a chunk whose "%s" has changed, and all others',
    async (column) => {
      for (const [n, prefix] of [
        [40, 'a'],
        [5, 'b'],
        [40, 'c'],
      ] as const)
        await append(n, prefix);
      await behindItsBack(() =>
        sql(
          column === 'body' || column === 'sources'
            ? `update chunk set ${column} = zeroblob(length(${column})) where first = 40`
            : `update chunk set ${column} = ${column} + 2 where first = 40`,
        ),
      );
      const ids = await idsFrom(0);
      expect([...ids.keys()]).toEqual([...range(0, 40), ...range(45, 85)]);
      expect([...ids.values()]).toEqual([...names('a', 40), ...names('c', 40)]);
    },
  );

  it('steps over a destroyed page of the file, and goes on behind it', async () => {
    for (let n = 0; n < 60; n++) await append(100, `r${n}-`);
    let page = 0;
    await behindItsBack(() => {
      const bytes = readFileSync(file());
      const size = bytes.readUInt16BE(16);
      // A leaf of a table in the middle of the file.
      for (page = Math.floor(bytes.length / size / 2); bytes[page * size] !== 0x0d; ) page++;
      writeFileSync(file(), bytes.fill(0xee, page * size, (page + 1) * size));
    });
    const ids = await idsFrom(0, 500);
    expect(ids.size).toBeGreaterThan(4000);
    expect(ids.size).toBeLessThan(6000);
    expect(ids.get(0)).toBe('r0-0');
    expect(ids.get(5999)).toBe('r59-99');
    await append(3, 'new');
    expect([...(await idsFrom(6000)).values()]).toEqual(names('new', 3));
  });

  it('does not keep the write-ahead log from being emptied', async () => {
    await append(100, 'a');
    await reader.page(0, 10);
    expect(statSync(`${file()}-wal`).size).toBeGreaterThan(0);
    expect(await store.log.erase({ userIds: ['u1'] })).toMatchObject({ events: 100 });
    await store.regulations.scrub();
    expect(statSync(`${file()}-wal`).size).toBe(0);
    expect((await reader.page(0, 1000)).sources).toHaveLength(100);
  });

  it('reads without a gap while calls are stored one by one', async () => {
    let [at, stored] = [0, 0];
    const writing = (async () => {
      for (; stored < 500; stored++) await append(1, `m${stored}-`);
    })();
    while (at < 500) {
      const known = stored;
      const { first, next } = await reader.page(at, 50);
      expect(first).toBe(at);
      expect(next).toBeGreaterThanOrEqual(Math.min(known, at + 50));
      expect((await reader.bounds()).end).toBeGreaterThanOrEqual(next);
      at = next;
      await new Promise(setImmediate);
    }
    await writing;
  });

  it('refuses to read while the file is missing, and reads on when it is back', async () => {
    await append(4, 'a');
    expect((await idsFrom(0)).size).toBe(4);
    renameSync(file(), `${file()}.away`);
    await expect(reader.page(0, 10)).rejects.toThrow(StorageError);
    renameSync(`${file()}.away`, file());
    expect((await idsFrom(0)).size).toBe(4);
  });

  it('reads the file that now stands in the place of the one it read', async () => {
    await append(4, 'a');
    await reader.page(0, 10);
    await store.stop();
    cpSync(file(), `${file()}.copy`);
    renameSync(`${file()}.copy`, file());
    store = await openStore({ folder });
    await append(4, 'b');
    expect([...(await idsFrom(0)).values()]).toEqual([...names('a', 4), ...names('b', 4)]);
  });

  it('reads the same through upkeep that merges and checks everything', async () => {
    for (let n = 0; n < 80; n++) await append(2, `m${n}-`);
    const before = await idsFrom(0);
    while (await store.log.maintain(START, FOR_EVER, 20));
    expect(await idsFrom(0)).toEqual(before);
  });
});

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, nth) => from + nth);
}

function names(prefix: string, n: number): string[] {
  return range(0, n).map((nth) => `${prefix}${nth}`);
}
