import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE } from '../../src/model/time.ts';
import type { Store } from '../../src/ports/store.ts';
import { SuppressionFilter } from '../../src/regulations/suppression-filter.ts';
import { batch, CRM, duplicatesOf, event, events, owedBatch, WAREHOUSE } from '../conformance/batches.ts';
import { expectBalanced, START } from '../conformance/harness.ts';
import {
  ALL,
  dead,
  delivered,
  dropped,
  hold,
  idsOf,
  park,
  retried,
  settle,
} from '../conformance/holdings.ts';
import { FOR_EVER, findAll, keepUp } from '../conformance/upkeep.ts';
import { crashStore, openStore } from '../support/shared-writer.ts';

/**
 * One file for every format that a release has written, made with `MILLRACE_WRITE_FORMAT=1 npx vitest run
 * formats` before the release and never again. Every later version must open each file and find everything in
 * it.
 */
const FOLDER = join(import.meta.dirname, 'formats');

/**
 * Fills a store with everything it can hold. Entries for older formats never change; a new format adds its
 * own.
 */
async function fill(store: Store): Promise<void> {
  await store.settings.apply({
    sources: [
      {
        name: 'website',
        writeKeys: ['wk_1', 'wk_2'],
        enabled: true,
        mode: 'standard',
        whenDisabled: 'refuse',
      },
    ],
    destinations: [
      {
        name: 'crm',
        type: 'webhooks',
        sources: ['website'],
        enabled: true,
        settings: {
          endpoints: [{ url: 'https://crm.example/in', headers: { 'X-Team': 'growth' } }],
          sharedSecret: 's3cret',
          format: 'documented',
        },
      },
    ],
  });
  // Merged chunks of single calls, a chunk of many events, and fresh chunks after them.
  for (let n = 0; n < 20; n++) await store.log.append(batch([event(`merged${n}`)]));
  await keepUp(store, START + 2 * HOUR, FOR_EVER);
  await park(store, 300, 'parked', START + MINUTE);
  const held = await hold(store, 6, 'held');
  await settle(store, [
    delivered(held[0]!),
    dead(held[1]!, 'status_400'),
    retried(held[2]!, START + HOUR, { firstFailedAt: START, endpoints: 0b10, settingsVersion: 3 }),
    retried(held[3]!, START + HOUR, { firstFailedAt: START }),
  ]);
  await settle(store, [dropped(held[4]!, 'no form for it')]);
  await store.log.append(batch([event('of-ü2', 1, { userId: 'ü2' }), ...events(3, 'parked')]));
  const warehouse = owedBatch(events(2, 'skipped'), 'parked', {
    owed: [],
    skipped: [{ destination: WAREHOUSE, reason: 'disabled', indexes: [0, 1] }],
    received: [{ source: 1, calls: 5, discarded: { no_event: 3 } }],
  });
  await store.log.append(warehouse);
  const { positions } = await store.log.find({ userId: 'ü2' });
  const slice = { origin: 'r1', destinations: [WAREHOUSE], positions, from: 0, to: 7, now: START };
  await store.queue.enqueue(slice);
  await store.endpointHealth.save(HEALTH);
  await store.regulations.create(REGULATION);
  await store.sessions.begin(SESSION, START, 1);
  // These calls come last, so in files of formats 8 and 9 they wait in the redo log.
  for (const id of WAITING) await store.log.append(batch([event(id)]));
}

/** In files of format 8 and later. */
const WAITING = ['waiting1', 'waiting2'];

/** In files of format 4 and later. */
const HEALTH = [
  {
    destination: CRM,
    endpoints: [{ url: 'https://crm.example/in', attempts: { accepted: 7 }, history: [] }],
  },
];

/** In files of format 5 and later. */
const REGULATION = {
  id: 'reg-1',
  type: 'SUPPRESS_ONLY',
  createdAt: START,
  by: 'admin',
  userIds: ['suppressed'],
} as const;

/** In files of format 9 and later. */
const SESSION = { id: 'session', key: 'key', token: 'token', expiresAt: START + HOUR, until: START + HOUR };

async function expectEverything(store: Store, format: number): Promise<void> {
  const waiting = format >= 8 ? WAITING.length : 0;
  const drops = format >= 10 ? 1 : 0;
  const { sources, destinations } = await store.settings.load();
  expect(sources).toEqual([expect.objectContaining({ name: 'website', writeKeys: ['wk_1', 'wk_2'] })]);
  expect(destinations).toEqual([expect.objectContaining({ name: 'crm', type: 'webhooks', version: 1 })]);
  await expectBalanced(store);
  const ledger = await store.queue.ledger();
  expect(ledger.sources.get(1)).toMatchObject({
    ...{ accepted: 329 + waiting, duplicates: 3, discarded: { no_event: 3 } },
  });
  expect(ledger.destinations.get(CRM)).toMatchObject({
    ...{ owed: 306, delivered: 1, dead: { status_400: 1 }, pending: 304 - drops },
    ...{ dropped: drops === 0 ? {} : { not_applicable: drops } },
  });
  expect(ledger.destinations.get(WAREHOUSE)).toMatchObject({ skipped: { disabled: 2 } });
  expect(await store.log.size()).toMatchObject({ events: 329 + waiting, oldestAt: START });
  for (const [query, n] of [
    [{ userId: 'ü2' }, 1],
    [{ messageId: 'merged7' }, 1],
    [{ from: START, to: START + 1 }, 29 + waiting],
    [{ messageId: 'waiting2' }, waiting / 2],
  ] as const) {
    expect(await findAll(store, query)).toHaveLength(n);
  }
  const again = batch([event('merged3'), event('held5'), event('new')], { receivedAt: START + 3 * HOUR });
  expect(duplicatesOf(await store.log.append(again))).toEqual([0, 1]);
  expect(await store.queue.recoverOrphans()).toBe(2 - drops);
  const { deliveries } = await store.queue.claim(CRM, ALL, START + 5 * HOUR);
  expect(deliveries).toHaveLength(304 - drops);
  const tried = deliveries.filter(({ delivery }) => delivery.rounds > 0).map(({ delivery }) => delivery);
  expect(tried).toContainEqual(
    expect.objectContaining({ rounds: 1, firstFailedAt: START, endpoints: 0b10, settingsVersion: 3 }),
  );
  expect(await idsOf(store, deliveries)).toContain('parked299');
  await store.queue.settle(deliveries.map((one) => delivered({ ...one, destination: CRM })));
  expect(await store.history.progress('r1')).toMatchObject({ cursor: 7, events: 1 });
  const replayed = await store.queue.claim(WAREHOUSE, ALL, START);
  expect(replayed.deliveries).toMatchObject([{ origin: 'r1', delivery: { rounds: 0 } }]);
  await expectBalanced(store);
}

describe('a data folder of', () => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.db'));

  it.each(files)('format %s opens and holds everything', async (file) => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-format-'));
    try {
      copyFileSync(join(FOLDER, file), join(folder, 'millrace.db'));
      const store = await openStore({ folder });
      await expectEverything(store, Number.parseInt(file, 10));
      expect(store.isBounded).toBe(Number.parseInt(file, 10) >= 10);
      expect(await store.endpointHealth.load()).toEqual(Number.parseInt(file, 10) >= 4 ? HEALTH : []);
      const session = await store.sessions.find('session');
      expect(session).toEqual(Number.parseInt(file, 10) >= 9 ? SESSION : undefined);
      const regulated = Number.parseInt(file, 10) >= 5 ? { userId: 'suppressed' } : undefined;
      if (regulated === undefined) expect(await store.regulations.open()).toEqual([]);
      else expect(await store.regulations.suppression('suppressed')).toMatchObject(regulated);
      await store.stop();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.each(files.filter((name) => Number.parseInt(name, 10) >= 5))(
    'format %s goes on suppressing whom it has trimmed, and nobody with blanks around the id',
    async (file) => {
      const folder = mkdtempSync(join(tmpdir(), 'millrace-format-'));
      try {
        copyFileSync(join(FOLDER, file), join(folder, 'millrace.db'));
        const store = await openStore({ folder });
        const filter = new SuppressionFilter(store.regulations.hashId);
        await filter.load(store.regulations);
        // Earlier versions took the blanks away before they stored an id, so this one stands for `"
        // suppressed "` too.
        const users = ['suppressed', ' suppressed', 'suppressed ', 'Suppressed'];
        expect(users.filter((userId) => filter.names({ userId }))).toEqual(['suppressed']);
        await store.stop();
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  it('the current format is among them', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-format-'));
    try {
      const data = join(folder, 'data');
      const left = join(folder, 'left');
      const store = await openStore({ folder: data });
      expect(store.isBounded).toBe(true);
      await fill(store);
      await crashStore(data, left);
      // The write-ahead log is copied into the file.
      const database = new DatabaseSync(join(left, 'millrace.db'));
      const { user_version: version } = database.prepare('pragma user_version').get() as {
        user_version: number;
      };
      database.close();
      const kept = join(FOLDER, `${version}.db`);
      if (process.env['MILLRACE_WRITE_FORMAT'] === '1') copyFileSync(join(left, 'millrace.db'), kept);
      expect(existsSync(kept)).toBe(true);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
