import { describe } from 'vitest';
import { Database } from '../../src/adapters/postgres/database.ts';
import { Member } from '../../src/adapters/postgres/member.ts';
import { migrate } from '../../src/adapters/postgres/schema.ts';
import { PostgresProfileStore } from '../../src/adapters/postgres/users/profile-store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import type { ProfileStore } from '../../src/ports/profile-store.ts';
import { profileStoreConformance } from '../conformance/profile-store.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';

describe.runIf(HAS_POSTGRES)('profiles in the database', () => {
  const postgres = usePostgres();

  const opened = new WeakMap<ProfileStore, { url: string; member: Member; database: Database }>();

  async function open(url: string): Promise<ProfileStore> {
    const database = new Database({ url, connections: 2 });
    await database.session(migrate);
    const member = await Member.join(database, { clock: systemClock, node: 'a' });
    const store = new PostgresProfileStore(database);
    opened.set(store, { url, member, database });
    return store;
  }

  profileStoreConformance('the PostgreSQL store of profiles', {
    open: async () => open(await postgres.makeDatabaseWithTables()),
    reopen: async (store) => {
      const { url, member, database } = opened.get(store)!;
      await member.stop(false);
      await database.abandon();
      return open(url);
    },
    close: async (store) => {
      await opened.get(store)!.member.stop(false);
      await store.stop();
    },
  });
});
