import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, SECOND } from '../../src/model/time.ts';
import { amountOf } from '../support/runs.ts';
import { seeded } from '../support/seeded.ts';
import { DOWN, HANGS, OK, type Reply } from './fake-endpoints.ts';
import { CRM, destination, START, World } from './world.ts';

/** With this random number every probe comes after its mean delay. */
const MEAN = 1 - 1 / Math.E;

describe('an outage', () => {
  it('begins when 20 deliveries have failed in a row after the first', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(100);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'failing', breaker: 'open', limit: 1 });
    // 16 were in flight when the first failed; 20 more had to begin afterwards and fail too, some of them
    // together.
    expect(world.endpoints.arrivals.length).toBeGreaterThanOrEqual(36);
    expect(world.endpoints.arrivals.length).toBeLessThan(50);
    expect(world.stateOf(CRM).lastError).toEqual({
      reason: 'connection_refused',
      endpoint: 'http://crm/',
      at: expect.any(Number),
    });
  });

  it('is noticed within a minute where every request hangs', async () => {
    const world = await World.open({ behave: () => HANGS });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', MINUTE);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'failing', breaker: 'open' });
  });

  it('holds nothing in memory while it lasts, and loses nothing', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(1900);
    expect(world.stateOf(CRM).held).toBe(1900);
    await world.clock.pass(SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ held: 0, inFlight: 0, breaker: 'open' });
    const [stats] = await world.store.queue.stats();
    expect(stats).toMatchObject({ held: 0, onDisk: 1900 });
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 1900, pending: 1900 });
  });

  it('returns deliveries to disk that were being committed or claimed when it began', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(2000);
    await world.accept(3000);
    const [before] = await world.store.queue.stats();
    expect(before).toMatchObject({ held: 2000, onDisk: 3000 });
    await world.clock.pass(4 * SECOND);
    expect(world.stateOf(CRM).held).toBe(0);
    const [after] = await world.store.queue.stats();
    expect(after).toMatchObject({ held: 0, onDisk: 5000 });
  });

  it('is probed with one real delivery, at first after 2 and 4 s on average, and then every 7', async () => {
    const world = await World.open({ behave: () => DOWN, random: () => MEAN });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    const openedAt = world.clock.now();
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(20 * SECOND);
    const probes = world.secondsOf(CRM, openedAt).slice(before);
    const pauses = probes.map((at, nth) => at - (probes[nth - 1] ?? 0));
    expect(pauses.map(Math.round)).toEqual([2, 4, 7]);
    expect(world.endpoints.mostOpen.get('http://crm/')).toBe(16);
  });

  it('is probed at times that differ from worker to worker', async () => {
    const randoms = [0, 0.99];
    const seconds = [];
    for (const random of randoms) {
      const world = await World.open({ behave: () => DOWN, random: () => random });
      await world.accept(500);
      await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
      const { nextProbeAt } = world.stateOf(CRM);
      seconds.push((nextProbeAt! - world.clock.now()) / SECOND);
    }
    expect(seconds).toEqual([1, expect.closeTo(5.6, 1)]);
  });

  it('is probed as often when every delivery waits for a retry in half an hour', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(60);
    await world.clock.pass(2 * HOUR);
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(10 * MINUTE);
    expect(world.endpoints.arrivals.length - before).toBeGreaterThan(80);
    world.endpoints.behave = () => OK;
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 60, pending: 0, dead: {} });
  });

  it('that comes and goes every 30 seconds drains its backlog while the endpoint is up', async () => {
    const world = await World.open({ random: seeded(3) });
    const since = world.clock.monotonic();
    // Probes in a fixed rhythm once fell into step with it: it was up for the 30 seconds between two of them.
    world.endpoints.behave = () => {
      const seconds = (world.clock.monotonic() - since) / SECOND;
      return seconds % 60 < 30 ? DOWN : { after: 20 };
    };
    for (let minute = 0; minute < 10; minute++) {
      await world.accept(500);
      await world.clock.pass(MINUTE);
      expect((await world.countsOf(CRM)).delivered).toBeGreaterThan((minute - 2) * 500);
    }
    await world.clock.pass(3 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 5000, pending: 0, dead: {} });
  });

  it('is probed one at a time, however long a probe takes', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(SECOND);
    world.endpoints.behave = () => HANGS;
    world.endpoints.mostOpen.clear();
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'probing', 10 * SECOND);
    await world.accept(300);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'failing', breaker: 'probing', inFlight: 1, held: 1 });
    await world.clock.pass(5 * MINUTE);
    expect(world.endpoints.mostOpen.get('http://crm/')).toBe(1);
  });

  it('lets Retry-After delay the next probe by ten minutes at most', async () => {
    const world = await World.open({ behave: () => ({ status: 503, retryAfter: '90' }) });
    await world.accept(500);
    await world.clock.pass(SECOND);
    expect((world.stateOf(CRM).nextProbeAt! - START) / SECOND).toBeCloseTo(90, 0);
    world.endpoints.behave = () => ({ status: 503, retryAfter: '14400' });
    await world.clock.pass(90 * SECOND);
    expect((world.stateOf(CRM).nextProbeAt! - world.clock.now()) / MINUTE).toBeCloseTo(10, 0);
  });

  it('of minutes or an hour at ten events a second costs a row a second and nine requests a minute', async () => {
    const world = await World.open({ behave: () => DOWN, random: () => MEAN });
    await world.accept(500);
    await world.clock.pass(SECOND);
    const requests = world.endpoints.arrivals.length;
    const rows = world.contents.sets.size;
    const seconds = amountOf({ gate: 600, long: 3600 });
    for (let second = 0; second < seconds; second++) {
      await world.accept(10);
      await world.clock.pass(SECOND);
      if (second % 100 === 0) expect(world.stateOf(CRM).held).toBeLessThanOrEqual(1);
    }
    // One append a second; each probe leaves one row of its own.
    const probes = world.endpoints.arrivals.length - requests;
    expect(probes / seconds).toBeGreaterThan(0.14);
    expect(probes / seconds).toBeLessThan(0.145);
    expect(world.contents.sets.size - rows).toBeLessThanOrEqual(seconds + probes);
    expect(world.contents.failures.length).toBe(world.endpoints.arrivals.length);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 500 + 10 * seconds, delivered: 0, dead: {} });
  });

  it('ends with the delivery of everything that has waited less than four hours', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(1000);
    for (let minute = 0; minute < 3 * 60 + 50; minute++) {
      await world.clock.pass(MINUTE);
      await world.accept(10);
    }
    world.endpoints.behave = () => OK;
    await world.clock.pass(2 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1000 + 2300, pending: 0, dead: {} });
  });

  it('is one log line at its beginning and one at its end', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    const opened = world.linesOf('destination.failing').filter(({ facts }) => facts['breaker'] === 'open');
    expect(opened).toHaveLength(1);
    expect(opened[0]).toMatchObject({
      level: 'warn',
      facts: {
        destination: 'crm',
        reason: 'connection_refused',
        endpoint: 'http://crm/',
        nextProbeAt: new Date(world.stateOf(CRM).nextProbeAt!).toISOString(),
      },
    });
    const before = world.lines.length;
    await world.clock.pass(10 * MINUTE);
    expect(world.lines.length).toBe(before);

    world.endpoints.behave = () => OK;
    await world.clock.pass(2 * MINUTE);
    const lines = world.lines.slice(before);
    expect(lines).toEqual([
      {
        level: 'info',
        event: 'destination.recovered',
        facts: expect.objectContaining({ destination: 'crm' }),
      },
    ]);
    const { failingForMs, parked } = lines[0]!.facts as { failingForMs: number; parked: number };
    expect(failingForMs).toBeGreaterThan(10 * MINUTE);
    // All except the probe that succeeded.
    expect(parked).toBe(499);
  });
});

describe('a recovery', () => {
  /**
   * An endpoint that was down for so long that each of 150 deliveries is next tried in half an hour, and that
   * takes others fast now.
   */
  async function afterLongOutage(): Promise<{ world: World; tired: ReadonlySet<string> }> {
    const world = await World.open({ behave: () => DOWN, random: () => 0 });
    const tired = new Set(await world.accept(150));
    await world.clock.pass(HOUR);
    await world.accept(1200);
    return { world, tired };
  }

  /**
   * The first two of the deliveries get this reply, and the next ones are refused until the breaker opens.
   * Then the endpoint is up.
   */
  async function relapse(world: World, tired: ReadonlySet<string>, first: Reply): Promise<void> {
    let asked = 0;
    world.endpoints.behave = ({ id }) => {
      if (!tired.has(id) || (world.stateOf(CRM).limit < 40 && asked === 0)) return OK;
      return asked++ < 2 ? first : DOWN;
    };
    await world.clock.passUntil(() => asked > 0, MINUTE);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', MINUTE);
    world.endpoints.behave = () => OK;
  }

  it('releases deliveries too whose failures were not written yet', async () => {
    const { world, tired } = await afterLongOutage();
    await relapse(world, tired, { status: 200, after: 10 });
    await world.clock.pass(9);
    expect(world.stateOf(CRM).breaker).toBe('closed');
    await world.clock.pass(10 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1350, pending: 0, dead: {} });
  });

  it('leaves no delivery waiting whose request began before it and fails after it', async () => {
    const { world, tired } = await afterLongOutage();
    await relapse(world, tired, HANGS);
    await world.clock.pass(10 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1350, pending: 0, dead: {} });
  });
});

describe('the retry window in an outage', () => {
  it('ends four hours after the first failure, or after the parking, and not before', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', SECOND);
    await world.clock.pass(HOUR - (world.clock.now() - START));
    await world.accept(100);

    await world.clock.pass(3 * HOUR - 1);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 600, dead: {} });
    await world.clock.pass(MINUTE + 5 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 100, dead: { retry_window_over: 500 } });

    await world.clock.pass(HOUR - MINUTE - 6 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 100 });
    await world.clock.pass(MINUTE + 6 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 0, dead: { retry_window_over: 600 } });
  });

  it('counts from the parking also for a delivery that served as a probe', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(4 * HOUR + 2 * MINUTE);
    // Some three thousand probes; their deliveries first failed at different times of the four hours.
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 0, dead: { retry_window_over: 500 } });
  });

  it('is over for waiting deliveries when the endpoint comes back later, and they cost no request', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(30 * SECOND);
    await world.clock.pass(4 * HOUR - 40 * SECOND);
    const [fresh] = await world.accept(1);
    await world.clock.pass(45 * SECOND);
    world.endpoints.behave = () => OK;
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(5 * MINUTE);
    expect(world.endpoints.arrivals.slice(before).map(({ id }) => id)).toEqual([fresh]);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1, dead: { retry_window_over: 500 } });
  });

  it('continues across a restart', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(2 * HOUR);
    await world.accept(100);
    await world.crash();
    await world.clock.pass(2 * HOUR - MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ dead: {} });
    await world.clock.pass(3 * MINUTE);
    const { dead, pending } = await world.countsOf(CRM);
    // The new process tried a few before it knew of the outage; they first failed then.
    expect(dead['retry_window_over']).toBeGreaterThan(450);
    expect(pending).toBeGreaterThanOrEqual(100);
    await world.clock.pass(2 * HOUR + MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 0, dead: { retry_window_over: 600 } });
  });

  it('does not end while the program is down for a night', async () => {
    const world = await World.open({ behave: () => HANGS });
    await world.accept(300);
    world.kill();
    await world.clock.pass(10 * HOUR);
    // The machine is up before its network is.
    await world.boot();
    world.endpoints.behave = () => ({ failed: 'name_not_resolved' });
    await world.clock.pass(8 * MINUTE);
    expect(world.stateOf(CRM).breaker).toBe('open');
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 300, dead: {} });
    world.endpoints.behave = () => OK;
    await world.clock.pass(2 * MINUTE);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 300, dead: {} });
  });

  it('does not end in a short outage for the backlog of a slow endpoint from five hours', async () => {
    // It answers slowly and refuses every fourth request, so that few are in flight.
    const world = await World.open({
      behave: (_, nth) => ({ after: 4 * SECOND, status: nth % 4 === 0 ? 429 : 200 }),
    });
    for (let batch = 0; batch < 40; batch++) await world.accept(500);
    await world.clock.pass(5 * HOUR);
    const { delivered, pending, dead } = await world.countsOf(CRM);
    expect(delivered).toBeGreaterThan(1000);
    expect(pending).toBeGreaterThan(1000);
    expect(dead).toEqual({});
    const [stats] = await world.store.queue.stats();
    expect(stats!.nextDueAt).toBe(START);
    world.endpoints.behave = () => DOWN;
    await world.clock.pass(2 * MINUTE);
    expect(world.stateOf(CRM).breaker).toBe('open');
    expect((await world.countsOf(CRM)).dead).toEqual({});
  });

  it('does not pass while the destination is disabled and nothing has failed', async () => {
    const world = await World.open({ behave: () => OK });
    world.configure([destination(1, 'crm', { enabled: false, version: 2 })]);
    await world.acceptAs(['early'], [CRM]);
    await world.clock.pass(9 * HOUR);
    world.configure([destination(1, 'crm', { version: 3 })]);
    await world.clock.pass(SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1, dead: {} });
  });
});
