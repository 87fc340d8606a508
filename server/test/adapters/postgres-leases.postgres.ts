import { describe } from 'vitest';
import { Database, type Statement } from '../../src/adapters/postgres/database.ts';
import { openPostgresStore } from '../../src/adapters/postgres/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import { leasesConformance } from '../conformance/leases.ts';
import { type NodesHarness, nodesConformance } from '../conformance/nodes.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';

const PUT: Statement = { name: 'put', text: 'insert into producer(name, sequence) values ($1, 1)' };
const NAMES: Statement = { name: 'names', text: 'select name from producer order by name' };

describe.skipIf(!HAS_POSTGRES)('PostgreSQL', () => {
  const postgres = usePostgres();
  let url: string | undefined;

  async function ask(sql: string): Promise<void> {
    const observer = new Database({ url: url! });
    await observer.session((session) => session.query(sql));
    await observer.stop();
  }

  const harness: NodesHarness = {
    async open(node) {
      url ??= await postgres.makeDatabaseWithTables();
      const store = await openPostgresStore({ clock: systemClock, url, node });
      return { ...store, process: () => store.nodes.process };
    },
    async lapse(node, seconds) {
      await ask(
        `update process set expires = clock_timestamp() + interval '${seconds} s' where id = ${node.process()}`,
      );
    },
    async close() {
      await postgres.dropDatabase(url!);
      url = undefined;
    },
  };

  nodesConformance('PostgreSQL', harness);

  const opened: Database[] = [];

  leasesConformance('PostgreSQL', {
    async open(connections) {
      url ??= await postgres.makeDatabaseWithTables();
      const database = new Database({ url, ...(connections !== undefined && { connections }) });
      opened.push(database);
      return database;
    },
    async lapse(node, seconds) {
      await ask(
        `update process set expires = clock_timestamp() + interval '${seconds} s' where node = '${node}'`,
      );
    },
    put: (write, name) => write.rows(PUT, [name]),
    names: async (database) =>
      (await database.read((read) => read.rows<{ name: string }>(NAMES))).map(({ name }) => name),
    isBlocked: async () => {
      await postgres.isBlocked(url!);
    },
    async close() {
      for (const database of opened.splice(0)) await database.stop();
      await postgres.dropDatabase(url!);
      url = undefined;
    },
  });
});
