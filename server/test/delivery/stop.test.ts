import { describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../../src/model/time.ts';
import { DOWN, HANGS, OK } from './fake-endpoints.ts';
import { faulty, type Operation } from './faulty-store.ts';
import { CRM, destination, World } from './world.ts';

/** Stops the dispatcher. Resolves to the seconds it took; `limit` is when the test gives up. */
async function stop(world: World, limit = 20 * SECOND): Promise<number> {
  const before = world.clock.now();
  let isStopped = false;
  const stopping = world.dispatcher.stop().then(() => {
    isStopped = true;
  });
  await world.clock.passUntil(() => isStopped, limit);
  await stopping;
  return (world.clock.now() - before) / SECOND;
}

describe('stopping', () => {
  it('waits for the requests in flight, writes their results, and starts nothing more', async () => {
    const world = await World.open({ behave: () => ({ after: 2 * SECOND }) });
    await world.accept(100);
    await world.clock.pass(SECOND);
    expect(await stop(world)).toBe(1);
    expect(world.endpoints.arrivals).toHaveLength(16);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 16, pending: 84 });
    await world.clock.pass(MINUTE);
    expect(world.endpoints.arrivals).toHaveLength(16);
  });

  it('leaves the queue to the next process, which delivers it once', async () => {
    const world = await World.open({ behave: () => ({ after: 2 * SECOND }) });
    await world.accept(500);
    await world.accept(1600);
    await world.clock.pass(SECOND);
    await stop(world);
    await world.store.stop();
    world.endpoints.behave = () => OK;
    await world.crash();
    expect(world.linesOf('backlog.adopted')).toEqual([
      { level: 'info', event: 'backlog.adopted', facts: { deliveries: 1984 } },
    ]);
    await world.clock.pass(10 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 2100, pending: 0 });
    expect(new Set(world.endpoints.arrivals.map(({ id }) => id)).size).toBe(world.endpoints.arrivals.length);
    expect(world.endpoints.arrivals).toHaveLength(2100);
  });

  it('writes the retries of deliveries that fail meanwhile', async () => {
    const world = await World.open({ behave: () => ({ after: SECOND, status: 503 }) });
    await world.accept(10);
    await world.clock.pass(500);
    expect(await stop(world)).toBe(0.5);
    const [stats] = await world.store.queue.stats();
    expect(stats).toMatchObject({ held: 0, onDisk: 10 });
  });

  it('takes at most five seconds, even where an answer never comes', async () => {
    const world = await World.open({ destinations: [CRM, destination(2, 'quick')] });
    // Longer than the request's time limit. No endpoint can do that, but a broken transport could.
    world.endpoints.send = (request, done) => {
      if (request.url === 'http://quick/') {
        world.clock.after(1, () => done({ kind: 'answered', status: 200, body: '', latencyMs: 1 }));
      }
    };
    await world.accept(3);
    await world.clock.pass(SECOND);
    expect(await stop(world)).toBe(5);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 0, pending: 3 });
    expect(await world.countsOf(destination(2, 'quick'))).toMatchObject({ delivered: 3 });
  });

  it('drops an answer that comes after the end, and the delivery stays owed', async () => {
    const world = await World.open({ behave: () => HANGS });
    await world.accept(1);
    await world.clock.pass(10);
    const stopping = world.dispatcher.stop();
    await world.clock.pass(4.995 * SECOND);
    await stopping;
    const counts = await world.countsOf(CRM);
    await world.clock.pass(MINUTE);
    expect(await world.countsOf(CRM)).toEqual(counts);
    expect(counts.pending).toBe(1);
  });

  it('does not wait for a store that keeps failing', async () => {
    const broken = new Set<Operation>(['claim', 'read']);
    const world = await World.open({
      between: (store) => faulty(store, (operation) => broken.has(operation)),
    });
    for (let batch = 0; batch < 10; batch++) await world.accept(500);
    await world.clock.pass(5 * SECOND);
    expect(await stop(world)).toBe(0);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 2000, pending: 3000 });
  });

  it('repeats a failed write once', async () => {
    let failures = 0;
    const world = await World.open({
      between: (store) => faulty(store, (operation) => operation === 'settle' && failures++ === 0),
    });
    await world.accept(100);
    await world.clock.pass(15);
    expect(world.endpoints.arrivals).toHaveLength(100);
    await stop(world);
    expect(failures).toBe(2);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 100, pending: 0 });
  });

  it('in the middle of an outage ends the probes and leaves everything owed', async () => {
    const world = await World.open({ behave: () => DOWN });
    await world.accept(500);
    await world.clock.pass(MINUTE);
    const requests = world.endpoints.arrivals.length;
    expect(await stop(world)).toBe(0);
    await world.clock.pass(10 * MINUTE);
    expect(world.endpoints.arrivals).toHaveLength(requests);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 500 });
  });

  it('is idempotent, and afterwards nothing new is taken into memory', async () => {
    const world = await World.open();
    await world.accept(10);
    await world.clock.pass(SECOND);
    await Promise.all([stop(world), world.dispatcher.stop()]);
    await world.dispatcher.stop();
    await world.accept(10);
    await world.clock.pass(MINUTE);
    expect(world.stateOf(CRM).held).toBe(0);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 10, pending: 10 });
  });
});

describe('waiting for requests in flight', () => {
  it('waits for those of now and for no later ones, however many are begun meanwhile', async () => {
    const world = await World.open({ behave: () => ({ after: 500 }) });
    // More than there are requests at a time: each that ends begins another one.
    await world.accept(2000);
    await world.clock.pass(250);
    const before = new Set(world.endpoints.arrivals.map(({ id }) => id));
    let hasEnded = false;
    const began = world.clock.now();
    const waiting = world.dispatcher.requestsEnded(6 * SECOND).then(() => {
      hasEnded = true;
    });
    await world.clock.passUntil(() => hasEnded, 7 * SECOND);
    await waiting;
    expect(world.clock.now() - began).toBeLessThan(SECOND);
    expect((await world.countsOf(CRM)).delivered).toBeGreaterThanOrEqual(before.size);
    expect(world.dispatcher.states()[0]!.inFlight).toBeGreaterThan(0);
  });

  it('gives up after its limit', async () => {
    const world = await World.open({ behave: () => HANGS });
    await world.accept(1);
    await world.clock.pass(10);
    let hasEnded = false;
    const waiting = world.dispatcher.requestsEnded(2 * SECOND).then(() => {
      hasEnded = true;
    });
    await world.clock.pass(1900);
    expect(hasEnded).toBe(false);
    await world.clock.passUntil(() => hasEnded, SECOND);
    await waiting;
  });
});
