import { describe, expect, it } from 'vitest';
import { RETRY_DELAYS } from '../../src/delivery/retry-policy.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { DOWN, OK, type Reply } from './fake-endpoints.ts';
import { CRM, destination, START, World } from './world.ts';

const POISON = { status: 500 };

describe('an event that always fails', () => {
  it('beside healthy traffic follows its schedule to the end and does not open the breaker', async () => {
    const world = await World.open({ behave: ({ id }) => (id === 'poison' ? POISON : OK) });
    await world.acceptAs(['poison']);
    const states = new Set<string>();
    for (let n = 0; n < 5 * 60 * 6; n++) {
      await world.accept(1);
      await world.clock.pass(10 * SECOND);
      states.add(world.stateOf(CRM).breaker);
    }
    expect([...states]).toEqual(['closed']);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1800, dead: { retry_window_over: 1 } });
    const tries = world.endpoints.arrivals.filter(({ id }) => id === 'poison').map(({ at }) => at);
    const delays = tries.slice(1).map((at, nth) => at - tries[nth]!);
    // A millisecond for the answer, and at most one more batch in flight.
    const expected = [...RETRY_DELAYS, ...Array.from({ length: 5 }, () => RETRY_DELAYS.at(-1)!)];
    for (const [nth, delay] of delays.entries()) {
      expect(Math.abs(delay - expected[nth]!)).toBeLessThanOrEqual(30);
    }
    expect(delays.length).toBe(17);
    expect(tries.at(-1)! - tries[0]!).toBeLessThanOrEqual(4 * HOUR);
  });

  it('alone follows its schedule too, and later events are tried at once', async () => {
    const world = await World.open({ behave: ({ id }) => (id === 'poison' ? POISON : OK) });
    await world.acceptAs(['poison']);
    await world.clock.pass(2 * HOUR);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'failing', breaker: 'closed' });
    await world.acceptAs(['good']);
    await world.clock.pass(10);
    expect(world.endpoints.arrivals.at(-1)?.id).toBe('good');
    expect(world.stateOf(CRM).state).toBe('healthy');
  });

  it('does not open the breaker together with eighteen others either', async () => {
    const world = await World.open({ behave: ({ id }) => (id.startsWith('poison') ? POISON : OK) });
    await world.acceptAs(Array.from({ length: 19 }, (_, n) => `poison${n}`));
    for (let n = 0; n < 4 * 60; n++) {
      await world.clock.pass(MINUTE);
      expect(world.stateOf(CRM).breaker).toBe('closed');
    }
    await world.acceptAs(['good']);
    await world.clock.pass(100);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1 });
  });

  it('does not keep healthy deliveries out of memory while it waits', async () => {
    const world = await World.open({ behave: ({ id }) => (id === 'poison' ? POISON : { after: 5 }) });
    await world.acceptAs(['poison']);
    let parked = 0;
    for (let n = 0; n < 4000; n++) {
      await world.accept(5);
      const [stats] = await world.store.queue.stats();
      parked = Math.max(parked, stats!.onDisk);
      await world.clock.pass(5);
    }
    expect(parked).toBe(1);
  });
});

describe('a worker with few deliveries', () => {
  it('at an endpoint that is down tries each event by its own schedule', async () => {
    const world = await World.open({ behave: () => DOWN });
    for (let n = 0; n < 10; n++) {
      const [id] = await world.accept(1);
      const at = world.clock.now();
      await world.clock.pass(5 * MINUTE);
      const tries = world.endpoints.arrivals.filter((arrival) => arrival.id === id);
      expect(tries.map((one) => Math.round((one.at - at) / SECOND))).toEqual([
        0, 1, 3, 7, 15, 30, 60, 120, 240,
      ]);
    }
    expect(world.stateOf(CRM)).toMatchObject({ state: 'failing', breaker: 'closed' });
    expect(world.linesOf('destination.failing').length).toBeLessThanOrEqual(51);
  });
});

describe('a retry', () => {
  it('goes to the endpoints of the current settings: a repaired URL repairs its backlog', async () => {
    const world = await World.open({ behave: ({ url }) => (url === 'http://repaired/' ? OK : DOWN) });
    await world.accept(5);
    await world.clock.pass(10 * SECOND);
    world.configure([destination(1, 'repaired', { version: 2 })]);
    await world.clock.pass(30 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 5, pending: 0 });
    expect(world.endpoints.arrivals.filter(({ url }) => url === 'http://repaired/')).toHaveLength(5);
  });

  it('waits as long as Retry-After asks', async () => {
    const world = await World.open({ behave: () => ({ status: 429, retryAfter: '120' }) });
    await world.accept(1);
    await world.clock.pass(5 * MINUTE);
    expect(world.secondsOf(CRM).map(Math.round)).toEqual([0, 120, 240]);
  });

  it('waits while its destination is disabled, and is made when it is enabled again', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(3);
    await world.clock.pass(MINUTE);
    const before = world.endpoints.arrivals.length;
    world.configure([destination(1, 'crm', { enabled: false, version: 2 })]);
    await world.clock.pass(HOUR);
    expect(world.endpoints.arrivals.length).toBe(before);
    expect(world.stateOf(CRM).state).toBe('disabled');
    world.endpoints.behave = () => OK;
    world.configure([destination(1, 'crm', { version: 3 })]);
    await world.clock.pass(SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 3 });
  });
});

describe('a worker', () => {
  it('frees its memory when its destination is disabled, and delivers when it is enabled', async () => {
    const world = await World.open({ behave: () => ({ after: 4 * SECOND }) });
    await world.accept(1000);
    await world.clock.pass(SECOND);
    world.configure([destination(1, 'crm', { enabled: false, version: 2 })]);
    await world.clock.pass(5 * SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'disabled', held: 0, inFlight: 0 });
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 16, pending: 984 });
    world.endpoints.behave = () => OK;
    world.configure([destination(1, 'crm', { version: 3 })]);
    await world.clock.pass(10 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1000, pending: 0 });
    expect(new Set(world.endpoints.arrivals.map(({ id }) => id)).size).toBe(world.endpoints.arrivals.length);
  });

  it('takes back the memory that was reserved for duplicates', async () => {
    const world = await World.open();
    const ids = await world.accept(500);
    await world.clock.pass(SECOND);
    for (let n = 0; n < 20; n++) {
      await world.acceptAs(ids);
      expect(world.stateOf(CRM).held).toBe(0);
    }
    await world.acceptAs([...ids.slice(0, 250), 'one', 'two']);
    expect(world.stateOf(CRM).held).toBe(2);
    await world.clock.pass(SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 502, delivered: 502 });
  });

  it('reports its state', async () => {
    const world = await World.open({ behave: () => ({ after: SECOND }) });
    await world.accept(100);
    await world.clock.pass(500);
    expect(world.dispatcher.states()).toMatchObject([
      { destination: 1, state: 'never_asked', held: 100, inFlight: 16, limit: 16, breaker: 'closed' },
    ]);
    world.endpoints.behave = () => ({ status: 503 });
    await world.clock.pass(SECOND);
    expect(world.stateOf(CRM)).toMatchObject({
      destination: 1,
      state: 'failing',
      held: 0,
      inFlight: 0,
      limit: 1,
      breaker: 'open',
      nextProbeAt: expect.any(Number),
      failingSince: expect.any(Number),
      lastError: { reason: 'status_503', endpoint: 'http://crm/', at: expect.any(Number) },
    });
    expect(world.clock.now()).toBe(START + 1500);
  });

  it('refuses while its endpoint refuses everything, and is healthy with the third delivery in a row', async () => {
    const world = await World.open({ behave: () => ({ status: 401 }) });
    await world.accept(3);
    await world.clock.pass(SECOND);
    const refusing = world.stateOf(CRM);
    expect(refusing).toMatchObject({ state: 'refusing', breaker: 'closed', refusingSince: START + 1 });
    expect(refusing.lastError).toMatchObject({ reason: 'status_401' });
    expect(world.linesOf('destination.refusing')).toMatchObject([
      { facts: { dead: 1, reason: 'status_401' } },
    ]);
    world.endpoints.behave = () => ({ status: 200 });
    await world.accept(2);
    await world.clock.pass(SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'refusing' });
    await world.accept(1);
    await world.clock.pass(SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'healthy' });
    expect(world.stateOf(CRM).refusingSince).toBeUndefined();
    expect(world.linesOf('destination.recovered')).toHaveLength(1);
  });

  it('keeps refusing over a restart, and is failing where a later try may still be accepted', async () => {
    let reply: Reply = { status: 403 };
    const world = await World.open({ behave: () => reply });
    await world.accept(5);
    await world.clock.pass(11 * SECOND);
    await world.crash();
    expect(world.stateOf(CRM)).toMatchObject({ state: 'refusing', refusingSince: START + 1 });
    reply = { status: 503 };
    await world.accept(5);
    await world.clock.pass(SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'failing' });
  });
});
