import { describe, expect, it } from 'vitest';
import type { WebhookSettings } from '../../src/destinations/webhooks/settings.ts';
import { type DeliveryPolicy, liftPolicy } from '../../src/model/delivery-policy.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Endpoint } from '../../src/model/endpoint.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import type { EndpointHealthStore } from '../../src/ports/delivery-queue.ts';
import { DOWN, HANGS, OK } from './fake-endpoints.ts';
import { CRM, destination, START, World } from './world.ts';

const URLS = ['http://a/', 'http://b/?token=s3cret'] as const;

function both(
  more: Partial<WebhookSettings & DeliveryPolicy> = {},
  parts: Partial<Destination> = {},
): Destination {
  const endpoints: Endpoint[] = URLS.map((url) => ({ url, headers: {} }));
  return destination(1, 'crm', {
    ...liftPolicy({ settings: { endpoints, format: 'documented' as const, ...more } }),
    ...parts,
  });
}

const isB = ({ url }: { url: string }) => url === URLS[1];

function endpointsOf(world: World) {
  return world.dispatcher.states().find((state) => state.destination === CRM.id)!.endpoints;
}

describe('an endpoint', () => {
  it('that is dead beside a healthy sibling is failing, and its late answers count', async () => {
    const behave = (arrival: { url: string }) => (isB(arrival) ? { after: 40, status: 503 } : OK);
    const world = await World.open({ destinations: [both()], behave });
    await world.accept(21);
    await world.clock.pass(SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'healthy' });
    const [a, b] = endpointsOf(world);
    expect(a).toMatchObject({ endpoint: 'http://a/', state: 'healthy', attempts: { accepted: 21 } });
    expect(b).toMatchObject({
      endpoint: 'http://b/?token=…',
      state: 'failing',
      attempts: { status_5xx: 21 },
    });
    expect(b!.lastError).toMatchObject({ reason: 'status_503', status: 503, at: expect.any(Number) });
    expect(b!.since).toBe(START + 40);
    expect(b!.history).toEqual([{ at: START + 40, state: 'failing', reason: 'status_503' }]);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 21, pending: 0 });
  });

  it.each(['any', 'each'] as const)('keeps its state over a crash with success: %s', async (success) => {
    const behave = (arrival: { url: string }) => (isB(arrival) ? DOWN : OK);
    const world = await World.open({ destinations: [both({ success })], behave });
    await world.accept(5);
    await world.clock.pass(MINUTE);
    const before = endpointsOf(world);
    expect(before[1]).toMatchObject({ state: 'failing', lastError: { reason: 'connection_refused' } });
    world.endpoints.behave = () => HANGS;
    await world.crash();
    const withoutStart = before.map(({ attemptsSinceStart: _, ...rest }) => ({
      ...rest,
      attemptsSinceStart: {},
    }));
    expect(endpointsOf(world)).toEqual(withoutStart);
    expect(world.stateOf(CRM).state).toBe(success === 'each' ? 'failing' : 'healthy');
  });

  it('that is alone makes its destination fail across a restart, until a request is accepted', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(1);
    await world.clock.pass(5 * MINUTE);
    const { failingSince, lastError } = world.stateOf(CRM);
    await world.crash();
    expect(world.stateOf(CRM)).toMatchObject({ state: 'failing', failingSince, lastError: { ...lastError } });
    world.endpoints.behave = () => OK;
    await world.clock.pass(HOUR);
    expect(world.stateOf(CRM).state).toBe('healthy');
    expect(world.linesOf('destination.recovered')).toHaveLength(1);
  });

  it('has a new health with another URL, and keeps its health at another place', async () => {
    const behave = (arrival: { url: string }) => (isB(arrival) ? DOWN : OK);
    const world = await World.open({ destinations: [both()], behave });
    await world.accept(3);
    await world.clock.pass(MINUTE);
    const [a, b] = (both().settings as WebhookSettings).endpoints;
    world.configure([both({ endpoints: [b!, a!] }, { version: 2 })]);
    expect(endpointsOf(world).map(({ state, label }) => [state, label])).toEqual([
      ['failing', '1/b'],
      ['healthy', '2/a'],
    ]);
    const c = { url: 'http://c/', headers: {} };
    world.configure([both({ endpoints: [c, a!] }, { version: 3 })]);
    expect(endpointsOf(world)[0]).toEqual({
      ...{ endpoint: 'http://c/', label: '1/c', state: 'healthy' },
      ...{ attempts: {}, attemptsSinceStart: {}, history: [] },
    });
    await world.clock.pass(MINUTE);
    const [kept] = await world.store.endpointHealth.load();
    expect(kept!.endpoints.map(({ url }) => url)).toEqual(['http://c/', 'http://a/']);
    world.configure([both({ endpoints: [] }, { version: 4 })]);
    await world.clock.pass(MINUTE);
    expect(await world.store.endpointHealth.load()).toEqual([]);
  });

  it('is removed from the store when the settings at the start no longer have it', async () => {
    const world = await World.open({ destinations: [both()] });
    await world.accept(3);
    await world.clock.pass(MINUTE);
    const [a] = (both().settings as WebhookSettings).endpoints;
    world.kill();
    world.configure([both({ endpoints: [a!] }, { version: 2 })]);
    await world.boot();
    await world.clock.pass(MINUTE);
    const [kept] = await world.store.endpointHealth.load();
    expect(kept!.endpoints.map(({ url }) => url)).toEqual(['http://a/']);
  });

  it('that flaps has a short history with the number of flaps', async () => {
    const world = await World.open({ behave: (_, nth) => (nth % 2 === 0 ? OK : { status: 400 }) });
    for (let n = 0; n < 100; n++) {
      await world.accept(1);
      await world.clock.pass(100);
    }
    const [{ history, attempts }] = endpointsOf(world) as [ReturnType<typeof endpointsOf>[number]];
    expect(attempts).toEqual({ accepted: 50, status_4xx: 50 });
    expect(history).toHaveLength(6);
    expect(history.at(-1)).toMatchObject({ state: 'failing', flaps: 94 });
  });
});

describe('saving the health of endpoints', () => {
  /** A world that counts its saves; `calls` has the number of destinations of each. */
  async function counted(limit = Number.POSITIVE_INFINITY) {
    const calls: number[] = [];
    const world: World = await World.open({
      between: (store) => {
        const keep: EndpointHealthStore['save'] = (healths) => {
          calls.push(healths.length);
          if (calls.length > limit) return Promise.reject(new Error('the disk is full'));
          return store.endpointHealth.save(healths);
        };
        return { ...store, endpointHealth: { ...store.endpointHealth, save: keep } };
      },
    });
    return { world, calls };
  }

  it('costs a write every ten seconds under load, not one a request, and none when nothing happens', async () => {
    const { world, calls } = await counted();
    for (let second = 0; second < 120; second++) {
      await world.accept(50);
      await world.clock.pass(SECOND);
    }
    expect(calls.length).toBeGreaterThan(5);
    expect(calls.length).toBeLessThan(20);
    await world.clock.pass(MINUTE);
    const before = calls.length;
    await world.clock.pass(HOUR);
    expect(calls.length).toBe(before);
    expect((await world.store.endpointHealth.load())[0]!.endpoints[0]!.attempts).toEqual({ accepted: 6000 });
  });

  it('is done within a second of a change of state, also after a late answer', async () => {
    const behave = (arrival: { url: string }) => (isB(arrival) ? { after: 500, status: 503 } : OK);
    const world = await World.open({ destinations: [both()], behave });
    await world.accept(1);
    await world.clock.pass(1600);
    await world.crash();
    expect(endpointsOf(world)[1]).toMatchObject({ state: 'failing', attempts: { status_5xx: 1 } });
  });

  it('costs no more than a write a second while an endpoint flaps', async () => {
    const { world, calls } = await counted();
    world.endpoints.behave = (_, nth) => (nth % 3 === 0 ? { status: 400 } : OK);
    for (let second = 0; second < 60; second++) {
      await world.accept(50);
      await world.clock.pass(SECOND);
    }
    expect(calls.length).toBeLessThan(65);
  });

  it('is done once more at the stop', async () => {
    const { world } = await counted();
    await world.accept(5);
    await world.clock.pass(100);
    const stopped = world.dispatcher.stop();
    await world.clock.pass(SECOND);
    await stopped;
    expect((await world.store.endpointHealth.load())[0]!.endpoints[0]!.attempts).toEqual({ accepted: 5 });
  });

  it('delays no delivery when it fails, and is repeated', async () => {
    const { world, calls } = await counted(0);
    await world.accept(5);
    await world.clock.pass(MINUTE);
    await world.accept(5);
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 10 });
    expect(calls.length).toBeGreaterThan(5);
    expect(world.linesOf('endpoints.not_kept')).toHaveLength(1);
    const stopped = world.dispatcher.stop();
    await world.clock.pass(MINUTE);
    await stopped;
  });
});
