import { hash as digest } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { emptyContents } from '../../test/memory-store/contents.ts';
import { openMemoryLogReader } from '../../test/memory-store/log-reader.ts';
import { emptyProfiles, openMemoryProfiles } from '../../test/memory-store/profile-store.ts';
import { handClock } from '../../test/support/clock.ts';
import type { AudienceDefinition } from '../model/definition.ts';
import type { JsonObject } from '../model/json.ts';
import { isoTime, SECOND } from '../model/time.ts';
import type { ProfileStore } from '../ports/profile-store.ts';
import { Computations } from './computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentityHash } from './contract.ts';
import { createProcessor, type Processor } from './processor.ts';

const START = Date.parse('2026-11-22T12:00:00.000Z');
const SERVER = 1;

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

  async restart(): Promise<this> {
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
        erase: async (profiles, texts) => {
          this.onChange('erase');
          await store.erase(profiles, texts);
        },
      },
      ...{ clock: this.clock, logger: silent, hash },
      computations: new Computations({ reader, clock: this.clock }),
    });
    await this.processor.configure({
      computations: [BUYERS],
      identities: { ...DEFAULT_IDENTITY_SETTINGS, externalIds: ['email'] },
      ...{ serverSources: [SERVER], hearing: ['crm'], ownSource: 9 },
    });
    return this;
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
      expect(world.profiles.documents.has('left')).toBe(false);
      if (isDone) return expect(left).toBeGreaterThan(2);
    }
  });
});
