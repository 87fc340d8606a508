import { describe } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { itNotices } from '../../test/support/invariants.ts';
import { sourceWith } from '../../test/support/sources.ts';
import type { Event } from '../model/event.ts';
import { EMPTY_PLAN } from '../model/plan.ts';
import { acceptEvent } from './calls.ts';
import { CallCountSums, CommitQueue, checkCounts, type QueuedRequest } from './commit-queue.ts';
import { WaitingRequests } from './waiting-requests.ts';

const SOURCE = sourceWith({ writeKeys: [] });
const EVENT: Event = {
  ...{ messageId: 'm', type: 'track', channel: 'server', context: {}, integrations: {} },
  ...{ timestamp: '', receivedAt: '' },
};
const PLAN = { ...EMPTY_PLAN, owed: [{ id: 1, name: 'crm' } as never] };

function request(calls = 1): QueuedRequest {
  return {
    events: [acceptEvent(SOURCE, EVENT, JSON.stringify(EVENT))],
    counts: [{ source: SOURCE.id, calls, discarded: {} }],
    receivedAt: 0,
    committed: () => {},
  };
}

/** Commits a request, and throws what the queue notices. */
async function committed({ room = 0, calls = 1, lost = 0 }): Promise<void> {
  const broken = Promise.withResolvers<Error>();
  const queue = new CommitQueue({
    current: { planner: { plan: () => PLAN } },
    log: { append: async () => ({ positions: [0], held: [undefined] }) },
    clock: handClock(0),
    liveDelivery: { reserve: () => room, unreserve: () => {}, deliver: () => {}, parked: () => {} },
    newBatchId: () => 'b',
    onBroken: broken.resolve,
  });
  const loses = { ...request(calls), events: Array(1 + lost).fill(request().events[0]) };
  queue.add(loses);
  loses.events.splice(1);
  throw await broken.promise;
}

function waiting(work: (of: WaitingRequests<QueuedRequest>) => void): () => void {
  return () => work(new WaitingRequests());
}

describe('the commit queue', () =>
  itNotices([
    [
      'a call that was received is an event or was discarded',
      () => checkCounts({ events: [], received: request().counts }),
    ],
    ['a call that was received is an event or was discarded', () => committed({ calls: 2 })],
    ['a lane has room for a part of what it is asked for', () => committed({ room: 2 })],
    // A request that has lost an event when it is taken.
    ['an idle queue holds no event', () => committed({ lost: 1 })],
    [
      'a source has sent no fewer calls than none',
      () => new CallCountSums().add([{ source: 1, calls: -1, discarded: {} }]),
    ],
    ['a commit is made of a request at least', waiting((of) => of.takeGroup({ events: 1, bytes: 1 }))],
    [
      'no fewer events wait for a commit than none',
      waiting((of) => {
        const grows = { ...request(), events: [] as QueuedRequest['events'][number][] };
        of.add(grows, 0);
        grows.events.push(...request().events);
        of.takeGroup({ events: 1, bytes: 1 });
      }),
    ],
    ['no fewer bytes wait for a commit than none', waiting((of) => of.answered([request()]))],
    [
      'an idle queue holds no event',
      waiting((of) => {
        of.add(request(), 1);
        of.checkIdle();
      }),
    ],
    [
      'an idle queue holds no byte',
      waiting((of) => {
        of.add({ ...request(), events: [] }, 1);
        of.takeAll();
        of.checkIdle();
      }),
    ],
  ]));
