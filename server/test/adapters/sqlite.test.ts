import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { it } from 'vitest';
import { openLogReader } from '../../src/adapters/sqlite/log/log-reader.ts';
import type { SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, event } from '../conformance/batches.ts';
import { delivered, hold, settle } from '../conformance/holdings.ts';
import { logReaderConformance } from '../conformance/log-reader.ts';
import { type StoreHarness, storeConformance } from '../conformance/store.ts';
import { crashStore, openStore } from '../support/shared-writer.ts';
import { until } from '../support/until.ts';

/**
 * A folder in memory, where the system has one: the suite opens some two hundred stores, and no test depends
 * on the time of a sync. The fault suite and the end-to-end tests use the real disk.
 */
const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const opened = new WeakMap<Store, { folder: string; store: SqliteStore }>();

async function open(folder: string): Promise<Store> {
  const store = await openStore({ folder });
  opened.set(store, { folder, store });
  return store;
}

const newFolder = () => mkdtempSync(join(FOLDERS, 'millrace-store-'));

const harness = {
  open: () => open(newFolder()),
  reopen: async (store: Store) => {
    const { folder } = opened.get(store)!;
    const left = newFolder();
    await crashStore(folder, left);
    rmSync(folder, { recursive: true });
    return open(left);
  },
  close: async (store: Store) => {
    await store.stop();
    rmSync(opened.get(store)!.folder, { recursive: true });
  },
} satisfies StoreHarness;

storeConformance('the SQLite store', harness);
logReaderConformance('the SQLite store', {
  ...harness,
  // In the same folder, which a reader has open: the thread is killed with all that it holds.
  reopen: async (store) => {
    const { folder, store: before } = opened.get(store)!;
    await before.abandon();
    return open(folder);
  },
  reader: (store) => openLogReader(opened.get(store)!.folder),
});

it('stores a few results with the call that comes next, in one commit', async () => {
  const folder = newFolder();
  const store = await openStore({ folder });
  const database = new DatabaseSync(`file:${join(folder, 'millrace.db')}?vfs=unix-excl`, { readOnly: true });
  const counter = database.prepare(`select value from ledger where name = 'commits'`);
  const commits = () => (counter.get() as { value: number }).value;
  let n = 0;
  // On a busy machine the call may come too late for some of them.
  await until('results were stored with the call after them', async () => {
    const [held] = await hold(store, 1, `m${++n}-`);
    const before = commits();
    const settling = settle(store, [delivered(held!)]);
    await new Promise((passed) => setTimeout(passed, 3));
    await store.log.append(batch([event(`next${n}`)]));
    await settling;
    return commits() === before + 1;
  });
  database.close();
  await store.stop();
  rmSync(folder, { recursive: true });
});
