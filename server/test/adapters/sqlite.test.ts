import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSqliteStore, type SqliteStore } from '../../src/adapters/sqlite/store.ts';
import type { Store } from '../../src/ports/store.ts';
import { storeConformance } from '../conformance/store.ts';

/**
 * A folder in memory, where the system has one: the suite opens some two hundred stores, and no test depends on the time of
 * a sync. The fault suite and the end-to-end tests use the real disk.
 */
const FOLDERS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const opened = new WeakMap<Store, { folder: string; store: SqliteStore }>();

async function open(folder: string): Promise<Store> {
  const store = await openSqliteStore({ folder });
  opened.set(store, { folder, store });
  return store;
}

storeConformance('the SQLite store', {
  open: () => open(mkdtempSync(join(FOLDERS, 'millrace-store-'))),
  reopen: async (store) => {
    const { folder, store: before } = opened.get(store)!;
    await before.abandon();
    return open(folder);
  },
  close: async (store) => {
    await store.stop();
    rmSync(opened.get(store)!.folder, { recursive: true });
  },
});
