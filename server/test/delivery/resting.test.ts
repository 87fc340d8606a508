import { describe, expect, it } from 'vitest';
import type { WebhookSettings } from '../../src/destinations/webhooks/settings.ts';
import { type DeliveryPolicy, liftPolicy } from '../../src/model/delivery-policy.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { seeded } from '../support/seeded.ts';
import { DOWN, OK, type Reply } from './fake-endpoints.ts';
import { CRM, destination, START, World } from './world.ts';

const FIRST = 'http://first/';
const SECOND_URL = 'http://second/';

function two(settings: Partial<WebhookSettings & DeliveryPolicy> = {}) {
  const endpoints = [FIRST, SECOND_URL].map((url) => ({ url, headers: {} }));
  return destination(1, 'two', {
    ...liftPolicy({ settings: { endpoints, format: 'documented' as const, ...settings } }),
  });
}

const wait = (seconds: number, status = 429): Reply => ({ status, retryAfter: String(seconds) });

/** The requests at an endpoint, as seconds since the start. */
const requestsAt = (world: World, url: string) =>
  world.endpoints.arrivals.filter((one) => one.url === url).map(({ at }) => (at - START) / SECOND);

describe('an endpoint that answers 429 or 503 with Retry-After', () => {
  for (const status of [429, 503])
    it(`gets one request more than those under way until the rest is over (${status})`, async () => {
      const world = await World.open({ behave: () => wait(60, status) });
      await world.accept(500);
      await world.clock.pass(59 * SECOND);
      // 16 may be under way at once, and they were sent before the first answer.
      expect(world.endpoints.arrivals.length).toBeLessThanOrEqual(16);
      expect(world.stateOf(CRM)).toMatchObject({ breaker: 'open', held: 0 });
      await world.clock.pass(2 * SECOND);
      expect(world.endpoints.arrivals.length).toBe(17);
    });

  it('is not asked because of an answer that was under way when it asked for the rest', async () => {
    const world = await World.open({
      behave: (_, nth) => (nth === 0 ? wait(60) : { ...OK, after: 500 }),
    });
    await world.accept(500);
    await world.clock.pass(59 * SECOND);
    expect(world.endpoints.arrivals.length).toBe(16);
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0, dead: {} });
  });

  it('rests for ten minutes at most, and is then asked with one delivery', async () => {
    const world = await World.open({ behave: () => wait(4 * 3600) });
    await world.accept(100);
    await world.clock.pass(9 * MINUTE);
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(2 * MINUTE);
    expect(world.endpoints.arrivals.length).toBe(before + 1);
  });

  it('gets what waited at a rate that grows, and not within a second', async () => {
    let isOver = false;
    const world = await World.open({ behave: () => (isOver ? OK : wait(30)) });
    await world.accept(1000);
    await world.clock.pass(29 * SECOND);
    isOver = true;
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1000, pending: 0 });
    const seconds = requestsAt(world, 'http://crm/').slice(before);
    const inFirst = seconds.filter((at) => at < seconds[0]! + 1).length;
    expect(inFirst).toBeLessThan(25);
    expect(seconds.at(-1)! - seconds[0]!).toBeGreaterThan(5);
    expect(seconds.at(-1)! - seconds[0]!).toBeLessThan(10);
  });

  it('keeps to the rate limit of its settings afterwards', async () => {
    let isOver = false;
    const limited = destination(1, 'crm', { rateLimit: 20 });
    const world = await World.open({ destinations: [limited], behave: () => (isOver ? OK : wait(5)) });
    await world.accept(200);
    await world.clock.pass(4 * SECOND);
    isOver = true;
    await world.clock.pass(5 * SECOND);
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(2 * SECOND);
    expect(world.endpoints.arrivals.length - before).toBeLessThanOrEqual(42);
  });

  it('is rested by nothing else: 500 and 408 with Retry-After put off one delivery each', async () => {
    for (const status of [408, 500]) {
      const world = await World.open({ behave: (_, nth) => (nth === 0 ? wait(60, status) : OK) });
      await world.accept(50);
      await world.clock.pass(30 * SECOND);
      expect(await world.countsOf(CRM)).toMatchObject({ delivered: 49, pending: 1 });
    }
    const world = await World.open({ behave: (_, nth) => (nth === 0 ? { status: 429 } : OK) });
    await world.accept(50);
    await world.clock.pass(30 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 50 });
  });

  it('may rest for hours: the window of what waits counts from its parking, and nothing was tried in vain', async () => {
    const world = await World.open({ behave: () => wait(600) });
    await world.accept(100);
    await world.clock.pass(2 * HOUR);
    await world.accept(100);
    await world.clock.pass(2 * HOUR + 20 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 100, dead: { retry_window_over: 100 } });
    world.endpoints.behave = () => OK;
    await world.clock.pass(11 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 100, pending: 0 });
  });

  it('is asked at once when its settings change', async () => {
    const world = await World.open({ behave: () => wait(600) });
    await world.accept(20);
    await world.clock.pass(SECOND);
    world.endpoints.behave = () => OK;
    world.configure([{ ...CRM, version: 2 }]);
    await world.clock.pass(10 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 20, pending: 0 });
  });

  it('loses nothing when the program dies meanwhile', async () => {
    const world = await World.open({ behave: () => wait(60) });
    await world.accept(300);
    await world.clock.pass(SECOND);
    await world.crash();
    await world.clock.pass(SECOND);
    world.endpoints.behave = () => OK;
    await world.clock.pass(2 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 300, delivered: 300, pending: 0 });
  });

  it('keeps a replay of old events, also where it is the first request of the program', async () => {
    const world = await World.open({ behave: () => wait(600) });
    await world.accept(10);
    await world.clock.pass(30 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 10, dead: {} });
  });
});

describe('one of two endpoints, of which one must accept', () => {
  it('rests alone: what its sibling accepts is done', async () => {
    const world = await World.open({
      destinations: [two()],
      behave: ({ url }) => (url === FIRST ? wait(60) : OK),
    });
    for (let second = 0; second < 50; second++) {
      await world.accept(4);
      await world.clock.pass(SECOND);
    }
    expect(requestsAt(world, FIRST).length).toBeLessThanOrEqual(4);
    expect(await world.countsOf(two())).toMatchObject({ delivered: 200, pending: 0 });
    expect(world.stateOf(two())).toMatchObject({ breaker: 'closed', state: 'healthy' });
    await world.clock.pass(20 * SECOND);
    const before = requestsAt(world, FIRST).length;
    await world.accept(4);
    await world.clock.pass(SECOND);
    // One of the four is its trial, and it asks for another rest.
    expect(requestsAt(world, FIRST).length).toBe(before + 1);
  });

  it('is waited for by what its sibling refuses, which comes back spread', async () => {
    let isOver = false;
    const world = await World.open({
      destinations: [two()],
      behave: ({ url }) => (url === SECOND_URL ? { status: 400 } : isOver ? OK : wait(60)),
      random: seeded(3),
    });
    await world.accept(1);
    await world.clock.pass(SECOND);
    await world.accept(200);
    await world.clock.pass(50 * SECOND);
    expect(await world.countsOf(two())).toMatchObject({ pending: 201, dead: {} });
    expect(requestsAt(world, FIRST).length).toBe(1);
    expect(requestsAt(world, SECOND_URL).length).toBe(201);
    isOver = true;
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(two())).toMatchObject({ delivered: 201, pending: 0 });
    const back = requestsAt(world, FIRST).slice(1);
    expect(back.filter((at) => at < back[0]! + 1).length).toBeLessThan(100);
    expect(requestsAt(world, SECOND_URL).length).toBe(201);
  });

  it('does not keep its failing sibling from its own retries', async () => {
    const world = await World.open({
      destinations: [two()],
      behave: ({ url }, nth) => (url === FIRST ? wait(60) : nth < 4 ? DOWN : OK),
    });
    await world.accept(1);
    await world.clock.pass(20 * SECOND);
    expect(await world.countsOf(two())).toMatchObject({ delivered: 1, pending: 0 });
  });

  it('rests together with its sibling, and the one whose rest ends first is asked first', async () => {
    const world = await World.open({
      destinations: [two()],
      behave: ({ url, at }) => {
        const seconds = (at - START) / SECOND;
        if (url === FIRST) return seconds < 40 ? wait(40) : OK;
        return seconds < 300 ? wait(300) : OK;
      },
    });
    await world.accept(100);
    await world.clock.pass(39 * SECOND);
    expect(world.stateOf(two())).toMatchObject({ breaker: 'open' });
    expect(world.endpoints.arrivals.length).toBeLessThanOrEqual(32);
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(two())).toMatchObject({ delivered: 100, pending: 0 });
    expect(requestsAt(world, SECOND_URL).every((at) => at < 1)).toBe(true);
  });
});

describe('an endpoint that is a delivery of its own', () => {
  it('rests alone', async () => {
    const each = two({ success: 'each' });
    const world = await World.open({
      destinations: [each],
      behave: ({ url }) => (url === FIRST ? wait(60) : OK),
    });
    await world.accept(100);
    await world.clock.pass(30 * SECOND);
    expect(await world.countsOf(each)).toMatchObject({ owed: 200, delivered: 100, pending: 100 });
    expect(requestsAt(world, FIRST).length).toBeLessThanOrEqual(16);
  });
});
