import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { batch, event, owed } from '../conformance/batches.ts';
import { DOWN, OK } from './fake-endpoints.ts';
import { faulty, type Operation } from './faulty-store.ts';
import { CRM, World } from './world.ts';

/** A world whose store rejects the operations in `broken`. */
async function breakable(): Promise<{ world: World; broken: Set<Operation> }> {
  const broken = new Set<Operation>();
  const between = (store: Parameters<typeof faulty>[0]) =>
    faulty(store, (operation) => broken.has(operation));
  return { world: await World.open({ between }), broken };
}

function deliveredOnce(world: World): boolean {
  return new Set(world.endpoints.arrivals.map(({ id }) => id)).size === world.endpoints.arrivals.length;
}

describe('a store that fails', () => {
  it('while results are written delays no delivery, and gets every result later', async () => {
    const { world, broken } = await breakable();
    broken.add('settle');
    await world.accept(500);
    await world.clock.pass(10 * SECOND);
    expect(world.endpoints.arrivals).toHaveLength(500);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 0, pending: 500 });
    expect(world.linesOf('delivery.settle_failed').length).toBeGreaterThan(5);
    broken.clear();
    await world.clock.pass(2 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0 });
    expect(deliveredOnce(world)).toBe(true);
  });

  it('while deliveries are claimed or read is tried every second until it works', async () => {
    for (const operation of ['claim', 'read'] as const) {
      const { world, broken } = await breakable();
      for (let batch = 0; batch < 10; batch++) await world.accept(500);
      broken.add(operation);
      await world.clock.pass(30 * SECOND);
      const asked = world.lines.filter(({ facts }) => facts['asked'] === operation);
      expect(asked.length).toBeGreaterThan(20);
      expect(asked.length).toBeLessThan(32);
      expect(asked[0]).toMatchObject({
        level: 'error',
        event: 'backlog.failed',
        facts: { destination: 'crm' },
      });
      expect(await world.countsOf(CRM)).toMatchObject({ delivered: 2000, pending: 3000 });
      broken.clear();
      await world.clock.pass(10 * SECOND);
      expect(await world.countsOf(CRM)).toMatchObject({ delivered: 5000, pending: 0 });
      expect(deliveredOnce(world)).toBe(true);
    }
  });

  it('while a probe is claimed does not stop the probes', async () => {
    const { world, broken } = await breakable();
    world.endpoints.behave = () => DOWN;
    await world.accept(500);
    await world.clock.pass(SECOND);
    for (const operation of ['expire', 'claim', 'read'] as const) {
      broken.add(operation);
      await world.clock.pass(4 * HOUR);
    }
    expect(world.stateOf(CRM)).toMatchObject({ breaker: expect.stringMatching(/open|probing/), inFlight: 0 });
    broken.clear();
    const fresh = await world.accept(10);
    world.endpoints.behave = () => OK;
    await world.clock.pass(2 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({
      delivered: 10,
      pending: 0,
      dead: { retry_window_over: 500 },
    });
    expect(world.endpoints.arrivals.slice(-10).map(({ id }) => id)).toEqual(fresh);
  });

  it('while a recovery is written delays it and loses nothing', async () => {
    for (const operation of ['stats', 'release'] as const) {
      const { world, broken } = await breakable();
      world.endpoints.behave = () => DOWN;
      await world.accept(500);
      await world.clock.pass(SECOND);
      broken.add(operation);
      world.endpoints.behave = () => OK;
      await world.clock.pass(MINUTE);
      expect(world.stateOf(CRM).breaker).toBe('closed');
      expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1, pending: 499 });
      broken.clear();
      await world.clock.pass(10 * SECOND);
      expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0 });
      expect(world.linesOf('destination.recovered')).toHaveLength(1);
    }
  });

  it('while events are stored leaves no memory reserved for them', async () => {
    const { world, broken } = await breakable();
    broken.add('append');
    for (let n = 0; n < 10; n++) {
      expect(await world.acceptAs(['a', 'b', 'c'])).toBe(false);
      expect(world.stateOf(CRM).held).toBe(0);
    }
    broken.clear();
    expect(await world.acceptAs(['a', 'b', 'c'])).toBe(true);
    await world.clock.pass(SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 3, delivered: 3 });
  });

  it('at random a third of the time still lets everything through', async () => {
    // Not strictly every third call: an operation of three calls would then fail at the same call for ever.
    let random = 1;
    const fails = () => {
      random = (random * 48271) % 0x7fffffff;
      return random % 3 === 0;
    };
    const world = await World.open({ between: (store) => faulty(store, fails) });
    let accepted = 0;
    for (let n = 0; n < 300; n++) {
      // A minute of outage in every five.
      world.endpoints.behave = ({ at }) => (at % (5 * MINUTE) < MINUTE ? DOWN : { after: 30 });
      if (await world.acceptAs(Array.from({ length: 20 }, (_, i) => `e${n}-${i}`))) accepted += 20;
      await world.clock.pass(5 * SECOND);
    }
    await world.clock.pass(10 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({
      owed: accepted,
      delivered: accepted,
      pending: 0,
      dead: {},
    });
  });
});

it('a retry that is parked while a claim is under way is made, whichever of the two is answered first', async () => {
  const answered = Promise.withResolvers<void>();
  let isHeld = false;
  const world = await World.open({
    behave: (_, nth) => (nth === 0 ? { ...DOWN, after: 100 } : OK),
    between: (store) => ({
      ...store,
      queue: {
        ...store.queue,
        claim: async (...args) => {
          const claim = await store.queue.claim(...args);
          if (isHeld) await answered.promise;
          return claim;
        },
      },
    }),
  });
  await world.accept(1);
  isHeld = true;
  const now = world.clock.monotonic();
  const parked = batch([event('parked')], { id: 'p', receivedAt: now, owed: [owed(CRM.id, 'parked', [0])] });
  await world.store.log.append(parked);
  world.dispatcher.parked(CRM.id, now);
  // The first delivery fails, and is parked behind the claim.
  await world.clock.pass(500);
  expect(world.endpoints.arrivals).toHaveLength(1);
  isHeld = false;
  answered.resolve();
  await world.clock.pass(10 * SECOND);
  expect(await world.countsOf(CRM)).toMatchObject({ delivered: 2, pending: 0 });
});
