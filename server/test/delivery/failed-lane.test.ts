import { afterEach, describe, expect, it } from 'vitest';
import type { InvariantError } from '../../src/model/invariant.ts';
import { SECOND } from '../../src/model/time.ts';
import type { Store } from '../../src/ports/store.ts';
import { itNotices } from '../support/invariants.ts';
import { CRM, OTHER, World } from './world.ts';

/** A store that gives the lane of `CRM` more than it asks for, from `wrong` on. */
function generous(state: { isWrong: boolean }): (store: Store) => Store {
  return (store) => ({
    ...store,
    queue: {
      ...store.queue,
      claim: async (destination, max, now) => {
        const claim = await store.queue.claim(destination, max, now);
        if (!state.isWrong || destination !== CRM.id) return claim;
        const one = { set: 1, delivery: { position: 0, rounds: 0 } };
        return { ...claim, deliveries: Array.from({ length: max + 1 }, () => one) };
      },
    },
  });
}

let state = { isWrong: false };
afterEach(() => {
  state = { isWrong: false };
});

/** A world in which the lane of `CRM` has failed, and that of `OTHER` has not. */
async function failed(lanes: [string, InvariantError][] = []): Promise<World> {
  let isDown = true;
  const world = await World.open({
    destinations: [CRM, OTHER],
    between: (store) => generous(state)(store),
    behave: ({ url }) => (isDown && url.includes('crm') ? { status: 503 } : { status: 200 }),
    laneFailed: (lane, error) => lanes.push([lane, error]),
  });
  await world.accept(1);
  await world.clock.pass(SECOND);
  state.isWrong = true;
  await world.clock.pass(10 * SECOND);
  isDown = false;
  return world;
}

describe('a lane in which an invariant does not hold', () => {
  it('stops, says so once, and is shown as failed with the reason', async () => {
    const lanes: [string, InvariantError][] = [];
    const world = await failed(lanes);
    expect(world.stateOf(CRM)).toMatchObject({
      state: 'failed',
      failure: 'a claim gives no more than was asked for',
    });
    expect(world.linesOf('destination.failed')).toEqual([
      {
        level: 'error',
        event: 'destination.failed',
        facts: expect.objectContaining({
          destination: 'crm',
          invariant: 'a claim gives no more than was asked for',
        }),
      },
    ]);
    expect(lanes.map(([lane, { message }]) => [lane, message])).toEqual([
      ['crm', 'a claim gives no more than was asked for'],
    ]);
    expect(world.linesOf('backlog.failed'), 'it is no failure of the store').toEqual([]);
  });

  it('leaves the other lanes alone, and what it is owed on disk', async () => {
    const world = await failed();
    const before = world.secondsOf(CRM).length;
    expect(world.stateOf(OTHER).state).toBe('healthy');
    await world.accept(3);
    await world.clock.pass(60 * SECOND);
    expect(world.secondsOf(OTHER)).toHaveLength(4);
    expect(world.secondsOf(CRM)).toHaveLength(before);
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 4, delivered: 0, pending: 4 });
    expect(await world.countsOf(OTHER)).toMatchObject({ owed: 4, delivered: 4, pending: 0 });
    await world.dispatcher.stop();
  });

  it('survives everything that is done with it', async () => {
    const world = await failed();
    world.configure([{ ...CRM, version: 2, paused: true }, OTHER]);
    world.configure([{ ...CRM, version: 3 }, OTHER]);
    world.dispatcher.shareWith({ nodes: 2, place: 0 });
    world.dispatcher.drop([0, 1]);
    await world.dispatcher.redact(() => true);
    await world.dispatcher.lookAtDisk();
    await world.dispatcher.forget();
    await world.dispatcher.requestsEnded(0);
    world.dispatcher.parked(CRM.id, 0);
    expect(world.dispatcher.reserve(CRM.id, 1)).toBe(0);
    expect(world.linesOf('destination.failed')).toHaveLength(1);
    await world.dispatcher.stop();
  });

  it('delivers everything after a restart', async () => {
    const world = await failed();
    await world.accept(2);
    state.isWrong = false;
    await world.crash();
    await world.clock.pass(60 * SECOND);
    expect(world.stateOf(CRM)).toMatchObject({ state: 'healthy' });
    expect(await world.countsOf(CRM)).toMatchObject({ owed: 3, delivered: 3, pending: 0 });
    await world.dispatcher.stop();
  });
});

describe('the dispatcher', () =>
  itNotices([
    [
      'a delivery in memory has a lane',
      async () => (await World.open()).dispatcher.deliver(99, [{} as never]),
    ],
  ]));
