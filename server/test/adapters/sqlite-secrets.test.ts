import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { SecretSeal } from '../../src/adapters/encoding/secret-seal.ts';
import { recordChecksum, type StoredRecordRow } from '../../src/adapters/sqlite/settings/records.ts';
import { adoptKey } from '../../src/adapters/sqlite/settings/secret-keys.ts';
import type { SecretKeys } from '../../src/model/secret-keys.ts';
import type { Store } from '../../src/ports/store.ts';
import { type SecretsHarness, secretsConformance } from '../conformance/secrets.ts';
import { openStore } from '../support/shared-writer.ts';
import { until } from '../support/until.ts';

const folders = new WeakMap<Store, string>();

async function open(folder: string, secretKeys: SecretKeys): Promise<Store> {
  const store = await openStore({ folder, secretKeys });
  folders.set(store, folder);
  return store;
}

const harness: SecretsHarness = {
  open: (keys) =>
    open(mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'millrace-s-')), keys),
  reopen: (store, keys) => open(folders.get(store)!, keys),
  bytes: async (store) => {
    const folder = folders.get(store)!;
    return readdirSync(folder)
      .map((name) => readFileSync(join(folder, name), 'latin1'))
      .join('');
  },
  replace: async (store, from, to) => {
    const database = new DatabaseSync(join(folders.get(store)!, 'millrace.db'));
    const rows = database.prepare('select * from record').all() as unknown as StoredRecordRow[];
    const update = database.prepare('update record set document = ?, sum = ? where id = ?');
    for (const row of rows) {
      const document = row.document.replace(from, to);
      update.run(document, recordChecksum({ ...row, document }), row.id);
    }
    database.close();
  },
  close: async (store) => {
    await store.stop();
    rmSync(folders.get(store)!, { recursive: true, force: true });
  },
};

secretsConformance('secrets in the SQLite store', harness);

describe('a store that got a key and was killed at once', () => {
  it('has no byte of the secrets of before left after the next start', async () => {
    const keys = { current: randomBytes(32), previous: [] };
    const plain = await harness.open({ previous: [] });
    const settings = {
      endpoints: [{ url: 'https://crm.example', headers: {} }],
      format: 'documented' as const,
    };
    const destinations = Array.from({ length: 40 }, (_, nth) => ({
      ...{ name: `crm-${nth}`, type: 'webhooks' as const, sources: [], enabled: true },
      settings: { ...settings, sharedSecret: `${nth}-shared-secret-9f31`.padEnd(9000, '.') },
    }));
    await plain.settings.apply({ sources: [], destinations });
    await plain.stop();
    const folder = folders.get(plain)!;
    // As far as a start comes before it removes anything.
    const database = new DatabaseSync(join(folder, 'millrace.db'));
    expect(adoptKey(database, new SecretSeal(keys))).toEqual({ records: 40, hasRemnants: true });
    database.close();
    expect((await harness.bytes(plain)).includes('shared-secret-9f31')).toBe(true);
    const store = await open(folder, keys);
    try {
      expect((await store.settings.load()).destinations).toMatchObject(destinations);
      await until(
        'the files hold no secret',
        async () => !(await harness.bytes(store)).includes('shared-secret-9f31'),
      );
    } finally {
      await harness.close(store);
    }
  });
});
