import { describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../../src/model/time.ts';
import { amountOf } from '../support/runs.ts';
import type { Behaviour } from './fake-endpoints.ts';
import { DOWN, HANGS, OK } from './fake-endpoints.ts';
import { CRM, destination, OTHER, World } from './world.ts';

const SECONDS = amountOf({ gate: 20, long: 60 });

/** Deliveries to the other destination after each second, while the first one behaves as given. */
async function throughputBeside(neighbour: Behaviour): Promise<number[]> {
  const world = await World.open({
    destinations: [CRM, OTHER],
    behave: (arrival, nth) => (arrival.url === 'http://crm/' ? neighbour(arrival, nth) : { after: 20 }),
  });
  const delivered: number[] = [];
  for (let second = 0; second < SECONDS; second++) {
    await world.accept(200);
    await world.clock.pass(SECOND);
    delivered.push((await world.countsOf(OTHER)).delivered);
  }
  return delivered;
}

describe('a destination', () => {
  it.each<[string, Behaviour]>([
    ['is down', () => DOWN],
    ['hangs', () => HANGS],
    ['answers after four seconds', () => ({ after: 4 * SECOND })],
    ['flaps', ({ at }) => (at % (6 * SECOND) < 3 * SECOND ? OK : DOWN)],
    ['turns every other request away', (_, nth) => (nth % 2 === 0 ? OK : { status: 503 })],
  ])('that %s leaves the deliveries of another as they are', async (_, neighbour) => {
    expect(await throughputBeside(neighbour)).toEqual(await throughputBeside(() => ({ after: 20 })));
  });

  it('finds room in memory beside many that hang', async () => {
    const hanging = Array.from({ length: 30 }, (_, n) => destination(10 + n, `hanging${n}`));
    const world = await World.open({
      destinations: [CRM, ...hanging],
      behave: ({ url }) => (url === 'http://crm/' ? { after: 20 } : HANGS),
    });
    for (let batch = 0; batch < 4; batch++) await world.accept(500, hanging);
    const held = world.dispatcher.states().reduce((sum, state) => sum + state.held, 0);
    expect(held).toBe(20_000);

    await world.accept(400, [CRM]);
    expect(world.stateOf(CRM).held).toBeLessThanOrEqual(200);
    await world.clock.pass(2 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 400, pending: 0 });
    // The breakers of the hanging destinations are still closed. A minute later they hold nothing any more.
    await world.clock.pass(MINUTE);
    const left = world.dispatcher.states().reduce((sum, state) => sum + state.held, 0);
    expect(left).toBeLessThanOrEqual(hanging.length);
  });

  it('never holds more than 2,000 deliveries, and all together never hold more than 20,000 new ones', async () => {
    const many = Array.from({ length: 20 }, (_, n) => destination(1 + n, `d${n}`));
    const world = await World.open({ destinations: many, behave: () => ({ after: 4 * SECOND }) });
    for (let batch = 0; batch < 10; batch++) {
      await world.accept(500);
      await world.clock.pass(100);
      const held = world.dispatcher.states().map((state) => state.held);
      expect(Math.max(...held)).toBeLessThanOrEqual(2000);
      expect(held.reduce((sum, n) => sum + n, 0)).toBeLessThanOrEqual(20_000 + many.length * 200);
    }
  });

  it('that answers only at one of its two URLs keeps its place', async () => {
    const two = destination(1, 'crm', {
      settings: {
        endpoints: [
          { url: 'http://hanging/', headers: {} },
          { url: 'http://quick/', headers: {} },
        ],
        format: 'documented',
      },
    });
    const world = await World.open({
      destinations: [two],
      behave: ({ url }) => (url === 'http://quick/' ? { after: 20 } : HANGS),
    });
    for (let second = 0; second < 20; second++) {
      await world.accept(100);
      await world.clock.pass(SECOND);
    }
    expect(await world.countsOf(two)).toMatchObject({ delivered: 2000, pending: 0 });
    expect(world.stateOf(two)).toMatchObject({ state: 'healthy', breaker: 'closed' });
    // The open requests of the other URL are bounded.
    expect(world.endpoints.mostOpen.get('http://hanging/')).toBeLessThanOrEqual(4 * 256);
  });
});
