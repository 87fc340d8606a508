import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { probeDelay } from '../../src/delivery/circuit-breaker.ts';
import { limitsOfShare } from '../../src/delivery/rate-limiter.ts';
import { MINUTE, SECOND } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { ProbeTurns } from '../../src/ports/nodes.ts';
import { DOWN, OK } from './fake-endpoints.ts';
import { CRM, destination, World } from './world.ts';

function limited(id: number, limits: { rateLimit?: number; concurrency?: number }) {
  return destination(id, `limited-${id}`, limits);
}

describe('nodes that deliver together', () => {
  it('have the limits of the settings together, whatever their number', () => {
    const nodes = fc.integer({ min: 1, max: 40 });
    const limits = fc.record({
      concurrency: fc.integer({ min: 1, max: 256 }),
      rateLimit: fc.integer({ min: 1, max: 100_000 }),
    });
    fc.assert(
      fc.property(nodes, limits, (count, settings) => {
        const shares = Array.from({ length: count }, (_, place) =>
          limitsOfShare(settings, { nodes: count, place }),
        );
        expect(shares.reduce((sum, { concurrency }) => sum + concurrency!, 0)).toBe(settings.concurrency);
        expect(shares.reduce((sum, { rateLimit }) => sum + rateLimit!, 0)).toBeCloseTo(settings.rateLimit);
      }),
    );
    expect(limitsOfShare({}, { nodes: 3, place: 1 })).toEqual({});
  });

  it('send at their part of a rate limit, and at the whole again when the others are gone', async () => {
    const slow = limited(1, { rateLimit: 10 });
    const world = await World.open({ destinations: [slow] });
    world.dispatcher.shareWith({ nodes: 5, place: 2 });
    await world.accept(200);
    await world.clock.pass(10 * SECOND);
    const together = world.endpoints.arrivals.length;
    expect(together).toBeGreaterThanOrEqual(19);
    expect(together).toBeLessThanOrEqual(22);
    world.dispatcher.shareWith({ nodes: 1, place: 0 });
    await world.clock.pass(10 * SECOND);
    expect(world.endpoints.arrivals.length - together).toBeGreaterThanOrEqual(99);
  });

  it('leave a destination to another node when they have no part of its concurrency', async () => {
    const single = limited(6, { concurrency: 1 });
    const world = await World.open({ destinations: [single, CRM] });
    // Place 0 for a destination is that of another node for every other one.
    world.dispatcher.shareWith({ nodes: 2, place: 1 });
    await world.accept(30, [single]);
    await world.accept(5, [CRM]);
    await world.clock.pass(MINUTE);
    expect(world.endpoints.arrivals).toHaveLength(5);
    expect(world.stateOf(single)).toMatchObject({ held: 0, inFlight: 0 });
    world.dispatcher.shareWith({ nodes: 2, place: 0 });
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(single)).toMatchObject({ owed: 30, delivered: 30 });
  });

  it('give back what waits in memory when their part is gone', async () => {
    const single = limited(6, { concurrency: 1 });
    const world = await World.open({ destinations: [single] });
    await world.accept(50);
    world.dispatcher.shareWith({ nodes: 2, place: 1 });
    await world.clock.pass(MINUTE);
    expect(world.stateOf(single)).toMatchObject({ held: 0, inFlight: 0 });
    const [stats] = await world.store.queue.stats();
    expect(stats).toMatchObject({ held: 0, onDisk: 50 - world.endpoints.arrivals.length });
  });
});

describe('a failing destination of several nodes', () => {
  it('is probed by a node only while it has the turn, and the turn is given back with the pause until the next probe', async () => {
    const asked: number[] = [];
    const pauses: number[] = [];
    let left = 1500;
    const probeTurns: ProbeTurns = {
      takeProbe: async () => {
        asked.push(world.clock.now());
        return left;
      },
      giveBackProbe: async (_, pause) => void pauses.push(pause),
    };
    const world = await World.open({ behave: () => DOWN, probeTurns });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(MINUTE);
    expect(world.endpoints.arrivals).toHaveLength(before);
    expect(asked.length).toBeGreaterThan(35);
    expect(pauses).toEqual([]);
    left = 0;
    await world.clock.pass(2 * SECOND);
    expect(world.endpoints.arrivals).toHaveLength(before + 1);
    expect(pauses).toEqual([expect.closeTo(probeDelay(1, 0.5), -2)]);
    world.endpoints.behave = () => OK;
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0, dead: {} });
    expect(pauses.at(-1)).toBe(0);
  });

  it('is probed at once by the node that learns of new settings', async () => {
    let turns = 0;
    const pauses: number[] = [];
    const probeTurns: ProbeTurns = {
      takeProbe: async () => (turns++ === 0 ? 0 : 2000),
      giveBackProbe: async (_, pause) => void pauses.push(pause),
    };
    const world = await World.open({ behave: () => DOWN, probeTurns });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    await world.clock.pass(MINUTE);
    expect(pauses).toHaveLength(1);
    world.configure([{ ...CRM, version: CRM.version + 1 }]);
    expect(pauses.at(-1)).toBe(0);
  });

  it('asks for the turn only when the one before is given back: a database may do the later one first', async () => {
    const givenBack = Promise.withResolvers<void>();
    let asked = 0;
    const probeTurns: ProbeTurns = {
      takeProbe: async () => {
        asked++;
        return 0;
      },
      giveBackProbe: () => givenBack.promise,
    };
    const world = await World.open({ behave: () => DOWN, probeTurns });
    await world.accept(500);
    await world.clock.pass(MINUTE);
    expect(asked).toBe(1);
    givenBack.resolve();
    await world.clock.pass(MINUTE);
    expect(asked).toBeGreaterThan(1);
  });

  it('is probed later when the turn cannot be asked for', async () => {
    let fails = true;
    const probeTurns: ProbeTurns = {
      takeProbe: () => (fails ? Promise.reject(new StorageError('gone')) : Promise.resolve(0)),
      giveBackProbe: () => Promise.reject(new StorageError('gone')),
    };
    const world = await World.open({ behave: () => DOWN, probeTurns });
    await world.accept(500);
    await world.clock.pass(MINUTE);
    world.endpoints.behave = () => OK;
    await world.clock.pass(MINUTE);
    expect((await world.countsOf(CRM)).pending).toBeGreaterThan(400);
    fails = false;
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0, dead: {} });
  });
});
