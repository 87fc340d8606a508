import { hash as digest } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { emptyContents } from '../../test/memory-store/contents.ts';
import { openMemoryLogReader } from '../../test/memory-store/log-reader.ts';
import { emptyProfiles, openMemoryProfiles } from '../../test/memory-store/profile-store.ts';
import { handClock } from '../../test/support/clock.ts';
import { amountOf } from '../../test/support/runs.ts';
import type { AudienceDefinition } from '../model/definition.ts';
import type { JsonObject } from '../model/json.ts';
import { DAY, HOUR, isoTime, SECOND } from '../model/time.ts';
import { StorageError } from '../ports/event-log.ts';
import type { LogFields } from '../ports/logger.ts';
import { Computations } from './computation/computations.ts';
import {
  DEFAULT_IDENTITY_SETTINGS,
  type IdentityHash,
  type ProfileRetention,
  type UsersSettings,
} from './contract.ts';
import { createProcessor, type Processor } from './processor.ts';

const START = Date.parse('2026-11-22T12:00:00.000Z');
const SERVER = 1;
const SITE = 2;

const hash: IdentityHash = (kind, value) =>
  Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16);

/** Everybody who has ordered, visitors included. */
const BUYERS: AudienceDefinition = {
  ...{ id: 4, version: 1, kind: 'audience', name: 'buyers', key: 'buyers', text: '' },
  ...{ destinations: ['crm'], enabled: true, includeAnonymous: true },
  definition: {
    op: '>=',
    value: { op: 'event', type: 'track', name: 'Order', reduce: { op: 'count' } },
    to: 1,
  },
};

/** An audience with a window of thirty days. */
const LATELY: AudienceDefinition = {
  ...BUYERS,
  definition: {
    op: '>=',
    value: { op: 'event', type: 'track', name: 'Order', within: 30 * DAY, reduce: { op: 'count' } },
    to: 1,
  },
};

const QUARTER: Partial<ProfileRetention> = { anonymous: 90 * DAY };

/** A membership event that a destination got. */
interface Heard {
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly traits: JsonObject;
  readonly context: { readonly personas: { readonly sequence: number } };
}

class World {
  readonly clock = handClock(START);
  readonly contents = emptyContents();
  readonly profiles = emptyProfiles();
  readonly logged: [event: string, facts: LogFields][] = [];
  /** Called before each commit; what it throws is the result. */
  beforeCommit: () => void = () => {};
  processor!: Processor;
  /** The newest entry of the outbox that the log has. */
  #published = 0;
  readonly #heard: (Heard & { readonly destination: string })[] = [];
  #settings: UsersSettings = {
    computations: [],
    identities: DEFAULT_IDENTITY_SETTINGS,
    serverSources: [SERVER],
    hearing: ['crm'],
    retention: { protectedSources: [SERVER] },
  };

  async start(retention: Partial<ProfileRetention>, settings: Partial<UsersSettings> = {}): Promise<this> {
    const store = openMemoryProfiles(this.profiles);
    const reader = openMemoryLogReader(this.contents);
    const log = (facts: LogFields, event: string) => void this.logged.push([event, facts]);
    this.processor = createProcessor({
      store: {
        ...store,
        commit: async (changes) => {
          this.beforeCommit();
          await store.commit(changes);
        },
      },
      logger: { debug() {}, info: log, warn: log, error: log },
      ...{ reader, clock: this.clock, hash },
      computations: new Computations({ reader, clock: this.clock }),
    });
    return this.configure({ ...settings, retention: { protectedSources: [SERVER], ...retention } });
  }

  async configure(settings: Partial<UsersSettings>): Promise<this> {
    this.#settings = { ...this.#settings, ...settings };
    await this.processor.configure(this.#settings);
    return this;
  }

  store(type: string, fields: JsonObject, source = SITE): void {
    const position = ++this.contents.lastPosition;
    const at = isoTime(this.clock.now());
    const json = JSON.stringify({
      ...{ messageId: `m${position}`, type, context: {}, timestamp: at, receivedAt: at },
      ...fields,
    });
    this.contents.events.set(position, {
      ...{ messageId: '', userId: undefined, owed: [], skipped: [], source, json },
      receivedAt: this.clock.monotonic(),
    });
  }

  order(ids: JsonObject, source = SITE): void {
    this.store('track', { ...ids, event: 'Order' }, source);
  }

  /**
   * Runs slices until nothing is at hand, and again when changes that waited are due. The publisher takes
   * what is told.
   */
  async settle(): Promise<void> {
    for (let round = 0; round < 2; round++) {
      for (let hasMore = true; hasMore; ) hasMore = (await this.processor.slice()).hasMore;
      await this.clock.pass(SECOND);
    }
  }

  /** The log takes what is in the outbox, and plans it for the destinations that hear now. */
  async publish(): Promise<void> {
    const { computations } = this.#settings;
    const isNamed = (name: string) => computations.some(({ destinations }) => destinations.includes(name));
    const hearing = this.#settings.hearing.filter(isNamed);
    for (const { sequence, json } of this.profiles.outbox.values()) {
      if (sequence <= this.#published) continue;
      this.#published = sequence;
      const event = JSON.parse(json) as Heard & { integrations: Record<string, boolean> };
      for (const name of hearing)
        if (event.integrations['All'] !== false || event.integrations[name] === true)
          this.#heard.push({ ...event, destination: name });
    }
    if (this.#published > 0) await this.processor.sent(this.#published);
  }

  /** Members of a destination, by the newest event that it got of each profile. */
  held(destination: string): string[] {
    const newest = new Map<string, Heard>();
    for (const one of this.#heard.filter((heard) => heard.destination === destination)) {
      const name = (one.userId ?? one.anonymousId)!;
      const known = newest.get(name)?.context.personas.sequence ?? 0;
      if (one.context.personas.sequence > known) newest.set(name, one);
    }
    return [...newest].flatMap(([name, { traits }]) => (traits['buyers'] === true ? [name] : [])).sort();
  }

  /** Everything that destinations were told and the publisher has not taken, by recipient. */
  told(): [string, unknown][] {
    return [...this.profiles.outbox.values()].map(({ json }) => {
      const { userId, anonymousId, traits } = JSON.parse(json) as Record<string, unknown>;
      return [(userId ?? anonymousId) as string, (traits as JsonObject)['buyers']];
    });
  }

  async knows(...ids: string[]): Promise<string[]> {
    const known: string[] = [];
    for (const id of ids) {
      const [user, visitor] = [{ userId: id }, { anonymousId: id }];
      if ((await this.processor.profile(user)) ?? (await this.processor.profile(visitor))) known.push(id);
    }
    return known;
  }
}

describe('profiles whose time is over', () => {
  test('go a day after it at the latest, and others stay', async () => {
    const world = await new World().start(QUARTER);
    world.store('page', { anonymousId: 'gone' });
    world.store('page', { anonymousId: 'seen again' });
    world.store('identify', { userId: 'known', anonymousId: 'known-1' });
    await world.settle();
    await world.clock.pass(60 * DAY);
    world.store('page', { anonymousId: 'seen again' });
    await world.settle();
    await world.clock.pass(29 * DAY);
    await world.settle();
    expect(await world.knows('gone', 'seen again', 'known')).toEqual(['gone', 'seen again', 'known']);
    await world.clock.pass(2 * DAY);
    await world.settle();
    expect(await world.knows('gone', 'seen again', 'known', 'known-1')).toEqual([
      'seen again',
      'known',
      'known-1',
    ]);
    expect(world.processor.counts.forgotten).toEqual({ retention: 1, space: 0 });
    expect(world.logged).toEqual([['profiles.forgotten', { profiles: 1, reason: 'retention' }]]);
    expect(world.profiles.identities.size).toBe(3);
    expect(world.profiles.timers.size).toBe(0);
  });

  test('may have a userId, where that is asked for', async () => {
    const world = await new World().start({ known: 30 * DAY });
    world.store('identify', { userId: 'known', anonymousId: 'a' }, SERVER);
    world.store('page', { anonymousId: 'visitor' });
    await world.settle();
    await world.clock.pass(31 * DAY);
    await world.settle();
    expect(await world.knows('known', 'a', 'visitor')).toEqual(['visitor']);
  });

  test('hear that they are no members, where they were told that they are', async () => {
    const world = await new World().start(QUARTER, { computations: [BUYERS] });
    world.order({ anonymousId: 'buyer' });
    world.store('page', { anonymousId: 'visitor' });
    await world.settle();
    expect(world.told()).toEqual([['buyer', true]]);
    expect((await world.processor.computations())[0]!.members).toBe(1);
    await world.clock.pass(91 * DAY);
    await world.settle();
    expect(world.told()).toEqual([
      ['buyer', true],
      ['buyer', false],
    ]);
    expect((await world.processor.computations())[0]!.members).toBe(0);
    expect(world.profiles.states.size).toBe(0);
    // Somebody who comes back is told anew, behind what was told before.
    world.order({ anonymousId: 'buyer' });
    await world.settle();
    expect(world.told().at(-1)).toEqual(['buyer', true]);
    const sequences = [...world.profiles.outbox.values()].map(
      ({ json }) => JSON.parse(json).context.personas.sequence as number,
    );
    expect(sequences).toEqual([...sequences].sort((a, b) => a - b));
    expect(
      new Set([...world.profiles.outbox.values()].map(({ json }) => JSON.parse(json).messageId)).size,
    ).toBe(3);
  });

  test('are told with a higher sequence when they come back, also with a clock that was set back', async () => {
    const world = await new World().start(QUARTER, { computations: [BUYERS] });
    world.order({ anonymousId: 'buyer' });
    await world.settle();
    await world.clock.pass(91 * DAY);
    await world.settle();
    world.clock.step(-30 * DAY);
    await world.start(QUARTER);
    world.order({ anonymousId: 'buyer' });
    await world.settle();
    await world.publish();
    expect(world.told().map(([, value]) => value)).toEqual([true, false, true]);
    expect(world.held('crm')).toEqual(['buyer']);
  });

  test('stay while a destination cannot hear that yet, and go when it has', async () => {
    const world = await new World().start(QUARTER, { computations: [BUYERS] });
    world.order({ anonymousId: 'buyer' });
    await world.settle();
    await world.publish();
    await world.configure({ hearing: [] });
    await world.clock.pass(91 * DAY);
    await world.settle();
    expect(await world.knows('buyer')).toEqual(['buyer']);
    await world.configure({ hearing: ['crm'] });
    await world.clock.pass(DAY);
    await world.settle();
    expect(world.told()).toEqual([['buyer', false]]);
    expect(await world.knows('buyer')).toEqual([]);
  });

  test('are not told of an audience that is new', async () => {
    const world = await new World().start({});
    world.order({ anonymousId: 'buyer' });
    world.order({ userId: 'known' });
    await world.settle();
    await world.clock.pass(91 * DAY);
    await world.configure({ computations: [BUYERS], retention: { ...QUARTER, protectedSources: [] } });
    await world.settle();
    expect(world.told()).toEqual([['known', true]]);
    expect(await world.knows('buyer', 'known')).toEqual(['known']);
  });

  test('do not go because the wall clock is wrong', async () => {
    const world = await new World().start(QUARTER);
    world.store('page', { anonymousId: 'visitor' });
    await world.settle();
    world.clock.step(365 * DAY);
    await world.clock.pass(DAY);
    await world.settle();
    world.clock.step(-365 * DAY);
    await world.clock.pass(DAY);
    await world.settle();
    expect(await world.knows('visitor')).toEqual(['visitor']);
  });

  test('are counted and told of once, where nobody was asked', async () => {
    const world = await new World().start({ advised: { anonymous: 90 * DAY } });
    for (const anonymousId of ['a', 'b']) world.store('page', { anonymousId });
    await world.settle();
    await world.clock.pass(91 * DAY);
    world.store('page', { anonymousId: 'c' });
    await world.settle();
    await world.clock.pass(DAY);
    await world.settle();
    expect(world.logged).toMatchObject([['profiles.unbounded', { profiles: 2 }]]);
    expect(await world.knows('a', 'b', 'c')).toEqual(['a', 'b', 'c']);
  });

  test('go with the next try, and are told once, when their commit fails', async () => {
    const world = await new World().start(QUARTER, { computations: [BUYERS] });
    for (const anonymousId of ['a', 'b', 'c']) world.order({ anonymousId });
    await world.settle();
    await world.publish();
    await world.settle();
    await world.clock.pass(91 * DAY);
    world.beforeCommit = () => {
      throw new StorageError('the disk is full');
    };
    await expect(world.settle()).rejects.toThrow('the disk is full');
    expect(world.profiles.states.size).toBe(3);
    world.beforeCommit = () => {};
    // The next process, or this one a day later.
    await world.start(QUARTER, { computations: [BUYERS] });
    await world.settle();
    expect(world.told().sort()).toEqual([
      ['a', false],
      ['b', false],
      ['c', false],
    ]);
    expect(world.profiles.states.size).toBe(0);
  });

  test('stay away after a rebuild', async () => {
    const world = await new World().start(QUARTER, { computations: [BUYERS] });
    world.order({ anonymousId: 'buyer' });
    world.order({ userId: 'known' });
    await world.settle();
    await world.clock.pass(91 * DAY);
    await world.settle();
    await world.publish();
    await world.settle();
    expect(world.told()).toEqual([]);
    // The log still has the events.
    await world.processor.rebuild({ dryRun: false });
    await world.settle();
    await world.settle();
    expect(world.told()).toEqual([]);
    expect(await world.knows('buyer', 'known')).toEqual(['known']);
  });

  test('hear of it after a rebuild too, when their time ends while it runs', async () => {
    const world = await new World().start({}, { computations: [BUYERS] });
    world.order({ anonymousId: 'buyer' });
    await world.settle();
    await world.publish();
    await world.settle();
    await world.processor.rebuild({ dryRun: false });
    await world.clock.pass(91 * DAY);
    await world.configure({ retention: { ...QUARTER, protectedSources: [] } });
    await world.settle();
    await world.settle();
    expect(world.told()).toEqual([['buyer', false]]);
    expect(world.profiles.states.size).toBe(0);
  });

  test('take what was told of them out of the outbox, when they are deleted', async () => {
    const world = await new World().start({ known: 30 * DAY }, { computations: [BUYERS] });
    world.order({ userId: 'ann' });
    world.order({ userId: 'bob' });
    await world.settle();
    await world.publish();
    await world.clock.pass(31 * DAY);
    await world.settle();
    expect(world.told()).toEqual([
      ['ann', false],
      ['bob', false],
    ]);
    await world.processor.erase(['ann'], []);
    expect(world.told()).toEqual([['bob', false]]);
  });
});

const id = fc.constantFrom('a', 'b', 'c', 'd');
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ op: fc.constant('order' as const), anonymousId: id }) },
  fc.record({ op: fc.constant('login' as const), anonymousId: id, userId: fc.constantFrom('u', 'v') }),
  { weight: 3, arbitrary: fc.record({ op: fc.constant('days' as const), days: fc.constantFrom(1, 40, 95) }) },
  fc.record({ op: fc.constant('hearing' as const), hearing: fc.subarray(['crm', 'erp']) }),
  fc.record({
    op: fc.constant('connect' as const),
    destinations: fc.constantFrom<readonly string[]>(['crm'], ['crm', 'erp']),
  }),
  fc.record({ op: fc.constant('room' as const), bytes: fc.constantFrom(1, 300, 1000, undefined) }),
  fc.record({ op: fc.constant('slices' as const), slices: fc.integer({ min: 1, max: 3 }) }),
  { weight: 4, arbitrary: fc.record({ op: fc.constant('settle' as const) }) },
  fc.record({
    op: fc.constantFrom('publish' as const, 'restart' as const, 'fail' as const, 'rebuild' as const),
  }),
);

/**
 * An event is on its way when a second destination is connected, and the profile goes before the walk comes
 * to it.
 */
const CONNECTED_AND_GONE: (typeof step extends fc.Arbitrary<infer One> ? One : never)[] = [
  { op: 'connect', destinations: ['crm'] },
  { op: 'order', anonymousId: 'a' },
  { op: 'slices', slices: 2 },
  { op: 'days', days: 95 },
  { op: 'connect', destinations: ['crm', 'erp'] },
];

test('destinations have exactly those as members who have profiles that are, whoever went in whatever history', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 25, size: 'max' }),
      fc.boolean(),
      async (steps, isWindow) => {
        let terms: Partial<ProfileRetention> = { ...QUARTER, known: 200 * DAY };
        const buyers = { ...(isWindow ? LATELY : BUYERS), destinations: ['crm', 'erp'] };
        const world = await new World().start(terms, { computations: [buyers], hearing: ['crm', 'erp'] });
        for (const one of steps) {
          if (one.op === 'order') world.order({ anonymousId: one.anonymousId });
          else if (one.op === 'login')
            world.store('identify', { userId: one.userId, anonymousId: one.anonymousId });
          else if (one.op === 'days') await world.clock.pass(one.days * DAY);
          else if (one.op === 'hearing') await world.configure({ hearing: one.hearing });
          else if (one.op === 'connect')
            await world.configure({ computations: [{ ...buyers, destinations: one.destinations }] });
          else if (one.op === 'room') {
            terms = one.bytes === undefined ? QUARTER : { ...terms, bytes: one.bytes };
            await world.configure({ retention: { protectedSources: [SERVER], ...terms } });
          } else if (one.op === 'slices') for (let n = 0; n < one.slices; n++) await world.processor.slice();
          else if (one.op === 'publish') await world.publish();
          else if (one.op === 'settle') {
            await world.settle();
            await world.publish();
          } else if (one.op === 'restart') await world.start(terms);
          else if (one.op === 'rebuild') await world.processor.rebuild({ dryRun: false });
          else {
            world.beforeCommit = () => {
              world.beforeCommit = () => {};
              throw new StorageError('the disk is full');
            };
            await world.processor.slice().catch(() => {});
            world.beforeCommit = () => {};
          }
        }
        await world.publish();
        await world.configure({ hearing: ['crm', 'erp'], computations: [buyers] });
        for (let round = 0; round < 6; round++) {
          await world.settle();
          await world.publish();
          if (round === 2) await world.clock.pass(2 * DAY);
        }
        const members = (await world.processor.members(BUYERS.id, 100)).members;
        const names = members.map(({ userId, anonymousId }) => userId ?? anonymousId).sort();
        expect(world.held('crm')).toEqual(names);
        // Nobody stays because of a destination that is not connected, and so it does not hear of whoever
        // went meanwhile.
        const wasApart = steps.some((one) => one.op === 'connect' && !one.destinations.includes('erp'));
        const days = steps.reduce((sum, one) => sum + (one.op === 'days' ? one.days : 0), 0);
        // A rebuild makes no profile of those whose time is over.
        const hasGone =
          world.logged.some(([event]) => event === 'profiles.forgotten') ||
          (days > 90 && steps.some(({ op }) => op === 'rebuild'));
        if (wasApart && hasGone) expect(world.held('erp')).toEqual(expect.arrayContaining(names));
        else expect(world.held('erp')).toEqual(names);
        expect((await world.processor.computations())[0]!.members).toBe(names.length);
        for (const owner of world.profiles.identities.values())
          expect(world.profiles.states.has(owner)).toBe(true);
      },
    ),
    { numRuns: amountOf({ gate: 150, long: 5000 }), examples: [[CONNECTED_AND_GONE, false]] },
  ));

describe('profiles that are too much for the disk', () => {
  /** Bytes of the states of so many profiles, about. */
  const room = (world: World, profiles: number) =>
    ([...world.profiles.states.values()].reduce((sum, { length }) => sum + length, 0) /
      world.profiles.states.size) *
    profiles;

  test('go in their order: visitors, then users of client sources, those first that were seen longest ago', async () => {
    const world = await new World().start({});
    for (const [nth, source] of [SITE, SITE, SERVER, SITE].entries()) {
      world.store('identify', { userId: `user-${nth}`, traits: { nth } }, source);
      await world.clock.pass(HOUR);
    }
    for (let nth = 0; nth < 4; nth++) {
      world.store('page', { anonymousId: `visitor-${nth}` }, nth === 1 ? SERVER : SITE);
      await world.clock.pass(HOUR);
    }
    world.store('page', { anonymousId: 'visitor-0' });
    await world.settle();
    const all = [0, 1, 2, 3].flatMap((nth) => [`user-${nth}`, `visitor-${nth}`]);
    expect(await world.knows(...all)).toHaveLength(8);
    const left = async (profiles: number) => {
      await world.configure({
        retention: { protectedSources: [SERVER], bytes: room(world, profiles + 0.1) / 0.8 },
      });
      await world.settle();
      return (await world.knows(...all)).sort();
    };
    const staying = ['user-1', 'user-2', 'user-3', 'visitor-1'];
    expect(await left(7)).toEqual(['user-0', ...staying, 'visitor-0', 'visitor-3'].sort());
    expect(await left(6)).toEqual(['user-0', ...staying, 'visitor-0'].sort());
    expect(await left(4)).toEqual(staying);
    expect(await left(1)).toEqual(['user-2', 'visitor-1']);
    expect(await left(0.1)).toEqual(['user-2', 'visitor-1']);
    expect(world.processor.counts.forgotten).toEqual({ retention: 0, space: 6 });
    expect(world.logged.at(-1)).toMatchObject(['profiles.no_room', {}]);
  });

  test('go while the log grows, as long as it does', async () => {
    const world = await new World().start({});
    for (let nth = 0; nth < 200; nth++) world.store('page', { anonymousId: `first-${nth}` });
    await world.settle();
    await world.configure({ retention: { protectedSources: [SERVER], bytes: room(world, 300) } });
    for (let round = 0; round < 30; round++) {
      for (let nth = 0; nth < 100; nth++) world.store('page', { anonymousId: `more-${round}-${nth}` });
      await world.clock.pass(2 * SECOND);
      await world.settle();
      expect(world.profiles.states.size).toBeLessThanOrEqual(300);
    }
    expect(world.profiles.identities.size).toBe(world.profiles.states.size);
    expect(await world.knows('first-0', 'more-29-99')).toEqual(['more-29-99']);
  });

  test('stay when an event has come meanwhile', async () => {
    const world = await new World().start({});
    for (let nth = 0; nth < 20; nth++) {
      world.store('page', { anonymousId: `visitor-${nth}` });
      await world.clock.pass(HOUR);
    }
    await world.settle();
    await world.configure({ retention: { protectedSources: [], bytes: room(world, 10) } });
    // In the slice that finds out who has to go, and lets them.
    world.store('page', { anonymousId: 'visitor-0' });
    await world.settle();
    expect(await world.knows('visitor-0', 'visitor-1', 'visitor-19')).toEqual(['visitor-0', 'visitor-19']);
    expect(await world.processor.profile({ anonymousId: 'visitor-0' })).toMatchObject({ firstSeenAt: START });
  });

  test('wait while many events wait for the log', async () => {
    const world = await new World().start({}, { computations: [BUYERS] });
    for (let nth = 0; nth < 6000; nth++) world.order({ anonymousId: `buyer-${nth}` });
    await world.settle();
    await world.configure({ retention: { protectedSources: [], bytes: room(world, 3000) } });
    await world.settle();
    expect(world.profiles.states.size).toBe(6000);
    await world.publish();
    await world.settle();
    const { size } = world.profiles.states;
    expect(size).toBeLessThan(6000);
    expect(world.told().filter(([, value]) => value === false)).toHaveLength(6000 - size);
  });
});
