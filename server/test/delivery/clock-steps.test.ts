import { describe, expect, it, test } from 'vitest';
import { MaintenanceWorker } from '../../src/maintenance/worker.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { wallTimeOf } from '../../src/ports/clock.ts';
import { DOWN, OK } from './fake-endpoints.ts';
import { CRM, World } from './world.ts';

const STEPS = [-365 * DAY, -DAY, -HOUR, HOUR, DAY, 365 * DAY];

describe.each(STEPS)('when the wall clock is set by %i ms', (by) => {
  it('results are written as quickly as before', async () => {
    const world = await World.open();
    await world.accept(1);
    world.clock.step(by);
    await world.clock.pass(30);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1, pending: 0 });
    await world.crash();
    await world.clock.pass(MINUTE);
    expect(world.endpoints.arrivals).toHaveLength(1);
  });

  it('an open breaker probes as before, and shows the next probe by the wall clock', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(SECOND);
    const { breaker, nextProbeAt } = world.stateOf(CRM);
    expect(breaker).toBe('open');
    world.clock.step(by);
    expect(world.stateOf(CRM).nextProbeAt).toBe(nextProbeAt! + by);
    world.endpoints.behave = () => OK;
    await world.clock.pass(10 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0, dead: {} });
  });

  it('a failing delivery is retried on schedule and keeps its whole retry window', async () => {
    const world = await World.open({ behave: () => ({ status: 503 }) });
    await world.accept(1);
    await world.clock.pass(5 * SECOND);
    const before = world.endpoints.arrivals.length;
    world.clock.step(by);
    await world.clock.pass(3 * MINUTE);
    // After 7, 15, 30, 60 and 120 seconds.
    expect(world.endpoints.arrivals.length - before).toBe(5);
    await world.clock.pass(3 * HOUR + 20 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 1, dead: {} });
    await world.clock.pass(HOUR);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 0, dead: { retry_window_over: 1 } });
  });

  it('parked deliveries are sent at once after a crash, and none expires', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(MINUTE);
    world.clock.step(by);
    await world.accept(500);
    await world.clock.pass(SECOND);
    await world.crash();
    world.endpoints.behave = () => OK;
    await world.clock.pass(MINUTE + 15 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1000, pending: 0, dead: {} });
  });

  it('a call that comes again is a duplicate', async () => {
    const world = await World.open();
    await world.acceptAs(['one']);
    world.clock.step(by);
    await world.acceptAs(['one']);
    await world.clock.pass(SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 1, delivered: 1 });
  });

  it('events are kept for their retention and then removed', async () => {
    const world = await World.open();
    const upkeep = new MaintenanceWorker({
      log: world.store.log,
      clock: world.clock,
      logger: world.logger,
      retention: () => ({ events: DAY, deadLetters: DAY }),
    });
    upkeep.start();
    await world.accept(3);
    world.clock.step(by);
    await world.clock.pass(DAY - MINUTE);
    expect((await world.store.log.size()).events).toBe(3);
    await world.clock.pass(2 * MINUTE);
    expect((await world.store.log.size()).events).toBe(0);
    await upkeep.stop();
    expect(world.linesOf('clock.stepped')).toEqual([
      { level: 'warn', event: 'clock.stepped', facts: { byMs: by, now: expect.any(String) } },
    ]);
  });
});

test('a round is timed by the monotonic clock, whatever the wall clock is set to meanwhile', async () => {
  const ended: number[] = [];
  const world = await World.open({
    behave: () => ({ after: 2 * SECOND }),
    measures: { forDestination: () => ({ attemptEnded: (since, _, __, now) => ended.push(now - since!) }) },
  });
  await world.accept(1);
  world.clock.step(HOUR);
  await world.clock.pass(3 * SECOND);
  expect(ended).toEqual([2 * SECOND]);
});

test('a replay is not timed: its event arrived long before anybody asked for it', async () => {
  const ended: (number | undefined)[] = [];
  const world = await World.open({
    measures: { forDestination: () => ({ attemptEnded: (since) => ended.push(since) }) },
  });
  const arrivedAt = world.clock.monotonic();
  await world.accept(1);
  await world.clock.pass(DAY);
  const { positions } = await world.store.log.find({ from: arrivedAt, to: arrivedAt + 1 });
  const now = world.clock.monotonic();
  for (const origin of ['replay', 'aud_7'])
    await world.store.queue.enqueue({ origin, destinations: [CRM.id], positions, from: 0, to: 1, now });
  world.dispatcher.parked(CRM.id, now);
  await world.clock.pass(SECOND);
  expect(ended).toEqual([arrivedAt, undefined, arrivedAt]);
});

test('observers and histories see the time that the wall clock showed', async () => {
  const world = await World.open({ ahead: HOUR, behave: () => ({ status: 503 }) });
  const at = world.clock.now();
  await world.accept(1);
  await world.clock.pass(SECOND);
  world.clock.step(DAY);
  const { log, history } = world.shownStore;
  const { positions } = await log.find({ from: at, to: at + 1 });
  const [known] = await history.read(positions);
  const [delivery] = known!.deliveries;
  expect(positions).toHaveLength(1);
  expect(delivery!.attempts[0]!.startedAt).toBe(at);
  expect(delivery!.nextAttemptAt).toBeGreaterThan(at + DAY);
  expect(wallTimeOf(world.clock.monotonic(), world.clock)).toBe(world.clock.now());
});
