import { randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import type { AlertRecord } from '../../src/model/alert.ts';
import type { SecretKeys } from '../../src/model/secret-keys.ts';
import type { DestinationRecord } from '../../src/model/settings.ts';
import type { SettingsSnapshot } from '../../src/ports/settings-store.ts';
import type { Store } from '../../src/ports/store.ts';
import { until } from '../support/until.ts';

/** The suite's access to a store that keeps secrets. */
export interface SecretsHarness {
  /** An empty store. */
  open(keys: SecretKeys): Promise<Store>;
  /** Opens the contents of a stopped store with other keys. Rejects as a start would. */
  reopen(store: Store, keys: SecretKeys): Promise<Store>;
  /** Every byte of the files in which a store keeps its records. */
  bytes(store: Store): Promise<string>;
  /** Replaces a text in the stored records, as somebody who writes into the store does. */
  replace(store: Store, from: string, to: string): Promise<void>;
  /** Stops it, if it runs, and removes what it stored. */
  close(store: Store): Promise<void>;
}

const SECRETS = {
  shared: 'shared-secret-9f31',
  signing: 'whsec_c2lnbmluZy1zZWNyZXQtOWYzMS1zaWduaW5n',
  header: 'Bearer header-value-9f31',
  plainHeader: 'team-growth-9f31',
  url: 'https://crm.example/in?token=url-token-9f31',
  next: 'next-shared-secret-9f31',
  privateKey: 'private-key-9f31',
  password: 'smtp-password-9f31',
};

const CRM: DestinationRecord = {
  name: 'crm',
  type: 'webhooks',
  sources: [],
  enabled: true,
  settings: {
    endpoints: [
      { url: SECRETS.url, headers: { Authorization: SECRETS.header, 'X-Team': SECRETS.plainHeader } },
      { url: 'https://crm.example/visible-place', headers: {} },
    ],
    sharedSecret: SECRETS.shared,
    nextSharedSecret: SECRETS.next,
    signingSecrets: [SECRETS.signing],
    publicSignature: true,
    format: 'documented',
  },
  signingKey: { id: 'key-id', privateKey: SECRETS.privateKey, publicKey: 'public-key' },
};

const MAIL: AlertRecord = {
  name: 'ops',
  enabled: true,
  on: ['disk_filling'],
  after: 0,
  remindEvery: 1000,
  type: 'email',
  settings: {
    server: 'smtps://mail.example',
    user: 'millrace',
    password: SECRETS.password,
    from: 'a@example.com',
    to: ['b@example.com'],
  },
};

const newKey = (): Uint8Array => randomBytes(32);
const only = (current: Uint8Array): SecretKeys => ({ current, previous: [] });
const NONE: SecretKeys = { previous: [] };

/** Secrets that the bytes contain unencrypted. */
const readable = (bytes: string): string[] =>
  Object.values(SECRETS).filter((secret) => bytes.includes(secret));

const without = ({ sources: _, ...rest }: SettingsSnapshot) => rest;

/** docs/decisions/0051: what a store does with `SecretKeys`. */
export function secretsConformance(name: string, harness: SecretsHarness): void {
  const opened: Store[] = [];
  const keep = (store: Store): Store => {
    opened.push(store);
    return store;
  };
  const open = async (keys: SecretKeys) => {
    const store = keep(await harness.open(keys));
    await store.settings.apply({ sources: [], destinations: [CRM], alerts: [MAIL] });
    return store;
  };
  const reopen = async (store: Store, keys: SecretKeys) => {
    await store.stop();
    const again = keep(await harness.reopen(store, keys));
    opened.splice(opened.indexOf(store), 1);
    return again;
  };
  afterEach(async () => {
    for (const store of opened.splice(0)) await harness.close(store);
  });

  describe(name, () => {
    it('keeps no secret as it is where it has a key, and gives each back as it was', async () => {
      const key = newKey();
      const store = await open(only(key));
      const before = await store.settings.load();
      expect(before.destinations).toMatchObject([CRM]);
      expect(before.alerts).toEqual([MAIL]);
      await store.stop();
      const bytes = await harness.bytes(store);
      expect(readable(bytes)).toEqual([]);
      expect(bytes).toContain('https://crm.example/visible-place');
      expect(await (await reopen(store, only(key))).settings.load()).toEqual(before);
    });

    it('keeps them as they are without a key', async () => {
      const store = await open(NONE);
      await store.stop();
      expect(readable(await harness.bytes(store)).sort()).toEqual(Object.values(SECRETS).sort());
    });

    it('sees that a record with secrets has not changed', async () => {
      const store = await open(only(newKey()));
      const { destinations } = await store.settings.apply({ sources: [], destinations: [CRM] });
      expect(destinations[0]!.version).toBe(1);
      const changed = { ...CRM, settings: { ...CRM.settings, sharedSecret: 'another-9f31-secret' } };
      const after = await store.settings.apply({ sources: [], destinations: [changed] });
      expect(after.destinations[0]!.version).toBe(2);
    });

    it('gives back every text that a secret can be, and takes none for one that is encrypted', async () => {
      const key = newKey();
      const store = await open(only(key));
      const strange = ['\ud800half', 'größe 🔑\u0000', '{"sealed":"00.AAAA"}', 'x'.repeat(100_000)];
      const destinations = strange.map((sharedSecret, nth) => ({
        ...{ ...CRM, name: `strange-${nth}` },
        settings: { ...CRM.settings, sharedSecret },
      }));
      await store.settings.apply({ sources: [], destinations });
      const again = await reopen(store, only(key));
      const { destinations: stored } = await again.settings.apply({ sources: [], destinations });
      expect(stored.slice(1)).toMatchObject(destinations.map((one) => ({ ...one, version: 1 })));
    });

    it('encrypts what is stored already when it gets a key, and leaves no byte of it behind', async () => {
      const store = await open(NONE);
      await store.settings.apply({
        sources: [],
        destinations: [{ ...CRM, name: 'gone' }],
        removed: [],
      });
      await store.settings.apply({
        sources: [],
        destinations: [],
        removed: [{ kind: 'destination', name: 'gone' }],
      });
      const before = without(await store.settings.load());
      const again = await reopen(store, only(newKey()));
      expect(without(await again.settings.load())).toEqual(before);
      await until('the files hold no secret', async () => readable(await harness.bytes(again)).length === 0);
    });

    it('refuses another key and none, names the one it needs, and changes nothing', async () => {
      const key = newKey();
      const store = await open(only(key));
      const before = await store.settings.load();
      await store.stop();
      const named =
        /secrets are encrypted with the key [0-9a-f]{16}, and secrets\.key is (not set|[0-9a-f]{16})/;
      await expect(harness.reopen(store, only(newKey()))).rejects.toThrow(named);
      await expect(harness.reopen(store, NONE)).rejects.toThrow(named);
      expect(await (await reopen(store, only(key))).settings.load()).toEqual(before);
    });

    it('takes a new key beside the one before, and needs that no more afterwards', async () => {
      const [old, next] = [newKey(), newKey()];
      const store = await open(only(old));
      const before = await store.settings.load();
      const both = await reopen(store, { current: next, previous: [old] });
      expect(await both.settings.load()).toEqual(before);
      const after = await reopen(both, only(next));
      expect(await after.settings.load()).toEqual(before);
    });

    it('stores secrets as they are again where the key is only among the previous ones', async () => {
      const key = newKey();
      const store = await open(only(key));
      const before = await store.settings.load();
      const plain = await reopen(store, { previous: [key] });
      expect(await (await reopen(plain, NONE)).settings.load()).toEqual(before);
    });

    it('opens no secret at another place than its own', async () => {
      const key = newKey();
      const store = await open(only(key));
      await store.settings.apply({ sources: [], destinations: [{ ...CRM, name: 'thief' }] });
      await store.stop();
      const [own] = /\{"sealed":"[^"]+"\}(?=,"nextSharedSecret")/.exec(await harness.bytes(store))!;
      const others = [
        ...(await harness.bytes(store)).matchAll(/\{"sealed":"[^"]+"\}(?=,"nextSharedSecret")/g),
      ];
      const other = others.map(([text]) => text).find((text) => text !== own)!;
      await harness.replace(store, own, other);
      const again = await reopen(store, only(key));
      await expect(again.settings.load()).rejects.toThrow(/is not what was encrypted there/);
    });
  });
}
