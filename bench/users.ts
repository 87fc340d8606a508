import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { identityHash, keyHash } from '../server/src/adapters/encoding/hashes.ts';
import { openLogReader } from '../server/src/adapters/sqlite/log/log-reader.ts';
import { openSqliteStore } from '../server/src/adapters/sqlite/store.ts';
import { openProfileStore } from '../server/src/adapters/sqlite/users/profile-store.ts';
import type { Computation } from '../server/src/model/definition.ts';
import { DAY } from '../server/src/model/time.ts';
import type { LogReader, NewEvent } from '../server/src/ports/event-log.ts';
import { Computations } from '../server/src/users/computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, KEEP_PROFILES } from '../server/src/users/contract.ts';
import { IdentityReader } from '../server/src/users/identity/identity-reader.ts';
import { readEvents } from '../server/src/users/log-events.ts';
import { createProcessor } from '../server/src/users/processor.ts';
import { definitions, eventName, fillProfiles, randomText, seeded, zipf } from './profiles.ts';

/**
 * The cost of profiles: `node bench/users.ts`, with USERS (100,000), EVENTS (100,000) and ROUNDS (2). Events
 * of 600 bytes of Zipf users, one in five without a userId, one in thirty an identify, are applied from a
 * real log to a real users.db in which every user has a profile already: with profiles alone, with 20
 * audiences (five with windows) and 10 computed traits, and with 500 definitions, most of them of events that
 * do not happen. All stand beside reading and parsing the same log, which no service could do without.
 *
 * Everything runs in this one thread, so a second of processor time is a second of the users thread.
 */
const USERS = Number(process.env['USERS'] ?? 100_000);
const EVENTS = Number(process.env['EVENTS'] ?? 100_000);
const ROUNDS = Number(process.env['ROUNDS'] ?? 2);
const LOG = 'bench';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const hash = identityHash(keyHash(Buffer.from('secretly')));
const clock = {
  now: () => Date.now(),
  monotonic: () => Math.floor(performance.now()),
  steps: () => [{ at: 0, ahead: Date.now() - Math.floor(performance.now()) }],
  turn: (run: () => void) => void setImmediate(run),
};

const folder = mkdtempSync(join(process.env['DIR'] ?? tmpdir(), 'millrace-bench-users-'));
try {
  const store = await openSqliteStore({ folder });
  await fillLog(store);
  const reader = openLogReader(folder);
  for (let round = 0; round < ROUNDS; round++) {
    const read = await measure('reading and parsing the log', () => readAll(reader));
    const alone = await withProfiles(reader, []);
    const whole = await withProfiles(reader, definitions());
    console.log(`  profiles / reading      ${(alone / read).toFixed(2)}`);
    console.log(`  everything / reading    ${(whole / read).toFixed(2)}`);
    console.log(`  everything / profiles   ${(whole / alone).toFixed(2)}`);
    // Definitions of other names than those of an event should cost that event nothing.
    const many = await withProfiles(reader, definitions(500, 250));
    console.log(`  500 / 30 definitions    ${(many / whole).toFixed(2)}\n`);
  }
  await reader.stop();
  await store.stop();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function fillLog(store: Awaited<ReturnType<typeof openSqliteStore>>): Promise<void> {
  const random = seeded(1);
  const start = Date.now() - DAY;
  for (let first = 0; first < EVENTS; first += 500) {
    const events = Array.from({ length: 500 }, (_, nth) => event(first + nth, start, random));
    await store.log.append({
      id: `bench-${first}`,
      receivedAt: start + first,
      events,
      owed: [],
      plans: [],
      planIndexes: [],
      received: [{ source: 1, calls: 500, discarded: {} }],
    });
  }
}

function event(n: number, start: number, random: () => number): NewEvent {
  const user = zipf(USERS, random);
  const kind = random();
  const at = new Date(start + n - (random() < 0.05 ? random() * DAY : 0)).toISOString();
  const anonymousId = `${((user * 7919) >>> 0).toString(16)}-${Math.floor(random() * 3)}-5f0c2a9e-41d2`;
  const userId = `user-${user}`;
  const isIdentify = kind > 0.97;
  const body = isIdentify
    ? { traits: { plan: random() < 0.3 ? 'pro' : 'free', logins: n } }
    : {
        event: eventName(random),
        properties: {
          ...{ total: Math.floor(random() * 20000) / 100, currency: 'EUR', coupon: randomText(random) },
          ...{ sku: `sku-${randomText(random)}`, quantity: 1 + Math.floor(random() * 3) },
        },
      };
  const messageId = `m-${n}-${randomText(random)}${randomText(random)}`;
  const ids = kind < 0.2 ? { anonymousId } : { userId, anonymousId };
  const json = JSON.stringify({
    ...{ messageId, type: isIdentify ? 'identify' : 'track', channel: 'browser', ...ids, ...body },
    context: {
      ...{ ip: `10.${n % 255}.3.${n % 251}`, session: randomText(random) },
      library: { name: 'analytics.js', version: '2.11.1' },
      page: { path: `/p/${Math.floor(random() * 50000)}`, title: 'Shoes and more' },
      userAgent: 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36',
    },
    ...{ integrations: {}, timestamp: at, originalTimestamp: at, receivedAt: at },
  });
  return { source: 1, messageId, json, ...(kind < 0.2 ? {} : { userId }) };
}

async function readAll(reader: LogReader): Promise<void> {
  const ids = new IdentityReader(hash, DEFAULT_IDENTITY_SETTINGS);
  for (let from = 0; ; ) {
    const page = await reader.page(from, 2000);
    if (page.next === from) return;
    readEvents(page, ids, { serverSources: [1] });
    from = page.next;
  }
}

async function withProfiles(reader: LogReader, computations: readonly Computation[]): Promise<number> {
  const place = mkdtempSync(join(folder, 'profiles-'));
  const store = openProfileStore({ folder: place, log: LOG });
  await fillProfiles(store, hash, { users: USERS, cohort: 0 });
  // The definitions are told to every profile before the log begins, so that changes of members are part of
  // the figure.
  let isEmpty = true;
  const late: LogReader = {
    page: (from, max) =>
      isEmpty
        ? reader.page(Number.MAX_SAFE_INTEGER, 1).then((page) => ({ ...page, next: from }))
        : reader.page(from, max),
    bounds: () => (isEmpty ? Promise.resolve({ first: 0, end: 0 }) : reader.bounds()),
    producedTo: (name) => reader.producedTo(name),
    stop: () => reader.stop(),
  };
  const processor = createProcessor({
    ...{ reader: late, store, clock, logger: silent, hash },
    computations: new Computations({ reader: late, clock }),
  });
  await processor.configure({
    computations,
    identities: DEFAULT_IDENTITY_SETTINGS,
    serverSources: [1],
    hearing: ['crm'],
    retention: KEEP_PROFILES,
  });
  while ((await processor.slice()).hasMore);
  isEmpty = false;
  const slices: number[] = [];
  const { length } = computations;
  const what = length === 0 ? 'profiles alone' : `with ${length} definitions`;
  const figure = await measure(what, async () => {
    for (let hasMore = true; hasMore; ) {
      const at = performance.now();
      const outcome = await processor.slice();
      slices.push(performance.now() - at);
      // As the publisher does.
      await processor.sent(outcome.lastOutbox);
      hasMore = outcome.hasMore;
    }
  });
  const { profiles, bytes } = await store.size();
  const worst = Math.max(...slices);
  console.log(
    `    ${slices.length} slices, the longest ${worst.toFixed(0)} ms; ${profiles} profiles, ` +
      `${Math.round(bytes / 1e6)} MB of file, ${Math.round(process.memoryUsage.rss() / 1e6)} MB of memory`,
  );
  await store.stop();
  rmSync(place, { recursive: true });
  return figure;
}

/** Runs something over all events. Returns events per second of processor time. */
async function measure(what: string, run: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  const at = performance.now();
  await run();
  const { user, system } = process.cpuUsage(before);
  const wall = EVENTS / ((performance.now() - at) / 1000);
  const perCpuSecond = EVENTS / ((user + system) / 1e6);
  console.log(`${what.padEnd(30)} ${round(wall)} events/s, ${round(perCpuSecond)} per CPU second`);
  return perCpuSecond;
}

function round(rate: number): string {
  return (Math.round(rate / 100) * 100).toLocaleString('en').padStart(9);
}
