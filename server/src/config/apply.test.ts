import { describe, expect, test } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { AUDIENCES_SOURCE, type SourceRecord } from '../model/settings.ts';
import { applyConfigFile } from './apply.ts';
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
  const snapshot = await applyConfigFile(
    { sources: sources as Config['sources'], destinations: [], audiences: [], traits: [], alerts: [] },
    store.settings,
    {
      logger: { debug: silent, info: silent, warn, error: silent },
      clock: handClock(1_700_000_000_000),
      refusalOf: () => undefined,
    },
  );
  const rules = Object.fromEntries(snapshot.sources.map(({ name, ip }) => [name, ip]));
  return { rules, warned };
}

describe('the rule for addresses at a start', () => {
  test('is `keep` for a source that is new', async () => {
    const store = openMemoryStore();
    expect(await startWith(store, [source('website')])).toEqual({ rules: { website: 'keep' }, warned: [] });
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

    expect(await startWith(store, file)).toEqual({ rules, warned: [] });
  });

  test('is what the file says where it says something, and there is nothing to warn of', async () => {
    const store = openMemoryStore();
    await store.settings.apply({ sources: [source('website')], destinations: [] });
    expect(await startWith(store, [source('website', { ip: 'keep' })])).toEqual({
      rules: { website: 'keep' },
      warned: [],
    });
    await startWith(store, [source('website', { ip: 'drop' })]);
    expect((await startWith(store, [source('website')])).rules).toEqual({ website: 'drop' });
  });
});
