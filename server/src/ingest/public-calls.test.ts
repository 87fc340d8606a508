import { expect, test } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { ingestServiceOf } from '../../test/support/ingest.ts';
import { sourceWith } from '../../test/support/sources.ts';
import type { Trust } from '../model/settings.ts';
import { DAY, SECOND } from '../model/time.ts';
import type { IngestRequest } from '../ports/ingest.ts';
import { indexWriteKeys } from './calls.ts';

const NOW = 1_700_000_000_000;

/** Counters and warnings of calls to a source of this trust. */
function world(trust: Trust | undefined) {
  const ignore = () => {};
  const counted: [source: string, calls: number][] = [];
  const warned: unknown[] = [];
  const { log } = openMemoryStore();
  const source = sourceWith({
    name: 'backend',
    writeKeys: ['wk'],
    ...(trust === undefined ? {} : { trust }),
  });
  const ingest = ingestServiceOf({
    log,
    clock: handClock(NOW),
    current: {
      writeKeys: indexWriteKeys([source], 'refuse'),
      planner: { plan: () => ({ owed: [], skipped: [] }) },
    },
    logger: {
      ...{ debug: ignore, info: ignore, error: ignore },
      warn: (facts: object, event: string) => void warned.push([event, facts]),
    },
    ingestCounters: {
      ...{ discarded: ignore, refused: ignore, changed: ignore, rateLimited: ignore },
      publicCalls: (name, calls) => void counted.push([name, calls]),
    },
    sourceName: () => 'backend',
  });
  const send = (
    library: string,
    { calls = 1, ...more }: Partial<IngestRequest> & { calls?: number } = {},
  ) => {
    const call = { type: 'track', userId: 'u1', event: 'E', context: { library: { name: library } } };
    const body = Buffer.from(JSON.stringify({ batch: Array.from({ length: calls }, () => call) }));
    const request = { type: 'batch', writeKey: 'wk', body, receivedAt: NOW, peer: {} } as const;
    ingest.handle({ ...request, ...more }, ignore);
  };
  return { send, counted, warned };
}

test(quoted('Such calls to a source with `trust: server` are counted and warned of later too.'), () => {
  for (const trust of ['server', undefined] as const) {
    const { send, counted, warned } = world(trust);
    send('my-server', { calls: 3, hasOrigin: true });
    send('analytics-ios');
    expect(counted).toEqual([
      ['backend', 3],
      ['backend', 1],
    ]);
    const hint = expect.stringContaining('set trust to client');
    expect(warned).toEqual([['source.public_calls', { source: 'backend', by: 'origin', hint }]]);
  }
});

test('a source is warned of once a day, and one call in a second is looked at for its library', () => {
  const { send, counted, warned } = world('server');
  for (let nth = 0; nth < 1000; nth++) send('analytics-android', { receivedAt: NOW + nth });
  expect(counted).toHaveLength(1);
  send('analytics-android', { receivedAt: NOW + SECOND });
  expect(counted).toHaveLength(2);
  expect(warned).toHaveLength(1);
  send('analytics-android', { receivedAt: NOW + DAY });
  expect(warned).toHaveLength(2);
});

test('nobody is warned of calls of servers, of imports, and of sources whose keys may be public', () => {
  const { send, counted } = world('server');
  send('analytics-node');
  send('analytics.js', { hasOrigin: true, peer: undefined as never, receivedAt: NOW + SECOND });
  expect(counted).toEqual([]);
  const site = world('client');
  site.send('analytics.js', { hasOrigin: true });
  expect(site.counted).toEqual([]);
});
