import { describe, expect, test } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { AUDIENCES_SOURCE, type SourceRecord } from '../model/settings.ts';
import { applyConfigFile, fileDigest } from './apply.ts';
import type { Config } from './load.ts';

const source = (name: string, more: Partial<SourceRecord> = {}): SourceRecord => ({
  ...{ name, writeKeys: [`wk_${name}`], enabled: true, mode: 'standard', whenDisabled: 'refuse' },
  ...more,
});

/** A start with a file that has these sources, and what it warned of. */
async function startWith(store: ReturnType<typeof openMemoryStore>, sources: readonly SourceRecord[]) {
  const warned: [facts: object, event: string][] = [];
  const warn = (facts: object, event: string) => void warned.push([facts, event]);
  const silent = () => {};
  const snapshotBefore = await store.settings.load();
  const snapshot = await applyConfigFile(
    { sources: sources as Config['sources'], destinations: [], audiences: [], traits: [], alerts: [] },
    store.settings,
    {
      logger: { debug: silent, info: silent, warn, error: silent },
      clock: handClock(1_700_000_000_000),
      refusalOf: () => undefined,
      publicSources: async () =>
        new Set(snapshotBefore.sources.flatMap(({ id, name }) => (name === 'website' ? id : []))),
    },
  );
  const rules = Object.fromEntries(snapshot.sources.map(({ name, ip }) => [name, ip]));
  const trusts = Object.fromEntries(snapshot.sources.map(({ name, trust }) => [name, trust]));
  const warnedOf = (name: string) => warned.filter(([, event]) => event === name);
  return { rules, trusts, warned: warnedOf('source.ip_direct'), warnedOfTrust: warnedOf('source.trusted') };
}

describe('the digest of a file', () => {
  const config = (sources: readonly SourceRecord[], deadLetters = 1) =>
    ({
      ...{ sources, destinations: [], audiences: [], traits: [], alerts: [] },
      retention: { events: 7, deadLetters, profiles: {} },
    }) as unknown as Config;
  const two = [source('website'), source('app')];

  test('tells files apart by what they declare, and not by its order', () => {
    const digest = fileDigest(config(two));
    expect(fileDigest(config(two.toReversed()))).toBe(digest);
    const others = [
      config([source('website'), source('app', { writeKeys: ['wk_other'] })]),
      config([source('website')]),
      config(two, 2),
    ];
    for (const other of others) expect(fileDigest(other)).not.toBe(digest);
    expect(fileDigest(config(two), new Uint8Array([1]))).not.toBe(digest);
  });

  test('is absent where a file declares nothing', () => {
    expect(fileDigest(config([]))).toBeUndefined();
  });
});

describe('a write key of the file', () => {
  test('that a source has which the file does not name is refused, and nothing is changed', async () => {
    const store = openMemoryStore();
    await store.settings.apply({ sources: [source('website'), source('app')], destinations: [] });
    const second = source('second', { writeKeys: ['wk_new', 'wk_website'] });
    await expect(startWith(store, [source('app'), second])).rejects.toThrow(
      /sources\[1\]\.writeKeys\[1\] {2}is also a write key of the source "website", which this file does not name/,
    );
    expect((await store.settings.load()).sources.map(({ name }) => name)).toEqual(['website', 'app']);
  });

  test('moves where the file names both sources', async () => {
    const store = openMemoryStore();
    await store.settings.apply({ sources: [source('website')], destinations: [] });
    const moved = [
      source('website', { writeKeys: ['wk_other'] }),
      source('second', { writeKeys: ['wk_website'] }),
    ];
    await startWith(store, moved);
    const { sources } = await store.settings.load();
    expect(sources.map(({ name, writeKeys }) => [name, writeKeys])).toEqual([
      ['website', ['wk_other']],
      ['second', ['wk_website']],
    ]);
  });
});

describe('the rule for addresses at a start', () => {
  test('is `keep` for a source that is new', async () => {
    const store = openMemoryStore();
    expect(await startWith(store, [source('website')])).toMatchObject({
      rules: { website: 'keep' },
      warned: [],
    });
  });

  const older = quoted(
    'Sources that are older than this choice have `direct`, and the first start of a server that knows it names them in the log.',
  );
  test(older, async () => {
    const store = openMemoryStore();
    await store.settings.apply({
      sources: [source('website'), source('app'), AUDIENCES_SOURCE],
      destinations: [],
    });
    const file = [source('website', { mode: 'strict' }), source('new')];
    const first = await startWith(store, file);
    const rules = { website: 'direct', app: 'direct', audiences: undefined, new: 'keep' };
    expect(first.rules).toEqual(rules);
    const hint = expect.stringMatching(/context\.direct alone.*set their ip to keep/);
    expect(first.warned).toEqual([[{ sources: ['website', 'app'], hint }, 'source.ip_direct']]);
    expect((await store.settings.load()).sources[0]).toMatchObject({ ip: 'direct', mode: 'strict' });

    expect(await startWith(store, file)).toMatchObject({ rules, warned: [] });
  });

  test('is what the file says where it says something, and there is nothing to warn of', async () => {
    const store = openMemoryStore();
    await store.settings.apply({ sources: [source('website')], destinations: [] });
    expect(await startWith(store, [source('website', { ip: 'keep' })])).toMatchObject({
      rules: { website: 'keep' },
      warned: [],
    });
    await startWith(store, [source('website', { ip: 'drop' })]);
    expect((await startWith(store, [source('website')])).rules).toEqual({ website: 'drop' });
  });
});

describe('the trust of a source at a start', () => {
  test('is `client` for one that is new, and what the file says where it says something', async () => {
    const store = openMemoryStore();
    const file = [source('website'), source('backend', { trust: 'server' })];
    const trusts = { website: 'client', backend: 'server' };
    expect(await startWith(store, file)).toMatchObject({ trusts, warnedOfTrust: [] });
    const silent = [source('website'), source('backend')];
    expect(await startWith(store, silent)).toMatchObject({ trusts, warnedOfTrust: [] });
  });

  const older = quoted(
    'Sources that are older than this choice are trusted as before, and the first start of a server that knows it names those in the log whose newest calls are of browsers or phones.',
  );
  test(older, async () => {
    const store = openMemoryStore();
    const records = [
      ...[source('website', { ip: 'keep' }), source('backend'), source('worker')],
      AUDIENCES_SOURCE,
    ];
    await store.settings.apply({ sources: records, destinations: [] });
    const file = [source('website'), source('backend', { trust: 'server' }), source('new')];
    const { trusts, warnedOfTrust } = await startWith(store, file);
    expect(trusts).toEqual({
      ...{ website: 'server', backend: 'server', worker: 'server' },
      ...{ audiences: undefined, new: 'client' },
    });
    const hint = expect.stringMatching(/may join users, as before; set trust to client/);
    expect(warnedOfTrust).toEqual([[{ sources: ['website'], hint }, 'source.trusted']]);
    expect(await startWith(store, file)).toMatchObject({ warnedOfTrust: [] });
  });
});
