import { describe, expect, test } from 'vitest';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import type { DestinationRecord, SourceRecord, TokenRecord } from '../model/settings.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import { diffRecords, planRecords } from './changes.ts';

const AUTHOR = { by: 'ann', clock: { now: () => 7, monotonic: () => 1000 }, types: DESTINATION_TYPES };
const BY = { by: 'ann', at: 7 };
const SOURCE: SourceRecord = {
  name: 'site',
  writeKeys: ['wk'],
  enabled: true,
  mode: 'standard',
  whenDisabled: 'refuse',
  dedupeWindow: 86_400_000,
  ip: 'keep',
  trust: 'server',
};
const DESTINATION: DestinationRecord = {
  name: 'crm',
  type: 'webhooks',
  sources: ['site'],
  enabled: true,
  settings: {
    endpoints: [{ url: 'https://crm.example/', headers: { Authorization: 'Bearer 0123456789' } }],
    sharedSecret: 'the-shared-secret',
    format: 'documented',
  },
};
const TOKEN: TokenRecord = { name: 'ci', role: 'editor', digest: 'd1g3st', hint: 'abcd', createdAt: 0 };
const NOW: SettingsSnapshot = {
  sources: [{ ...SOURCE, id: 1 }],
  destinations: [{ ...DESTINATION, id: 1, version: 3 }],
  alerts: [],
  tokens: [TOKEN],
  replays: [],
  splits: [],
  audiences: [],
  traits: [],
  gone: { sources: [], destinations: [], audiences: [], traits: [] },
};
const NOTHING = {
  sources: [],
  destinations: [],
  audiences: [],
  traits: [],
  alerts: [],
  tokens: [],
  removed: [],
  audit: [],
};

describe('the changes of a wish', () => {
  test('are none where everything is so already', () => {
    const wish = { sources: [SOURCE], destinations: [DESTINATION], tokens: [TOKEN], removed: [] };
    expect(diffRecords(wish, NOW, AUTHOR)).toEqual(NOTHING);
    expect(diffRecords({}, NOW, AUTHOR)).toEqual(NOTHING);
  });

  test('are records that are new, with an entry of the trail for each', () => {
    const empty = { ...NOW, sources: [], destinations: [], tokens: [] };
    const changes = diffRecords(
      { sources: [SOURCE], destinations: [DESTINATION], tokens: [TOKEN] },
      empty,
      AUTHOR,
    );
    expect(changes).toMatchObject({ sources: [SOURCE], destinations: [DESTINATION], tokens: [TOKEN] });
    expect(changes.audit).toEqual([
      {
        action: 'created',
        kind: 'source',
        name: 'site',
        ...BY,
        after: { ...SOURCE, dedupeWindow: '1d' },
      },
      {
        action: 'created',
        kind: 'destination',
        name: 'crm',
        ...BY,
        after: {
          ...DESTINATION,
          settings: {
            ...DESTINATION.settings,
            success: 'any',
            endpoints: [
              { url: 'https://crm.example/', headers: { Authorization: { set: true, hint: '6789' } } },
            ],
            sharedSecret: { set: true, hint: 'cret' },
          },
        },
      },
      {
        action: 'created',
        kind: 'token',
        name: 'ci',
        ...BY,
        after: { name: 'ci', role: 'editor', hint: 'abcd', createdAt: '1970-01-01T00:00:00.000Z' },
      },
    ]);
  });

  test('are the records that differ, as they were and as they are', () => {
    const { sources, audit = [] } = diffRecords({ sources: [{ ...SOURCE, mode: 'strict' }] }, NOW, AUTHOR);
    expect(sources).toEqual([{ ...SOURCE, mode: 'strict' }]);
    expect(audit).toEqual([
      {
        ...BY,
        action: 'changed',
        kind: 'source',
        name: 'site',
        before: { mode: 'standard' },
        after: { mode: 'strict' },
      },
    ]);
  });

  test('leave in the trail the fields alone that differ, however deep they are', () => {
    const stored = { ...DESTINATION, filter: { types: ['track' as const] } };
    const now = { ...NOW, destinations: [{ ...stored, id: 1, version: 3 }] };
    const wish = {
      ...stored,
      enabled: false,
      filter: { types: ['identify' as const] },
      concurrency: 3,
    };
    const { audit = [] } = diffRecords({ destinations: [wish] }, now, AUTHOR);
    expect(audit[0]).toMatchObject({
      before: { enabled: true, settings: { filter: { types: ['track'] } } },
      after: { enabled: false, settings: { filter: { types: ['identify'] }, concurrency: 3 } },
    });
    expect(Object.keys(Object(audit[0]!.before)).sort()).toEqual(['enabled', 'settings']);
    expect(Object.keys(Object(Object(audit[0]!.after).settings)).sort()).toEqual(['concurrency', 'filter']);
  });

  test('of a plan are whole records', () => {
    const wish = {
      sources: [{ ...SOURCE, mode: 'strict' as const }],
      removed: [{ kind: 'token' as const, name: 'ci' }],
    };
    const shown = { ...SOURCE, dedupeWindow: '1d' };
    expect(planRecords(wish, NOW, AUTHOR)).toMatchObject([
      { action: 'changed', kind: 'source', name: 'site', before: shown, after: { ...shown, mode: 'strict' } },
      { action: 'removed', kind: 'token', name: 'ci' },
    ]);
  });

  test('are also those whose secrets differ, which nobody sees', () => {
    const other = { ...DESTINATION, settings: { ...DESTINATION.settings, sharedSecret: 'the-other-secret' } };
    const { destinations, audit = [] } = diffRecords({ destinations: [other] }, NOW, AUTHOR);
    expect(destinations).toEqual([other]);
    const hint = { settings: { sharedSecret: { set: true, hint: 'cret' } } };
    expect(audit[0]).toMatchObject({ before: hint, after: hint });
    expect(Object.keys(Object(Object(audit[0]!.after).settings))).toEqual(['sharedSecret']);
    expect(JSON.stringify(audit)).not.toContain('the-');
  });

  test('are removals of what is there, as it last was', () => {
    const removed = (['source', 'destination', 'token'] as const).flatMap((kind) => [
      { kind, name: { source: 'site', destination: 'crm', token: 'ci' }[kind] },
      { kind, name: 'nobody' },
    ]);
    const changes = diffRecords({ removed }, NOW, AUTHOR);
    expect(changes.removed).toEqual([
      { kind: 'source', name: 'site' },
      { kind: 'destination', name: 'crm' },
      { kind: 'token', name: 'ci' },
    ]);
    expect(changes.audit?.map(({ action, before, after }) => [action, typeof before, after])).toEqual(
      Array(3).fill(['removed', 'object', undefined]),
    );
    expect(JSON.stringify(changes)).not.toMatch(/d1g3st|the-shared/);
  });

  test('leave a source the rule for addresses that it has, and give a new one the default', () => {
    const { ip: _, ...plain } = SOURCE;
    const shortening = { ...NOW, sources: [{ ...plain, ip: 'shorten', id: 1 } as const] };
    expect(diffRecords({ sources: [plain] }, shortening, AUTHOR)).toEqual(NOTHING);
    const strict = { ...plain, mode: 'strict' } as const;
    expect(diffRecords({ sources: [strict] }, shortening, AUTHOR).sources).toEqual([
      { ...strict, ip: 'shorten' },
    ]);
    const older = { ...NOW, sources: [{ ...plain, id: 1 }] };
    expect(diffRecords({ sources: [strict] }, older, AUTHOR).sources).toEqual([{ ...strict, ip: 'direct' }]);
    const dropping = { ...plain, ip: 'drop' } as const;
    expect(diffRecords({ sources: [dropping] }, shortening, AUTHOR)).toMatchObject({
      sources: [dropping],
      audit: [{ before: { ip: 'shorten' }, after: { ip: 'drop' } }],
    });
    const empty = { ...NOW, sources: [] };
    expect(diffRecords({ sources: [plain] }, empty, AUTHOR).sources).toEqual([{ ...plain, ip: 'keep' }]);
  });

  test('leave a source the trust that it has, and trust no new one', () => {
    const { trust: _, ...plain } = SOURCE;
    expect(diffRecords({ sources: [plain] }, NOW, AUTHOR)).toEqual(NOTHING);
    const older = { ...NOW, sources: [{ ...plain, id: 1 }] };
    expect(diffRecords({ sources: [{ ...plain, mode: 'strict' }] }, older, AUTHOR).sources).toEqual([
      { ...SOURCE, mode: 'strict' },
    ]);
    const empty = { ...NOW, sources: [] };
    expect(diffRecords({ sources: [plain] }, empty, AUTHOR).sources).toEqual([{ ...plain, trust: 'client' }]);
  });

  test('leave a destination paused or not where they say nothing of it', () => {
    const paused = { ...NOW, destinations: [{ ...DESTINATION, paused: true, id: 1, version: 3 }] };
    expect(diffRecords({ destinations: [DESTINATION] }, paused, AUTHOR)).toEqual(NOTHING);
    const moved = { ...DESTINATION, sources: ['app'] };
    const { destinations } = diffRecords({ destinations: [moved] }, paused, AUTHOR);
    expect(destinations).toEqual([{ ...moved, paused: true }]);
    const resumed = diffRecords({ destinations: [{ ...DESTINATION, paused: false }] }, paused, AUTHOR);
    expect(resumed.destinations[0]).not.toHaveProperty('paused');
    expect(diffRecords({ destinations: [{ ...DESTINATION, paused: false }] }, NOW, AUTHOR)).toEqual(NOTHING);
  });

  test('make a key where a destination is to sign publicly, keep it as long, and show it to nobody', () => {
    let made = 0;
    const makeKey = () => ({ id: `k${++made}`, privateKey: 'private', publicKey: 'public' });
    const author = { ...AUTHOR, makeKey };
    const signed = { ...DESTINATION, settings: { ...DESTINATION.settings, publicSignature: true } };
    const on = diffRecords({ destinations: [signed] }, NOW, author);
    const key = { id: 'k1', privateKey: 'private', publicKey: 'public' };
    expect(on.destinations).toEqual([{ ...signed, signingKey: key }]);
    expect(JSON.stringify(on.audit)).not.toContain('private');
    const now = { ...NOW, destinations: [{ ...on.destinations[0]!, id: 1, version: 4 }] };
    // As a file, or another node, has it.
    expect(diffRecords({ destinations: [signed] }, now, author)).toEqual(NOTHING);
    const moved = diffRecords({ destinations: [{ ...signed, sources: ['app'] }] }, now, author);
    expect(moved.destinations[0]!.signingKey).toEqual(key);
    // One that a request brings along is none.
    const forged = { ...signed, sources: ['app'], signingKey: { ...key, id: 'forged' } };
    expect(diffRecords({ destinations: [forged] }, now, author).destinations[0]!.signingKey).toEqual(key);
    const off = diffRecords({ destinations: [DESTINATION] }, now, author);
    expect(off.destinations).toEqual([DESTINATION]);
    const after = { ...NOW, destinations: [{ ...off.destinations[0]!, id: 1, version: 5 }] };
    expect(diffRecords({ destinations: [signed] }, after, author).destinations[0]!.signingKey?.id).toBe('k2');
  });

  test('note since when nothing is sent, and nobody is shown it', () => {
    const hold = diffRecords({ destinations: [{ ...DESTINATION, paused: true }] }, NOW, AUTHOR);
    expect(hold.destinations).toEqual([{ ...DESTINATION, paused: true, pauses: [{ from: 1000 }] }]);
    expect(JSON.stringify(hold.audit)).not.toContain('pauses');
    const now = { ...NOW, destinations: [{ ...hold.destinations[0]!, id: 1, version: 4 }] };
    const later = { ...AUTHOR, clock: { now: () => 7, monotonic: () => 5000 } };
    const disabled = diffRecords({ destinations: [{ ...DESTINATION, enabled: false }] }, now, later);
    expect(disabled.destinations[0]).toMatchObject({
      enabled: false,
      paused: true,
      pauses: [{ from: 1000 }],
    });
    const go = diffRecords({ destinations: [{ ...DESTINATION, paused: false }] }, now, later);
    expect(go.destinations).toEqual([{ ...DESTINATION, pauses: [{ from: 1000, to: 5000 }] }]);
  });
});
