import { afterEach, describe, expect, it } from 'vitest';
import { openMemoryStore } from '../../../test/memory-store/store.ts';
import { handClock } from '../../../test/support/clock.ts';
import { sourceWith } from '../../../test/support/sources.ts';
import type { Destination } from '../../model/destination.ts';
import type { Plan } from '../../model/plan.ts';
import { SECOND } from '../../model/time.ts';
import { type EventLog, StorageError } from '../../ports/event-log.ts';
import type { OutboxEntry } from '../../ports/profile-store.ts';
import type { Activity } from '../../ports/telemetry.ts';
import { Publisher, type PublisherDependencies } from './publisher.ts';

const START = Date.UTC(2026, 0, 1, 12);
const SOURCE = sourceWith({ name: 'audiences', id: 9, writeKeys: [] });

const CRM: Destination = {
  ...{ id: 3, name: 'crm', type: 'webhooks', sources: [], enabled: true, version: 1 },
  settings: { endpoints: [], format: 'documented' },
};

function entry(sequence: number): OutboxEntry {
  const event = {
    messageId: `aud_1_v1_1.${sequence}.1`,
    ...{ type: 'identify', channel: 'server', userId: `u${sequence}`, traits: { vips: true } },
    ...{ context: {}, integrations: {}, timestamp: '', receivedAt: '' },
  };
  return { sequence, profile: sequence, json: JSON.stringify(event) };
}

let running: Publisher[] = [];

afterEach(async () => {
  for (const one of running.splice(0)) await one.stop();
  running = [];
});

/** A publisher over an outbox in memory, which keeps what was not acknowledged. */
function world(changes: Partial<PublisherDependencies> = {}) {
  const clock = handClock(START);
  const store = openMemoryStore();
  const entries: OutboxEntry[] = [];
  const parked: number[] = [];
  const activities: Activity[] = [];
  let batches = 0;
  const dependencies: PublisherDependencies = {
    outbox: {
      outbox: async (after, max) => entries.filter(({ sequence }) => sequence > after).slice(0, max),
      sent: async (to) => void entries.splice(0, entries.filter(({ sequence }) => sequence <= to).length),
    },
    log: store.log,
    source: () => SOURCE,
    plan: (): Plan => ({ owed: [CRM], skipped: [] }),
    hasCalls: () => false,
    liveDelivery: { parked: (destination) => void parked.push(destination) },
    currentObserver: { observer: (activity) => void activities.push(activity) },
    newBatchId: () => `b${batches++}`,
    clock,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    ...changes,
  };
  const start = () => {
    const publisher = new Publisher(dependencies);
    running.push(publisher);
    publisher.start();
    return publisher;
  };
  return { clock, store, entries, parked, activities, start };
}

async function stored(log: EventLog): Promise<(string | undefined)[]> {
  const { positions } = await log.find({ from: START - SECOND, to: START + 3600 * SECOND });
  return (await log.read([...positions].reverse())).map((one) => one?.event.userId);
}

describe('the publisher', () => {
  it('stores the entries in their order, parked for the destinations of their plan, and acknowledges them', async () => {
    const { clock, store, entries, parked, activities, start } = world();
    entries.push(entry(1), entry(2));
    start();
    await clock.settle();
    expect(await stored(store.log)).toEqual(['u1', 'u2']);
    expect(entries).toEqual([]);
    expect(parked).toEqual([3]);
    expect(await store.queue.stats()).toMatchObject([{ destination: 3, held: 0, onDisk: 2 }]);
    expect(activities).toMatchObject([
      { kind: 'accepted', source: 'audiences', event: { userId: 'u1' } },
      { kind: 'accepted', source: 'audiences', event: { userId: 'u2' } },
    ]);
    const { sources } = await store.queue.ledger();
    expect(sources.get(9)).toMatchObject({ received: 2, accepted: 2, duplicates: 0 });
  });

  it('sleeps until entries are announced', async () => {
    const { clock, store, entries, start } = world();
    const publisher = start();
    await clock.settle();
    entries.push(entry(1));
    publisher.announce(1);
    await clock.settle();
    expect(await stored(store.log)).toEqual(['u1']);
  });

  it('appends again what an earlier process had not acknowledged, which is stored once', async () => {
    const { clock, store, entries, start } = world();
    entries.push(entry(1), entry(2));
    const first = start();
    await clock.settle();
    await first.stop();
    entries.unshift(entry(1), entry(2), entry(3));
    start();
    await clock.settle();
    expect(await stored(store.log)).toEqual(['u1', 'u2', 'u3']);
    expect(entries).toEqual([]);
  });

  it('goes over the gaps of erased entries, and stores what is behind them', async () => {
    const { clock, store, entries, start } = world();
    entries.push(entry(4), entry(5), entry(9));
    start();
    await clock.settle();
    expect(await stored(store.log)).toEqual(['u4', 'u5', 'u9']);
    expect(await store.log.producedTo('users')).toBe(9);
  });

  it('tries again while nothing can be stored or read, and while the source does not exist', async () => {
    let fails = 3;
    const failing = () => {
      if (--fails > 0) throw new StorageError('the disk is full');
    };
    const store = openMemoryStore();
    const { clock, entries, start } = world({
      log: {
        append: async (batch) => {
          failing();
          return store.log.append(batch);
        },
      },
      source: () => (clock.now() < START + 3 * SECOND ? undefined : SOURCE),
    });
    entries.push(entry(1));
    start();
    await clock.pass(2 * SECOND);
    expect(fails).toBe(3);
    await clock.pass(10 * SECOND);
    expect(await stored(store.log)).toEqual(['u1']);
    expect(entries).toEqual([]);
  });

  it('makes a pause between full batches that is twice as long as the batch took', async () => {
    const appended: number[] = [];
    const { clock, entries, start } = world({
      log: {
        append: async ({ events }) => {
          await new Promise<void>((resolve) => clock.after(200, resolve));
          appended.push(clock.now() - START);
          return { positions: events.map((_, nth) => nth), held: [] };
        },
      },
    });
    entries.push(...Array.from({ length: 500 }, (_, nth) => entry(nth + 1)));
    start();
    await clock.pass(2 * SECOND);
    expect(appended).toEqual([200, 800, 1400]);
    expect(entries).toEqual([]);
  });

  it('stores few events at once while clients call, and takes a tenth of the time', async () => {
    const appended: [at: number, events: number][] = [];
    let hasCalls = true;
    const { clock, entries, start } = world({
      log: {
        append: async ({ events }) => {
          await new Promise<void>((resolve) => clock.after(20, resolve));
          appended.push([clock.now() - START, events.length]);
          return { positions: events.map((_, nth) => nth), held: [] };
        },
      },
      hasCalls: () => hasCalls,
    });
    entries.push(...Array.from({ length: 300 }, (_, nth) => entry(nth + 1)));
    start();
    await clock.pass(500);
    hasCalls = false;
    await clock.pass(2 * SECOND);
    expect(appended).toEqual([
      [20, 50],
      [220, 50],
      [420, 50],
      [620, 50],
      [640, 100],
    ]);
    expect(entries).toEqual([]);
  });

  it('tells when entries that it had read before are stored', async () => {
    const appending = Promise.withResolvers<void>();
    const stored: number[] = [];
    const { clock, entries, start } = world({
      log: {
        append: async ({ events }) => {
          await appending.promise;
          stored.push(events.length);
          return { positions: events.map((_, nth) => nth), held: [] };
        },
      },
    });
    entries.push(entry(1), entry(2));
    const publisher = start();
    await clock.settle();
    // The profile of the second one is erased meanwhile, too late for this batch.
    entries.splice(0);
    const known = publisher.readEntriesStored().then(() => stored.slice());
    appending.resolve();
    expect(await known).toEqual([2]);
  });
});
