import { hash as digest } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { quoted } from '../../../../clients/e2e/sentences/quoted.ts';
import { emptyContents } from '../../../test/memory-store/contents.ts';
import { openMemoryLogReader } from '../../../test/memory-store/log-reader.ts';
import { emptyProfiles, openMemoryProfiles } from '../../../test/memory-store/profile-store.ts';
import { handClock } from '../../../test/support/clock.ts';
import type { AudienceDefinition, Computation, Condition, TraitDefinition } from '../../model/definition.ts';
import type { Event } from '../../model/event.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import { HOUR, isoTime, MINUTE, SECOND } from '../../model/time.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { ComputationStatus, PreviewRequest } from '../../ports/users.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentityHash, KEEP_PROFILES } from '../contract.ts';
import { createProcessor, type Processor } from '../processor.ts';
import { Computations } from './computations.ts';

const START = Date.UTC(2026, 0, 1, 12);
const SITE = 1;
const OWN_SOURCE = 9;

const hash: IdentityHash = (kind, value) =>
  Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16);

const silent = { debug() {}, info() {}, warn() {}, error() {} };

function atLeast(orders: number, within?: number): Condition {
  const window = within === undefined ? {} : { within };
  return {
    op: '>=',
    value: { op: 'event', type: 'track', name: 'Order', ...window, reduce: { op: 'count' } },
    to: orders,
  };
}

function audience(definition: Condition, changes: Partial<AudienceDefinition> = {}): AudienceDefinition {
  return {
    ...{ id: 4, version: 1, kind: 'audience', name: 'Buyers', key: 'buyers', text: '', definition },
    ...{ destinations: ['crm'], enabled: true, includeAnonymous: false },
    ...changes,
  };
}

const SPENT: TraitDefinition = {
  ...{ id: 5, version: 1, kind: 'trait', name: 'Spent', key: 'spent', text: '' },
  ...{ destinations: ['crm'], enabled: true },
  definition: { op: 'event', type: 'track', name: 'Order', reduce: { op: 'sum', property: 'total' } },
};

/** A log and its profiles in memory. */
class World {
  readonly clock = handClock(START);
  readonly contents = emptyContents();
  readonly profiles = emptyProfiles();
  processor!: Processor;
  /** Called before each commit; what it throws is the result. */
  beforeCommit: () => void = () => {};
  #computations: readonly Computation[] = [];
  /** Entries that were taken out of the outbox. */
  readonly sent: Event[] = [];

  /** Stands for the next process on the same disk. */
  async restart(): Promise<this> {
    const store = openMemoryProfiles(this.profiles);
    const reader = openMemoryLogReader(this.contents);
    this.processor = createProcessor({
      reader,
      store: {
        ...store,
        commit: async (changes) => {
          this.beforeCommit();
          await store.commit(changes);
        },
      },
      clock: this.clock,
      logger: silent,
      hash,
      computations: new Computations({ reader, clock: this.clock }),
    });
    return this.configure(this.#computations);
  }

  async configure(computations: readonly Computation[]): Promise<this> {
    this.#computations = computations;
    const identities = DEFAULT_IDENTITY_SETTINGS;
    await this.processor.configure({
      computations,
      identities,
      serverSources: [SITE],
      hearing: ['crm', 'erp'],
      retention: KEEP_PROFILES,
      ownSource: OWN_SOURCE,
    });
    return this;
  }

  async preview(request: PreviewRequest) {
    return await (await this.processor.preview(request)).result;
  }

  order(userId: string, properties: JsonObject = {}): void {
    this.store('track', { userId, event: 'Order', properties });
  }

  store(type: string, fields: JsonObject): void {
    const position = ++this.contents.lastPosition;
    const at = isoTime(this.clock.now());
    const json = JSON.stringify({
      ...{ messageId: `m${position}`, type, context: {}, timestamp: at, receivedAt: at },
      ...fields,
    });
    const rest = {
      messageId: '',
      userId: undefined,
      receivedAt: this.clock.monotonic(),
      owed: [],
      skipped: [],
    };
    this.contents.events.set(position, { ...rest, source: SITE, json });
  }

  async catchUp(): Promise<void> {
    for (let hasMore = true; hasMore; ) hasMore = (await this.processor.slice()).hasMore;
  }

  /** Waits until waiting changes are told too. */
  async settle(): Promise<void> {
    await this.catchUp();
    await this.clock.pass(SECOND);
    await this.catchUp();
  }

  /** The publisher takes what is in the outbox. Resolves to the events. */
  async publish(): Promise<Event[]> {
    const entries = await this.processor.outbox(0, 100_000);
    const events = entries.map(({ json }) => JSON.parse(json) as Event);
    this.sent.push(...events);
    if (entries.length > 0) await this.processor.sent(entries.at(-1)!.sequence);
    await this.catchUp();
    return events;
  }

  async told(): Promise<[string, Json][]> {
    const events = await this.publish();
    return events.map(({ userId, anonymousId, traits }) => [
      userId ?? `anonymous ${anonymousId}`,
      Object.values(traits!)[0]!,
    ]);
  }

  async status(id = 4): Promise<ComputationStatus | undefined> {
    return (await this.processor.computations()).find((one) => one.id === id);
  }
}

const BUYERS = audience(atLeast(2));

describe('a definition that cannot be computed', () => {
  /** As a newer version may have stored it: an event that it counts throws. */
  const UNKNOWN = {
    ...SPENT,
    ...{ id: 6, name: 'Newer', key: 'newer' },
    definition: { ...SPENT.definition, reduce: { op: 'median', property: 'total' } },
  } as unknown as TraitDefinition;
  /** Cannot even be compiled. */
  const EMPTY = audience({ op: 'and' } as unknown as Condition, { id: 7, name: 'Empty', key: 'empty' });

  async function failing(): Promise<World> {
    const world = await new World().restart();
    await world.configure([UNKNOWN, EMPTY, BUYERS, SPENT]);
    await world.settle();
    for (const userId of ['ann', 'ann']) world.order(userId, { total: 30 });
    await world.settle();
    return world;
  }

  it('is left alone with the reason, and all others go on', async () => {
    const world = await failing();
    expect(await world.told()).toEqual([
      ['ann', true],
      ['ann', 60],
    ]);
    expect(await world.status(UNKNOWN.id)).toMatchObject({
      state: 'failed',
      reason: /TypeError: .*values stay/,
    });
    expect(await world.status(EMPTY.id)).toMatchObject({ state: 'failed' });
    expect(await world.status(BUYERS.id)).toMatchObject({ state: 'live', members: 1 });
    expect((await world.processor.slice()).failed).toEqual(['Newer', 'Empty']);
  });

  it('stays so after a restart, because events are missing in it', async () => {
    const world = await failing();
    await world.restart();
    expect((await world.processor.slice()).failed).toEqual(['Newer', 'Empty']);
  });

  it('is computed from the stored events when it is written in another way', async () => {
    const world = await failing();
    await world.publish();
    await world.configure([{ ...UNKNOWN, definition: SPENT.definition }, BUYERS, SPENT]);
    await world.settle();
    expect(await world.told()).toEqual([['ann', 60]]);
    expect((await world.processor.slice()).failed).toEqual([]);
  });
});

describe('a new audience', () => {
  it('counts the events that are stored already, and every member is told once', async () => {
    const world = await new World().restart();
    for (const userId of ['ann', 'bob', 'ann', 'cleo', 'cleo', 'cleo']) world.order(userId);
    world.store('track', { userId: 'bob', event: 'Opened' });
    await world.settle();
    await world.configure([BUYERS]);
    await world.settle();
    expect(await world.told()).toEqual([
      ['ann', true],
      ['cleo', true],
    ]);
    expect(await world.status()).toEqual({
      ...{ id: 4, state: 'live', members: 2, progress: 1, eventsSince: START },
    });
    world.order('bob');
    await world.settle();
    expect(await world.told()).toEqual([['bob', true]]);
  });

  it('also has members who never sent an event that it mentions', async () => {
    const world = await new World().restart();
    world.store('identify', { userId: 'ann', traits: { plan: 'pro' } });
    world.store('identify', { userId: 'bob', traits: { plan: 'free' } });
    await world.settle();
    const pro: Condition = { op: '=', value: { op: 'trait', name: 'plan' }, to: 'pro' };
    await world.configure([audience(pro), { ...audience({ op: 'not', condition: pro }), id: 6, name: 'x' }]);
    await world.settle();
    expect(await world.told()).toEqual([
      ['ann', true],
      ['bob', true],
    ]);
  });

  it('says nothing of what was true once, when the profiles begin with a log that is there', async () => {
    const world = new World();
    world.order('ann');
    await world.clock.pass(HOUR);
    world.order('bob');
    await world.restart();
    await world.configure([audience(atLeast(1, 10 * MINUTE)), SPENT]);
    for (let n = 0; n < 5; n++) {
      world.order('cleo', { total: 10 });
      await world.processor.slice();
      await world.clock.pass(SECOND);
    }
    await world.settle();
    const told = await world.told();
    expect(told.filter(([, value]) => typeof value === 'boolean').sort()).toEqual([
      ['bob', true],
      ['cleo', true],
    ]);
    expect(told.findLast(([, value]) => typeof value === 'number')).toEqual(['cleo', 50]);
  });

  it('waits with its first sync while the outbox is full, and live changes of those behind it go out', async () => {
    const world = await new World().restart();
    for (let n = 0; n < 7000; n++) world.order(`u${n}`);
    await world.settle();
    await world.configure([audience(atLeast(1))]);
    await world.settle();
    const first = await world.publish();
    expect(first.length).toBeGreaterThan(4000);
    expect(first.length).toBeLessThan(7000);
    expect(await world.status()).toMatchObject({ state: 'computing' });
    await world.settle();
    expect(first.length + (await world.publish()).length).toBe(7000);
    expect(await world.status()).toMatchObject({ state: 'live', members: 7000 });
    expect(new Set(world.sent.map(({ messageId }) => messageId)).size).toBe(7000);
  });
});

describe('an erased user', () => {
  it('is a member no more, and nobody is told', async () => {
    const world = await new World().restart();
    await world.configure([BUYERS]);
    for (const userId of ['ann', 'ann', 'bob', 'bob']) world.order(userId);
    await world.settle();
    await world.publish();
    expect(await world.processor.erase(['ann', 'nobody'], [])).toBe(1);
    await world.settle();
    expect(await world.status()).toMatchObject({ members: 1 });
    await world.restart();
    expect(await world.status()).toMatchObject({ members: 1 });
    expect(await world.told()).toEqual([]);
  });
});

describe('a lost file of profiles', () => {
  it('is made anew, and its events do not take numbers or messageIds that the log has', async () => {
    const world = await new World().restart();
    await world.configure([BUYERS]);
    for (const userId of ['ann', 'ann', 'bob', 'bob']) world.order(userId);
    await world.settle();
    const before = await world.publish();
    world.contents.producers.set('users', 2);
    Object.assign(world.profiles, emptyProfiles());
    await world.restart();
    await world.settle();
    const entries = await world.processor.outbox(0, 10);
    expect(entries.map(({ sequence }) => sequence)).toEqual([3, 4]);
    const after = entries.map(({ json }) => (JSON.parse(json) as Event).messageId);
    expect(before.map(({ messageId }) => messageId)).not.toEqual(expect.arrayContaining([after[0]]));
  });
});

describe('the messageId of a change', () => {
  /** The part that is drawn by lot, of each change that is told of a user who orders. */
  async function lots(world: World, user: string): Promise<string[]> {
    world.order(user);
    await world.settle();
    const events = await world.publish();
    return events.map(({ messageId }) => /^aud_4_v1_([^.]+)\.\d+\.\d+$/.exec(messageId)?.[1] ?? messageId);
  }

  it('cannot be foretold from that of another installation, and stays what it is over a restart', async () => {
    const worlds = [new World(), new World()];
    const seen = new Set<string>();
    for (const world of worlds) {
      await world.restart();
      await world.configure([audience(atLeast(1))]);
      const [lot, ...more] = await lots(world, 'ann');
      expect(lot).toMatch(/^[0-9a-f]{16}$/);
      expect(more).toEqual([]);
      await world.restart();
      expect(await lots(world, 'bob')).toEqual([lot]);
      seen.add(lot!);
    }
    expect(seen.size).toBe(2);
  });

  it('is drawn anew for profiles of an earlier program, whose number could be guessed', async () => {
    const world = await new World().restart();
    await world.configure([audience(atLeast(1))]);
    await lots(world, 'ann');
    world.profiles.documents.set('lineage', '"1"');
    await world.restart();
    const [lot] = await lots(world, 'bob');
    expect(lot).toMatch(/^[0-9a-f]{16}$/);
    await world.restart();
    expect(await lots(world, 'cat')).toEqual([lot]);
  });
});

describe('a changed audience', () => {
  async function live(): Promise<World> {
    const world = await new World().restart();
    await world.configure([BUYERS]);
    for (const [userId, orders] of Object.entries({ ann: 1, bob: 2, cleo: 5 }))
      for (let n = 0; n < orders; n++) world.order(userId);
    await world.settle();
    expect(await world.told()).toEqual([
      ['bob', true],
      ['cleo', true],
    ]);
    return world;
  }

  it('tells only those who enter and leave, and goes on as it was until it is computed', async () => {
    const world = await live();
    await world.configure([audience(atLeast(3), { version: 2 })]);
    await world.settle();
    expect(await world.told()).toEqual([['bob', false]]);
    expect(await world.status()).toMatchObject({ state: 'live', members: 1 });
  });

  it(`${quoted('One for which a sync is asked gets every member again.')} Also after a restart, and it alone`, async () => {
    const world = await live();
    const both = audience(atLeast(2), { version: 2, destinations: ['crm', 'erp'] });
    await world.configure([both]);
    await world.settle();
    await world.publish();
    // Asked for twice before it has begun, it is one.
    expect(await world.processor.repeat(4, 'erp')).toBe(true);
    expect(await world.processor.repeat(4, 'erp')).toBe(true);
    await world.restart();
    await world.settle();
    const told = (await world.publish()).map(({ userId, traits, integrations }) => [
      userId,
      ...Object.values(traits!),
      integrations,
    ]);
    expect(told).toEqual([
      ['bob', true, { All: false, erp: true }],
      ['cleo', true, { All: false, erp: true }],
    ]);
    expect(await world.status()).toMatchObject({ state: 'live', members: 2 });
    expect(await world.processor.repeat(17, 'erp')).toBe(false);
    await world.settle();
    expect(await world.told()).toEqual([]);
  });

  it('counts each member once, also those whose events arrive while its first sync begins', async () => {
    const world = await live();
    await world.configure([audience(atLeast(3), { version: 2 })]);
    for (let hasMore = true; hasMore; ) {
      world.order('cleo');
      hasMore = (await world.processor.slice()).hasMore && world.contents.lastPosition < 50;
    }
    await world.settle();
    expect(await world.status()).toMatchObject({ state: 'live', members: 1 });
  });

  it('tells a new destination alone what the others know', async () => {
    const world = await live();
    await world.configure([audience(atLeast(2), { version: 2, destinations: ['crm', 'erp'] })]);
    await world.settle();
    const events = await world.publish();
    expect(events.map(({ userId, integrations }) => [userId, integrations])).toEqual([
      ['bob', { All: false, erp: true }],
      ['cleo', { All: false, erp: true }],
    ]);
  });

  it('is silent while it is disabled, and tells every member when it is enabled again', async () => {
    const world = await live();
    await world.configure([audience(atLeast(2), { enabled: false })]);
    world.order('ann');
    await world.settle();
    expect(await world.told()).toEqual([]);
    expect(await world.status()).toMatchObject({ state: 'disabled' });
    await world.configure([BUYERS]);
    await world.settle();
    expect(await world.told()).toEqual([
      ['ann', true],
      ['bob', true],
      ['cleo', true],
    ]);
    expect(await world.status()).toMatchObject({ state: 'live', members: 3 });
  });

  it('that is removed tells nobody, and tells every member when it is there again', async () => {
    const world = await live();
    await world.configure([]);
    await world.settle();
    expect(await world.told()).toEqual([]);
    await world.configure([BUYERS]);
    await world.settle();
    expect(await world.told()).toEqual([
      ['bob', true],
      ['cleo', true],
    ]);
  });
});

describe('a preview', () => {
  it('says who would be a member, enter and leave, and keeps and sends nothing', async () => {
    const world = await new World().restart();
    await world.configure([BUYERS]);
    for (const [userId, orders] of Object.entries({ ann: 1, bob: 2, cleo: 5 }))
      for (let n = 0; n < orders; n++) world.order(userId);
    world.store('track', { anonymousId: 'a1', event: 'Refund' });
    world.store('track', { userId: 'ann', event: 'Refund' });
    await world.settle();
    await world.publish();
    const before = JSON.stringify([...world.profiles.states, ...world.profiles.documents]);
    const refunds: Condition = {
      op: 'or',
      conditions: [
        atLeast(5),
        { op: '>=', value: { op: 'event', type: 'track', name: 'Refund', reduce: { op: 'count' } }, to: 1 },
      ],
    };
    const request = { definition: refunds, includeAnonymous: false };
    expect(await world.preview({ ...request, replaces: BUYERS })).toEqual({
      ...{ members: 2, sample: ['ann', 'cleo'], enters: 1, leaves: 1, eventsSince: START, eventsBehind: 0 },
      ...{ textForNumbers: [], unknownNames: [] },
    });
    expect(await world.preview({ ...request, includeAnonymous: true })).toMatchObject({
      ...{ members: 3, enters: 3, leaves: 0 },
    });
    expect(await world.preview({ ...request, definition: SPENT.definition })).toMatchObject({
      members: 0,
    });
    await world.catchUp();
    expect(JSON.stringify([...world.profiles.states, ...world.profiles.documents])).toBe(before);
    expect(await world.told()).toEqual([]);
  });

  it('selects pages and screens without a name, and takes the traits of a page for its properties', async () => {
    const world = await new World().restart();
    const views = (type: 'page' | 'screen', name: string, k?: number): Condition => {
      const where = { op: '=', value: { op: 'property', name: 'k' }, to: k ?? 0 } as const;
      const of = { op: 'event', type, name, ...(k === undefined ? {} : { where }) } as const;
      return { op: '>=', value: { ...of, reduce: { op: 'count' } }, to: 1 };
    };
    const nameless = audience(views('page', ''), { includeAnonymous: false });
    world.store('page', { userId: 'early', properties: { k: 1 } });
    await world.catchUp();
    await world.configure([nameless]);
    world.store('page', { userId: 'traits', name: 'Home', traits: { k: 1 } });
    world.store('page', { userId: 'both', name: 'Home', traits: { k: 1, l: 1 }, properties: { k: 2 } });
    world.store('screen', { userId: 'screen', traits: { k: 1 } });
    world.store('page', { userId: 'late', title: 'page', name: 'page' });
    world.store('page', { userId: 'late', traits: { k: 2 } });
    world.store('track', { userId: 'track', event: 'page', traits: { k: 1 } });
    world.store('identify', { userId: 'identify', traits: { k: 1 } });
    await world.settle();
    const membersOf = async (definition: Condition) =>
      (await world.preview({ definition, includeAnonymous: false })).sample;
    expect(await membersOf(views('page', ''))).toEqual(['early', 'late']);
    expect(await membersOf(views('page', '', 2))).toEqual(['late']);
    expect(await membersOf(views('screen', '', 1))).toEqual(['screen']);
    expect(await membersOf(views('page', 'Home', 1))).toEqual(['traits']);
    expect(await membersOf(views('page', 'Home', 2))).toEqual(['both']);
    expect(await world.told()).toEqual([
      ['early', true],
      ['late', true],
    ]);
  });

  it('names the events, pages, screens and traits that never occurred, and what may be meant', async () => {
    const world = await new World().restart();
    await world.configure([BUYERS]);
    const count = (type: 'track' | 'page' | 'screen', name: string): Condition => ({
      op: '>=',
      value: { op: 'event', type, name, reduce: { op: 'count' } },
      to: 1,
    });
    const has = (name: string): Condition => ({ op: 'exists', value: { op: 'trait', name } });
    const ofUser = { op: '>=', to: 1 } as const;
    const order = { op: 'event', type: 'track', name: 'Order' } as const;
    const conditions: Condition[] = [
      ...[
        count('track', 'Order Complete'),
        count('track', 'Nothing like it'),
        count('page', 'Order Completed'),
      ],
      ...[
        count('screen', ''),
        count('page', ''),
        count('track', 'Order Completed'),
        count('page', 'Pricing'),
      ],
      ...[has('plann'), has('address.city'), has('address.street')],
      // Nobody meets its condition, and there is such an event.
      { ...ofUser, value: { ...order, where: has('paln'), reduce: { op: 'sum', property: 'total' } } },
      // BUYERS counts them already, and nothing is read again.
      atLeast(2),
    ];
    const request = { definition: { op: 'or', conditions }, includeAnonymous: false } as const;
    expect((await world.preview(request)).unknownNames).toEqual([]);
    world.store('track', { userId: 'ann', event: 'Order Completed' });
    world.store('track', { userId: 'ann', event: 'Order' });
    // Would be shown in a terminal.
    world.store('track', { userId: 'ann', event: 'Order Complete\u009b' });
    world.store('page', { userId: 'ann', name: 'Pricing' });
    world.store('page', { anonymousId: 'a' });
    world.store('identify', {
      userId: 'ann',
      traits: { plan: 'pro', address: { city: 'Wien' } },
    });
    await world.settle();
    const { unknownNames } = await world.preview(request);
    expect(unknownNames).toEqual([
      { kind: 'track', name: 'Order Complete', closest: 'Order Completed' },
      { kind: 'track', name: 'Nothing like it' },
      { kind: 'page', name: 'Order Completed' },
      { kind: 'screen', name: '' },
      { kind: 'trait', name: 'plann', closest: 'plan' },
      { kind: 'trait', name: 'address.street' },
      { kind: 'trait', name: 'paln', closest: 'plan' },
    ]);
  });

  it('looks for a name that may be meant among the newest ten thousand events alone', async () => {
    const world = await new World().restart();
    world.store('track', { userId: 'ann', event: 'Paid' });
    for (let n = 0; n < 9999; n++) world.order('ann');
    const request = { definition: SPENT.definition, includeAnonymous: false };
    const unknown = async () => {
      await world.catchUp();
      const definition = { ...request.definition, name: 'Piad' };
      return (await world.preview({ ...request, definition })).unknownNames;
    };
    expect(await unknown()).toEqual([{ kind: 'track', name: 'Piad', closest: 'Paid' }]);
    world.order('ann');
    expect(await unknown()).toEqual([{ kind: 'track', name: 'Piad' }]);
  });

  it('tells of values that are text where numbers are wanted', async () => {
    const world = await new World().restart();
    const values = [1, '2', 300, 'three', 18014398509481984, '18014398509481985'];
    values.forEach((total, nth) => {
      world.store('track', { userId: `u${nth}`, event: 'Order', properties: { total } });
      world.store('identify', { userId: `u${nth}`, traits: { age: total } });
    });
    await world.settle();
    const total = { op: 'property', name: 'total' } as const;
    const order = { op: 'event', type: 'track', name: 'Order' } as const;
    const definition: Condition = {
      op: 'or',
      conditions: [
        { op: '>', value: { op: 'trait', name: 'age' }, to: 5 },
        { op: '>', value: { ...order, reduce: { op: 'sum', property: 'total' } }, to: 5 },
        { op: 'not', condition: { op: '=', value: { op: 'trait', name: 'age' }, to: 'three' } },
        {
          op: '>=',
          value: { ...order, where: { op: '<', value: total, to: 5 }, reduce: { op: 'count' } },
          to: 1,
        },
      ],
    };
    const { textForNumbers } = await world.preview({ definition, includeAnonymous: false });
    expect(textForNumbers).toHaveLength(3);
    expect(textForNumbers).toEqual(
      expect.arrayContaining([
        // The digits of a number that no double holds are compared as that number.
        { kind: 'trait', name: 'age', use: 'compared', texts: 2, values: 6 },
        { kind: 'property', name: 'total', use: 'compared', texts: 2, values: 6 },
        { kind: 'property', name: 'total', use: 'reduced', texts: 3, values: 6 },
      ]),
    );
  });

  it('ends when nobody waits for it, and after two minutes', async () => {
    const world = await new World().restart();
    for (let n = 0; n < 3000; n++) world.order(`u${n % 10}`);
    await world.settle();
    const request = { definition: atLeast(5), includeAnonymous: false };
    const cancelled = world.preview(request);
    setImmediate(() => world.processor.cancelPreview());
    await expect(cancelled).rejects.toThrow('nobody waits');
    expect(await world.preview(request)).toMatchObject({ members: 10 });
    const late = world.preview(request);
    setImmediate(() => world.clock.pass(3 * MINUTE));
    await expect(late).rejects.toThrow(/two minutes .* enabled: false/);
  });
});

describe('a question', () => {
  it('that profiles are too far behind for says how many events its preview does not count', async () => {
    const world = await new World().restart();
    await world.configure([BUYERS]);
    for (let n = 0; n < 3; n++) world.order(`u${n}`);
    await world.settle();
    for (let n = 0; n < 5; n++) world.order('late');
    // The two seconds that it waits are over at once.
    const monotonic = vi.spyOn(world.clock, 'monotonic');
    let now = 0;
    monotonic.mockImplementation(() => (now += 3000));
    const request = { definition: atLeast(1), includeAnonymous: false };
    expect(await world.preview(request)).toMatchObject({ members: 3, eventsBehind: 5 });
    monotonic.mockRestore();
    expect(await world.preview(request)).toMatchObject({ members: 4, eventsBehind: 0 });
    // What a question has brought up to date counts as done with the next slice, which the progress is told
    // of.
    expect((await world.processor.slice()).done).toBeGreaterThanOrEqual(5);
  });

  it('finds the calls that were stored before it was asked', async () => {
    const world = await new World().restart();
    await world.configure([BUYERS]);
    await world.settle();
    for (const userId of ['ann', 'ann', 'bob']) world.order(userId);
    expect(await world.preview({ definition: atLeast(1), includeAnonymous: false })).toMatchObject({
      members: 2,
    });
    world.order('cleo');
    expect(await world.processor.profile({ userId: 'cleo' })).toMatchObject({ userId: 'cleo' });
    world.order('cleo');
    expect(await world.processor.members(4, 10)).toMatchObject({
      members: [{ userId: 'ann' }, { userId: 'cleo' }],
    });
    await world.settle();
    expect(await world.told()).toEqual([
      ['ann', true],
      ['cleo', true],
    ]);
  });

  it('is answered from the last commit while nothing can be stored', async () => {
    const world = await new World().restart();
    world.order('ann');
    await world.settle();
    world.order('bob');
    world.beforeCommit = () => {
      throw new StorageError('the disk is full');
    };
    expect(await world.processor.profile({ userId: 'ann' })).toMatchObject({ userId: 'ann' });
    expect(await world.processor.profile({ userId: 'bob' })).toBeUndefined();
  });
});

describe('whatever happens', () => {
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 6, arbitrary: fc.record({ order: fc.constantFrom('u0', 'u1', 'u2', 'u3') }) },
    { weight: 3, arbitrary: fc.constant({ slice: true }) },
    { weight: 2, arbitrary: fc.record({ wait: fc.integer({ min: 1, max: 4000 }) }) },
    { weight: 1, arbitrary: fc.record({ crash: fc.constantFrom('before the commit', 'after the commit') }) },
    {
      weight: 1,
      arbitrary: fc.record({
        least: fc.integer({ min: 1, max: 3 }),
        within: fc.constantFrom(null, 5 * SECOND),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ enable: true }) },
    { weight: 1, arbitrary: fc.constant({ publish: true }) },
  );

  it('the last thing that destinations hear of a user is true, and no change is told twice', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const world = await new World().restart();
        const orders: { user: string; at: number }[] = [];
        let definition = BUYERS;
        for (const one of steps) await take(one);
        // Long enough that every window has passed and every change that followed is told.
        for (let n = 0; n < 8; n++) await world.settle();
        await world.publish();
        expectTruth(world, await world.status(), { orders, definition });

        async function take(one: Step): Promise<void> {
          if (one.order !== undefined) {
            orders.push({ user: one.order, at: world.clock.now() });
            world.order(one.order);
          } else if (one.slice) await world.processor.slice();
          else if (one.wait !== undefined) await world.clock.pass(one.wait);
          else if (one.publish) await world.publish();
          else if (one.crash !== undefined) await crash(world, one.crash === 'after the commit');
          else {
            const changes = one.enable
              ? { enabled: !definition.enabled }
              : { definition: atLeast(one.least ?? 1, one.within ?? undefined) };
            definition = { ...definition, ...changes, version: definition.version + 1 };
            await world.configure([definition]);
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  /** The process dies in the middle of a slice; the disk has it or not. */
  async function crash(world: World, isStored: boolean): Promise<void> {
    if (!isStored) {
      world.beforeCommit = () => {
        throw new StorageError('the process dies');
      };
      await world.processor.slice().catch(() => {});
      world.beforeCommit = () => {};
    } else await world.processor.slice();
    await world.restart();
  }

  function expectTruth(
    world: World,
    status: ComputationStatus | undefined,
    facts: { orders: readonly { user: string; at: number }[]; definition: AudienceDefinition },
  ): void {
    const { orders, definition } = facts;
    const { op, value, to } = definition.definition as unknown as {
      op: string;
      value: { within?: number };
      to: number;
    };
    expect(op).toBe('>=');
    const now = world.clock.now();
    const members: string[] = [];
    for (const user of ['u0', 'u1', 'u2', 'u3']) {
      const counted = orders.filter(
        (one) => one.user === user && now - one.at < (value.within ?? Number.POSITIVE_INFINITY),
      );
      if (counted.length >= to) members.push(user);
    }
    const heard = new Map<string, Json>();
    for (const { userId, traits } of world.sent) heard.set(userId!, traits!['buyers']!);
    const believed = [...heard].flatMap(([user, isMember]) => (isMember === true ? [user] : [])).sort();
    if (status !== undefined && definition.enabled) {
      expect(believed).toEqual(members);
      expect(status.members).toBe(members.length);
    }
    const ids = world.sent.map(({ messageId }) => messageId);
    expect(new Set(ids).size).toBe(ids.length);
  }
});

/** One of these happens. */
interface Step {
  readonly order?: string;
  readonly slice?: boolean;
  readonly wait?: number;
  readonly crash?: string;
  readonly least?: number;
  readonly within?: number | null;
  readonly enable?: boolean;
  readonly publish?: boolean;
}
