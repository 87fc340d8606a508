import { describe, expect, it } from 'vitest';
import type { WebhookSettings } from '../../src/destinations/webhooks/settings.ts';
import { type DeliveryPolicy, liftPolicy } from '../../src/model/delivery-policy.ts';
import type { Destination } from '../../src/model/destination.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { DOWN, HANGS, OK, type Reply } from './fake-endpoints.ts';
import { destination, START, World } from './world.ts';

const PLACES = [0, 1, 2, 3, 4];
const urlOf = (place: number) => `http://e${place}/`;
const placeOf = (url: string) => PLACES.findIndex((place) => urlOf(place) === url);

function several(
  count: number,
  settings: Partial<WebhookSettings & DeliveryPolicy>,
  more: Partial<Destination> = {},
) {
  const endpoints = PLACES.slice(0, count).map((place) => ({ url: urlOf(place), headers: {} }));
  return destination(1, 'several', {
    ...liftPolicy({ settings: { endpoints, format: 'documented' as const, ...settings } }),
    ...more,
  });
}

/** The replies to an event, by the letter at the endpoint's place in the messageId. */
const MEANING: Readonly<Record<string, (nth: number) => Reply>> = {
  a: () => OK,
  // Fails at first, and accepts the retry.
  r: (nth) => (nth === 0 ? { status: 503 } : OK),
  x: () => ({ status: 410 }),
};

/** Every combination of answers of `count` endpoints, as words of `count` letters. */
function words(length: number): string[] {
  if (length === 0) return [''];
  return words(length - 1).flatMap((word) => Object.keys(MEANING).map((letter) => word + letter));
}

/** A world in which each endpoint replies to each event as its word says. */
async function spelled(success: 'any' | 'each'): Promise<World> {
  const asked = new Map<string, number>();
  return World.open({
    destinations: [several(5, { success })],
    behave: ({ id, url }) => {
      const key = `${id} ${url}`;
      const nth = asked.get(key) ?? 0;
      asked.set(key, nth + 1);
      return MEANING[id[placeOf(url)]!]!(nth);
    },
  });
}

/** The number of requests for the event at each of the five endpoints. */
function requestsOf(world: World, id: string): number[] {
  return PLACES.map(
    (place) => world.endpoints.arrivals.filter((one) => one.id === id && one.url === urlOf(place)).length,
  );
}

const ALL = words(5);

describe('five endpoints, in all 243 combinations of accepting, failing once and refusing', () => {
  it('with any: one acceptance completes it, otherwise failed requests are repeated, refused ones never', async () => {
    const world = await spelled('any');
    for (const word of ALL) {
      await world.acceptAs([word]);
      await world.clock.pass(10 * SECOND);
      const again = word.includes('a') ? 1 : 2;
      expect([word, ...requestsOf(world, word)]).toEqual([
        word,
        ...[...word].map((letter) => (letter === 'r' ? again : 1)),
      ]);
    }
    expect(await world.countsOf(several(5, {}))).toMatchObject({
      owed: 243,
      delivered: 242,
      dead: { status_410: 1 },
      pending: 0,
    });
  });

  it('with each: every endpoint is a delivery of its own, whatever its siblings answer', async () => {
    const world = await spelled('each');
    for (const word of ALL) {
      await world.acceptAs([word]);
      await world.clock.pass(10 * SECOND);
      expect([word, ...requestsOf(world, word)]).toEqual([
        word,
        ...[...word].map((letter) => (letter === 'r' ? 2 : 1)),
      ]);
    }
    expect(await world.countsOf(several(5, { success: 'each' }))).toMatchObject({
      owed: 5 * 243,
      delivered: 2 * 5 * 81,
      dead: { status_410: 5 * 81 },
      pending: 0,
    });
  });
});

describe('a destination whose endpoints are deliveries of their own', () => {
  const each = several(3, { success: 'each' });

  it('delivers to the healthy ones while another is dead, and counts its backlog', async () => {
    const world = await World.open({
      destinations: [each],
      behave: ({ url }) => (url === urlOf(1) ? DOWN : OK),
    });
    for (let n = 0; n < 20; n++) {
      await world.accept(50);
      await world.clock.pass(100);
    }
    expect(await world.countsOf(each)).toMatchObject({ owed: 3000, delivered: 2000, pending: 1000 });
    expect(world.stateOf(each)).toMatchObject({
      destination: 1,
      state: 'failing',
      breaker: 'open',
      lastError: { reason: 'connection_refused', endpoint: urlOf(1) },
    });
    world.endpoints.behave = () => OK;
    await world.clock.pass(2 * MINUTE);
    expect(await world.countsOf(each)).toMatchObject({ delivered: 3000, pending: 0 });
    expect(world.stateOf(each)).toMatchObject({ state: 'healthy', breaker: 'closed' });
  });

  it('keeps the deliveries of each endpoint through a crash', async () => {
    const world = await World.open({
      destinations: [each],
      behave: ({ url }) => (url === urlOf(2) ? DOWN : OK),
    });
    await world.accept(10);
    await world.clock.pass(SECOND);
    await world.crash();
    world.endpoints.behave = () => OK;
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(10 * SECOND);
    expect(world.endpoints.arrivals.slice(before).map(({ url }) => url)).toEqual(Array(10).fill(urlOf(2)));
    expect(await world.countsOf(each)).toMatchObject({ owed: 30, delivered: 30, pending: 0 });
  });

  it('gives up the deliveries of a removed endpoint, also after a restart', async () => {
    const world = await World.open({ destinations: [each], behave: () => DOWN });
    await world.accept(5);
    await world.clock.pass(SECOND);
    world.endpoints.behave = () => OK;
    world.configure([several(2, { success: 'each' }, { version: 2 })]);
    await world.crash();
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(each)).toMatchObject({ delivered: 10, dead: { no_endpoint: 5 }, pending: 0 });
  });

  it('continues with the deliveries of each endpoint after a change to any', async () => {
    const world = await World.open({
      destinations: [each],
      behave: ({ url }) => (url === urlOf(1) ? DOWN : OK),
    });
    await world.accept(5);
    await world.clock.pass(SECOND);
    world.endpoints.behave = () => OK;
    const before = world.endpoints.arrivals.length;
    world.configure([several(3, { success: 'any' }, { version: 2 })]);
    await world.clock.pass(MINUTE);
    expect(world.endpoints.arrivals.slice(before).map(({ url }) => url)).toEqual(Array(5).fill(urlOf(1)));
    expect(await world.countsOf(each)).toMatchObject({ owed: 15, delivered: 15 });
    await world.accept(1, [several(3, { success: 'any' }, { version: 2 })]);
    await world.clock.pass(SECOND);
    expect(await world.countsOf(each)).toMatchObject({ owed: 16, delivered: 16 });
  });
});

describe('with any, an endpoint that hangs', () => {
  it('does not slow down its sibling, at any rate', async () => {
    const two = several(2, {});
    const world = await World.open({
      destinations: [two],
      behave: ({ url }) => (url === urlOf(0) ? HANGS : OK),
    });
    for (let n = 0; n < 200; n++) {
      await world.accept(100);
      await world.clock.pass(50);
    }
    await world.clock.pass(100);
    expect(await world.countsOf(two)).toMatchObject({ owed: 20_000, delivered: 20_000, pending: 0 });
    expect(world.endpoints.mostOpen.get(urlOf(0))).toBe(512);
    expect(world.endpoints.arrivals.filter(({ url }) => url === urlOf(1))).toHaveLength(20_000);
  });

  it('gets the events that its sibling refuses, once it answers again', async () => {
    const two = several(2, {});
    const world = await World.open({
      destinations: [two],
      behave: ({ url, id }) =>
        url === urlOf(0) ? { after: 4 * SECOND } : id === 'refused' ? { status: 410 } : OK,
    });
    await world.accept(600);
    await world.clock.pass(100);
    await world.acceptAs(['refused']);
    await world.clock.pass(100);
    const asked = () => world.endpoints.arrivals.filter(({ id }) => id === 'refused').map(({ url }) => url);
    expect(asked()).toEqual([urlOf(1)]);
    await world.clock.pass(MINUTE);
    expect(asked()).toEqual([urlOf(1), urlOf(0)]);
    expect(await world.countsOf(two)).toMatchObject({ owed: 601, delivered: 601, dead: {} });
  });

  it('does not hold up its sibling for good when the traffic ends', async () => {
    const two = several(2, {});
    const world = await World.open({
      destinations: [two],
      behave: ({ url }) => (url === urlOf(0) ? HANGS : OK),
    });
    await world.accept(500);
    await world.accept(500);
    await world.accept(500);
    await world.clock.pass(11 * SECOND);
    expect(await world.countsOf(two)).toMatchObject({ delivered: 1500, pending: 0 });
  });
});

describe('a destination with a rate limit', () => {
  it.each([1, 10, 100, 5000])('of %i gets exactly as many requests a second', async (rateLimit) => {
    const limited = several(1, { rateLimit });
    const world = await World.open({ destinations: [limited] });
    const events = Math.min(rateLimit * 10, 5000);
    for (let accepted = 0; accepted < events; accepted += 500) {
      await world.accept(Math.min(500, events - accepted));
    }
    await world.clock.passUntil(() => world.endpoints.arrivals.length === events, MINUTE);
    const seconds = (world.clock.now() - START) / SECOND;
    expect(events / rateLimit - seconds).toBeLessThanOrEqual(1 / rateLimit + 0.026);
    expect(seconds - events / rateLimit).toBeLessThanOrEqual(0.1);
    const busiest = Math.max(
      ...world.endpoints.arrivals.map(
        ({ at }) => world.endpoints.arrivals.filter((one) => one.at >= at && one.at < at + SECOND).length,
      ),
    );
    expect(busiest).toBeLessThanOrEqual(Math.ceil(rateLimit * 1.025) + 1);
  });

  it('follows a new one as soon as it is set', async () => {
    const world = await World.open({ destinations: [several(1, { rateLimit: 1 })] });
    await world.accept(1000);
    await world.clock.pass(10 * SECOND);
    expect(world.endpoints.arrivals.length).toBeLessThanOrEqual(11);
    world.configure([several(1, {}, { version: 2 })]);
    await world.clock.pass(SECOND);
    expect(world.endpoints.arrivals).toHaveLength(1000);
  });
});

describe('a destination with a concurrency limit', () => {
  it('never has more requests in flight, and uses the whole limit', async () => {
    const capped = several(1, { concurrency: 3 });
    const world = await World.open({ destinations: [capped], behave: () => ({ after: 100 }) });
    await world.accept(500);
    await world.clock.pass(HOUR);
    expect(world.endpoints.mostOpen.get(urlOf(0))).toBe(3);
    const last = world.endpoints.arrivals.at(-1)!.at;
    expect(last - START).toBeLessThanOrEqual((500 / 3) * 100 + 100);
    expect(await world.countsOf(capped)).toMatchObject({ delivered: 500 });
  });

  it('counts the late requests to a sibling too', async () => {
    const capped = several(2, { concurrency: 3 });
    const world = await World.open({
      destinations: [capped],
      behave: ({ url }) => (url === urlOf(0) ? HANGS : OK),
    });
    await world.accept(20);
    await world.clock.pass(MINUTE);
    expect(world.endpoints.mostOpen.get(urlOf(0))).toBe(3);
    expect(await world.countsOf(capped)).toMatchObject({ delivered: 20 });
  });
});
