import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { sourceWith } from '../../test/support/sources.ts';
import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { InvariantError } from '../model/invariant.ts';
import { EMPTY_PLAN, type Plan } from '../model/plan.ts';
import type { LiveDelivery, ReadyDelivery } from '../ports/delivery-queue.ts';
import {
  type AppendResult,
  type Batch,
  type EventLog,
  RefusedContentError,
  StorageError,
} from '../ports/event-log.ts';
import { AcceptedEvent, acceptEvent } from './calls.ts';
import {
  arrivalOf,
  CallCountSums,
  CommitQueue,
  type CommitQueueDependencies,
  type Planner,
  type QueuedRequest,
} from './commit-queue.ts';

const NOW = 1_700_000_000_000;
const source = sourceWith({ writeKeys: ['k'] });
const settings = { endpoints: [], format: 'documented' } as const;
const crm: Destination = {
  id: 7,
  name: 'crm',
  type: 'webhooks',
  sources: ['website'],
  enabled: true,
  version: 1,
  settings,
};
const PLAN: Plan = { owed: [crm], skipped: [{ destination: 8, reason: 'destination_disabled' }] };

describe('a commit queue', () => {
  /** Appends the log was asked for and has not answered yet. */
  let asked: {
    batch: Batch;
    answer: (appended?: Partial<AppendResult>) => void;
    fail: (error?: Error) => void;
  }[];
  let dependencies: CommitQueueDependencies;
  let commits: CommitQueue;
  let said: string[];
  let room: number;
  let delivered: { destination: number; deliveries: readonly ReadyDelivery[] }[];
  let parked: { destination: number; at: number }[];
  /** A queue whose log commits in turn. */
  let inTurn: CommitQueue;

  beforeEach(() => {
    // Stands still: a turn must not count as a long one because the machine is busy.
    vi.useFakeTimers({ toFake: ['performance'] });
    asked = [];
    said = [];
    room = 1000;
    delivered = [];
    parked = [];
    const log = {
      append: (batch: Batch) =>
        new Promise<AppendResult>((resolve, reject) => {
          const positions = batch.events.map((_, index) => index);
          const held = batch.owed.map((owed) => (owed.state === 'held' ? 99 : undefined));
          const answer = (appended: Partial<AppendResult> = {}) => resolve({ positions, held, ...appended });
          const fail = (error: Error = new StorageError('the disk is full')) => reject(error);
          asked.push({ batch, answer, fail });
        }),
    } as Partial<EventLog> as EventLog;
    const deliverer: LiveDelivery = {
      reserve: (_destination, n) => {
        const taken = Math.min(n, room);
        room -= taken;
        return taken;
      },
      unreserve: (_destination, n) => {
        room += n;
      },
      deliver: (destination, deliveries) => delivered.push({ destination, deliveries }),
      parked: (destination, at) => parked.push({ destination, at }),
    };
    let batches = 0;
    dependencies = {
      log,
      liveDelivery: deliverer,
      current: {
        planner: {
          plan: () => PLAN,
        },
      },
      clock: handClock(NOW + 5000),
      newBatchId: () => `batch-${batches++}`,
    };
    commits = new CommitQueue(dependencies);
    inTurn = new CommitQueue({ ...dependencies, commitsInTurn: true });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const event = (messageId: string): Event => ({
    ...{ messageId, type: 'track', channel: 'server', context: {}, integrations: {} },
    ...{ timestamp: '', receivedAt: '' },
  });

  function call(name: string, ids: readonly string[], receivedAt = NOW): QueuedRequest {
    return {
      events: ids.map((id) => acceptEvent(source, event(id), JSON.stringify(event(id)))),
      counts: [{ source: 1, calls: ids.length, discarded: {} }],
      receivedAt,
      committed: (result) => {
        if ('error' in result) said.push(`${name} failed`);
        else
          said.push(
            `${name} ${ids.map((_, index) => (result.isDuplicate(index) ? 'duplicate' : 'stored')).join(' ')}`,
          );
      },
    };
  }

  function nextTurn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  /** Waits until answers have been taken in and the next batch has been requested. */
  async function settled(): Promise<void> {
    for (let turn = 0; turn < 4; turn++) await nextTurn();
  }

  it('hands over what is stored even when a call cannot be answered', async () => {
    let times = 0;
    const broken = () => {
      if (times++ === 0) throw new Error('a bug in answering');
    };
    commits.add({ ...call('a', ['1']), committed: broken });
    commits.add(call('b', ['2']));
    await settled();
    asked[0]!.answer();
    await settled();
    expect(delivered.flatMap(({ deliveries }) => deliveries)).toHaveLength(2);
  });

  it('stores the other calls of a group of which the store refuses one, each by itself', async () => {
    for (const name of ['a', 'b', 'c']) commits.add(call(name, [name]));
    await settled();
    expect(asked.map(({ batch }) => batch.events.length)).toEqual([3]);
    asked[0]!.fail(new RefusedContentError('54000 too large'));
    for (const nth of [1, 2, 3]) {
      await settled();
      if (nth === 2) asked[nth]!.fail(new RefusedContentError('54000 too large'));
      else asked[nth]!.answer();
    }
    await settled();
    expect(said).toEqual(['a stored', 'b failed', 'c stored']);
    expect(delivered.flatMap(({ deliveries }) => deliveries)).toHaveLength(2);
    // Whose room was given back, and whose bytes do not wait any more.
    expect(room).toBe(998);
    await commits.stop();
  });

  it('stores a lone call at once, and answers it only when the log has', async () => {
    commits.add(call('a', ['1']));
    await settled();
    expect(asked).toHaveLength(1);
    expect(said).toEqual([]);
    asked[0]!.answer();
    await settled();
    expect(said).toEqual(['a stored']);
  });

  it('makes one batch of everything that arrived while two commits were under way', async () => {
    for (const name of ['a', 'b']) {
      commits.add(call(name, [name]));
      await settled();
    }
    for (const name of ['c', 'd', 'e']) commits.add(call(name, [name]));
    await settled();
    expect(asked.map(({ batch }) => batch.events.length)).toEqual([1, 1]);
    asked[0]!.answer();
    await settled();
    expect(asked[2]!.batch.events.map(({ messageId }) => messageId)).toEqual(['c', 'd', 'e']);
    expect(asked[2]!.batch.received).toEqual([{ source: 1, calls: 3, discarded: {} }]);
  });

  it('has answered everything only when both commits under way have ended, in whichever order', async () => {
    commits.add(call('a', ['1']));
    await settled();
    const all = commits.answered().then(() => said.push('all'));
    await settled();
    asked[1]!.answer();
    await settled();
    expect(said).not.toContain('all');
    asked[0]!.answer();
    await all;
    expect(said.at(-1)).toBe('all');
  });

  it('makes one batch of everything that arrives in the same turn', async () => {
    for (const name of ['a', 'b', 'c']) commits.add(call(name, [name]));
    await settled();
    expect(asked.map(({ batch }) => batch.events.map(({ messageId }) => messageId))).toEqual([
      ['a', 'b', 'c'],
    ]);
  });

  it('makes one batch of everything that arrives in turns behind each other', async () => {
    for (const name of ['a', 'b', 'c', 'd']) {
      commits.add(call(name, [name]));
      await nextTurn();
    }
    await settled();
    expect(asked.map(({ batch }) => batch.events.length)).toEqual([4]);
  });

  it('does not wait for the end of a stream of calls', async () => {
    const oneMore = () => {
      commits.add(call('a', ['1']));
      return nextTurn();
    };
    for (let turn = 0; turn < 100; turn++) await oneMore();
    expect(asked).toEqual([]);
    vi.advanceTimersByTime(1);
    await oneMore();
    expect(asked.map(({ batch }) => batch.events.length)).toEqual([101]);
  });

  describe('of a log that commits in turn', () => {
    const manyIds = Array.from({ length: 250 }, (_, id) => String(id));

    it('keeps few events until the commit under way has ended', async () => {
      inTurn.add(call('a', ['a']));
      await settled();
      for (const name of ['b', 'c']) {
        inTurn.add(call(name, [name]));
        await settled();
      }
      expect(asked).toHaveLength(1);
      asked[0]!.answer();
      await settled();
      expect(asked[1]!.batch.events.map(({ messageId }) => messageId)).toEqual(['b', 'c']);
    });

    it('prepares a commit of many events beside the one under way, and no third', async () => {
      inTurn.add(call('a', ['a']));
      await settled();
      for (const name of ['b', 'c']) {
        inTurn.add(call(name, manyIds));
        await settled();
      }
      expect(asked.map(({ batch }) => batch.events.length)).toEqual([1, 250]);
    });

    it('has answered everything only when the commit under way has ended', async () => {
      inTurn.add(call('a', ['1']));
      await settled();
      const all = inTurn.answered().then(() => said.push('all'));
      await settled();
      expect(said).toEqual([]);
      asked[0]!.answer();
      await settled();
      asked[1]!.answer();
      await all;
      expect(said).toEqual(['a stored', 'all']);
    });

    it('stores what waited although the commit before it has failed', async () => {
      inTurn.add(call('a', ['1']));
      await settled();
      inTurn.add(call('b', ['2']));
      asked[0]!.fail();
      await settled();
      asked[1]!.answer();
      await settled();
      expect(said).toEqual(['a failed', 'b stored']);
    });
  });

  it('plans before the commit: what is owed and what is skipped is in the batch', async () => {
    commits.add(call('a', ['1', '2']));
    await settled();
    expect(asked[0]!.batch.owed).toEqual([{ destination: 7, state: 'held', indexes: [0, 1] }]);
    expect(asked[0]!.batch.plans).toEqual([PLAN]);
    expect(asked[0]!.batch.planIndexes).toEqual([0, 0]);
  });

  it('hands held deliveries over after the commit and gives back the room of duplicates', async () => {
    commits.add(call('a', ['1', '2', '3']));
    await settled();
    expect(room).toBe(997);
    asked[0]!.answer({ positions: [40, undefined, 41] });
    await settled();
    expect(delivered).toHaveLength(1);
    expect(delivered[0]!.deliveries.map(({ set, delivery }) => [set, delivery.position])).toEqual([
      [99, 40],
      [99, 41],
    ]);
    expect(room).toBe(998);
    expect(said).toEqual(['a stored duplicate stored']);
  });

  it('parks what finds no room, and says so when it is on disk', async () => {
    room = 0;
    commits.add(call('a', ['1', '2']));
    await settled();
    expect(asked[0]!.batch.owed).toEqual([{ destination: 7, state: 'parked', indexes: [0, 1] }]);
    expect(parked).toEqual([]);
    asked[0]!.answer();
    await settled();
    expect(parked).toEqual([{ destination: 7, at: NOW }]);
    expect(delivered).toEqual([]);
  });

  it('hands over as many as there is room for, and parks the rest', async () => {
    room = 2;
    commits.add(call('a', ['1', '2', '3']));
    await settled();
    expect(asked[0]!.batch.owed).toEqual([
      { destination: 7, state: 'held', indexes: [0, 1] },
      { destination: 7, state: 'parked', indexes: [2] },
    ]);
    asked[0]!.answer();
    await settled();
    expect(delivered[0]!.deliveries.map(({ delivery }) => delivery.position)).toEqual([0, 1]);
    expect(parked).toEqual([{ destination: 7, at: NOW }]);
  });

  it.each([
    ['events', 600, 10, [2400, 600]],
    ['bytes', 10, 100_000, [30, 10]],
  ])('makes another batch when one holds enough %s', async (_, events, bytes, batches) => {
    for (let nth = 0; nth < batches.reduce((sum, n) => sum + n, 0) / events; nth++) {
      const one = call(
        `call ${nth}`,
        Array.from({ length: events }, (__, id) => `${nth}-${id}`),
      );
      const heavy = one.events.map(({ messageId }) =>
        acceptEvent(source, event(messageId), 'x'.repeat(bytes)),
      );
      commits.add({ ...one, events: heavy });
    }
    await settled();
    expect(asked.map(({ batch }) => batch.events.length)).toEqual(batches);
  });

  it('fails every call of a batch that could not be stored, and takes the reservation back', async () => {
    commits.add(call('a', ['1']));
    await settled();
    asked[0]!.fail();
    await settled();
    expect(said).toEqual(['a failed']);
    expect(room).toBe(1000);
    expect(delivered).toEqual([]);
    // The log may have stored the batch all the same, and parked it.
    expect(parked).toEqual([{ destination: 7, at: NOW }]);
  });

  it('takes no more when too many bytes wait for the disk, and takes calls again when they are stored', async () => {
    const heavy = {
      ...call('heavy', ['1']),
      events: [acceptEvent(source, event('1'), 'x'.repeat(31 * 2 ** 20))],
    };
    expect(commits.add(heavy)).toBe(true);
    const another = { ...heavy, events: [acceptEvent(source, event('2'), 'x'.repeat(2 * 2 ** 20))] };
    expect(commits.add(another)).toBe(false);
    await settled();
    asked[0]!.answer();
    await settled();
    expect(commits.add(another)).toBe(true);
    await settled();
    expect(asked).toHaveLength(2);
  });

  it('stops only when what has just been taken is answered too', async () => {
    commits.add(call('a', ['1']));
    const stopping = commits.stop();
    await settled();
    asked[0]!.answer();
    await stopping;
    expect(said).toEqual(['a stored']);
  });

  it('stops at once when nothing waits, and not before the commit under way has ended', async () => {
    await commits.stop();
    expect(commits.isBusy).toBe(false);
    commits.add(call('a', ['1']));
    await settled();
    expect(commits.isBusy).toBe(true);
    const stopping = commits.stop().then(() => said.push('stopped'));
    await settled();
    expect(said).toEqual([]);
    asked[0]!.answer();
    await stopping;
    expect(said).toEqual(['a stored', 'stopped']);
    expect(commits.isBusy).toBe(false);
  });

  it('refuses what waits for a store that does not answer, and tells what is under way', async () => {
    const told = (name: string): QueuedRequest => ({
      ...call(name, [name]),
      refused: () => said.push(`${name} refused`),
    });
    for (const request of [told('a'), call('b', ['b'])]) inTurn.add(request);
    await settled();
    inTurn.add(told('c'));
    inTurn.add(call('d', ['d']));
    inTurn.refuse(new StorageError('the database does not answer'));
    // Of "a" and "b" the answer may still come; "c" and "d" are never stored.
    expect(said).toEqual(['c refused', 'd failed', 'a refused']);
    asked[0]!.answer();
    await settled();
    expect(said).toEqual(['c refused', 'd failed', 'a refused', 'a stored', 'b stored']);
    expect(asked).toHaveLength(1);
  });

  it('waits for the calls of a turn again after a commit, however long ago that was', async () => {
    commits.add(call('a', ['1']));
    await settled();
    asked[0]!.answer();
    await settled();
    vi.advanceTimersByTime(1000);
    for (const name of ['b', 'c', 'd']) {
      commits.add(call(name, [name]));
      await nextTurn();
    }
    await settled();
    expect(asked.map(({ batch }) => batch.events.length)).toEqual([1, 3]);
  });

  it('waits for more calls after a lone one, as after many', async () => {
    for (const name of ['a', 'b', 'c']) commits.add(call(name, [name]));
    await settled();
    for (const name of ['d', 'e']) {
      commits.add(call(name, [name]));
      await nextTurn();
    }
    await settled();
    expect(asked.map(({ batch }) => batch.events.length)).toEqual([3, 2]);
  });

  it('tells each call of a batch which of its own events were duplicates', async () => {
    commits.add(call('a', ['1', '2']));
    commits.add(call('b', ['3', '4']));
    commits.add(call('c', ['5']));
    await settled();
    asked[0]!.answer({ positions: [40, undefined, undefined, 41, 42] });
    await settled();
    expect(said).toEqual(['a stored duplicate', 'b duplicate stored', 'c stored']);
  });

  it('tells how long a commit took, each call waited, and which events belong to a trace', async () => {
    const told: unknown[] = [];
    const queue = new CommitQueue({
      ...dependencies,
      log: {
        append: (batch) => {
          vi.advanceTimersByTime(3);
          return dependencies.log.append(batch);
        },
      },
      onCommit: () => told.push('commit'),
      worked: (duration) => told.push({ duration }),
      recorder: { callsStored: (...stored) => told.push({ stored }) },
      traceContexts: { set: (position, traceparent) => told.push({ position, traceparent }) },
    });
    vi.advanceTimersByTime(50);
    queue.add(call('a', ['1', '2'], NOW + 4000));
    queue.add({ ...call('b', ['3', '4', '5']), traceparent: '00-b' });
    queue.add({ ...call('none', []), traceparent: '00-none' });
    // After the wall clock was set back.
    queue.add({ ...call('c', ['6'], NOW + 9000), traceparent: '00-c' });
    await settled();
    expect(told.splice(0)).toEqual(['commit', { duration: 3 }]);
    asked[0]!.answer({ positions: [40, 41, 42, undefined, 43, 44] });
    await settled();
    expect(told).toEqual([
      { position: 42, traceparent: '00-b' },
      { position: 43, traceparent: '00-b' },
      { position: 44, traceparent: '00-c' },
      { stored: [source.id, 1000, 2] },
      { stored: [source.id, 5000, 3] },
      { stored: [source.id, 0, 1] },
    ]);
  });

  it('stores calls of a trace that nobody follows', async () => {
    commits.add({ ...call('a', ['1']), traceparent: '00-a' });
    await settled();
    asked[0]!.answer();
    await settled();
    expect(said).toEqual(['a stored']);
  });

  describe('plans', () => {
    const COMMON: Plan = { owed: [], skipped: [{ destination: 9, reason: 'destination_disabled' }] };
    const empty = acceptEvent(source, event('1'), JSON.stringify(event('1')));
    const events = [empty, new AcceptedEvent(source, { ...empty.line, hasNoIntegrations: true })];

    async function plansWith(planner: Partial<Planner>) {
      const plan = () => PLAN;
      const queue = new CommitQueue({ ...dependencies, current: { planner: { plan, ...planner } } });
      queue.add({ ...call('a', ['1', '2']), events });
      await settled();
      const { plans, planIndexes } = asked[0]!.batch;
      return planIndexes.map((index) => plans[index]);
    }

    it('the events without integrations alike, where the planner can', async () => {
      expect(await plansWith({ commonPlan: () => COMMON })).toEqual([PLAN, COMMON]);
    });

    it('each event by itself where the plan depends on it', async () => {
      expect(await plansWith({ commonPlan: () => undefined })).toEqual([PLAN, PLAN]);
    });

    it('nothing for a source without destinations', async () => {
      expect(await plansWith({ hasDestinations: () => false })).toEqual([EMPTY_PLAN, EMPTY_PLAN]);
      expect(delivered).toEqual([]);
    });

    it('what it has for a source with destinations', async () => {
      expect(await plansWith({ hasDestinations: () => true })).toEqual([PLAN, PLAN]);
    });
  });

  describe('in which an invariant does not hold', () => {
    it('tells nobody that his call failed', async () => {
      const broken: string[] = [];
      const queue = new CommitQueue({ ...dependencies, onBroken: ({ message }) => broken.push(message) });
      queue.add(call('a', ['1']));
      await settled();
      asked[0]!.fail(new InvariantError('a log is whole'));
      await settled();
      expect(broken[0]).toBe('a log is whole');
      expect(said).toEqual([]);
    });

    it('ends the process', async () => {
      const thrown: unknown[] = [];
      const catching = (work: () => void) => {
        try {
          work();
        } catch (error) {
          thrown.push(error);
        }
      };
      vi.spyOn(globalThis, 'queueMicrotask').mockImplementation(catching);
      commits.add(call('a', ['1']));
      await settled();
      const error = new InvariantError('a log is whole');
      asked[0]!.fail(error);
      await settled();
      vi.restoreAllMocks();
      expect(thrown[0]).toBe(error);
    });
  });
});

describe('counts of calls', () => {
  it('are sums by source and reason, and given out once', () => {
    const sums = new CallCountSums();
    sums.add([
      { source: 1, calls: 3, discarded: { too_large: 1 } },
      { source: 2, calls: 0, discarded: {} },
    ]);
    sums.add([{ source: 1, calls: 4, discarded: { too_large: 2, invalid: 1 } }]);
    expect(sums.isEmpty).toBe(false);
    expect(sums.take()).toEqual([
      { source: 1, calls: 7, discarded: { too_large: 3, invalid: 1 } },
      { source: 2, calls: 0, discarded: {} },
    ]);
    expect(sums.isEmpty).toBe(true);
    expect(sums.take()).toEqual([]);
  });
});

describe('the arrival of a call', () => {
  it('is on the monotonic clock, never in the future, and never long ago', () => {
    const ahead = 500_000;
    const at = (age: number) => NOW - arrivalOf(NOW + ahead - age, handClock(NOW + ahead, ahead));
    const TEN_MINUTES = 600_000;
    expect(at(7)).toBe(7);
    expect(at(-1)).toBe(0);
    expect(at(TEN_MINUTES)).toBe(TEN_MINUTES);
    expect(at(TEN_MINUTES + 1)).toBe(0);
  });
});
