import { hash as digest } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { quoted } from '../../../clients/e2e/sentences/quoted.ts';
import { emptyContents } from '../../test/memory-store/contents.ts';
import { openMemoryLogReader } from '../../test/memory-store/log-reader.ts';
import { emptyProfiles, openMemoryProfiles } from '../../test/memory-store/profile-store.ts';
import { handClock } from '../../test/support/clock.ts';
import type { AudienceDefinition, Computation } from '../model/definition.ts';
import type { JsonObject } from '../model/json.ts';
import { DAY, HOUR, isoTime, MINUTE, SECOND } from '../model/time.ts';
import { StorageError } from '../ports/event-log.ts';
import type { LogFields } from '../ports/logger.ts';
import type { ProfileStore } from '../ports/profile-store.ts';
import type { Profile } from '../ports/users.ts';
import { Computations } from './computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentityHash, KEEP_PROFILES } from './contract.ts';
import { createProcessor, type Processor } from './processor.ts';

const START = Date.parse('2026-11-22T12:00:00.000Z');
const SITE = 1;
const OWN_SOURCE = 9;

const hash: IdentityHash = (kind, value) =>
  Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16);

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Members ordered twice or more within the last hour. */
const BUYERS: AudienceDefinition = {
  id: 4,
  version: 1,
  kind: 'audience',
  name: 'buyers',
  key: 'buyers',
  text: '',
  destinations: ['crm'],
  enabled: true,
  includeAnonymous: false,
  definition: {
    op: '>=',
    value: { op: 'event', type: 'track', name: 'Order', within: HOUR, reduce: { op: 'count' } },
    to: 2,
  },
};

/** A log and its profiles in memory. `restart` stands for the next process on the same disk. */
class World {
  readonly clock = handClock(START);
  readonly contents = emptyContents();
  readonly profiles = emptyProfiles();
  readonly computations: readonly Computation[];
  processor!: Processor;
  /** Errors in the log: what happened, and to which event. */
  readonly logged: [string, unknown][] = [];
  /** Called before each commit of the store; may throw. */
  onCommit: ((store: ProfileStore) => void) | undefined;
  /** Called before and after each erasure of the store; may throw. */
  onErase: () => void = () => {};
  onErased: () => void = () => {};
  /** Called before each page of the log is read. */
  onPage: () => void = () => {};

  constructor(computations: readonly Computation[] = []) {
    this.computations = computations;
  }

  async restart(): Promise<this> {
    const store = openMemoryProfiles(this.profiles);
    const reader = openMemoryLogReader(this.contents);
    this.processor = createProcessor({
      reader: {
        ...reader,
        page: (...asked) => {
          this.onPage();
          return reader.page(...asked);
        },
      },
      store: {
        ...store,
        commit: async (changes) => {
          this.onCommit?.(store);
          await store.commit(changes);
        },
        erase: async (...erased) => {
          this.onErase();
          await store.erase(...erased);
          this.onErased();
        },
      },
      clock: this.clock,
      logger: {
        ...silent,
        error: (facts: LogFields, event: string) => this.logged.push([event, facts['messageId']]),
      },
      hash,
      computations: new Computations({ reader: openMemoryLogReader(this.contents), clock: this.clock }),
    });
    const identities = { ...DEFAULT_IDENTITY_SETTINGS, externalIds: ['email'] };
    await this.processor.configure({
      computations: this.computations,
      identities,
      serverSources: [SITE],
      hearing: ['crm', 'warehouse'],
      retention: KEEP_PROFILES,
      ownSource: OWN_SOURCE,
    });
    return this;
  }

  /** Stores a call that arrives now. */
  store(type: string, fields: JsonObject, source = SITE): void {
    const position = ++this.contents.lastPosition;
    const at = isoTime(this.clock.now());
    const messageId = `m${position}`;
    const json = JSON.stringify({ messageId, type, context: {}, timestamp: at, receivedAt: at, ...fields });
    this.#put(position, json, source);
  }

  storeLine(json: string): void {
    this.#put(++this.contents.lastPosition, json, SITE);
  }

  #put(position: number, json: string, source: number): void {
    const record = {
      messageId: '',
      userId: undefined,
      receivedAt: this.clock.monotonic(),
      owed: [],
      skipped: [],
    };
    this.contents.events.set(position, { ...record, source, json });
  }

  /** Runs slices until nothing is at hand. */
  async catchUp(): Promise<void> {
    for (let hasMore = true; hasMore; ) hasMore = (await this.processor.slice()).hasMore;
  }

  profile(userId: string): Promise<Profile | undefined> {
    return this.processor.profile({ userId });
  }

  /** The changes that destinations were told, in order. */
  told(): unknown[] {
    return [...this.profiles.outbox.values()].map(({ json }) => {
      const { userId, traits } = JSON.parse(json) as { userId: string; traits: JsonObject };
      return [userId, traits];
    });
  }
}

describe('the processor', () => {
  test('makes one profile of the calls of one person', async () => {
    const world = await new World().restart();
    world.store('track', { anonymousId: 'a1', event: 'Opened' });
    world.store('alias', { previousId: 'a1', userId: 'ann' });
    world.store('identify', { userId: 'ann', traits: { email: 'ann@example.com', plan: 'free', gone: 1 } });
    await world.clock.pass(MINUTE);
    world.store('group', { userId: 'ann', groupId: 'acme', traits: { size: 3 } }, 2);
    world.store('identify', { userId: 'ann', traits: { plan: 'pro', gone: null } });
    await world.catchUp();
    const profile = await world.profile('ann');
    expect(profile).toEqual({
      userId: 'ann',
      formerUserIds: [],
      leftOut: 0,
      anonymousIds: ['a1'],
      externalIds: { email: ['ann@example.com'] },
      traits: { email: 'ann@example.com', plan: 'pro' },
      computedTraits: {},
      audiences: [],
      groups: ['acme'],
      sources: [1, 2],
      firstSeenAt: START,
      lastSeenAt: START + MINUTE,
      merges: [
        {
          rule: 'alias',
          identity: { kind: 'anonymous', value: 'a1' },
          messageId: 'm2',
          at: START,
        },
      ],
      refusedMerges: { count: 0, samples: [] },
    });
    expect(await world.processor.profile({ anonymousId: 'a1' })).toEqual(profile);
    expect(await world.profile('a1')).toBeUndefined();
    expect(await world.profile('bob')).toBeUndefined();
  });

  test(
    quoted(
      'One that is refused is counted, and shown with the profile of its event: why, and by which event.',
    ),
    async () => {
      const world = await new World().restart();
      world.store('identify', { userId: 'ann', traits: { email: 'we@example.com' } });
      world.store('identify', { userId: 'bob', traits: { email: 'we@example.com' } });
      world.store('alias', { userId: 'bob', previousId: 'ann' }, 2);
      await world.catchUp();
      const alias = { rule: 'alias', reason: 'unproven', source: 2, at: START };
      const external = { rule: 'external', reason: 'belongs_to_another_user', source: SITE, at: START };
      expect((await world.profile('bob'))?.refusedMerges).toEqual({
        count: 2,
        samples: [
          { ...alias, identity: { kind: 'user', value: 'ann' }, messageId: 'm3' },
          { ...external, identity: { kind: 'email', value: 'we@example.com' }, messageId: 'm2' },
        ],
      });
      world.contents.events.delete(3);
      expect((await world.profile('bob'))?.refusedMerges.samples[0]).toEqual(alias);
    },
  );

  test('gives the same traits in whatever order the calls arrive and wherever slices and processes end', async () => {
    const calls: [string, JsonObject][] = [
      ['track', { anonymousId: 'a1', event: 'Order', messageId: 'c0' }],
      ['alias', { previousId: 'a1', userId: 'ann', messageId: 'c1' }],
      ['identify', { userId: 'ann', traits: { plan: 'free', age: 3 }, messageId: 'c2' }],
      ['identify', { userId: 'ann', anonymousId: 'a2', traits: { plan: 'pro' }, messageId: 'c3' }],
      ['identify', { anonymousId: 'a2', traits: { name: 'Ann', age: 4 }, messageId: 'c4' }],
      ['group', { anonymousId: 'a1', groupId: 'acme', messageId: 'c5' }],
    ];
    const order = fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 6 });
    const stops = fc.array(fc.constantFrom('slice', 'restart', 'nothing'), { minLength: 6, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(order, stops, async (order, stops) => {
        const world = await new World().restart();
        for (const [nth, index] of order.entries()) {
          const [type, fields] = calls[index]!;
          // c3 and c4 say different things at one time: the messageId decides.
          world.store(type, { ...fields, timestamp: isoTime(START - 9000 + Math.min(index, 3) * SECOND) });
          if (stops[nth] !== 'nothing') await world.catchUp();
          if (stops[nth] === 'restart') await world.restart();
        }
        await world.catchUp();
        expect(await world.profile('ann')).toMatchObject({
          traits: { plan: 'pro', name: 'Ann', age: 4 },
          anonymousIds: expect.arrayContaining(['a1', 'a2']),
          groups: ['acme'],
          firstSeenAt: START - 9000,
        });
        expect(world.profiles.states.size).toBe(1);
      }),
      { numRuns: 150 },
    );
  });

  test('an event that is newer than settings that wait counts by these', async () => {
    const world = await new World().restart();
    // The slice has begun when a source is added and sends its first calls.
    const added = 2;
    world.onPage = () => {
      world.onPage = () => {};
      // The message is on its way when the page is read.
      setImmediate(() => world.processor.settingsWait());
      world.store('track', { userId: 'bob', event: 'Order' }, added);
      world.store('alias', { previousId: 'bob', userId: 'ann' }, added);
    };
    expect(await world.processor.slice()).toMatchObject({ hasMore: true });
    expect(world.profiles.states.size).toBe(0);
    await world.processor.configure({
      computations: [],
      identities: DEFAULT_IDENTITY_SETTINGS,
      serverSources: [SITE, added],
      hearing: [],
      retention: KEEP_PROFILES,
      ownSource: OWN_SOURCE,
    });
    await world.catchUp();
    expect(await world.processor.profile({ userId: 'ann' })).toMatchObject({ formerUserIds: ['bob'] });
  });

  test('events of a source that another node has added wait until it is known here, and not for ever', async () => {
    const world = await new World().restart();
    const settings = {
      computations: [],
      identities: DEFAULT_IDENTITY_SETTINGS,
      hearing: [],
      retention: KEEP_PROFILES,
    };
    await world.processor.configure({ ...settings, serverSources: [SITE], newestSource: SITE });
    world.store('track', { userId: 'first', event: 'Order' });
    world.store('track', { userId: 'bob', event: 'Order' }, 2);
    world.store('alias', { previousId: 'bob', userId: 'ann' }, 2);
    world.store('track', { userId: 'last', event: 'Order' });
    expect(await world.processor.slice()).toMatchObject({ done: 1, hasMore: false });
    // A question is answered with what is known.
    expect(await world.profile('bob')).toBeUndefined();
    expect(await world.profile('first')).toBeDefined();
    await world.processor.configure({ ...settings, serverSources: [SITE, 2], newestSource: 2 });
    await world.catchUp();
    expect(await world.profile('ann')).toMatchObject({ formerUserIds: ['bob'] });
    expect(await world.profile('last')).toBeDefined();

    world.store('track', { userId: 'carl', event: 'Order' }, 7);
    world.store('alias', { previousId: 'carl', userId: 'dora' }, 7);
    await world.catchUp();
    expect(await world.profile('carl')).toBeUndefined();
    await world.clock.pass(30 * SECOND);
    await world.catchUp();
    expect(await world.profile('carl')).toMatchObject({ userId: 'carl', formerUserIds: [] });
    world.store('track', { userId: 'emma', event: 'Order' }, 7);
    await world.catchUp();
    expect(await world.profile('emma')).toBeDefined();
  });

  test('a time in the future counts as the time of arrival', async () => {
    const world = await new World().restart();
    world.store('track', { userId: 'ann', event: 'Order', timestamp: isoTime(START + DAY) });
    await world.catchUp();
    expect(await world.profile('ann')).toMatchObject({ firstSeenAt: START, lastSeenAt: START });
  });

  test('an audience with a window is entered by events and left when the window has passed, to the millisecond', async () => {
    const world = await new World([BUYERS]).restart();
    world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    expect(world.told()).toEqual([]);
    await world.clock.pass(MINUTE);
    world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    expect(world.told()).toEqual([['ann', { buyers: true }]]);
    expect((await world.profile('ann'))?.audiences).toEqual(['buyers']);

    // The first order leaves the window an hour after it happened; the slice of the minute before has looked
    // ahead.
    await world.clock.pass(HOUR - MINUTE - 2 * SECOND);
    await world.catchUp();
    const { nextAt } = await world.processor.slice();
    expect(nextAt).toBeLessThanOrEqual(START + HOUR + 1);
    await world.clock.pass(nextAt! - world.clock.now());
    await world.catchUp();
    expect((await world.profile('ann'))?.audiences).toEqual([]);
    await world.clock.pass(SECOND);
    await world.catchUp();
    expect(world.told().at(-1)).toEqual(['ann', { buyers: false }]);
  });

  test('a window that passed since the minute began is noticed although no slice has looked ahead to it', async () => {
    const world = await new World([BUYERS]).restart();
    await world.clock.pass(1);
    world.store('track', { userId: 'ann', event: 'Order' });
    world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    await world.clock.pass(HOUR);
    await world.catchUp();
    expect((await world.profile('ann'))?.audiences).toEqual([]);
  });

  test('windows that passed while nothing ran are noticed at the next start, once', async () => {
    const world = await new World([BUYERS]).restart();
    for (const userId of ['ann', 'bob']) {
      world.store('track', { userId, event: 'Order' });
      world.store('track', { userId, event: 'Order' });
    }
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    expect(world.told().length).toBe(2);
    await world.clock.pass(DAY);
    await world.restart();
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    await world.clock.pass(DAY);
    await world.catchUp();
    expect(world.told().slice(2)).toEqual([
      ['ann', { buyers: false }],
      ['bob', { buyers: false }],
    ]);
    expect(world.profiles.timers.size).toBe(0);
  });

  test('events made of profiles and delete notifications do not count for profiles', async () => {
    const world = await new World().restart();
    world.store('identify', { userId: 'ann', traits: { buyers: true } }, OWN_SOURCE);
    world.store('delete', { userId: 'ann' });
    await world.catchUp();
    expect(await world.profile('ann')).toBeUndefined();
    expect(world.profiles.cursor.position).toBe(3);
  });

  test('erased and unreadable lines are skipped, and the latter are counted', async () => {
    const world = await new World().restart();
    world.contents.lastPosition += 5;
    world.storeLine('{"messageId":');
    world.storeLine('7');
    world.storeLine('null');
    world.storeLine('{"messageId":"x","type":"track","userId":"ann","timestamp":"soon","receivedAt":"late"}');
    world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    expect(await world.profile('ann')).toMatchObject({ lastSeenAt: START });
    expect(world.processor.counts).toMatchObject({ events: 10, unreadable: 4 });
  });

  test('an event that throws every time is left out after three tries, named and counted', async () => {
    const world = await new World([BUYERS]).restart();
    world.store('identify', { userId: 'ann', traits: { plan: 'pro' } });
    // Too deep for the stack: nobody can write such a value as JSON again.
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
    const times = `"timestamp":"${isoTime(START)}","receivedAt":"${isoTime(START)}"`;
    world.storeLine(`{"messageId":"deep","type":"identify","userId":"bob","traits":{"a":${deep}},${times}}`);
    world.store('identify', { userId: 'cleo', traits: { plan: 'pro' } });
    for (let tries = 0; tries < 3; tries++)
      await expect(world.processor.slice()).rejects.toThrow('the event deep');
    expect(world.logged).toEqual([['profiles.event_skipped', 'deep']]);
    await world.catchUp();
    expect(world.processor.counts).toMatchObject({ events: 3, skipped: 1 });
    expect(await world.profile('ann')).toMatchObject({ traits: { plan: 'pro' } });
    expect(await world.profile('bob')).toBeUndefined();
    expect(await world.profile('cleo')).toMatchObject({ traits: { plan: 'pro' } });
  });

  test('a slice that was not stored is applied again, once', async () => {
    const world = await new World([BUYERS]).restart();
    for (let nth = 0; nth < 3; nth++)
      world.store('track', { userId: 'ann', anonymousId: 'a', event: 'Order' });
    world.onCommit = () => {
      throw new StorageError('the disk is full: make room');
    };
    await expect(world.processor.slice()).rejects.toThrow(StorageError);
    await expect(world.processor.slice()).rejects.toThrow(StorageError);
    expect(world.profiles.states.size).toBe(0);
    world.onCommit = undefined;
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    expect(world.told()).toEqual([['ann', { buyers: true }]]);
    expect(world.profiles.states.size).toBe(1);
    expect((await world.processor.computations())[0]).toMatchObject({ id: BUYERS.id, members: 1 });
  });

  test('nothing is written while nothing happens', async () => {
    const world = await new World([BUYERS]).restart();
    world.store('track', { userId: 'ann', event: 'Other' });
    await world.catchUp();
    let commits = 0;
    world.onCommit = () => {
      commits++;
    };
    for (let minute = 0; minute < 5; minute++) {
      await world.clock.pass(MINUTE);
      expect(await world.processor.slice()).toMatchObject({ done: 0, hasMore: false });
    }
    expect(commits).toBe(0);
  });

  test('entries that are in the log leave the outbox with the next slice', async () => {
    const world = await new World([BUYERS]).restart();
    for (let nth = 0; nth < 2; nth++) world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    await world.clock.pass(SECOND);
    const { lastOutbox } = await world.processor.slice();
    expect((await world.processor.outbox(0, 10)).map(({ sequence }) => sequence)).toEqual([lastOutbox]);
    await world.processor.sent(lastOutbox);
    await world.processor.slice();
    expect(world.profiles.outbox.size).toBe(0);
  });

  test('a merged user hears false, and the one that won its own changes', async () => {
    const world = await new World([BUYERS]).restart();
    for (let nth = 0; nth < 2; nth++) world.store('track', { userId: 'old', event: 'Order' });
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    world.store('alias', { previousId: 'old', userId: 'new' });
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    expect(world.told()).toEqual([
      ['old', { buyers: true }],
      ['old', { buyers: false }],
      ['new', { buyers: true }],
    ]);
    expect((await world.processor.computations())[0]).toMatchObject({ members: 1 });
  });

  test('a user who is named by an alias without a userId is told nothing again', async () => {
    const world = await new World([BUYERS]).restart();
    world.store('track', { userId: 'ann', event: 'Order' });
    world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    world.store('alias', { anonymousId: 'a', previousId: 'ann' });
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    expect(world.told()).toEqual([['ann', { buyers: true }]]);
  });

  test('an erased user is unknown, and its next event makes a new profile', async () => {
    const world = await new World([BUYERS]).restart();
    world.store('identify', { userId: 'ann', anonymousId: 'a', traits: { plan: 'pro' } });
    world.store('track', { userId: 'bob', event: 'Order' });
    await world.catchUp();
    expect(await world.processor.joinedIds(['ann', 'eve'])).toMatchObject([
      { userId: 'ann', formerUserIds: [], anonymousIds: ['a'], sources: [SITE] },
      { userId: 'eve', formerUserIds: [], anonymousIds: [], sources: [] },
    ]);
    expect(await world.processor.erase(['ann', 'eve'], [])).toBe(1);
    expect(await world.profile('ann')).toBeUndefined();
    world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    expect(await world.profile('ann')).toMatchObject({ traits: {}, anonymousIds: [] });
    expect(await world.profile('bob')).toBeDefined();
  });

  test('an erased member is counted no more, also when the process dies behind the erasure', async () => {
    for (const dies of [false, true]) {
      const world = await new World([BUYERS]).restart();
      for (const userId of ['ann', 'ann', 'bob', 'bob']) world.store('track', { userId, event: 'Order' });
      await world.catchUp();
      expect((await world.processor.computations())[0]).toMatchObject({ members: 2 });
      world.onErased = () => {
        if (dies) throw new StorageError('the process is dead');
      };
      await world.processor.erase(['ann'], []).catch(() => world.restart());
      await world.processor.erase(['ann'], []).catch(() => {});
      expect((await world.processor.computations())[0], `dies: ${dies}`).toMatchObject({ members: 1 });
    }
  });

  test('an erasure that fails leaves the number of members', async () => {
    const world = await new World([BUYERS]).restart();
    for (const userId of ['ann', 'ann', 'bob', 'bob']) world.store('track', { userId, event: 'Order' });
    await world.catchUp();
    world.onErase = () => {
      throw new StorageError('the disk is full');
    };
    await expect(world.processor.erase(['ann'], [])).rejects.toThrow('the disk is full');
    world.onErase = () => {};
    expect((await world.processor.computations())[0]).toMatchObject({ members: 2 });
    await world.processor.erase(['ann'], []);
    expect((await world.processor.computations())[0]).toMatchObject({ members: 1 });
  });

  test("erasing takes a profile that is not known to be the user's yet, and no other user's", async () => {
    const world = await new World([BUYERS]).restart();
    world.store('identify', { anonymousId: 'a', traits: { plan: 'pro' } });
    world.store('track', { userId: 'bob', anonymousId: 'b', event: 'Order' });
    await world.catchUp();
    expect(await world.processor.erase(['ann'], ['a', 'b'])).toBe(1);
    expect(await world.processor.profile({ anonymousId: 'a' })).toBeUndefined();
    expect(await world.profile('bob')).toBeDefined();
  });

  test('members are listed page by page', async () => {
    const world = await new World([BUYERS]).restart();
    for (let user = 0; user < 5; user++) {
      for (let nth = 0; nth < (user === 2 ? 1 : 2); nth++)
        world.store('track', { userId: `u${user}`, event: 'Order' });
    }
    world.store('track', { anonymousId: 'a', event: 'Order' });
    world.store('track', { anonymousId: 'a', event: 'Order' });
    await world.catchUp();
    const users: (string | undefined)[] = [];
    let from: string | undefined;
    do {
      const page = await world.processor.members(BUYERS.id, 2, from);
      expect(page.members.length).toBeLessThanOrEqual(2);
      users.push(...page.members.map(({ userId }) => userId));
      from = page.next;
    } while (from !== undefined);
    expect(users).toEqual(['u0', 'u1', 'u3', 'u4']);
  });

  test('a rebuild is silent: destinations hear only what is different now, once, whatever crashes', async () => {
    const world = await new World([BUYERS]).restart();
    for (const userId of ['ann', 'bob', 'cid', 'dan', 'eve']) {
      world.store('track', { userId, event: 'Order' });
      world.store('track', { userId, event: 'Order' });
    }
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    expect(world.told().length).toBe(5);
    // Bob's first order and all of Cid's and Eve's are gone from the log.
    for (const position of [3, 5, 6, 9, 10]) world.contents.events.delete(position);
    expect(await world.processor.rebuild({ dryRun: false })).toMatchObject({ profiles: 5 });
    await world.processor.erase(['eve'], []);
    for (let slices = 0; slices < 20; slices++) {
      if (slices === 1) world.store('track', { userId: 'fay', event: 'Order' });
      if (slices === 3) world.store('track', { userId: 'fay', event: 'Order' });
      if (slices % 2 === 1) await world.restart();
      await world.processor.slice();
    }
    await world.clock.pass(2 * SECOND);
    await world.catchUp();
    // What was on its way of Eve before the rebuild is gone too.
    const news = world.told().slice(4).sort();
    expect(news).toEqual([
      ['bob', { buyers: false }],
      ['cid', { buyers: false }],
      ['fay', { buyers: true }],
    ]);
    expect((await world.processor.computations())[0]).toMatchObject({ members: 3, state: 'live' });
    expect([...world.profiles.documents.keys()].filter((name) => name.startsWith('told'))).toEqual([]);
    const ids = [...world.profiles.outbox.values()].map(({ json }) => JSON.parse(json).messageId as string);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('a rebuild loses something of those alone whose first event is not stored any more', async () => {
    const world = await new World([BUYERS]).restart();
    // Events of a year ago that have just come are all stored.
    const timestamp = '2025-01-01T00:00:00.000Z';
    world.store('track', { userId: 'ann', event: 'Order', timestamp });
    world.store('track', { anonymousId: 'bob-before', event: 'Order', timestamp });
    world.store('track', { userId: 'bob', event: 'Order' });
    await world.catchUp();
    expect(await world.processor.rebuild({ dryRun: true })).toMatchObject({ profiles: 3, poorer: 0 });
    world.store('identify', { userId: 'bob', anonymousId: 'bob-before', traits: {} });
    await world.catchUp();
    world.contents.retainedFrom = 2;
    expect(await world.processor.rebuild({ dryRun: true })).toMatchObject({ profiles: 2, poorer: 1 });
    world.contents.retainedFrom = 3;
    expect(await world.processor.rebuild({ dryRun: true })).toMatchObject({ profiles: 2, poorer: 2 });
  });

  test('what a rebuild remembers of a user goes when the user is erased', async () => {
    const world = await new World([BUYERS]).restart();
    for (let nth = 0; nth < 2; nth++) world.store('track', { userId: 'ann', event: 'Order' });
    await world.catchUp();
    await world.clock.pass(SECOND);
    await world.catchUp();
    await world.processor.rebuild({ dryRun: false });
    expect([...world.profiles.documents.values()].join()).toContain('ann');
    await world.processor.erase(['ann'], []);
    expect([...world.profiles.documents.values()].join()).not.toContain('ann');
  });
});
