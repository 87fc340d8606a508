import { afterAll, beforeAll, describe } from 'vitest';
import { openPostgresStore, type PostgresStore } from '../../src/adapters/postgres/store.ts';
import type { Store } from '../../src/ports/store.ts';
import { logReaderConformance } from '../conformance/log-reader.ts';
import { type StoreHarness, storeConformance } from '../conformance/store.ts';
import { findPostgres, type Postgres, startPostgres } from '../support/postgres.ts';

const bin = findPostgres();

const opened = new WeakMap<Store, { url: string; store: PostgresStore }>();

let server: Postgres;
/** The database of a store that was opened and stopped: a copy of it costs less than making the tables. */
let template: string;

async function open(url: string): Promise<Store> {
  const store = await openPostgresStore({ url, node: 'a' });
  opened.set(store, { url, store });
  return store;
}

const harness = {
  open: async () => open(await server.makeDatabase(template)),
  reopen: async (store: Store) => {
    const { url, store: before } = opened.get(store)!;
    await before.abandon();
    return open(url);
  },
  close: async (store: Store) => {
    await store.stop();
    await server.dropDatabase(opened.get(store)!.url);
  },
} satisfies StoreHarness;

if (bin === undefined)
  console.log('left out: the PostgreSQL store, because no PostgreSQL 15 or newer is installed');

describe.runIf(bin !== undefined)('PostgreSQL', () => {
  beforeAll(async () => {
    // The suite opens some three hundred stores and never ends the server in the middle.
    server = await startPostgres(bin!, { fsync: 'off' });
    template = await server.makeDatabase();
    await (await open(template)).stop();
  });
  afterAll(() => server.stop());

  storeConformance('the PostgreSQL store', harness);
  logReaderConformance('the PostgreSQL store', {
    ...harness,
    reader: (store) => opened.get(store)!.store.openLogReader(),
  });
});
