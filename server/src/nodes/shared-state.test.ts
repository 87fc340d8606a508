import { describe, expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { SECOND } from '../model/time.ts';
import type { Acknowledged, SharedChanges } from '../ports/nodes.ts';
import { SharedState, type SharedStateDependencies } from './shared-state.ts';

describe('what a node knows of the others', () => {
  it('is read again and again at a fifth of the time while suppressions change, and acknowledged as far as it was read', async () => {
    const clock = handClock(100 * SECOND);
    const none = { suppressions: 0, erasures: 0 };
    let made = 1;
    const read: number[] = [];
    const acknowledged: number[] = [];
    const shared = new SharedState({
      nodes: {
        changes: () => Promise.resolve({ ...none, settings: 1, suppressions: made, acknowledged: none }),
        erasedAfter: () => Promise.resolve([]),
        acknowledge: ({ suppressions }) => Promise.resolve(void acknowledged.push(suppressions!)),
        maySend: () => true,
      },
      reloadSettings: () => Promise.resolve(),
      // A million of them.
      reloadSuppressions: () => {
        read.push(made);
        return new Promise<void>((resolve) => clock.after(200, resolve));
      },
      callsStored: () => Promise.resolve(),
      dropErased: () => {},
      erasedForgotten: () => Promise.resolve(),
      adopt: () => Promise.resolve(0),
      lookAtDisk: () => Promise.resolve(),
      clock,
      logger: { info: () => {}, warn: () => {} },
    });
    shared.start();
    for (let nth = 0; nth < 100; nth++) {
      await clock.pass(100);
      made++;
    }
    // In ten seconds.
    expect(read.length).toBeGreaterThan(9);
    expect(read.length).toBeLessThan(12);
    await clock.pass(2 * SECOND);
    expect(read.at(-1)).toBe(made);
    expect(acknowledged.at(-1)).toBe(made);
    expect(acknowledged.every((number) => read.includes(number))).toBe(true);
    await shared.stop();
  });

  it('heeds suppressions and erasures while it cannot read the settings, and asks for these again', async () => {
    const clock = handClock(0);
    const none = { suppressions: 0, erasures: 0 };
    let changes: SharedChanges = { settings: 1, ...none, acknowledged: none };
    const events: string[] = [];
    let isReadable = true;
    const shared = new SharedState({
      nodes: {
        changes: () => Promise.resolve(changes),
        erasedAfter: (number) => Promise.resolve(number < changes.erasures ? [7] : []),
        acknowledge: () => Promise.resolve(),
        maySend: () => true,
      },
      reloadSettings: () => {
        events.push(isReadable ? 'settings' : 'unreadable');
        return isReadable ? Promise.resolve() : Promise.reject(new Error('no key'));
      },
      reloadSuppressions: () => Promise.resolve(events.push('suppressions')),
      callsStored: () => Promise.resolve(),
      dropErased: (positions) => events.push(`erased ${positions}`),
      erasedForgotten: () => Promise.resolve(),
      adopt: () => Promise.resolve(events.push('adopt')).then(() => 0),
      lookAtDisk: () => Promise.resolve(),
      clock,
      logger: { info: () => {}, warn: (_, event) => events.push(String(event)) },
    });
    shared.start();
    await clock.settle();
    events.length = 0;
    isReadable = false;
    changes = { settings: 2, suppressions: 1, erasures: 1, acknowledged: none };
    await clock.pass(4 * SECOND);
    expect(new Set(events)).toEqual(
      new Set(['unreadable', 'suppressions', 'erased 7', 'nodes.not_followed', 'adopt']),
    );
    expect(events.filter((one) => one === 'nodes.not_followed')).toHaveLength(1);
    events.length = 0;
    isReadable = true;
    await clock.pass(SECOND);
    expect(events).toContain('settings');
    await shared.stop();
  });
});

/**
 * A node beside a database in which others make changes. `events`: everything that the node does, each with
 * the second at which it does it.
 */
function follower(changed: Partial<SharedStateDependencies> = {}) {
  const clock = handClock(0);
  const events: string[] = [];
  const database = {
    changes: { settings: 1, suppressions: 0, erasures: 0 },
    acknowledged: { suppressions: 0, erasures: 0 },
    /** Positions of each erasure, by its number less one. */
    erased: [] as number[][],
    isAway: false,
    maySend: true,
    adopted: 0,
  };
  const note = (what: string) => void events.push(`${clock.monotonic() / SECOND} ${what}`);
  const answer = (what: string) => () => Promise.resolve(note(what));
  const whileThere = () => (database.isAway ? Promise.reject(new Error('away')) : Promise.resolve());
  const shared = new SharedState({
    nodes: {
      changes: async () => {
        note('asks');
        await whileThere();
        return { ...database.changes, acknowledged: { ...database.acknowledged } };
      },
      erasedAfter: async (number) => {
        note(`reads erasures after ${number}`);
        return database.erased.slice(number).flat();
      },
      acknowledge: async (done: Partial<Acknowledged>) => {
        note(`acknowledges ${JSON.stringify(done)}`);
        await whileThere();
        Object.assign(database.acknowledged, done);
      },
      maySend: () => database.maySend,
    },
    reloadSettings: answer('reads settings'),
    reloadSuppressions: answer('reads suppressions'),
    callsStored: answer('calls are stored'),
    dropErased: (positions) => note(`drops ${positions}`),
    erasedForgotten: answer('has forgotten'),
    adopt: async () => {
      note('adopts');
      return database.adopted;
    },
    lookAtDisk: answer('looks at disk'),
    clock,
    logger: {
      info: (facts, event) => note(`${event} ${JSON.stringify(facts)}`),
      warn: (_, event) => note(String(event)),
    },
    ...changed,
  });
  const erase = (...positions: number[]) => {
    database.erased.push(positions);
    database.changes.erasures++;
  };
  return { clock, shared, database, erase, note, take: () => events.splice(0) };
}

/** Seconds of the events that are this one. */
const secondsOf = (events: readonly string[], what: string) =>
  events.filter((event) => event.endsWith(` ${what}`)).map((event) => Number.parseFloat(event));

describe('a node that follows the others', () => {
  it('reads everything at the beginning, then asks every second, and reads only what has changed', async () => {
    const { clock, shared, database, take } = follower();
    shared.start();
    await clock.settle();
    expect(take()).toEqual([
      '0 asks',
      '0 reads settings',
      '0 reads suppressions',
      '0 reads erasures after 0',
      '0 adopts',
      '0 looks at disk',
    ]);
    await clock.pass(2 * SECOND);
    expect(take()).toEqual(['1 asks', '2 asks']);
    database.changes.settings++;
    await clock.pass(2 * SECOND);
    expect(take()).toEqual(['3 asks', '3 reads settings', '3 adopts', '3 looks at disk', '4 asks']);
    await shared.stop();
    await clock.pass(5 * SECOND);
    expect(take()).toEqual([]);
  });

  it('looks for parked deliveries every 3 s while it may send, and says when it has taken some over', async () => {
    const { clock, shared, database, take } = follower();
    shared.start();
    await clock.pass(7 * SECOND);
    const events = take();
    expect(secondsOf(events, 'adopts')).toEqual([0, 3, 6]);
    expect(events.join()).not.toContain('backlog.adopted');
    database.maySend = false;
    await clock.pass(5 * SECOND);
    expect(take().filter((event) => !event.endsWith('asks'))).toEqual([]);
    database.maySend = true;
    database.adopted = 7;
    await clock.pass(3 * SECOND);
    expect(take()).toEqual([
      '13 asks',
      '14 asks',
      '15 asks',
      '15 adopts',
      '15 backlog.adopted {"deliveries":7}',
      '15 looks at disk',
    ]);
    await shared.stop();
  });

  it('asks at once and ten times a second while it hurries, five seconds from the last word', async () => {
    const { clock, shared, take } = follower();
    shared.start();
    await clock.pass(500);
    take();
    shared.hurry();
    await clock.settle();
    expect(secondsOf(take(), 'asks')).toEqual([0.5]);
    await clock.pass(250);
    expect(secondsOf(take(), 'asks')).toEqual([0.6, 0.7]);
    // Once is enough: thousands of slices of a deletion say it.
    shared.hurry();
    await clock.settle();
    expect(take()).toEqual([]);
    await clock.pass(8 * SECOND);
    const asks = secondsOf(take(), 'asks');
    expect(asks.filter((at) => at < 5.75)).toHaveLength(50);
    expect(asks.filter((at) => at >= 5.75)).toEqual([5.8, 6.8, 7.8]);
    await shared.stop();
  });

  it.each(['suppressions', 'erasures'] as const)('hurries when others have changed %s', async (what) => {
    const { clock, shared, database, erase, take } = follower();
    shared.start();
    await clock.settle();
    if (what === 'erasures') erase(1);
    else database.changes.suppressions++;
    await clock.pass(1500);
    expect(secondsOf(take(), 'asks')).toEqual([0, 1, 1.1, 1.2, 1.3, 1.4, 1.5]);
    await shared.stop();
  });

  it('does not hurry for changes of settings, nor for what it finds at its start', async () => {
    const { clock, shared, database, erase, take } = follower();
    erase(1);
    database.changes.suppressions = 4;
    shared.start();
    await clock.settle();
    database.changes.settings++;
    await clock.pass(3 * SECOND);
    expect(secondsOf(take(), 'asks')).toEqual([0, 1, 2, 3]);
    await shared.stop();
  });

  it('acknowledges suppressions when the calls that came before are stored', async () => {
    const { clock, shared, database, take } = follower({ callsStored: () => stored.promise });
    const stored = Promise.withResolvers<void>();
    database.changes.suppressions = 4;
    shared.start();
    await clock.pass(2 * SECOND);
    expect(take().join()).not.toContain('acknowledges');
    stored.resolve();
    await clock.settle();
    expect(take()).toEqual(['2 acknowledges {"suppressions":4}']);
    await clock.pass(3 * SECOND);
    expect(take().join()).not.toContain('acknowledges');
    await shared.stop();
  });

  it('drops erased events, once more when the calls are stored, and acknowledges when it has forgotten them', async () => {
    const { clock, shared, erase, take } = follower();
    shared.start();
    await clock.settle();
    erase(5, 6);
    erase(7);
    take();
    await clock.pass(SECOND);
    const events = take();
    expect(events.filter((event) => !/asks$|adopts$|disk$/.test(event))).toEqual([
      '1 reads erasures after 0',
      '1 drops 5,6,7',
      '1 calls are stored',
      '1 drops 5,6,7',
      '1 has forgotten',
      '1 acknowledges {"erasures":2}',
    ]);
    erase(9);
    await clock.pass(100);
    expect(take().filter((event) => !/asks$/.test(event))).toEqual([
      '1.1 reads erasures after 2',
      '1.1 drops 9',
      '1.1 calls are stored',
      '1.1 drops 9',
      '1.1 has forgotten',
      '1.1 acknowledges {"erasures":3}',
    ]);
    await shared.stop();
  });

  it('acknowledges erasures of nothing that it could hold at once', async () => {
    const { clock, shared, erase, take } = follower();
    shared.start();
    await clock.settle();
    take();
    // Its own: the port names no positions of those.
    erase();
    await clock.pass(SECOND);
    expect(take()).toEqual(['1 asks', '1 reads erasures after 0', '1 acknowledges {"erasures":1}']);
    await shared.stop();
  });

  it('forgets one after the other: what is erased meanwhile is acknowledged later', async () => {
    const requests = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let begun = 0;
    const { clock, shared, erase, take } = follower({ erasedForgotten: () => requests[begun++]!.promise });
    shared.start();
    await clock.settle();
    erase(1);
    await clock.pass(SECOND);
    erase(2);
    await clock.pass(SECOND);
    expect(begun).toBe(1);
    requests[0]!.resolve();
    take();
    await clock.pass(100);
    expect(begun).toBe(2);
    expect(take().filter((event) => !/asks$/.test(event))).toEqual([
      '2 acknowledges {"erasures":1}',
      '2.1 calls are stored',
      '2.1 drops 2',
    ]);
    requests[1]!.resolve();
    await clock.pass(100);
    expect(take()).toContain('2.1 acknowledges {"erasures":2}');
    await shared.stop();
  });

  it('tries again what it could not acknowledge, and the log says so once each time', async () => {
    let isAway = true;
    const { clock, shared, database, erase, take } = follower({
      callsStored: () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve()),
    });
    shared.start();
    await clock.settle();
    erase(1);
    take();
    await clock.pass(3 * SECOND);
    expect(secondsOf(take(), 'nodes.not_acknowledged')).toEqual([1]);
    isAway = false;
    await clock.pass(SECOND);
    expect(database.acknowledged.erasures).toBe(1);
    isAway = true;
    erase(2);
    take();
    await clock.pass(3 * SECOND);
    const failures = secondsOf(take(), 'nodes.not_acknowledged');
    expect(failures).toHaveLength(1);
    await shared.stop();
  });

  it('stops at once, also while it asks', async () => {
    const answer = Promise.withResolvers<void>();
    const { clock, shared } = follower({ reloadSettings: () => answer.promise });
    shared.start();
    await clock.settle();
    let isStopped = false;
    const stopped = shared.stop().then(() => (isStopped = true));
    answer.resolve();
    await clock.settle();
    expect(isStopped).toBe(true);
    await stopped;
  });

  it('says nothing of what fails because it stops', async () => {
    const away = Promise.withResolvers<void>();
    const { clock, shared, erase, take } = follower({ callsStored: () => away.promise });
    shared.start();
    await clock.settle();
    erase(1);
    await clock.pass(SECOND);
    await shared.stop();
    take();
    away.reject(new Error('stopped'));
    await clock.settle();
    expect(take()).toEqual([]);
  });

  it('goes on after the database was away, which the log says once each time', async () => {
    const { clock, shared, database, take } = follower();
    shared.start();
    await clock.settle();
    for (let time = 0; time < 2; time++) {
      database.isAway = true;
      take();
      await clock.pass(4 * SECOND);
      const events = take();
      expect(secondsOf(events, 'nodes.not_followed')).toHaveLength(1);
      expect(events.join()).not.toContain('adopts');
      database.isAway = false;
      await clock.pass(SECOND);
      expect(take()).toContainEqual(expect.stringMatching(/ adopts$/));
    }
    await shared.stop();
  });

  it('reads the settings again and again until it can', async () => {
    let isReadable = false;
    let reads = 0;
    const { clock, shared, take } = follower({
      reloadSettings: () => {
        reads++;
        return isReadable ? Promise.resolve() : Promise.reject(new Error('no key'));
      },
    });
    shared.start();
    await clock.pass(2 * SECOND);
    expect(reads).toBe(3);
    const events = take();
    expect(secondsOf(events, 'nodes.not_followed')).toEqual([0]);
    expect(secondsOf(events, 'reads suppressions')).toEqual([0]);
    isReadable = true;
    await clock.pass(3 * SECOND);
    expect(reads).toBe(4);
    await shared.stop();
  });
});
