import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openPostgresStore, type PostgresStore } from '../../src/adapters/postgres/store.ts';
import { systemClock } from '../../src/adapters/system/clock.ts';
import type { SecretKeys } from '../../src/model/secret-keys.ts';
import type { Store } from '../../src/ports/store.ts';
import { moveInstallation } from '../../src/wiring/migration.ts';
import { secretsConformance } from '../conformance/secrets.ts';
import { HAS_POSTGRES, usePostgres } from '../support/postgres-fixture.ts';
import { openStore } from '../support/shared-writer.ts';

const urls = new WeakMap<Store, string>();

async function openNode(
  url: string,
  secretKeys: SecretKeys,
  { node = 'a', version = '' } = {},
): Promise<PostgresStore> {
  const store = await openPostgresStore({ clock: systemClock, url, node, version, secretKeys });
  urls.set(store, url);
  return store;
}

const destination = (sharedSecret: string) => ({
  name: 'crm',
  type: 'webhooks' as const,
  sources: [],
  enabled: true,
  settings: {
    endpoints: [{ url: 'https://crm.example', headers: {} }],
    sharedSecret,
    format: 'documented' as const,
    success: 'any' as const,
  },
});

describe.runIf(HAS_POSTGRES)('secrets in PostgreSQL', () => {
  const postgres = usePostgres();
  const statement = async <Row>(url: string, text: string, values: readonly unknown[] = []) => {
    const { Client } = (await import('pg')).default;
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query(text, [...values])).rows as Row[];
    } finally {
      await client.end();
    }
  };

  secretsConformance('alone', {
    open: async (keys) => openNode(await postgres.makeDatabaseWithTables(), keys),
    reopen: (store, keys) => openNode(urls.get(store)!, keys),
    bytes: async (store) => {
      const url = urls.get(store)!;
      await statement(url, 'checkpoint');
      const [row] = await statement<{ bytes: Buffer; documents: string }>(
        url,
        `select pg_read_binary_file(pg_relation_filepath('record')) as bytes,
          (select string_agg(document, ' ') from record) as documents`,
      );
      return row!.bytes.toString('latin1') + row!.documents;
    },
    replace: async (store, from, to) => {
      await statement(urls.get(store)!, 'update record set document = replace(document, $1, $2)', [from, to]);
    },
    close: async (store) => {
      await store.stop();
      await postgres.dropDatabase(urls.get(store)!);
    },
  });

  it('moves encrypted from a folder to a database, and opens with the same key alone', async () => {
    const keys = { current: randomBytes(32), previous: [] };
    const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'millrace-secrets-'));
    try {
      const from = join(root, 'from');
      const source = await openStore({ folder: from, secretKeys: keys });
      await source.settings.apply({ sources: [], destinations: [destination('moved-9f31-secret')] });
      await source.stop();
      const url = await postgres.makeDatabase();
      await moveInstallation({ from, to: url });
      await expect(openNode(url, { current: randomBytes(32), previous: [] })).rejects.toThrow(
        /secrets are encrypted/,
      );
      const moved = await openNode(url, keys);
      expect((await moved.settings.load()).destinations[0]).toMatchObject({
        version: 1,
        settings: { sharedSecret: 'moved-9f31-secret' },
      });
      await moved.stop();
    } finally {
      rmSync(root, { recursive: true });
    }
  });

  it('leaves no secret of before in the statistics of the database', async () => {
    const url = await postgres.makeDatabaseWithTables();
    const plain = await openNode(url, { previous: [] });
    const records = ['one', 'two', 'three'].map((name) => ({ ...destination(`before-9f31-${name}`), name }));
    await plain.settings.apply({ sources: [], destinations: records });
    await statement(url, 'analyze record');
    const statistics = async () => {
      await statement(url, 'checkpoint');
      const [row] = await statement<{ bytes: Buffer }>(
        url,
        `select pg_read_binary_file(pg_relation_filepath('pg_statistic')) as bytes`,
      );
      return row!.bytes.toString('latin1');
    };
    expect(await statistics()).toContain('before-9f31-');
    await plain.stop();
    const sealed = await openNode(url, { current: randomBytes(32), previous: [] });
    expect(await statistics()).not.toContain('before-9f31-');
    await sealed.stop();
  });

  describe('with several nodes', () => {
    const nodes: PostgresStore[] = [];
    const node = async (...given: Parameters<typeof openNode>) => {
      const store = await openNode(...given);
      nodes.push(store);
      return store;
    };
    afterEach(async () => {
      for (const store of nodes.splice(0)) await store.stop();
    });
    const [old, next] = [randomBytes(32), randomBytes(32)];

    it('replaces a key node by node: both read and write what the other has written', async () => {
      const url = await postgres.makeDatabaseWithTables();
      const first = await node(url, { current: old, previous: [next] });
      await first.settings.apply({ sources: [], destinations: [destination('before-9f31-secret')] });
      const second = await node(url, { current: next, previous: [old] }, { node: 'b' });
      expect((await first.settings.load()).destinations[0]).toMatchObject({
        version: 1,
        settings: { sharedSecret: 'before-9f31-secret' },
      });
      await first.settings.apply({ sources: [], destinations: [destination('after-9f31-secret')] });
      expect(Object((await second.settings.load()).destinations[0]!.settings).sharedSecret).toBe(
        'after-9f31-secret',
      );
      await first.stop();
      // What the node with the key of before wrote needs that key no more.
      const third = await node(url, { current: next, previous: [] }, { node: 'c' });
      expect(Object((await third.settings.load()).destinations[0]!.settings).sharedSecret).toBe(
        'after-9f31-secret',
      );
    });

    it('says of a node without the key that it does not know the settings, and lets it change nothing', async () => {
      const url = await postgres.makeDatabaseWithTables();
      const without = await node(url, { previous: [] });
      await without.settings.apply({ sources: [], destinations: [destination('before-9f31-secret')] });
      expect(without.problems()).toEqual([]);
      const other = await node(url, { current: next, previous: [] }, { node: 'b' });
      await expect(without.settings.load()).rejects.toThrow(/secrets are encrypted with the key/);
      expect(without.problems()).toEqual([
        expect.stringMatching(/and secrets\.key is not set: set secrets\.key/),
      ]);
      await expect(
        without.settings.apply({ sources: [], destinations: [destination('plain-9f31-secret')] }),
      ).rejects.toThrow(/secrets are encrypted with the key/);
      expect(Object((await other.settings.load()).destinations[0]!.settings).sharedSecret).toBe(
        'before-9f31-secret',
      );
    });

    it('encrypts nothing while a node of another version runs, and names it', async () => {
      const url = await postgres.makeDatabaseWithTables();
      const earlier = await node(url, { previous: [] }, { node: 'a', version: '0.1.0' });
      const keys = { current: next, previous: [] };
      await expect(node(url, keys, { node: 'b', version: '0.2.0' })).rejects.toThrow(
        /node a runs version 0\.1\.0, which may not know encrypted secrets/,
      );
      const alive = (await earlier.nodes.list()).filter(({ leaseLeft }) => leaseLeft > 0);
      expect(alive.map(({ name }) => name)).toEqual(['a']);
      await earlier.stop();
      await node(url, keys, { node: 'b', version: '0.2.0' });
    });
  });
});
