import { afterEach, beforeEach, expect, it } from 'vitest';
import { emptyContents, openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { laneIdsIn } from '../../test/support/lanes.ts';
import { wallClockStore } from '../adapters/system/wall-clock-store.ts';
import type { Replay } from '../model/replay.ts';
import { SECOND } from '../model/time.ts';
import type { DeliveryResult, ReplaySlice } from '../ports/delivery-queue.ts';
import { StorageError } from '../ports/event-log.ts';
import type { Logger } from '../ports/logger.ts';
import type { SettingsChanges } from '../ports/settings-store.ts';
import type { Store } from '../ports/store.ts';
import { SettingsService } from '../wiring/settings-service.ts';
import { MAX_AHEAD } from './policy.ts';
import { Replayer } from './replayer.ts';

const START = Date.UTC(2026, 0, 1);
const NOTHING = { sources: [], destinations: [] };
const QUIET: Logger = { debug() {}, info() {}, warn() {}, error() {} };

let contents: ReturnType<typeof emptyContents>;
let store: Store;
let settings: SettingsService;
let replays: Replayer;
let clock: ReturnType<typeof handClock>;
let parked: number[];
/** Fails the commits of slices while set: before or after the write. */
let broken: 'before' | 'after' | undefined;

async function open(): Promise<void> {
  store = openMemoryStore({ contents });
  await store.queue.recoverOrphans();
  settings = new SettingsService(store.settings, await store.settings.load());
  const owe = async (slice: ReplaySlice) => {
    if (broken === 'before') throw new StorageError('the disk is full');
    const owing = await store.queue.enqueue(slice);
    if (broken === 'after') throw new StorageError('nobody knows whether it happened');
    return owing;
  };
  replays = new Replayer({
    ...{
      ...wallClockStore(store, clock),
      deliveryQueue: { enqueue: owe },
    },
    ...{ settings, clock, logger: QUIET },
    parked: (lane) => parked.push(lane),
    lanesOf: laneIdsIn,
    withholding: () => undefined,
    routingPredicate: (_, sources) => (event, source) =>
      sources.includes(source.name) && event.event !== 'Filtered',
  });
  replays.start();
}

beforeEach(async () => {
  contents = emptyContents();
  clock = handClock(START + 10 * SECOND);
  parked = [];
  broken = undefined;
  await open();
  const source = { writeKeys: [], enabled: true, mode: 'standard', whenDisabled: 'refuse' } as const;
  const endpoints = [1, 2].map((n) => ({ url: `http://e${n}/`, headers: {} }));
  await settings.change(() => ({
    sources: ['site', 'app'].map((name) => ({ name, ...source })),
    destinations: [
      {
        ...{ name: 'crm', type: 'webhooks', sources: ['site'], enabled: true },
        settings: { endpoints, format: 'documented' },
      },
    ],
  }));
});

afterEach(() => replays.stop());

/** Stores events of a source (1 is `site`, 2 is `app`). */
async function write(count: number, source: number, parts: object = {}): Promise<void> {
  const receivedAt = new Date(START).toISOString();
  const events = Array.from({ length: count }, (_, n) => {
    const messageId = `${source}-${JSON.stringify(parts)}-${n}`;
    return { source, messageId, json: JSON.stringify({ messageId, type: 'track', receivedAt, ...parts }) };
  });
  await store.log.append({
    ...{ id: `${source}-${JSON.stringify(parts)}`, receivedAt: START, events },
    ...{ plans: [], planIndexes: [], owed: [] },
    received: [{ source, calls: count, discarded: {} }],
  });
}

async function begin(parts: Partial<Replay> = {}): Promise<string> {
  const id = `r${settings.now().replays.length}`;
  const replay: Replay = {
    ...{ id, destination: 'crm', from: START, to: START + SECOND, rate: 1000, state: 'running' },
    ...{ preview: { count: 0, bytes: 0, isExact: true }, createdAt: clock.now(), by: 'ci' },
    ...parts,
  };
  await change({ replays: [replay] });
  return id;
}

const change = (changes: Partial<SettingsChanges>) => settings.change(() => ({ ...NOTHING, ...changes }));
const stateOf = (id: string) => settings.now().replays.find((one) => one.id === id)!;
const untilItEnds = (id: string) => clock.passUntil(() => stateOf(id).state !== 'running', 60 * SECOND);

it('enqueues the events of the sources its destination is connected to, or of the one that it names', async () => {
  await write(3, 1);
  await write(5, 2);
  await write(2, 1, { event: 'Filtered' });
  await write(4, 1, { type: 'page' });
  for (const [parts, events] of [
    [{}, 7],
    [{ source: 'app' }, 5],
    [{ types: ['page', 'screen'] }, 4],
    [{ source: 'app', types: ['page'] }, 0],
    [{ from: START + 1 }, 0],
  ] as const) {
    const id = await begin(parts);
    await untilItEnds(id);
    expect(stateOf(id)).toMatchObject({ state: 'done', endedAt: expect.any(Number) });
    expect(await replays.status(stateOf(id))).toEqual({ events, pending: events });
    expect(await replays.preview({ ...stateOf(id), destination: 'crm' })).toMatchObject({ count: events });
  }
  expect(new Set(parked)).toEqual(new Set([1]));
});

it('enqueues no more than its rate', async () => {
  await write(100, 1);
  const began = clock.now();
  const id = await begin({ rate: 10 });
  await clock.pass(SECOND);
  const { events } = await replays.status(stateOf(id));
  expect(events).toBeGreaterThan(5);
  expect(events).toBeLessThanOrEqual(12);
  await untilItEnds(id);
  expect(clock.now() - began).toBeGreaterThanOrEqual(10 * SECOND);
});

it('stays a little ahead of a slow destination, and goes on as that delivers', async () => {
  await write(2 * MAX_AHEAD, 1);
  const id = await begin({ rate: 10_000 });
  await clock.pass(5 * SECOND);
  const { events, waiting } = await replays.status(stateOf(id));
  expect(waiting).toBe('destination_behind');
  expect(events).toBeGreaterThanOrEqual(MAX_AHEAD);
  expect(events).toBeLessThan(MAX_AHEAD + 500);
  const { deliveries } = await store.queue.claim(1, MAX_AHEAD, clock.monotonic());
  await store.queue.settle(
    deliveries.map(({ set, delivery: { position } }) => ({
      ...{ set, destination: 1, position, attempts: [], decision: { kind: 'delivered' } },
    })),
  );
  await untilItEnds(id);
  expect((await replays.status(stateOf(id))).events).toBe(2 * MAX_AHEAD);
});

it('waits while its destination is paused, and fails when it is removed', async () => {
  await write(400, 1);
  const id = await begin();
  const [crm] = settings.now().destinations;
  await change({ destinations: [{ ...crm!, paused: true }] });
  await clock.pass(SECOND);
  expect((await replays.status(stateOf(id))).waiting).toBe('destination_paused');
  await change({ removed: [{ kind: 'destination', name: 'crm' }] });
  await untilItEnds(id);
  expect(stateOf(id)).toMatchObject({ state: 'failed', reason: 'destination_removed' });
});

it('enqueues nothing more when it is cancelled', async () => {
  await write(400, 1);
  const id = await begin({ rate: 100 });
  await clock.pass(SECOND);
  await change({ replays: [{ ...stateOf(id), state: 'cancelled' }] });
  await clock.settle();
  const { events } = await replays.status(stateOf(id));
  await clock.pass(10 * SECOND);
  expect(await replays.status(stateOf(id))).toMatchObject({ events });
  expect(stateOf(id).state).toBe('cancelled');
});

it.each(['before', 'after'] as const)(
  'enqueues each event once when the store fails %s its write',
  async (moment) => {
    await write(1000, 1);
    const id = await begin({ rate: 500 });
    await clock.pass(SECOND / 2);
    broken = moment;
    await clock.pass(1.5 * SECOND);
    expect((await replays.status(stateOf(id))).waiting).toBe('storage_unavailable');
    broken = undefined;
    await untilItEnds(id);
    const { deliveries } = await store.queue.claim(1, 5000, clock.monotonic());
    expect(new Set(deliveries.map(({ delivery }) => delivery.position)).size).toBe(1000);
    expect(deliveries).toHaveLength(1000);
  },
);

it('goes on where it was in another process', async () => {
  await write(1000, 1);
  const id = await begin();
  await clock.pass(SECOND / 2);
  const crashed = replays;
  await open();
  const before = (await replays.status(stateOf(id))).events;
  expect(before).toBeGreaterThan(0);
  expect(before).toBeLessThan(1000);
  await untilItEnds(id);
  expect(await replays.status(stateOf(id))).toEqual({ events: 1000, pending: 1000 });
  await crashed.stop();
});

it('enqueues for every endpoint that is a delivery of its own', async () => {
  await write(3, 1);
  const [crm] = settings.now().destinations;
  const each = { ...crm!, success: 'each' as const };
  await change({ destinations: [each] });
  const wish = { from: 0, to: clock.now() + 1 };
  expect(await replays.preview({ ...wish, destination: 'crm' })).toMatchObject({ count: 3, deliveries: 6 });
  const id = await begin();
  await untilItEnds(id);
  expect(await replays.status(stateOf(id))).toEqual({ events: 3, pending: 6 });
  expect(new Set(parked)).toEqual(new Set(laneIdsIn(each)));
});

/** Settles deliveries of `site`: dead where `isDead` says so, delivered otherwise. */
async function settled(count: number, isDead: (nth: number) => boolean): Promise<void> {
  await write(count, 1);
  const { positions } = await store.log.find({ from: 0, to: clock.monotonic() });
  const slice = { origin: 'first', destinations: [1], positions: positions.toSorted((a, b) => a - b) };
  await store.queue.enqueue({ ...slice, from: 0, to: 1, now: START });
  await settleAll((nth) => (isDead(nth) ? { kind: 'dead', reason: 'status_410' } : { kind: 'delivered' }));
}

async function settleAll(decisionOf: (nth: number) => DeliveryResult['decision']): Promise<void> {
  const { deliveries } = await store.queue.claim(1, 10_000, clock.monotonic());
  const outcome = { kind: 'accepted', reason: 'status_200', status: 200 } as const;
  const attempt = { endpoint: 'http://e1/', startedAt: START, latencyMs: 1, outcome };
  await store.queue.settle(
    deliveries.map(({ set, delivery: { position } }, nth) => {
      const decision = decisionOf(nth);
      const attempts = decision.kind === 'delivered' ? [attempt] : [];
      return { set, destination: 1, position, attempts, decision };
    }),
  );
}

const counts = async () => (await store.queue.ledger()).destinations.get(1)!;

it('redelivers delivered events only, each once, although they are delivered again meanwhile', async () => {
  await settled(900, (nth) => nth % 3 === 0);
  await write(40, 2);
  const wish = { redelivers: { state: 'delivered' }, from: 0, to: clock.now() } as const;
  expect(await replays.preview({ ...wish, destination: 'crm' })).toMatchObject({ count: 600, isExact: true });
  const id = await begin(wish);
  await clock.pass(SECOND / 4);
  await settleAll(() => ({ kind: 'delivered' }));
  const crashed = replays;
  await open();
  await untilItEnds(id);
  await crashed.stop();
  expect((await replays.status(stateOf(id))).events).toBe(600);
  expect(await counts()).toMatchObject({ owed: 1500, dead: { status_410: 300 } });
});

it('redelivers dead letters in the background, each once across a restart, and those that die again stay dead', async () => {
  await settled(900, (nth) => nth % 3 === 0);
  for (const [parts, count] of [
    [{ redelivers: { state: 'dead', reason: 'status_404' } }, 0],
    [{ redelivers: { state: 'dead' }, types: ['page'] }, 0],
    [{ redelivers: { state: 'dead' }, source: 'app' }, 0],
    [{ redelivers: { state: 'dead' }, source: 'site', types: ['track'] }, 300],
  ] as const) {
    const wish = { ...parts, from: 0, to: clock.now() + 1 };
    expect(await replays.preview({ ...wish, destination: 'crm' })).toMatchObject({ count, isExact: true });
    const id = await begin(wish);
    await untilItEnds(id);
    expect(await replays.status(stateOf(id))).toMatchObject({ events: count });
    expect(await counts()).toMatchObject({ owed: 900, pending: count });
  }
  await settleAll(() => ({ kind: 'dead', reason: 'status_500' }));
  await open();
  const again = await begin({ redelivers: { state: 'dead' }, from: 0, to: clock.now() + 1 });
  await untilItEnds(again);
  expect(await counts()).toMatchObject({ owed: 900, pending: 300 });
});

it('improves an estimated preview while it runs', async () => {
  await write(1000, 1);
  await write(1000, 1, { type: 'page' });
  const preview = { count: 1_700_000, bytes: 1, isExact: false };
  const id = await begin({ types: ['track', 'screen'], preview, rate: 1000 });
  await clock.pass(SECOND / 2);
  const { events, left } = await replays.status(stateOf(id));
  expect(events).toBeGreaterThan(0);
  expect(left).toBeLessThanOrEqual(2000 - events);
});
