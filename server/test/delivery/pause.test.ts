import { describe, expect, it } from 'vitest';
import { diffRecords } from '../../src/control-api/changes.ts';
import { DESTINATION_TYPES } from '../../src/destinations/list.ts';
import type { Destination } from '../../src/model/destination.ts';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { DOWN, OK } from './fake-endpoints.ts';
import { CRM, World, type WorldOptions } from './world.ts';

/** A world whose destination is paused and resumed as by the control API: by changes of its record. */
async function switchable(options: WorldOptions = {}) {
  const world = await World.open(options);
  let current = CRM;
  const change = (parts: Partial<Pick<Destination, 'enabled' | 'paused'>>) => {
    const before = {
      sources: [],
      destinations: [current],
      audiences: [],
      traits: [],
      alerts: [],
      tokens: [],
      replays: [],
      splits: [],
    };
    const now = { ...before, gone: { sources: [], destinations: [], audiences: [], traits: [] } };
    const author = { by: 'test', clock: world.clock, types: DESTINATION_TYPES };
    const { id, version, ...record } = { ...current, ...parts };
    const [after] = diffRecords({ destinations: [record] }, now, author).destinations;
    current = { ...after!, id, version: version + 1 };
    world.configure([current]);
  };
  return { world, change };
}

describe('a paused destination', () => {
  it('gets nothing, is owed new events, holds none in memory, and gets all of them when it is resumed', async () => {
    const { world, change } = await switchable();
    await world.accept(1000);
    change({ paused: true });
    for (let n = 0; n < 50; n++) await world.accept(200);
    await world.clock.pass(10 * SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'paused', held: 0, inFlight: 0 });
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(9 * HOUR);
    expect(world.endpoints.arrivals.length).toBe(before);
    change({ paused: false });
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 11_000, delivered: 11_000, skipped: {} });
    expect(new Set(world.endpoints.arrivals.map(({ id }) => id)).size).toBe(world.endpoints.arrivals.length);
  });

  it('that was paused while its probe was loaded is probed again when it is resumed', async () => {
    let duringRead: (() => void) | undefined;
    const { world, change } = await switchable({
      behave: () => DOWN,
      between: (store) => ({
        ...store,
        log: {
          ...store.log,
          read: async (...args) => {
            const events = await store.log.read(...args);
            duringRead?.();
            return events;
          },
        },
      }),
    });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    duringRead = () => {
      duringRead = undefined;
      change({ paused: true });
    };
    await world.clock.pass(MINUTE);
    expect(duringRead).toBeUndefined();
    world.endpoints.behave = () => OK;
    change({ paused: false });
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0, dead: {} });
  });

  it('is still paused after a crash', async () => {
    const { world, change } = await switchable();
    change({ paused: true });
    await world.accept(10);
    await world.crash();
    await world.accept(10);
    await world.clock.pass(HOUR);
    expect(world.endpoints.arrivals).toEqual([]);
    change({ paused: false });
    await world.clock.pass(SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 20 });
  });
});

describe.each([
  ['paused', { paused: true }, { paused: false }],
  ['disabled', { enabled: false }, { enabled: true }],
] as const)('the retry window of a delivery whose destination is %s', (_, hold, go) => {
  it('stands still, and a failed delivery has the rest of its four hours afterwards', async () => {
    const { world, change } = await switchable({ behave: () => DOWN });
    await world.accept(1);
    await world.clock.pass(HOUR);
    change(hold);
    await world.clock.pass(20 * HOUR);
    change(go);
    const resumed = world.clock.now();
    await world.clock.pass(2 * HOUR + 15 * MINUTE);
    expect((await world.countsOf(CRM)).dead).toEqual({});
    await world.clock.pass(HOUR);
    expect((await world.countsOf(CRM)).dead).toEqual({ retry_window_over: 1 });
    const last = Math.max(...world.secondsOf(CRM, resumed));
    expect(last).toBeGreaterThan(2.25 * 3600);
    expect(last).toBeLessThanOrEqual(3 * 3600);
  });

  it('stands still behind an open breaker too, and parked deliveries survive a long pause', async () => {
    const { world, change } = await switchable({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(MINUTE);
    expect(world.stateOf(CRM).breaker).toBe('open');
    await world.accept(100, [CRM]);
    await world.clock.pass(HOUR);
    change(hold);
    if ('paused' in hold) await world.accept(100);
    await world.clock.pass(30 * HOUR);
    change(go);
    await world.clock.pass(10 * MINUTE);
    expect((await world.countsOf(CRM)).dead).toEqual({});
    world.endpoints.behave = () => OK;
    await world.clock.pass(10 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 0, dead: {} });
  });
});
