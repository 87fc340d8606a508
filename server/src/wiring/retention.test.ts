import { expect, test } from 'vitest';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { DAY, HOUR } from '../model/time.ts';
import type { LogFields } from '../ports/logger.ts';
import type { AuditEntry } from '../ports/settings-store.ts';
import { logRetention, warnOfUnbounded } from './retention.ts';
import { SettingsService } from './settings-service.ts';

const START = Date.parse('2026-11-22T12:00:00.000Z');
const YEAR = 365 * DAY;

async function world(isBounded: boolean, retention: { audit?: number; regulations?: 'off' } = {}) {
  const store = { ...openMemoryStore(), isBounded };
  const clock = handClock(START, HOUR);
  const logged: [string, LogFields][] = [];
  const log = (facts: LogFields, event: string) => void logged.push([event, facts]);
  const settings = new SettingsService(store.settings, await store.settings.load());
  const config = {
    retention: { events: 7 * DAY, deadLetters: 30 * DAY, profiles: {}, ...retention },
    limits: { connections: 1, requests: 1, requestBytes: 1, disk: 1000 },
  };
  const logger = { debug() {}, info: log, warn: log, error: log };
  return { store, clock, logged, parts: { store, clock, settings, config, options: { logger } } };
}

const entry = (at: number): AuditEntry => ({ at, by: 'ann', action: 'changed', kind: 'source', name: 's' });

test('a year ago is told by the monotonic clock, and shown as the wall clock showed it then', async () => {
  const { clock, parts } = await world(true);
  const now = logRetention(parts);
  expect(now()).toEqual({
    ...{ events: 7 * DAY, deadLetters: 30 * DAY, messageIds: DAY, disk: 1000 },
    ...{ auditBefore: START - YEAR, regulationsBefore: START - YEAR },
  });
  // A clock that is wrong lets nothing go, for however long it is.
  clock.step(10 * YEAR);
  expect(now().auditBefore).toBe(START - YEAR);
  await clock.pass(DAY);
  expect(now().auditBefore).toBe(START - YEAR + DAY);
  await clock.pass(YEAR);
  expect(now().auditBefore).toBe(START + DAY + 10 * YEAR);
});

test('an installation of an earlier version lets nothing go, and tells what a new one would', async () => {
  const { store, logged, parts } = await world(false);
  const audit = [entry(START - 2 * YEAR), entry(START - YEAR - 1), entry(START - YEAR + 1)];
  await store.settings.apply({ sources: [], destinations: [], audit });
  const userIds = ['u'];
  const made = { id: 'r', type: 'UNSUPPRESS', createdAt: START - 2 * YEAR, by: 'ann', userIds } as const;
  await store.regulations.create(made);
  await warnOfUnbounded(parts);
  // The trail has the regulation too.
  expect(logged).toMatchObject([['retention.unbounded', { audit: 3, regulations: 1 }]]);
  expect(logRetention(parts)()).toEqual({
    ...{ events: 7 * DAY, deadLetters: 30 * DAY, messageIds: DAY, disk: 1000 },
  });
});

test('nothing is told where the file has said what goes and what stays', async () => {
  const { store, logged, parts } = await world(false, { audit: DAY, regulations: 'off' });
  await store.settings.apply({ sources: [], destinations: [], audit: [entry(START - 2 * YEAR)] });
  await warnOfUnbounded(parts);
  expect(logged).toEqual([]);
  expect(logRetention(parts)()).toMatchObject({ auditBefore: START - DAY });
  expect(logRetention(parts)().regulationsBefore).toBeUndefined();
});
