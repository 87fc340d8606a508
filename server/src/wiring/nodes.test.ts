import { describe, expect, it } from 'vitest';
import { type HandClock, handClock } from '../../test/support/clock.ts';
import { WHOLE_SHARE } from '../delivery/rate-limiter.ts';
import type { Position } from '../model/event.ts';
import type { NodeStatus, SingleJob } from '../model/node.ts';
import { SECOND } from '../model/time.ts';
import type { Acknowledged, LeaseFollower, Nodes, NodeToWaitFor } from '../ports/nodes.ts';
import { callsStored, createSingleJobs, deliveriesOfAll, joinNodes, rolesOf, sendingGate } from './nodes.ts';

/** This node beside others. The test says what the database answers. */
class Database implements Nodes {
  readonly events: string[];
  lease = true;
  follower: LeaseFollower | undefined;
  made = { settings: 1, suppressions: 2, erasures: 0 };
  done = { suppressions: 2, erasures: 0 };
  erased: Position[] = [];
  nodes: Partial<NodeStatus>[] = [];
  left: readonly NodeToWaitFor[] = [];

  constructor(events: string[]) {
    this.events = events;
  }

  readonly maySend = () => this.lease;
  readonly problems = () => [];
  follow(follower: LeaseFollower): void {
    this.follower = follower;
  }
  list = async () => this.nodes as NodeStatus[];
  gone = async () => [];
  database = () => Promise.reject(new Error('nobody asks'));
  take = async (job: SingleJob) => this.events.push(`takes ${job}`) > 0;
  giveBack = async (job: SingleJob) => void this.events.push(`gives ${job} back`);
  changes = async () => ({ ...this.made, acknowledged: this.done });
  erasedAfter = async () => this.erased;
  acknowledge = async (done: Partial<Acknowledged>) => {
    this.events.push(`acknowledges ${JSON.stringify(done)}`);
    this.done = { ...this.done, ...done };
  };
  toWaitFor = async (asked: Partial<Acknowledged>) => {
    this.events.push(`waits for ${JSON.stringify(asked)}`);
    return this.left;
  };
  takeProbe = async () => 0;
  giveBackProbe = async () => {};
}

/** A node that has joined. Whatever its parts are told is an event; `slow` are those that do not answer. */
function joined({ isAlone = false } = {}) {
  const events: string[] = [];
  const clock = handClock(0);
  const database = new Database(events);
  const slow = new Map<string, Promise<void>>();
  const tell = async (what: string) => {
    events.push(what);
    await slow.get(what);
  };
  const node = joinNodes({
    store: {
      ...(isAlone ? {} : { nodes: database }),
      queue: { recoverOrphans: () => tell('adopts').then(() => 0) },
    },
    clock,
    config: {},
    options: { logger: { info: () => {}, warn: (_, event) => void events.push(String(event)) } },
    settings: { reload: () => tell('reads settings') as Promise<never> },
    regulations: { reload: () => tell('reads regulations') },
    ingest: { answered: () => tell('calls answered') },
    reports: { forget: (mentions) => void events.push(`reports forget ${mentions('anybody')}`) },
    jobs: {
      lost: () => tell('jobs lost'),
      start: () => void events.push('jobs start'),
      stop: () => tell('jobs stop'),
    },
    dispatcher: {
      forget: () => tell('forgets'),
      lookAtDisk: () => tell('looks at disk'),
      shareWith: ({ nodes, place }) => void events.push(`share ${place} of ${nodes}`),
      drop: (positions) => void events.push(`drops ${positions}`),
      requestsEnded: (limit) => tell(`requests end within ${limit}`),
      redact: (mentions) => tell(`redacts ${mentions('anybody')}`),
    },
  });
  return { node, events, clock, database, slow, take: () => events.splice(0) };
}

const deliverer = (isSelf: boolean, leaseLeft = 1): Partial<NodeStatus> => ({
  isSelf,
  leaseLeft,
  roles: ['deliver'],
});

describe('the roles of a node', () => {
  it('are all of them, unless its configuration has some', () => {
    expect(rolesOf({})).toEqual(['ingest', 'deliver', 'users', 'control']);
    expect(rolesOf({ roles: ['users'] })).toEqual(['users']);
  });

  it('say whether it sends: with its lease and the role, or always where it is alone', () => {
    const nodes = new Database([]);
    const { maySend } = sendingGate({ nodes }, { roles: ['deliver'] }, {});
    expect(maySend!()).toBe(true);
    nodes.lease = false;
    expect(maySend!()).toBe(false);
    nodes.lease = true;
    expect(sendingGate({ nodes }, { roles: ['ingest'] }, {}).maySend!()).toBe(false);
    expect(sendingGate({ nodes }, {}, { isSending: false }).maySend!()).toBe(false);
    expect(sendingGate({}, {}, { isSending: false }).maySend!()).toBe(false);
    expect(sendingGate({}, {}, { isSending: 'held' })).toEqual({
      maySend: expect.any(Function),
      heldBack: expect.stringContaining('--deliver'),
    });
    expect(sendingGate({}, {}, {})).toEqual({});
  });

  it.each([
    [['deliver'], ['maintenance', 'replays', 'alerts']],
    [['users'], ['maintenance', 'replays', 'users']],
    [undefined, ['maintenance', 'replays', 'users', 'alerts']],
  ] as const)('say which jobs it asks for: %o', async (roles, asked) => {
    const events: string[] = [];
    const clock = handClock(0);
    const logger = { info: () => {}, warn: () => {} };
    const config = roles === undefined ? {} : { roles: [...roles] };
    const jobs = createSingleJobs({
      store: { nodes: new Database(events) },
      clock,
      config,
      options: { logger },
    });
    for (const job of ['maintenance', 'replays', 'users', 'alerts'] as const)
      await jobs.add(job, { start: () => {}, stop: () => {} });
    jobs.start();
    await clock.settle();
    expect(events).toEqual(asked.map((job) => `takes ${job}`));
    await jobs.stop();
  });
});

describe('a node', () => {
  it('that is alone only stops its jobs', async () => {
    const { node, clock, take } = joined({ isAlone: true });
    await clock.pass(5 * SECOND);
    expect(take()).toEqual([]);
    await node.stop();
    expect(take()).toEqual(['jobs stop']);
  });

  it('follows the others and asks for jobs until it stops', async () => {
    const { node, clock, take } = joined();
    await clock.settle();
    expect(take()).toEqual([
      'jobs start',
      'reads settings',
      'reads regulations',
      'adopts',
      'share 0 of 1',
      'looks at disk',
    ]);
    await node.stop();
    expect(take()).toEqual(['jobs stop']);
    await clock.pass(10 * SECOND);
    expect(take()).toEqual([]);
  });

  it('has lost its lease when nothing is under way any more', async () => {
    const { node, clock, take, database, slow } = joined();
    await clock.settle();
    take();
    for (const part of ['forgets', 'jobs lost', 'calls answered']) {
      const answer = Promise.withResolvers<void>();
      slow.set(part, answer.promise);
      let isOver = false;
      const lost = database.follower!.lost().then(() => (isOver = true));
      await clock.settle();
      expect(take()).toEqual(['forgets', 'jobs lost', 'calls answered']);
      expect(isOver, part).toBe(false);
      answer.resolve();
      await lost;
    }
    await node.stop();
  });

  it('knows who is suppressed before it takes anything up again', async () => {
    const { node, clock, take, database } = joined();
    await clock.settle();
    take();
    await database.follower!.catchUp();
    expect(take()).toEqual(['reads regulations']);
    await node.stop();
  });

  it('looks at the disk when it has joined again, and the log says when it could not', async () => {
    const { node, clock, take, database, slow } = joined();
    await clock.settle();
    take();
    slow.set('looks at disk', Promise.reject(new Error('away')));
    database.follower!.joined();
    await clock.settle();
    expect(take()).toEqual(['looks at disk', 'backlog.not_read']);
    await node.stop();
  });

  it('asks more often while it waits for the others itself', async () => {
    const { node, clock, take, database } = joined();
    await clock.pass(500);
    take();
    database.made.settings++;
    database.follower!.awaited();
    await clock.settle();
    expect(take()).toEqual(['reads settings']);
    await node.stop();
  });

  it('acknowledges what others erased when no memory of it is left', async () => {
    const { node, clock, take, database } = joined();
    await clock.settle();
    take();
    database.erased = [7];
    database.made.erasures = 1;
    await clock.pass(SECOND);
    expect(take()).toEqual([
      'drops 7',
      'reports forget true',
      'calls answered',
      'drops 7',
      'reports forget true',
      'requests end within 6000',
      'redacts true',
      'acknowledges {"erasures":1}',
    ]);
    await node.stop();
  });

  it('has its part in the limits of destinations beside the nodes that deliver and have their lease', async () => {
    const { node, clock, take, database } = joined();
    database.nodes = [
      deliverer(false, 0),
      { ...deliverer(false), roles: ['ingest'] },
      deliverer(false),
      deliverer(true),
      deliverer(false),
    ];
    await clock.pass(3 * SECOND);
    expect(take()).toContain('share 1 of 3');
    database.nodes = [deliverer(true), deliverer(false)];
    await clock.pass(3 * SECOND);
    expect(take()).toContain('share 0 of 2');
    // Without a lease it sends nothing; whatever is in flight is not held back.
    database.nodes = [deliverer(true, 0), deliverer(false)];
    await clock.pass(3 * SECOND);
    expect(take()).toContain(`share ${WHOLE_SHARE.place} of ${WHOLE_SHARE.nodes}`);
    await node.stop();
  });
});

/** The memory of deliveries of all nodes, and the waits of a deletion. */
function deletion(clock: HandClock, { isAlone = false } = {}) {
  const events: string[] = [];
  const database = new Database(events);
  const dispatcher = {
    drop: (positions: readonly Position[]) => void events.push(`drops ${positions}`),
    parked: (lane: number, at: number) => void events.push(`parked ${lane} at ${at}`),
    redact: async () => void events.push('redacts'),
    requestsEnded: async (limit: number) => void events.push(`requests end within ${limit}`),
  };
  const store = isAlone ? {} : { nodes: database };
  const ingest = { answered: async () => void events.push('calls answered') };
  const checkStop = () => void events.push('may go on');
  return {
    events,
    database,
    dispatcher,
    store,
    ingest,
    checkStop,
    memory: deliveriesOfAll({ store, ingest, clock }, dispatcher),
  };
}

describe('a deletion', () => {
  it('of the only process has its own memory alone', async () => {
    const clock = handClock(0);
    const { memory, dispatcher, store, ingest, events } = deletion(clock, { isAlone: true });
    expect(memory).toBe(dispatcher);
    await callsStored({ store, ingest, clock }, () => {});
    expect(events).toEqual(['calls answered']);
  });

  it('drops what a call brings into memory after its erasure, and waits for this node and the others', async () => {
    const clock = handClock(0);
    const { memory, database, events, checkStop } = deletion(clock);
    memory.drop([1, 2]);
    memory.drop([3]);
    database.made.erasures = 5;
    database.left = [{ state: 'behind', name: 'b' }];
    let isOver = false;
    const ended = memory.requestsEnded(600, checkStop).then(() => (isOver = true));
    await clock.pass(50);
    expect(isOver).toBe(false);
    database.left = [];
    await clock.pass(50);
    await ended;
    expect(events).toEqual([
      'drops 1,2',
      'drops 3',
      'calls answered',
      'drops 1,2',
      'drops 3',
      'requests end within 600',
      ...Array.from({ length: 3 }, () => ['may go on', 'waits for {"erasures":5}']).flat(),
    ]);
    events.length = 0;
    await memory.requestsEnded(600, checkStop);
    expect(events).not.toContain('drops 3');
    memory.parked(1, 2);
    await memory.redact(() => true);
    expect(events.slice(-2)).toEqual(['parked 1 at 2', 'redacts']);
  });

  it.each([
    ['of an earlier version', () => ({ state: 'earlier_version', name: 'b' }) as const, 4600],
    ['that is gone', (waited: number) => ({ state: 'gone', goneFor: waited }) as const, 600],
  ])('waits for the requests of a node %s', async (_, nodeAfter, limit) => {
    const clock = handClock(0);
    const { memory, database } = deletion(clock);
    Object.defineProperty(database, 'left', { get: () => [nodeAfter(clock.monotonic())] });
    let isOver = false;
    const ended = memory.requestsEnded(600, () => {}).then(() => (isOver = true));
    await clock.pass(limit);
    expect(isOver).toBe(false);
    await clock.pass(50);
    await ended;
  });

  it('waits until the calls of all nodes are stored', async () => {
    const clock = handClock(0);
    const { store, ingest, database, events } = deletion(clock);
    database.left = [{ state: 'earlier_version', name: 'b' }];
    const stored = callsStored({ store, ingest, clock }, () => {});
    await clock.pass(4 * SECOND);
    expect(events).not.toContain('calls answered');
    expect(events[0]).toBe('waits for {"suppressions":2}');
    await clock.pass(50);
    await stored;
    expect(events.at(-1)).toBe('calls answered');
  });
});
