import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe } from 'vitest';
import { openPostgresStore, type PostgresStore } from '../../src/adapters/postgres/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import type { Store } from '../../src/ports/store.ts';
import { logReaderConformance } from '../conformance/log-reader.ts';
import { type StoreHarness, storeConformance } from '../conformance/store.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';

const opened = new WeakMap<Store, { url: string; store: PostgresStore }>();

async function open(url: string): Promise<Store> {
  const store = await openPostgresStore({ clock: systemClock, url, node: 'a' });
  opened.set(store, { url, store });
  return store;
}

describe.runIf(HAS_POSTGRES)('PostgreSQL', () => {
  const postgres = usePostgres();

  const harness = {
    open: async () => open(await postgres.makeDatabaseWithTables()),
    reopen: async (store: Store) => {
      const { url, store: before } = opened.get(store)!;
      // What was called in this turn has a connection in the next: cut off before, it would wait ten seconds
      // for one.
      await nextTurn();
      await before.abandon();
      return open(url);
    },
    close: async (store: Store) => {
      await store.stop();
      await postgres.dropDatabase(opened.get(store)!.url);
    },
  } satisfies StoreHarness;

  storeConformance('the PostgreSQL store', harness);
  logReaderConformance('the PostgreSQL store', {
    ...harness,
    reader: (store) => opened.get(store)!.store.openLogReader(),
  });
});
