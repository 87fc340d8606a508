import { describe, expect, it } from 'vitest';
import { SECOND } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import { DOWN, OK, type Reply } from './fake-endpoints.ts';
import { faulty, type Operation } from './faulty-store.ts';
import { CRM, World } from './world.ts';

/** Does what another node does when the lease of this one is over: releases its deliveries. */
function adopt(world: World): void {
  for (const set of world.contents.sets.values()) set.holder = undefined;
}

/** This process loses its lease, another node adopts, and this one joins again. */
async function rejoin(world: World): Promise<void> {
  await world.dispatcher.forget();
  adopt(world);
  await world.dispatcher.lookAtDisk();
  await world.clock.settle();
}

describe('a process that has lost its lease and has another one', () => {
  it('does not take an answer from before for the end of what it has claimed again', async () => {
    let reply: Reply = { status: 400, after: 2 * SECOND };
    const world = await World.open({ behave: () => reply });
    await world.accept(1);
    await world.clock.pass(SECOND);
    reply = { ...OK, after: 3 * SECOND };
    await rejoin(world);
    expect(world.stateOf(CRM).inFlight).toBe(2);
    await world.clock.pass(2 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 1, dead: {} });
    await world.clock.pass(2 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1, pending: 0, dead: {} });
    expect(world.stateOf(CRM)).toMatchObject({ held: 0, inFlight: 0 });
  });

  it('writes no result that it could not write before', async () => {
    const broken = new Set<Operation>(['settle']);
    let reply: Reply = { status: 400 };
    const world = await World.open({
      behave: () => reply,
      between: (store) => faulty(store, (operation) => broken.has(operation)),
    });
    await world.accept(1);
    await world.clock.pass(SECOND / 2);
    reply = { ...OK, after: 5 * SECOND - 1 };
    await rejoin(world);
    broken.clear();
    await world.clock.pass(3 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ pending: 1, dead: {} });
    await world.clock.pass(3 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1, pending: 0, dead: {} });
  });
});

describe('a process whose results were being written when it lost its lease', () => {
  it('sends what it claims under the next one, also where it claims before the write has failed', async () => {
    const write = Promise.withResolvers<never>();
    let isWriting = false;
    const world = await World.open({
      between: (store) => ({
        ...store,
        queue: {
          ...store.queue,
          settle: (results) => {
            if (isWriting) return store.queue.settle(results);
            isWriting = true;
            return write.promise;
          },
        },
      }),
      maySend: () => true,
    });
    await world.accept(1);
    // The answer is there, and its result is late.
    await world.clock.pass(5 * SECOND);
    await rejoin(world);
    expect(world.stateOf(CRM)).toMatchObject({ held: 1, inFlight: 0 });
    write.reject(new StorageError('the lease is over'));
    await world.clock.pass(SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 1, pending: 0 });
  });
});

describe('a process among others whose results are late', () => {
  it('sends no probe until they are written', async () => {
    const broken = new Set<Operation>();
    const world = await World.open({
      behave: () => DOWN,
      between: (store) => faulty(store, (operation) => broken.has(operation)),
      maySend: () => true,
    });
    await world.accept(500);
    await world.clock.passUntil(() => world.stateOf(CRM).breaker === 'open', 10 * SECOND);
    // Everything is on disk again.
    await world.clock.pass(5 * SECOND);
    expect(world.stateOf(CRM).held).toBe(0);
    broken.add('settle');
    // Two probes may end before their results are late.
    await world.clock.pass(20 * SECOND);
    const before = world.endpoints.arrivals.length;
    await world.clock.pass(60 * SECOND);
    expect(world.endpoints.arrivals.length).toBe(before);
    broken.clear();
    world.endpoints.behave = () => OK;
    await world.clock.pass(60 * SECOND);
    expect(await world.countsOf(CRM)).toMatchObject({ delivered: 500, pending: 0 });
  });
});
