import { describe, expect, it } from 'vitest';
import { webhooks } from '../../src/destinations/webhooks/destination.ts';
import type { Drop, Outcome } from '../../src/model/delivery.ts';
import type { Target } from '../../src/model/lane.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type {
  BatchLimits,
  DeliveryOutcome,
  DestinationType,
  OutboundBatch,
} from '../../src/ports/destination-type.ts';
import { CRM, destination, World } from './world.ts';

const ACCEPTED: Outcome = { kind: 'accepted', reason: 'accepted' };
const REFUSED: Outcome = { kind: 'refused', reason: 'not_wanted' };
const DROPPED: Drop = { kind: 'dropped', reason: 'not_applicable', note: 'no form for it' };
const LATER: Outcome = { kind: 'retryable', reason: 'not_yet' };

interface Sending {
  readonly target: number;
  readonly ids: readonly string[];
}

interface BatchedWorld {
  readonly world: World;
  readonly sendings: Sending[];
  /** The outcome of an event at a target; nothing is said of a target that gives undefined. */
  behave: (id: string, target: Target) => Outcome | Drop | undefined;
}

/** A world whose only type takes many events at once. */
async function batched(limits: BatchLimits, destinations = [CRM]): Promise<BatchedWorld> {
  const sendings: Sending[] = [];
  const made: Omit<BatchedWorld, 'world'> = { sendings, behave: () => ACCEPTED };
  const send = (
    batch: OutboundBatch,
    done: (target: Target, outcomes: readonly DeliveryOutcome[]) => void,
  ) => {
    const ids = batch.events.map(({ serialized }) => serialized.event.messageId);
    for (const target of batch.targets) {
      sendings.push({ target: target.place, ids });
      const outcomes = ids.map((id) => made.behave(id, target));
      if (outcomes.includes(undefined)) continue;
      queueMicrotask(() =>
        done(
          target,
          outcomes.map((outcome) => ({ outcome: outcome!, answer: '', latencyMs: 1 })),
        ),
      );
    }
  };
  const type: DestinationType = {
    ...(webhooks as DestinationType),
    open: () => ({ most: () => limits, send, stop: async () => {} }),
  };
  const world = await World.open({ destinations, types: new Map([[type.name, type]]) });
  return Object.assign(made, { world });
}

describe('a destination whose type takes many events at once', () => {
  it('gets no more than its type takes, and every event once', async () => {
    const { world, sendings } = await batched({ events: 100, bytes: 1_000_000 });
    const ids = await world.accept(1000);
    await world.clock.pass(MINUTE);
    expect(sendings.flatMap((one) => one.ids).sort()).toEqual(ids.sort());
    expect(Math.max(...sendings.map((one) => one.ids.length))).toBe(100);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 1000, delivered: 1000, pending: 0 });
  });

  it('gets as many bytes as its type takes, and one event however large it is', async () => {
    const { world, sendings } = await batched({ events: 100, bytes: 600 });
    await world.accept(50);
    await world.clock.pass(MINUTE);
    expect(new Set(sendings.map((one) => one.ids.length))).toEqual(new Set([3, 2]));
    const tight = await batched({ events: 100, bytes: 1 });
    await tight.world.accept(5);
    await tight.world.clock.pass(MINUTE);
    expect(tight.sendings.map((one) => one.ids.length)).toEqual([1, 1, 1, 1, 1]);
  });

  it('is believed what it says of each event', async () => {
    const made = await batched({ events: 10, bytes: 1_000_000 });
    const { world } = made;
    const asked = new Map<string, number>();
    made.behave = (id) => {
      asked.set(id, (asked.get(id) ?? 0) + 1);
      if (id === 'm3') return REFUSED;
      return id === 'm5' && asked.get(id)! < 3 ? LATER : ACCEPTED;
    };
    await world.accept(10);
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 9, dead: { not_wanted: 1 }, pending: 0 });
    // Nobody but the one that was to come again has come again.
    expect([...asked].filter(([, times]) => times > 1)).toEqual([['m5', 3]]);
  });

  it('drops what its type has nothing to send for, which is no request and no failure', async () => {
    const made = await batched({ events: 10, bytes: 1_000_000 });
    const { world } = made;
    made.behave = (id) => (id.endsWith('7') ? DROPPED : ACCEPTED);
    await world.accept(100);
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({
      ...{ owed: 100, delivered: 90, dropped: { not_applicable: 10 }, dead: {}, pending: 0 },
    });
    made.behave = () => DROPPED;
    await world.accept(50);
    await world.clock.pass(HOUR);
    expect(await world.countsOf(CRM)).toMatchObject({
      dropped: { not_applicable: 60 },
      dead: {},
      pending: 0,
    });
    expect(world.stateOf(CRM)).toMatchObject({ breaker: 'closed', endpoints: [{ state: 'healthy' }] });
    expect(world.stateOf(CRM)?.endpoints[0]?.attempts).toEqual({ accepted: expect.any(Number) });
  });

  it('gives the turn of a probe on when the type drops its event, and is back with the next', async () => {
    const made = await batched({ events: 10, bytes: 1_000_000 });
    const { world } = made;
    made.behave = () => LATER;
    await world.accept(200);
    await world.clock.pass(10 * MINUTE);
    expect(world.stateOf(CRM)).toMatchObject({ breaker: 'open' });
    made.behave = (id) => (id === 'm199' ? ACCEPTED : DROPPED);
    await world.clock.pass(10 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({
      delivered: 1,
      dropped: { not_applicable: 199 },
      pending: 0,
    });
    expect(world.stateOf(CRM)).toMatchObject({ breaker: 'closed' });
  });

  it('waits behind its breaker as a whole, and gets everything when it is back', async () => {
    const made = await batched({ events: 50, bytes: 1_000_000 });
    const { world } = made;
    made.behave = () => LATER;
    await world.accept(500);
    await world.clock.pass(HOUR);
    expect(world.stateOf(CRM)).toMatchObject({ breaker: 'open' });
    // Probes, of one event each.
    expect(new Set(made.sendings.slice(-50).map(({ ids }) => ids.length))).toEqual(new Set([1]));
    made.behave = () => ACCEPTED;
    await world.clock.pass(HOUR);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 500, delivered: 500, pending: 0 });
  });

  it('asks no target for events that a sibling has accepted, and is not held up by one that hangs', async () => {
    const endpoints = ['a', 'b'].map((name) => ({ url: `http://${name}/`, headers: {} }));
    const two = destination(1, 'two', { settings: { endpoints, format: 'documented' } });
    const made = await batched({ events: 10, bytes: 1_000_000 }, [two]);
    made.behave = (_, { place }) => (place === 0 ? ACCEPTED : undefined);
    await made.world.accept(30);
    await made.world.clock.pass(SECOND);
    expect(await made.world.countsOf(two)).toMatchObject({ delivered: 30, pending: 0 });
  });

  it('repeats after a crash what was under way, and counts nothing twice', async () => {
    const made = await batched({ events: 20, bytes: 1_000_000 });
    made.behave = () => undefined;
    const ids = await made.world.accept(60);
    await made.world.clock.pass(SECOND);
    const before = made.sendings.flatMap((one) => one.ids).length;
    expect(before).toBeGreaterThan(0);
    made.behave = () => ACCEPTED;
    await made.world.crash();
    await made.world.clock.pass(MINUTE);
    expect(await made.world.countsOf(CRM)).toMatchObject({ owed: 60, delivered: 60, pending: 0 });
    expect(new Set(made.sendings.flatMap((one) => one.ids))).toEqual(new Set(ids));
  });
});
