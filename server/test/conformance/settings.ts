import { describe, expect, it } from 'vitest';
import type { WebhookSettings } from '../../src/destinations/webhooks/settings.ts';
import type { AlertRecord } from '../../src/model/alert.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Replay } from '../../src/model/replay.ts';
import type {
  AudienceRecord,
  DestinationRecord,
  Source,
  SourceRecord,
  TokenRecord,
  TraitRecord,
} from '../../src/model/settings.ts';
import { DAY, HOUR } from '../../src/model/time.ts';
import {
  type AuditEntry,
  type AuditPage,
  MAX_AUDIT_PAGE,
  type SettingsSnapshot,
} from '../../src/ports/settings-store.ts';
import { START, type Subject } from './harness.ts';
import { FOR_EVER, keepUp } from './upkeep.ts';

const ENDPOINT = { url: 'https://crm.example/in', headers: { 'X-Team': 'growth', 'X-Region': 'eu' } };
const SECOND_ENDPOINT = { url: 'https://crm.example/spare', headers: {} };
const SETTINGS: WebhookSettings = {
  endpoints: [ENDPOINT, SECOND_ENDPOINT],
  sharedSecret: 's3cret ünd 🔑',
  format: 'documented',
};

/** ports/settings-store.ts. */
export function settingsConformance(subject: Subject): void {
  describe('settings', () => {
    records(subject);
    removals(subject);
    computations(subject);
    alerts(subject);
    tokens(subject);
    replays(subject);
    splits(subject);
    versions(subject);
    auditTrail(subject);
  });
}

function source(name: string, parts: Partial<SourceRecord> = {}): SourceRecord {
  const writeKeys = [`wk_${name}`];
  return { name, writeKeys, enabled: true, mode: 'standard', whenDisabled: 'refuse', ...parts };
}

function destination(name: string, parts: Partial<DestinationRecord> = {}): DestinationRecord {
  return { name, type: 'webhooks', sources: ['site', 'app'], enabled: true, settings: SETTINGS, ...parts };
}

function byName<T extends { readonly name: string }>(records: readonly T[], name: string): T {
  const found = records.filter((record) => record.name === name);
  expect(found, `records named ${name}`).toHaveLength(1);
  return found[0]!;
}

function sorted({ sources, destinations, ...rest }: SettingsSnapshot): SettingsSnapshot {
  const byId = (a: Source | Destination, b: Source | Destination) => a.id - b.id;
  return { ...rest, sources: [...sources].sort(byId), destinations: [...destinations].sort(byId) };
}

function records(subject: Subject): void {
  it('are empty in a new store', async () => {
    expect(await subject.store.settings.load()).toEqual({
      ...{
        sources: [],
        destinations: [],
        audiences: [],
        traits: [],
        alerts: [],
        tokens: [],
        replays: [],
        splits: [],
      },
      gone: { sources: [], destinations: [], audiences: [], traits: [] },
    });
  });

  it('come back as they were applied, with an id', async () => {
    const { settings } = subject.store;
    const disabled = source('app', {
      writeKeys: [],
      enabled: false,
      mode: 'strict',
      whenDisabled: 'discard',
      ip: 'shorten',
    });
    const { sharedSecret, ...unsigned } = SETTINGS;
    const plain = destination('plain', { sources: [], enabled: false, settings: unsigned });
    const applied = await settings.apply({
      sources: [source('site', { writeKeys: ['wk_1', 'wk_2'] }), disabled],
      destinations: [destination('crm'), plain],
    });
    const site = byName(applied.sources, 'site');
    expect(site).toEqual({ ...source('site', { writeKeys: ['wk_1', 'wk_2'] }), id: site.id });
    const app = byName(applied.sources, 'app');
    expect(app).toEqual({ ...disabled, id: app.id });
    const crm = byName(applied.destinations, 'crm');
    expect(crm).toEqual({ ...destination('crm'), id: crm.id, version: crm.version });
    const second = byName(applied.destinations, 'plain');
    expect(second).toEqual({ ...plain, id: second.id, version: second.version });
    expect(second.settings).not.toHaveProperty('sharedSecret');
    expect(site.id).not.toBe(app.id);
    expect(crm.id).not.toBe(second.id);
    expect(sorted(await settings.load())).toEqual(sorted(applied));
  });

  it('overwrite the records that are named and leave the others as they are', async () => {
    const { settings } = subject.store;
    const first = await settings.apply({
      sources: [source('site'), source('app')],
      destinations: [destination('crm'), destination('warehouse')],
    });
    const second = await settings.apply({
      sources: [source('app', { enabled: false, writeKeys: ['wk_new'] })],
      destinations: [destination('warehouse', { enabled: false }), destination('third')],
    });
    expect(byName(second.sources, 'site')).toEqual(byName(first.sources, 'site'));
    expect(byName(second.destinations, 'crm')).toEqual(byName(first.destinations, 'crm'));
    expect(byName(second.sources, 'app')).toMatchObject({ enabled: false, writeKeys: ['wk_new'] });
    expect(byName(second.destinations, 'warehouse').enabled).toBe(false);
    expect(second.sources).toHaveLength(2);
    expect(second.destinations).toHaveLength(3);
  });

  it('resolve to the whole when nothing is applied', async () => {
    const { settings } = subject.store;
    const first = await settings.apply({ sources: [source('site')], destinations: [destination('crm')] });
    expect(sorted(await settings.apply({ sources: [], destinations: [] }))).toEqual(sorted(first));
  });

  it('survive a crash', async () => {
    const { settings } = subject.store;
    const changes = { sources: [source('site'), source('app')], destinations: [destination('crm')] };
    const applied = await settings.apply(changes);
    await subject.crash();
    expect(sorted(await subject.store.settings.load())).toEqual(sorted(applied));
    expect(sorted(await subject.store.settings.apply(changes))).toEqual(sorted(applied));
  });

  it('keep the id of a name for ever, and give no id twice', async () => {
    const sourceIds = new Map<string, number>();
    const destinationIds = new Map<string, number>();
    for (const [round, names] of [['b', 'a'], ['a'], ['c', 'a', 'b'], ['A', 'd', 'c']].entries()) {
      const { sources, destinations } = await subject.store.settings.apply({
        sources: names.map((name) => source(name, { writeKeys: [`wk_${round}_${name}`] })),
        destinations: names.map((name) => destination(name, { sources: [`s${round}`] })),
      });
      for (const { name, id } of sources) expect(sourceIds.get(name) ?? id).toBe(id);
      for (const { name, id } of destinations) expect(destinationIds.get(name) ?? id).toBe(id);
      for (const { name, id } of sources) sourceIds.set(name, id);
      for (const { name, id } of destinations) destinationIds.set(name, id);
      await subject.crash();
    }
    expect(new Set(sourceIds.values()).size).toBe(5);
    expect(new Set(destinationIds.values()).size).toBe(5);
  });

  it('give names that arrive at the same time ids of their own', async () => {
    const { settings } = subject.store;
    const names = Array.from({ length: 10 }, (_, n) => `s${n}`);
    await Promise.all(names.map((name) => settings.apply({ sources: [source(name)], destinations: [] })));
    const { sources } = await settings.load();
    expect(new Set(sources.map((one) => one.id)).size).toBe(10);
  });

  it('give each reader records of its own', async () => {
    const { settings } = subject.store;
    const applied = await settings.apply({ sources: [], destinations: [destination('crm')] });
    const { endpoints } = byName(applied.destinations, 'crm').settings as WebhookSettings;
    Object.assign(endpoints[0]!.headers, { 'X-Team': 'other' });
    expect(byName((await settings.load()).destinations, 'crm').settings).toEqual(SETTINGS);
  });
}

function removals(subject: Subject): void {
  const NOTHING = { sources: [], destinations: [] };

  it('are removed, kept as they last were among those that are gone, and no other record changes', async () => {
    const { settings } = subject.store;
    const first = await settings.apply({
      sources: [source('site'), source('app')],
      destinations: [destination('crm'), destination('warehouse')],
    });
    const removed = [
      { kind: 'source', name: 'app' },
      { kind: 'destination', name: 'crm' },
      { kind: 'destination', name: 'never there' },
    ] as const;
    const second = await settings.apply({ ...NOTHING, removed });
    expect(second.sources).toEqual([byName(first.sources, 'site')]);
    expect(second.destinations).toEqual([byName(first.destinations, 'warehouse')]);
    expect(second.gone.sources).toEqual([byName(first.sources, 'app')]);
    const { version, ...crm } = byName(first.destinations, 'crm');
    expect(second.gone.destinations).toEqual([{ ...crm, version: expect.any(Number) }]);
    // A removal is a change: the dispatcher that delivers to it must notice.
    expect(second.gone.destinations[0]!.version).toBeGreaterThan(version);
    await subject.crash();
    expect(sorted(await subject.store.settings.load())).toEqual(sorted(second));
  });

  it('come again under the id they had, and a destination with a higher version', async () => {
    const { settings } = subject.store;
    const first = await settings.apply({ sources: [source('site')], destinations: [destination('crm')] });
    const removed = [
      { kind: 'source', name: 'site' },
      { kind: 'destination', name: 'crm' },
    ] as const;
    await settings.apply({ ...NOTHING, removed });
    const again = await settings.apply({ sources: [source('site')], destinations: [destination('crm')] });
    expect(again.sources).toEqual(first.sources);
    expect(again.destinations[0]!.id).toBe(first.destinations[0]!.id);
    expect(again.destinations[0]!.version).toBeGreaterThan(first.destinations[0]!.version);
    expect(again.gone).toEqual({ ...NOTHING, audiences: [], traits: [] });
  });

  it('tell a source from a destination of the same name', async () => {
    const { settings } = subject.store;
    await settings.apply({ sources: [source('shop')], destinations: [destination('shop')] });
    const after = await settings.apply({ ...NOTHING, removed: [{ kind: 'destination', name: 'shop' }] });
    expect(after.sources).toHaveLength(1);
    expect(after.destinations).toHaveLength(0);
  });
}

function audience(name: string, parts: Partial<AudienceRecord> = {}): AudienceRecord {
  return {
    kind: 'audience',
    name,
    key: `key_of_${name}`,
    text: "group('g')",
    definition: { op: 'group', id: 'g' },
    destinations: ['crm'],
    enabled: true,
    includeAnonymous: false,
    ...parts,
  };
}

function trait(name: string, parts: Partial<TraitRecord> = {}): TraitRecord {
  return {
    kind: 'trait',
    name,
    key: `key_of_${name}`,
    text: "event('A').within(1 day).count()",
    definition: { op: 'event', type: 'track', name: 'A', within: DAY, reduce: { op: 'count' } },
    destinations: [],
    enabled: true,
    ...parts,
  };
}

function computations(subject: Subject): void {
  const NOTHING = { sources: [], destinations: [] };

  it('keep audiences and traits as they were applied, each with an id of its own', async () => {
    const { settings } = subject.store;
    const applied = await settings.apply({
      ...NOTHING,
      audiences: [audience('vip'), audience('new', { includeAnonymous: true, enabled: false })],
      traits: [trait('orders'), trait('vip')],
    });
    const [vip, orders] = [byName(applied.audiences, 'vip'), byName(applied.traits, 'orders')];
    expect(vip).toEqual({ ...audience('vip'), id: vip.id, version: vip.version });
    expect(orders).toEqual({ ...trait('orders'), id: orders.id, version: orders.version });
    expect(new Set([...applied.audiences, ...applied.traits].map(({ id }) => id)).size).toBe(4);
    await subject.crash();
    expect(sorted(await subject.store.settings.load())).toEqual(sorted(applied));
  });

  it('give an audience or trait a higher version when it changes, and the same one when it does not', async () => {
    const { settings } = subject.store;
    const apply = async (text: string) => {
      const after = await settings.apply({
        ...NOTHING,
        audiences: [audience('vip', { text })],
        traits: [trait('orders', { text })],
      });
      return [byName(after.audiences, 'vip'), byName(after.traits, 'orders')] as const;
    };
    const first = await apply("group('g')");
    expect(await apply("group('g')")).toEqual(first);
    const second = await apply("group('h')");
    for (const [nth, { id, version }] of second.entries()) {
      expect(id).toBe(first[nth]!.id);
      expect(version).toBeGreaterThan(first[nth]!.version);
    }
  });

  it('remember removed audiences and traits by their ids, and bring them back under these', async () => {
    const { settings } = subject.store;
    const first = await settings.apply({
      ...NOTHING,
      audiences: [audience('vip')],
      traits: [trait('orders')],
    });
    const removed = [
      { kind: 'audience', name: 'vip' },
      { kind: 'trait', name: 'orders' },
      { kind: 'trait', name: 'vip' },
    ] as const;
    const second = await settings.apply({ ...NOTHING, removed });
    expect([second.audiences, second.traits]).toEqual([[], []]);
    expect(second.gone.audiences[0]!.id).toBe(first.audiences[0]!.id);
    expect(second.gone.traits[0]!.version).toBeGreaterThan(first.traits[0]!.version);
    await subject.crash();
    const again = await subject.store.settings.apply({ ...NOTHING, audiences: [audience('vip')] });
    expect(again.audiences[0]!.id).toBe(first.audiences[0]!.id);
    expect(again.audiences[0]!.version).toBeGreaterThan(first.audiences[0]!.version);
    expect(again.gone.audiences).toEqual([]);
  });
}

function tokens(subject: Subject): void {
  const token = (name: string, parts: Partial<TokenRecord> = {}): TokenRecord => ({
    ...{ name, role: 'viewer', digest: 'ab'.repeat(32), hint: 'wxyz', createdAt: 1_767_000_000_000 },
    ...parts,
  });
  const NOTHING = { sources: [], destinations: [] };

  it('keep tokens until they are removed', async () => {
    const { settings } = subject.store;
    await settings.apply({ ...NOTHING, tokens: [token('ci'), token('ops', { role: 'admin' })] });
    await settings.apply({ ...NOTHING, tokens: [token('ci', { role: 'editor' })] });
    await subject.crash();
    const kept = (await subject.store.settings.load()).tokens;
    expect(byName(kept, 'ci')).toEqual(token('ci', { role: 'editor' }));
    expect(byName(kept, 'ops')).toEqual(token('ops', { role: 'admin' }));
    const after = await subject.store.settings.apply({
      ...NOTHING,
      removed: [{ kind: 'token', name: 'ci' }],
    });
    expect(after.tokens).toEqual([token('ops', { role: 'admin' })]);
  });
}

function splits(subject: Subject): void {
  it('keep splits until they are removed', async () => {
    const { settings } = subject.store;
    const split = (id: string) =>
      ({ id, keys: [2 ** 52 + 1, 7], createdAt: 1_767_000_000_000, by: 'mara' }) as const;
    await settings.apply({ sources: [], destinations: [], splits: [split('s1'), split('s2')] });
    await subject.crash();
    const { splits } = await subject.store.settings.load();
    expect(splits.toSorted((a, b) => (a.id < b.id ? -1 : 1))).toEqual([split('s1'), split('s2')]);
    const after = await subject.store.settings.apply({
      ...{ sources: [], destinations: [] },
      removed: [{ kind: 'split', name: 's1' }],
    });
    expect(after.splits).toEqual([split('s2')]);
  });
}

function replays(subject: Subject): void {
  const replay = (id: string, parts: Partial<Replay> = {}): Replay => ({
    ...{ id, destination: 'crm', types: ['track'], from: 1, to: 2, rate: 1000, state: 'running' },
    ...{ preview: { count: 3, bytes: 900, isExact: true }, createdAt: 1_767_000_000_000, by: 'ci' },
    ...parts,
  });
  const NOTHING = { sources: [], destinations: [] };

  it('keep replays as they last were until they are removed', async () => {
    const { settings } = subject.store;
    await settings.apply({ ...NOTHING, replays: [replay('r1'), replay('r2', { source: 'site' })] });
    const ended = replay('r1', { state: 'failed', reason: 'destination_removed', endedAt: 9 });
    await settings.apply({ ...NOTHING, replays: [ended] });
    await subject.crash();
    const byId = (all: readonly Replay[]) => [...all].sort((a, b) => (a.id < b.id ? -1 : 1));
    expect(byId((await subject.store.settings.load()).replays)).toEqual([
      ended,
      replay('r2', { source: 'site' }),
    ]);
    const after = await subject.store.settings.apply({
      ...NOTHING,
      removed: [{ kind: 'replay', name: 'r1' }],
    });
    expect(after.replays).toEqual([replay('r2', { source: 'site' })]);
  });
}

function auditTrail(subject: Subject): void {
  const entry = (n: number, parts: Partial<AuditEntry> = {}): AuditEntry => ({
    ...{ at: 1_767_000_000_000 + n, by: 'ci', action: 'changed', kind: 'destination', name: `d${n % 2}` },
    ...{ before: { n: n - 1 }, after: { n } },
    ...parts,
  });
  const write = (...audit: AuditEntry[]) =>
    subject.store.settings.apply({ sources: [], destinations: [], audit });

  it('keep the audit trail, the newest first, also after a crash', async () => {
    const created: AuditEntry = {
      at: 1,
      by: 'file',
      action: 'created',
      kind: 'source',
      name: 's',
      after: {},
    };
    await write(created, entry(1));
    await write(entry(2));
    await subject.crash();
    expect(await subject.store.settings.audit({}, 10)).toEqual({ entries: [entry(2), entry(1), created] });
  });

  it('give the audit trail page by page', async () => {
    await write(...Array.from({ length: 7 }, (_, n) => entry(n)));
    const { settings } = subject.store;
    const first = await settings.audit({}, 3);
    expect(first.entries).toEqual([entry(6), entry(5), entry(4)]);
    await write(entry(7));
    const second = await settings.audit({}, 3, first.next);
    expect(second.entries).toEqual([entry(3), entry(2), entry(1)]);
    const last = await settings.audit({}, 3, second.next);
    expect(last).toEqual({ entries: [entry(0)] });
  });

  it('end a page of the audit trail early where its entries are large', async () => {
    const large = (n: number) => entry(n, { before: { text: 'x'.repeat(MAX_AUDIT_PAGE / 4) }, after: {} });
    await write(...[1, 2, 3, 4, 5, 6].map(large));
    const { settings } = subject.store;
    const sizes: number[] = [];
    for (let from: number | undefined = Number.MAX_SAFE_INTEGER; from !== undefined; ) {
      const { entries, next }: AuditPage = await settings.audit({}, 50, from);
      sizes.push(entries.length);
      from = next;
    }
    expect(sizes).toEqual([4, 2]);
    await write(entry(7, { after: { text: 'x'.repeat(2 * MAX_AUDIT_PAGE) } }), entry(8));
    const { entries, next } = await settings.audit({}, 50);
    expect(entries.map(({ at }) => at)).toEqual([8, 7].map((n) => entry(n).at));
    expect(next).toBeDefined();
  });

  it('let entries of the audit trail go that are from before a time, and no others', async () => {
    const many = Array.from({ length: 1200 }, (_, n) => entry(n));
    await write(...many);
    const { settings } = subject.store;
    const auditBefore = entry(1150).at;
    expect(await settings.auditedBefore(auditBefore)).toBe(1150);
    await keepUp(subject.store, START);
    expect(await settings.auditedBefore(auditBefore)).toBe(1150);
    await keepUp(subject.store, START + 2 * HOUR, { ...FOR_EVER, auditBefore });
    expect(await settings.auditedBefore(auditBefore)).toBe(0);
    await subject.crash();
    const { entries } = await subject.store.settings.audit({}, 100);
    expect(entries).toEqual(many.slice(1150).reverse());
    await write(entry(2000));
    expect((await subject.store.settings.audit({}, 1)).entries).toEqual([entry(2000)]);
  });

  it('give the audit trail of one record, or of all of a kind', async () => {
    await write(entry(1), entry(2), entry(3, { kind: 'source' }), entry(4));
    const { settings } = subject.store;
    expect((await settings.audit({ kind: 'destination' }, 10)).entries).toEqual([
      entry(4),
      entry(2),
      entry(1),
    ]);
    expect((await settings.audit({ kind: 'destination', name: 'd0' }, 1)).entries).toEqual([entry(4)]);
    expect(await settings.audit({ kind: 'token' }, 10)).toEqual({ entries: [] });
  });
}

function alerts(subject: Subject): void {
  const alert: AlertRecord = {
    name: 'on call',
    type: 'email',
    enabled: true,
    on: ['deliveries_dying'],
    after: 60_000,
    remindEvery: 3_600_000,
    settings: { server: 'smtp://mail.example', from: 'a@b.example', to: ['c@d.example'] },
  };

  it('keep an alert with what it remembers over a crash, and forget one that is removed', async () => {
    const { settings } = subject.store;
    const nothing = { sources: [], destinations: [] };
    await settings.apply({ ...nothing, alerts: [alert, { ...alert, name: 'other' }] });
    const memory = {
      told: [{ condition: 'destination_failing', destination: '__proto__', since: 1, toldAt: 2 } as const],
      dead: [{ destination: 'crm', count: 3 }],
      deathsToldAt: [],
    };
    await settings.apply({ ...nothing, alerts: [{ ...alert, memory }] });
    await subject.crash();
    const kept = await subject.store.settings.load();
    expect(kept.alerts).toHaveLength(2);
    expect(byName(kept.alerts, 'on call')).toEqual({ ...alert, memory });
    expect(byName(kept.alerts, 'other')).toEqual({ ...alert, name: 'other' });
    const { alerts: left } = await subject.store.settings.apply({
      ...nothing,
      removed: [{ kind: 'alert', name: 'on call' }],
    });
    expect(left.map(({ name }) => name)).toEqual(['other']);
  });
}

function versions(subject: Subject): void {
  const versionAfter = async (record: DestinationRecord): Promise<number> => {
    const { destinations } = await subject.store.settings.apply({ sources: [], destinations: [record] });
    return byName(destinations, record.name).version;
  };
  const { sharedSecret, ...unsigned } = SETTINGS;
  const endpoints = (...list: WebhookSettings['endpoints']) => ({
    settings: { ...SETTINGS, endpoints: list },
  });

  const changes: readonly (readonly [string, Partial<DestinationRecord>])[] = [
    ['it is disabled', { enabled: false }],
    ['it takes events from another source', { sources: ['site'] }],
    ['a URL changes', endpoints({ ...ENDPOINT, url: 'https://crm.example/new' }, SECOND_ENDPOINT)],
    ['an endpoint goes', endpoints(ENDPOINT)],
    ['endpoints change places', endpoints(SECOND_ENDPOINT, ENDPOINT)],
    ['a header changes', endpoints({ ...ENDPOINT, headers: { 'X-Team': 'sales' } }, SECOND_ENDPOINT)],
    ['its secret changes', { settings: { ...SETTINGS, sharedSecret: 'other' } }],
    ['its secret goes', { settings: unsigned }],
    ['its format changes', { settings: { ...SETTINGS, format: 'canonical' } }],
    ['what counts as success changes', { success: 'each' }],
  ];
  it.each(changes)('of a destination grow when %s', async (_, parts) => {
    const first = await versionAfter(destination('crm'));
    const second = await versionAfter(destination('crm', parts));
    expect(second).toBeGreaterThan(first);
    expect(await versionAfter(destination('crm', parts))).toBe(second);
    // Going back is a change too: a delivery must not take the old version for the new one.
    expect(await versionAfter(destination('crm'))).toBeGreaterThan(second);
  });

  it('of a destination stay when the same is applied again, also after a crash', async () => {
    const first = await versionAfter(destination('crm'));
    expect(await versionAfter(destination('crm'))).toBe(first);
    await subject.crash();
    expect(await versionAfter(destination('crm'))).toBe(first);
  });

  it('of a destination stay when only its keys are written in another order', async () => {
    const first = await versionAfter(destination('crm'));
    const headers = { 'X-Region': 'eu', 'X-Team': 'growth' };
    const turned: DestinationRecord = {
      settings: {
        format: 'documented',
        endpoints: [{ headers, url: ENDPOINT.url }, SECOND_ENDPOINT],
        sharedSecret: SETTINGS.sharedSecret!,
      },
      enabled: true,
      sources: ['site', 'app'],
      type: 'webhooks',
      name: 'crm',
    };
    expect(await versionAfter(turned)).toBe(first);
  });

  it('of a destination go on growing after a crash', async () => {
    await versionAfter(destination('crm'));
    const before = await versionAfter(destination('crm', { enabled: false }));
    await subject.crash();
    expect(await versionAfter(destination('crm'))).toBeGreaterThan(before);
  });

  it('of a destination do not depend on other records', async () => {
    const first = await versionAfter(destination('crm'));
    await versionAfter(destination('warehouse'));
    await versionAfter(destination('warehouse', { enabled: false }));
    await subject.store.settings.apply({ sources: [source('site', { enabled: false })], destinations: [] });
    expect(await versionAfter(destination('crm'))).toBe(first);
  });
}
