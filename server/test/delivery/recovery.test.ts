import { describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../../src/model/time.ts';
import { amountOf } from '../support/runs.ts';
import type { Arrival, Behaviour } from './fake-endpoints.ts';
import { DOWN, HANGS, OK } from './fake-endpoints.ts';
import { CRM, destination, World } from './world.ts';

/** A world in the middle of an outage, with waiting events. */
async function outage(waiting = 500, world?: World): Promise<World> {
  const down = world ?? (await World.open());
  down.endpoints.behave = () => DOWN;
  for (let left = waiting; left > 0; left -= 500) await down.accept(Math.min(left, 500));
  await down.clock.passUntil(() => down.stateOf(CRM).breaker === 'open', MINUTE);
  await down.clock.pass(100);
  return down;
}

/** The number of requests that began together, for each time at which some did. */
function steps(arrivals: readonly Arrival[]): number[] {
  const counts = new Map<number, number>();
  for (const { at } of arrivals) counts.set(at, (counts.get(at) ?? 0) + 1);
  return [...counts.values()];
}

describe('a recovery', () => {
  it('begins with the probe that is accepted, and then with one request, two, four, eight, sixteen', async () => {
    const world = await outage();
    const before = world.endpoints.arrivals.length;
    // A round trip of 100 ms, so that requests of one limit begin together.
    world.endpoints.behave = () => ({ after: 100 });
    await world.clock.passUntil(() => world.endpoints.arrivals.length > before + 80, MINUTE);
    expect(steps(world.endpoints.arrivals.slice(before)).slice(0, 7)).toEqual([1, 1, 2, 4, 8, 16, 17]);
  });

  it('with tens of thousands of waiting events never has more requests open than its limit', async () => {
    const waiting = amountOf({ gate: 50_000, long: 100_000 });
    const world = await outage(waiting);
    world.endpoints.mostOpen.clear();
    let late = 0;
    world.endpoints.behave = () => {
      const open = world.endpoints.open.get('http://crm/')!;
      if (open >= world.stateOf(CRM).limit) late += 1;
      return { after: 20 };
    };
    let most = 0;
    await world.clock.passUntil(() => {
      most = Math.max(most, world.stateOf(CRM).held);
      return world.stateOf(CRM).state === 'healthy' && world.contents.sets.size === 0;
    }, 30 * MINUTE);
    expect(late).toBe(0);
    expect(world.endpoints.mostOpen.get('http://crm/')).toBe(256);
    expect(most).toBeLessThanOrEqual(2000);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: waiting, pending: 0 });
    const ids = world.endpoints.arrivals.map(({ id }) => id);
    expect(new Set(ids).size).toBe(waiting);
  });

  it('delivers the oldest first, and new events after them', async () => {
    const world = await outage(500);
    for (let batch = 0; batch < 5; batch++) {
      await world.clock.pass(SECOND);
      await world.accept(500);
    }
    await world.clock.pass(2 * MINUTE);
    const before = world.endpoints.arrivals.length;
    const failed = new Set(world.endpoints.arrivals.map(({ id }) => id));
    world.endpoints.behave = () => ({ after: 10 });
    await world.clock.passUntil(() => world.endpoints.arrivals.length > before + 100, 2 * MINUTE);
    await world.accept(500);
    await world.clock.pass(MINUTE);

    const order = world.endpoints.arrivals.slice(before).map(({ id }) => Number(id.slice(1)));
    expect(new Set(order).size).toBe(3500);
    expect(order).toHaveLength(3500);
    // Events that never failed arrive in their order, except that requests in flight together have none.
    const untouched = order.filter((n) => !failed.has(`m${n}`));
    untouched.forEach((n, place) => {
      if (place > 0) expect(n).toBeGreaterThan(untouched[place - 1]!);
    });
    expect(untouched.at(-1)).toBe(3499);
  });

  it('leaves no delivery to its next delay', async () => {
    const world = await outage(21 + 16);
    // A few deliveries have failed often and wait for half an hour each.
    await world.clock.pass(3 * 60 * MINUTE);
    expect(world.contents.sets.size).toBeGreaterThan(0);
    world.endpoints.behave = () => OK;
    await world.clock.passUntil(() => world.stateOf(CRM).state === 'healthy', 31 * MINUTE);
    await world.clock.pass(2 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 37, pending: 0 });
  });

  it('begins with a refusal too, because it shows life', async () => {
    const world = await outage();
    world.endpoints.behave = () => ({ status: 410 });
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'closed', 10 * SECOND);
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 0, dead: { status_410: 500 }, pending: 0 });
  });

  it('does not begin with a failure before the request', async () => {
    const world = await outage();
    world.endpoints.behave = () => ({ failed: 'egress_refused' });
    await world.clock.passUntil(() => world.stateOf(CRM).inFlight === 1, 10 * SECOND);
    await world.clock.pass(10);
    expect(world.stateOf(CRM).breaker).not.toBe('closed');
  });

  it('begins with a late answer to a request from before', async () => {
    const world = await World.open();
    for (let batch = 0; batch < 10; batch++) {
      await world.accept(500);
      await world.clock.pass(SECOND);
    }
    expect(world.stateOf(CRM).limit).toBeGreaterThan(64);
    // One request is slow; all others fail at once.
    const slow = world.endpoints.arrivals.length;
    world.endpoints.behave = (_, nth) => (nth === slow ? { after: 1.5 * SECOND } : DOWN);
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    world.endpoints.behave = () => OK;
    await world.clock.pass(1.3 * SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ breaker: 'open', inFlight: 1 });
    await world.clock.pass(2 * SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ breaker: 'closed', state: 'healthy' });
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 5500, pending: 0 });
  });

  it('takes new events into memory again once no older ones wait', async () => {
    const world = await outage();
    world.endpoints.behave = () => OK;
    await world.clock.pass(MINUTE);
    const claims = world.contents.lastSet;
    await world.accept(100);
    expect(world.stateOf(CRM).held).toBe(100);
    await world.clock.pass(SECOND);
    // One pending set, held from its beginning: nothing was parked, nothing claimed.
    expect(world.contents.lastSet).toBe(claims + 1);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 600 });
  });

  it('takes new events into memory again while they keep coming', async () => {
    const world = await outage();
    world.endpoints.behave = () => OK;
    for (let step = 0; step < 3000; step++) {
      await world.accept(5);
      await world.clock.pass(10);
    }
    // The last batch did not go through the disk.
    await world.accept(5);
    expect(world.stateOf(CRM).held).toBeGreaterThanOrEqual(5);
    const [stats] = await world.store.queue.stats();
    expect(stats).toMatchObject({ onDisk: 0 });
  });

  it('is probed for at once when the settings change', async () => {
    const world = await outage();
    await world.clock.pass(5 * MINUTE);
    const repaired = destination(1, 'repaired', { version: 2 });
    world.endpoints.behave = ({ url }) => (url === 'http://repaired/' ? OK : DOWN);
    world.configure([repaired]);
    await world.clock.pass(SECOND);
    expect(world.stateOf(CRM).breaker).toBe('closed');
    expect(world.secondsOf(repaired)).toHaveLength(500);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0 });
  });

  it('waits for a delivery to probe with when none is due', async () => {
    const world = await World.open({ behave: () => DOWN });
    // As many events as the breaker needs failures: all wait for their next try, and nothing is parked.
    await world.accept(36);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    await world.clock.pass(20 * MINUTE);
    world.endpoints.behave = () => OK;
    const [fresh] = await world.accept(1);
    await world.clock.pass(62 * SECOND);
    expect(world.stateOf(CRM).breaker).toBe('closed');
    expect(world.endpoints.arrivals.map(({ id }) => id)).toContain(fresh);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 37, pending: 0 });
  });
});

describe('a relapse', () => {
  it('right after a recovery continues the back-off of the probes', async () => {
    const world = await outage();
    await world.clock.pass(5 * MINUTE);
    // It accepts the probe and nothing else.
    const accepted: string[] = [];
    world.endpoints.behave = ({ id }) => {
      if (accepted.length > 0) return DOWN;
      accepted.push(id);
      return OK;
    };
    await world.clock.passUntil(() => accepted.length === 1, 2 * MINUTE);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', MINUTE);
    expect((world.stateOf(CRM).nextProbeAt! - world.clock.now()) / SECOND).toBeCloseTo(1 + 6 * Math.LN2, 0);
  });

  it('a minute after a recovery begins with the first delay again', async () => {
    const world = await outage();
    await world.clock.pass(5 * MINUTE);
    world.endpoints.behave = () => OK;
    await world.clock.pass(3 * MINUTE);
    await outage(500, world);
    expect((world.stateOf(CRM).nextProbeAt! - world.clock.now()) / SECOND).toBeCloseTo(1 + Math.LN2, 0);
  });

  it('returns claimed deliveries to disk, and delivers each once', async () => {
    const world = await outage(5000);
    // Up for ten seconds, down for ten: the requests in flight at each fall fail.
    world.endpoints.behave = ({ at }) => ((at / (10 * SECOND)) % 2 < 1 ? { after: 50 } : DOWN);
    await world.clock.pass(30 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 5000, pending: 0, dead: {} });
    expect(world.stateOf(CRM)).toMatchObject({ held: 0, inFlight: 0 });
  });

  it('of an endpoint that always flaps costs few failed requests', async () => {
    const world = await outage(20_000);
    const flapping: Behaviour = ({ at }) => (at % (2 * SECOND) < SECOND ? { after: 50 } : HANGS);
    world.endpoints.behave = flapping;
    await world.clock.pass(60 * MINUTE);
    const { delivered, dead } = await world.countsOf(CRM);
    expect(dead).toEqual({});
    expect(delivered).toBeGreaterThan(2000);
    // The endpoint hangs half of the time, so half of the requests may fail.
    expect(world.contents.failures.length).toBeLessThan(delivered * 2);
  });
});
