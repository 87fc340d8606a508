import { hash as digest } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { quoted } from '../../../../clients/e2e/sentences/quoted.ts';
import { emptyContents } from '../../../test/memory-store/contents.ts';
import { openMemoryLogReader } from '../../../test/memory-store/log-reader.ts';
import { emptyProfiles, openMemoryProfiles } from '../../../test/memory-store/profile-store.ts';
import { handClock } from '../../../test/support/clock.ts';
import type { AudienceDefinition } from '../../model/definition.ts';
import type { JsonObject } from '../../model/json.ts';
import { isoTime, SECOND } from '../../model/time.ts';
import { StorageError } from '../../ports/event-log.ts';
import type { ProfileStore } from '../../ports/profile-store.ts';
import { Computations } from '../computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentityHash, type UsersSettings } from '../contract.ts';
import { decodeProfile, encodeProfile, mergeProfiles, newIdentity } from '../identity/profile-state.ts';
import { createProcessor, type Processor } from '../processor.ts';

const START = Date.parse('2026-11-22T12:00:00.000Z');
const [SERVER, WEBSITE] = [1, 2];

const hash: IdentityHash = (kind, value) =>
  Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16);

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Members ordered twice or more. */
const BUYERS: AudienceDefinition = {
  ...{ id: 4, version: 1, kind: 'audience', name: 'buyers', key: 'buyers', text: '' },
  ...{ destinations: ['crm'], enabled: true, includeAnonymous: false },
  definition: {
    op: '>=',
    value: { op: 'event', type: 'track', name: 'Order', reduce: { op: 'count' } },
    to: 2,
  },
};

/** A log and its profiles in memory. */
class World {
  readonly clock = handClock(START);
  readonly contents = emptyContents();
  readonly profiles = emptyProfiles();
  processor!: Processor;
  /** Called before each call of the store that changes something; may throw. */
  onChange: (name: 'commit' | 'erase') => void = () => {};

  async restart(apart: UsersSettings['apart'] & object = []): Promise<this> {
    await this.#open();
    await this.configure([SERVER], apart);
    return this;
  }

  async configure(
    serverSources: readonly number[],
    apart: UsersSettings['apart'] & object = [],
  ): Promise<void> {
    await this.processor.configure({
      computations: [BUYERS],
      identities: { ...DEFAULT_IDENTITY_SETTINGS, externalIds: ['email'] },
      ...{ serverSources, hearing: ['crm'], ownSource: 9, apart },
      retention: { protectedSources: serverSources },
    });
  }

  async #open(): Promise<void> {
    const store: ProfileStore = openMemoryProfiles(this.profiles);
    const reader = openMemoryLogReader(this.contents);
    this.processor = createProcessor({
      reader,
      store: {
        ...store,
        commit: async (changes) => {
          this.onChange('commit');
          await store.commit(changes);
        },
        erase: async (...erased) => {
          this.onChange('erase');
          await store.erase(...erased);
        },
      },
      ...{ clock: this.clock, logger: silent, hash },
      computations: new Computations({ reader, clock: this.clock }),
    });
  }

  store(type: string, fields: JsonObject, source = SERVER): void {
    const position = ++this.contents.lastPosition;
    const at = isoTime(this.clock.now());
    const messageId = `m${position}`;
    const json = JSON.stringify({ messageId, type, ...fields, context: {}, timestamp: at, receivedAt: at });
    const record = { messageId: '', userId: undefined, receivedAt: this.clock.monotonic() };
    this.contents.events.set(position, { ...record, owed: [], skipped: [], source, json });
  }

  /** Erases the events that have one of these texts as their userId. */
  eraseEvents(...userIds: string[]): void {
    for (const [position, { json }] of this.contents.events)
      if (userIds.includes((JSON.parse(json) as { userId?: string }).userId ?? ''))
        this.contents.events.delete(position);
  }

  /** Runs slices until nothing is at hand, and what waits is told. */
  async catchUp(): Promise<void> {
    for (let nth = 0; nth < 3; nth++) {
      for (let hasMore = true; hasMore; ) hasMore = (await this.processor.slice()).hasMore;
      await this.clock.pass(SECOND);
    }
  }

  told(): unknown[] {
    return [...this.profiles.outbox.values()].map(({ json }) => {
      const { userId, traits } = JSON.parse(json) as { userId: string; traits: JsonObject };
      return `${userId} ${traits['buyers']}`;
    });
  }

  async audiencesOf(userId: string): Promise<readonly string[] | undefined> {
    return (await this.processor.profile({ userId }))?.audiences;
  }
}

/** Ann and Bob, each with a device and orders of their own, who are one by an alias of Bob. */
async function annAndBob(): Promise<World> {
  const world = await new World().restart();
  for (const [userId, anonymousId, plan] of [
    ['ann', 'phone', 'pro'],
    ['bob', 'tablet', 'free'],
  ] as const) {
    world.store('track', { anonymousId, event: 'Order' });
    world.store('identify', { userId, anonymousId, traits: { plan, [userId]: true } });
    world.store('track', { userId, event: 'Order' });
  }
  await world.catchUp();
  world.store('alias', { userId: 'bob', previousId: 'ann' });
  await world.catchUp();
  return world;
}

/** Ann and Bob, whom an earlier version has made one because each sent an alias from the same device. */
async function deviceOfTwo(): Promise<World> {
  const world = await new World().restart();
  for (const userId of ['ann', 'bob']) {
    world.store('identify', { userId, traits: { [userId]: 1 } });
    world.store('alias', { userId, previousId: 'd1' });
  }
  await world.catchUp();
  const store = openMemoryProfiles(world.profiles);
  const ids = await store.resolve([hash('user', 'bob'), hash('user', 'ann')]);
  const [bob, ann] = (await store.get(ids.map((id) => id!))).map((state, nth) =>
    decodeProfile(ids[nth]!, state!),
  );
  const [winner, loser] = [bob!.id, ann!.id];
  const merged = mergeProfiles(bob!, ann!);
  merged.identities.push(newIdentity('user', 'd1', START));
  merged.formerUserIds = ['ann', 'd1'];
  const rule = { rule: 'alias', identity: { kind: 'user', value: 'd1' }, messageId: 'm4' } as const;
  await store.commit({
    cursor: await store.cursor(),
    put: [{ id: merged.id, state: encodeProfile(merged) }],
    removed: [merged.id === winner ? loser : winner],
    bind: merged.identities.map(({ kind, value }) => ({ key: hash(kind, value), profile: merged.id })),
    ...{ unbind: [], timers: [], firedTimers: [], outbox: [] },
    merges: [{ winner: merged.id, loser: merged.id + 100, ...rule, at: START, position: 4 }],
  });
  await world.restart();
  return world;
}

describe('a user who was left out of the erasure of another one with the same profile', () => {
  test('has a profile of its own events afterwards, and destinations hear of it again', async () => {
    const world = await annAndBob();
    expect(world.told()).toEqual(['ann true', 'bob true', 'ann false']);
    world.eraseEvents('bob');
    await world.processor.erase(['bob'], ['tablet']);
    await world.catchUp();
    expect(await world.processor.profile({ userId: 'bob' })).toBeUndefined();
    expect(await world.processor.profile({ anonymousId: 'tablet' })).toBeUndefined();
    expect(await world.processor.profile({ userId: 'ann' })).toMatchObject({
      ...{ userId: 'ann', formerUserIds: [], anonymousIds: ['phone'], merges: [] },
      ...{ traits: { plan: 'pro', ann: true }, audiences: ['buyers'] },
    });
    expect(world.told().at(-1)).toBe('ann true');
    expect((await world.processor.computations())[0]).toMatchObject({ members: 1 });
  });

  test('goes on as destinations know it where it stood for the profile', async () => {
    const world = await annAndBob();
    world.eraseEvents('ann');
    await world.processor.erase(['ann'], ['phone']);
    await world.catchUp();
    expect(await world.processor.profile({ userId: 'bob' })).toMatchObject({
      ...{ formerUserIds: [], anonymousIds: ['tablet'], traits: { plan: 'free', bob: true } },
    });
    // Bob was told already.
    expect(world.told().slice(3)).toEqual([]);
    expect(await world.audiencesOf('bob')).toEqual(['buyers']);
  });

  test('is not lost when the process dies at any write of the erasure', async () => {
    for (let left = 0; ; left++) {
      const world = await annAndBob();
      world.eraseEvents('bob');
      let writes = 0;
      world.onChange = () => {
        if (writes++ >= left) throw new Error('the process is dead');
      };
      const isDone = await world.processor.erase(['bob'], ['tablet']).then(
        () => true,
        () => false,
      );
      world.onChange = () => {};
      await world.restart();
      if (!isDone) {
        // Something else may come in between.
        if (left % 2 === 0) world.store('identify', { userId: 'ann', traits: { later: 1 } });
        if (left % 2 === 0) await world.catchUp();
        await world.processor.erase(['bob'], ['tablet']);
      }
      await world.catchUp();
      expect(await world.processor.profile({ userId: 'ann' }), `${left} writes`).toMatchObject({
        ...{ formerUserIds: [], anonymousIds: ['phone'], audiences: ['buyers'], traits: { ann: true } },
      });
      expect(await world.processor.profile({ userId: 'bob' })).toBeUndefined();
      expect((await world.processor.computations())[0], `${left} writes`).toMatchObject({ members: 1 });
      expect(world.profiles.documents.has('left')).toBe(false);
      if (isDone) return expect(left).toBeGreaterThan(1);
    }
  });

  test('is erased too where the process died before it was made anew', async () => {
    const world = await annAndBob();
    world.eraseEvents('bob');
    let writes = 0;
    world.onChange = () => {
      if (writes++ > 0) throw new Error('the process is dead');
    };
    await expect(world.processor.erase(['bob'], ['tablet'])).rejects.toThrow('dead');
    world.onChange = () => {};
    await world.restart();
    world.eraseEvents('ann');
    expect(await world.processor.erase(['ann'], ['phone'])).toBe(1);
    await world.catchUp();
    expect(await world.processor.profile({ userId: 'ann' })).toBeUndefined();
    expect(await world.processor.profile({ anonymousId: 'phone' })).toBeUndefined();
  });
});

describe('merges that would not be made today', () => {
  const doubtful = async (world: World) => (await world.processor.doubtfulMerges()).result;

  test('are listed with what joined them, and those that would be made again are not', async () => {
    const world = await new World().restart();
    await world.configure([SERVER, WEBSITE]);
    for (const userId of ['ann', 'bob', 'cleo', 'dan']) world.store('identify', { userId, traits: { a: 1 } });
    world.store('alias', { userId: 'bob', previousId: 'ann' }, WEBSITE);
    world.store('alias', { userId: 'dan', previousId: 'cleo' });
    await world.catchUp();
    expect(await doubtful(world)).toEqual({ merges: [], undecided: 0 });
    // Whoever set up the installation finds out that the keys of the website are public.
    await world.configure([SERVER]);
    expect(await doubtful(world)).toEqual({
      merges: [
        {
          ...{ userId: 'bob', formerUserId: 'ann' },
          merge: { rule: 'alias', identity: { kind: 'user', value: 'ann' }, messageId: 'm5', at: START },
        },
      ],
      undecided: 0,
    });
    // Nothing is changed by the list.
    expect(await world.processor.profile({ userId: 'ann' })).toMatchObject({ userId: 'bob' });
  });

  test('are found where an earlier version joined two users by the id of a device', async () => {
    const world = await deviceOfTwo();
    expect(await doubtful(world)).toEqual({
      merges: [{ userId: 'bob', formerUserId: 'ann', merge: expect.objectContaining({ messageId: 'm4' }) }],
      // The device was never a user.
      undecided: 1,
    });
  });

  test('are undecided where the events of a user are gone', async () => {
    const world = await new World().restart();
    await world.configure([SERVER, WEBSITE]);
    for (const userId of ['ann', 'bob']) world.store('identify', { userId, traits: { a: 1 } });
    world.store('alias', { userId: 'bob', previousId: 'ann' }, WEBSITE);
    await world.catchUp();
    world.contents.events.delete(1);
    await world.configure([SERVER]);
    expect(await doubtful(world)).toEqual({ merges: [], undecided: 1 });
  });

  test('end with an error when the program is stopped meanwhile', async () => {
    const world = await annAndBob();
    const { result } = await world.processor.doubtfulMerges();
    world.processor.cancelAll();
    await expect(result).rejects.toThrow('Millrace is being stopped');
  });
});

describe('two ids that are kept apart', () => {
  const [ann, bob] = [
    { kind: 'user', value: 'ann' },
    { kind: 'user', value: 'bob' },
  ] as const;
  const keysOf = (...ids: readonly { readonly kind: string; readonly value: string }[]) =>
    ids.map(({ kind, value }) => hash(kind, value)) as [number, number];

  test('become two profiles, each of its own events, and destinations hear what the dry run has said', async () => {
    const world = await annAndBob();
    const before = JSON.stringify([...world.profiles.states]);
    const report = await world.processor.foreseeSplit([ann, bob]);
    const own = { formerUserIds: [], externalIds: {}, events: expect.any(Number) };
    expect(report).toEqual({
      keys: keysOf(ann, bob),
      profiles: [
        { userId: 'ann', anonymousIds: ['phone'], ...own, events: 3 },
        { userId: 'bob', anonymousIds: ['tablet'], ...own, events: 4 },
      ],
      told: [{ userId: 'ann', key: 'buyers', value: true }],
      isPoorer: false,
    });
    expect(JSON.stringify([...world.profiles.states])).toBe(before);
    const told = world.told().length;
    await world.configure([SERVER], [keysOf(ann, bob)]);
    await world.processor.applySplits();
    await world.catchUp();
    expect(world.told().slice(told)).toEqual(['ann true']);
    expect(await world.processor.profile({ userId: 'ann' })).toMatchObject({
      ...{ formerUserIds: [], anonymousIds: ['phone'], traits: { plan: 'pro', ann: true }, merges: [] },
    });
    expect(await world.processor.profile({ userId: 'bob' })).toMatchObject({
      ...{ formerUserIds: [], anonymousIds: ['tablet'], traits: { plan: 'free', bob: true } },
      refusedMerges: { count: 1, samples: [{ reason: 'split', rule: 'alias' }] },
    });
    expect((await world.processor.computations())[0]).toMatchObject({ members: 2 });
  });

  test(
    quoted(
      'Two ids that an operator keeps apart are never ids of one profile, and one that has both becomes two, each of its own stored events; rebuild, restore and migration keep that.',
    ),
    async () => {
      const world = await annAndBob();
      await world.configure([SERVER], [keysOf(ann, bob)]);
      await world.catchUp();
      const shown = async () => [
        await world.processor.profile({ userId: 'ann' }),
        await world.processor.profile({ userId: 'bob' }),
      ];
      const profiles = await shown();
      expect(profiles.map((one) => one?.userId)).toEqual(['ann', 'bob']);
      const told = world.told();
      await world.processor.rebuild({ dryRun: false });
      await world.catchUp();
      expect(await shown()).toEqual(profiles);
      expect(world.told()).toEqual(told);
      await world.restart([keysOf(ann, bob)]);
      expect(await shown()).toEqual(profiles);
      world.store('alias', { userId: 'bob', previousId: 'ann' });
      world.store('alias', { userId: 'ann', previousId: 'bob' });
      await world.catchUp();
      expect((await shown()).map((one) => one?.userId)).toEqual(['ann', 'bob']);
      expect(world.processor.counts.apart).toBeGreaterThan(0);
    },
  );

  test('are taken apart at the next start where a crash, or a backup, came in between', async () => {
    const world = await annAndBob();
    await world.configure([SERVER], [keysOf(ann, bob)]);
    world.onChange = () => {
      throw new StorageError('the disk is full');
    };
    await expect(world.processor.applySplits()).rejects.toThrow('the disk is full');
    world.onChange = () => {};
    await world.restart([keysOf(ann, bob)]);
    await world.catchUp();
    expect(await world.audiencesOf('ann')).toEqual(['buyers']);
    expect(world.told().at(-1)).toBe('ann true');
  });

  test('may be a user and a device: what happened there without a userId is no longer of the user', async () => {
    const world = await new World().restart();
    world.store('track', { anonymousId: 'kiosk', event: 'Order' });
    world.store('identify', { userId: 'ann', anonymousId: 'kiosk', traits: { a: 1 } });
    world.store('track', { userId: 'ann', event: 'Order' });
    world.store('identify', { userId: 'cleo', anonymousId: 'kiosk', traits: { c: 1 } });
    await world.catchUp();
    expect(await world.audiencesOf('ann')).toEqual(['buyers']);
    const kiosk = { kind: 'anonymous', value: 'kiosk' };
    const report = await world.processor.foreseeSplit([ann, kiosk]);
    expect(report?.told).toEqual([{ userId: 'ann', key: 'buyers', value: false }]);
    await world.configure([SERVER], [keysOf(ann, kiosk)]);
    await world.catchUp();
    expect(world.told()).toEqual(['ann true', 'ann false']);
    // Cleo is the first other user in the log who has used it.
    expect(await world.processor.profile({ anonymousId: 'kiosk' })).toMatchObject({ userId: 'cleo' });
    const split = await world.processor.profile({ userId: 'cleo' });
    await world.processor.rebuild({ dryRun: false });
    await world.catchUp();
    // She has the device, and nobody was merged for it: her first call found it without a user.
    expect(await world.processor.profile({ userId: 'cleo' })).toEqual({ ...split, merges: [] });
  });

  test('keep a user whose events are gone, and the report says that something is lost', async () => {
    const world = await annAndBob();
    world.contents.events.delete(1);
    world.contents.events.delete(2);
    world.contents.events.delete(3);
    world.contents.retainedFrom = 4;
    expect(await world.processor.foreseeSplit([ann, bob])).toMatchObject({ isPoorer: true });
    await world.configure([SERVER], [keysOf(ann, bob)]);
    await world.catchUp();
    expect(await world.processor.profile({ userId: 'ann' })).toMatchObject({ userId: 'ann', traits: {} });
    expect(await world.processor.profile({ userId: 'bob' })).toMatchObject({ formerUserIds: [] });
  });

  test('are nothing new where they are two already, and unknown ones are nobody', async () => {
    const world = await new World().restart();
    world.store('identify', { userId: 'ann', traits: { a: 1 } });
    world.store('identify', { userId: 'bob', traits: { a: 1 } });
    await world.catchUp();
    expect(await world.processor.foreseeSplit([ann, bob])).toMatchObject({ profiles: [], told: [] });
    const nobody = { kind: 'user', value: 'nobody' };
    expect(await world.processor.foreseeSplit([nobody, { ...nobody, value: 'none' }])).toBeUndefined();
  });
});
