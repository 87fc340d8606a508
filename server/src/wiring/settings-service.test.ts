import { beforeEach, describe, expect, test } from 'vitest';
import type { SourceRecord } from '../model/settings.ts';
import type { SettingsChanges, SettingsSnapshot, SettingsStore } from '../ports/settings-store.ts';
import { SettingsService } from './settings-service.ts';

const EMPTY: SettingsSnapshot = {
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
};
const source = (name: string): SourceRecord => ({
  ...{ name, writeKeys: [name], enabled: true, mode: 'standard', whenDisabled: 'refuse' },
});

/** A store that applies sources; `broken` makes the next change fail. */
class Stored implements SettingsStore {
  snapshot = EMPTY;
  applied = 0;
  broken = false;

  async load() {
    return this.snapshot;
  }

  async auditedBefore() {
    return 0;
  }

  async apply({ sources }: SettingsChanges) {
    this.applied++;
    await new Promise((resolve) => setImmediate(resolve));
    if (this.broken) throw new Error('the disk is full');
    const id = this.snapshot.sources.length + 1;
    this.snapshot = {
      ...this.snapshot,
      sources: [...this.snapshot.sources, ...sources.map((one) => ({ ...one, id }))],
    };
    return this.snapshot;
  }

  async audit() {
    return { entries: [] };
  }
}

let stored: Stored;
let settings: SettingsService;

beforeEach(() => {
  stored = new Stored();
  settings = new SettingsService(stored, EMPTY);
});

const add = (name: string) =>
  settings.change((now) => {
    if (now.sources.some((one) => one.name === name)) throw new Error('taken');
    return { sources: [source(name)], destinations: [] };
  });
const names = ({ sources }: SettingsSnapshot) => sources.map(({ name }) => name);

describe('a change of the settings', () => {
  test('is in force, and everybody was told, when it is answered', async () => {
    const told: string[][] = [];
    settings.follow((now) => told.push(names(now)));
    expect(told).toEqual([[]]);
    expect(names(await add('a'))).toEqual(['a']);
    expect(names(settings.now())).toEqual(['a']);
    expect(told).toEqual([[], ['a']]);
  });

  test('begins with what the one before has left, however many come at once', async () => {
    const results = await Promise.allSettled(['a', 'b', 'a', 'c'].map(add));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled']);
    expect(names(settings.now())).toEqual(['a', 'b', 'c']);
  });

  test('that changes nothing is not stored, and nobody is told', async () => {
    const told: SettingsSnapshot[] = [];
    settings.follow((now) => told.push(now));
    expect(await settings.change(() => ({ sources: [], destinations: [], removed: [] }))).toBe(EMPTY);
    expect([stored.applied, told.length]).toEqual([0, 1]);
  });

  test('has its entries of the audit trail in its commit: none is written alone', async () => {
    const entry = { at: 1, by: 'admin', action: 'created', kind: 'regulation', name: 'r' } as const;
    const alone = settings.change(() => ({ sources: [], destinations: [], audit: [entry] }));
    await expect(alone).rejects.toThrow('write it in the commit of what it tells about');
    expect(stored.applied).toBe(0);
  });

  test('that cannot be stored leaves everything as it was, and the next one is made', async () => {
    const told: SettingsSnapshot[] = [];
    settings.follow((now) => told.push(now));
    stored.broken = true;
    await expect(add('a')).rejects.toThrow('the disk is full');
    expect([settings.now(), told.length]).toEqual([EMPTY, 1]);
    stored.broken = false;
    expect(names(await add('a'))).toEqual(['a']);
  });
});
