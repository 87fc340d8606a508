import { hash as digest } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DESTINATION_TYPES } from '../../src/destinations/list.ts';
import { isConsented } from '../../src/model/consent.ts';
import type { AudienceDefinition } from '../../src/model/definition.ts';
import type { Destination } from '../../src/model/destination.ts';
import type { Event } from '../../src/model/event.ts';
import { isObject, type JsonObject } from '../../src/model/json.ts';
import { AUDIENCES_SOURCE, type Source } from '../../src/model/settings.ts';
import { isoTime, MINUTE, SECOND, type Time } from '../../src/model/time.ts';
import type { ProfileStore } from '../../src/ports/profile-store.ts';
import { Router } from '../../src/routing/router.ts';
import { Computations } from '../../src/users/computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, KEEP_PROFILES, type UsersConsent } from '../../src/users/contract.ts';
import { createProcessor, type Processor } from '../../src/users/processor.ts';
import { emptyContents } from '../memory-store/contents.ts';
import { openMemoryLogReader } from '../memory-store/log-reader.ts';
import { handClock } from '../support/clock.ts';
import { amountOf } from '../support/runs.ts';
import { diskPlace, memoryPlace } from './profile-places.ts';
import type { ProfilesPlace } from './profiles-model.ts';

const START: Time = Date.parse('2026-11-22T12:00:00.000Z');
const [SERVER, STRICT, OWN] = [1, 2, 9];
const AUDIENCES: Source = { ...AUDIENCES_SOURCE, id: OWN };
const USERS = ['u1', 'u2'];
const CATEGORIES = ['Ads', 'Stats'];

/** Members have the plan pro. `ads` may ask for consent, `ops` never does. */
const PROS: AudienceDefinition = {
  ...{ id: 1, version: 1, kind: 'audience', name: 'Pros', key: 'pros', text: '', enabled: true },
  definition: { op: '=', value: { op: 'trait', name: 'plan' }, to: 'pro' },
  ...{ destinations: ['ads', 'ops'], includeAnonymous: false },
};

interface Call {
  readonly op: 'call';
  readonly user: number;
  /** The ids that the call has: that of the user, that of their device, or both. */
  readonly by: 'user' | 'device' | 'both';
  readonly plan: string | undefined;
  readonly consent: readonly string[] | undefined;
  readonly isStrict: boolean;
  /** How long before its arrival it was made, in seconds. */
  readonly age: number;
}

type Step =
  | Call
  | { readonly op: 'ask'; readonly categories: readonly string[] }
  | { readonly op: 'require'; readonly isRequired: boolean }
  | { readonly op: 'publish'; readonly max: number; readonly crashes: boolean }
  | { readonly op: 'pass'; readonly time: number }
  | { readonly op: 'slice' | 'crash' | 'rebuild' | 'check' };

const call: fc.Arbitrary<Step> = fc.record({
  op: fc.constant('call' as const),
  user: fc.nat(USERS.length - 1),
  by: fc.constantFrom('user' as const, 'user' as const, 'device' as const, 'both' as const),
  plan: fc.constantFrom('pro', 'pro', 'free', undefined),
  // One in two says nothing.
  consent: fc.option(fc.subarray(CATEGORIES), { nil: undefined, freq: 2 }),
  isStrict: fc.boolean(),
  age: fc.nat(3),
});

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: call },
  { weight: 3, arbitrary: fc.constant<Step>({ op: 'slice' }) },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant('pass' as const), time: fc.constantFrom(SECOND, MINUTE) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('publish' as const),
      max: fc.integer({ min: 1, max: 3 }),
      crashes: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant('ask' as const), categories: fc.subarray(CATEGORIES) }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('require' as const), isRequired: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constantFrom<Step>({ op: 'crash' }, { op: 'rebuild' }, { op: 'check' }) },
);

/** Settings at the beginning, and what happens then. */
interface Course {
  readonly categories: readonly string[];
  readonly isRequired: boolean;
  readonly steps: readonly Step[];
}

const courses: fc.Arbitrary<Course> = fc.record({
  categories: fc.subarray(CATEGORIES),
  isRequired: fc.boolean(),
  steps: fc.array(step, { maxLength: 40, size: 'max' }),
});

/** A call as the naive model keeps it. */
interface Kept extends Call {
  readonly at: Time;
  readonly messageId: string;
  readonly source: number;
}

class World {
  readonly #place: ProfilesPlace;
  readonly #clock = handClock(START);
  readonly #contents = emptyContents();
  readonly #calls: Kept[] = [];
  /** Users who were members, and had consented to what was asked for, at any time. */
  readonly #wasAllowed = new Set<number>();
  /** The last value that each destination has heard of each user. */
  readonly #heard = new Map<string, boolean>();
  #categories: readonly string[];
  #isRequired: boolean;
  #store: ProfileStore | undefined;
  #processor!: Processor;
  #published = 0;

  constructor(place: ProfilesPlace, { categories, isRequired }: Pick<Course, 'categories' | 'isRequired'>) {
    this.#place = place;
    this.#categories = categories;
    this.#isRequired = isRequired;
  }

  async start(): Promise<void> {
    await this.stop();
    const store = this.#place.open();
    this.#store = store;
    const reader = openMemoryLogReader(this.#contents);
    const quiet = () => {};
    this.#processor = createProcessor({
      ...{ reader, store, clock: this.#clock },
      logger: {
        ...{ debug: quiet, info: quiet, warn: quiet },
        error(fields, event) {
          throw new Error(event, { cause: fields });
        },
      },
      hash: (kind, value) => Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16),
      computations: new Computations({ reader, clock: this.#clock }),
    });
    await this.#configure();
  }

  async stop(): Promise<void> {
    await this.#store?.stop();
  }

  async run(one: Step): Promise<void> {
    await this.#do(one);
    for (const user of USERS.keys()) {
      const { isMember, isAllowed } = this.#naive(user);
      if (isMember && isAllowed) this.#wasAllowed.add(user);
    }
  }

  async #do(one: Step): Promise<void> {
    switch (one.op) {
      case 'call':
        return this.#call(one);
      case 'ask':
        this.#categories = one.categories;
        return this.#change();
      case 'require':
        this.#isRequired = one.isRequired;
        return this.#change();
      case 'publish':
        await this.#publish(one.max);
        return one.crashes ? this.start() : this.#processor.sent(this.#published);
      case 'pass':
        return this.#clock.pass(one.time);
      case 'slice':
        await this.#processor.slice();
        return;
      case 'crash':
        return this.start();
      case 'rebuild':
        await this.#processor.rebuild({ dryRun: false });
        return;
      case 'check':
        return this.check();
    }
  }

  /** The thread begins a slice as soon as it has taken settings. */
  async #change(): Promise<void> {
    await this.#configure();
    await this.#processor.slice();
  }

  get #consent(): UsersConsent | undefined {
    if (this.#categories.length === 0) return undefined;
    return { asking: [['ads', this.#categories]], requiredSources: this.#isRequired ? [STRICT] : [] };
  }

  #configure(): Promise<void> {
    return this.#processor.configure({
      ...{ computations: [PROS], identities: DEFAULT_IDENTITY_SETTINGS, retention: KEEP_PROFILES },
      ...{ serverSources: [SERVER, STRICT], hearing: ['ads', 'ops'], ownSource: OWN },
      consent: this.#consent,
    });
  }

  #call(one: Call): void {
    const position = ++this.#contents.lastPosition;
    const now = this.#clock.now();
    const [at, messageId] = [now - one.age * SECOND, `m${(position * 7919) % 1000}`];
    const source = one.isStrict ? STRICT : SERVER;
    this.#calls.push({ ...one, at, messageId, source });
    const userId = one.by === 'device' ? undefined : USERS[one.user];
    const anonymousId = one.by === 'user' ? undefined : `device of ${USERS[one.user]}`;
    const consent = one.consent && {
      categoryPreferences: Object.fromEntries(one.consent.map((id) => [id, true])),
    };
    const json = JSON.stringify({
      ...{ messageId, type: 'identify', userId, anonymousId, context: { consent }, integrations: {} },
      ...{ traits: { plan: one.plan }, timestamp: isoTime(at), receivedAt: isoTime(now) },
    });
    const receivedAt = this.#clock.monotonic();
    this.#contents.events.set(position, {
      ...{ source, messageId, userId, receivedAt, json, owed: [], skipped: [] },
    });
  }

  /** Appends to the log what it does not have yet, planned by the settings of now. */
  async #publish(max: number): Promise<number> {
    const entries = await this.#processor.outbox(0, max);
    const destinations = ['ads', 'ops'].map(
      (name, nth): Destination => ({
        ...{ id: nth + 1, name, type: 'webhooks', sources: [], enabled: true, version: 1 },
        settings: { endpoints: [{ url: 'http://a', headers: {} }], format: 'documented' },
        ...(name === 'ads' && this.#categories.length > 0 ? { consent: this.#categories } : {}),
      }),
    );
    const router = new Router(destinations, DESTINATION_TYPES, [PROS]);
    const fresh = entries.filter(({ sequence }) => sequence > this.#published);
    for (const { sequence, json } of fresh) {
      this.#published = sequence;
      const event = JSON.parse(json) as Event;
      const value = event.traits!['pros'] === true;
      for (const { name } of router.plan(event, AUDIENCES).owed) {
        this.#heard.set(`${name} ${event.userId}`, value);
        const { consent } = event.context;
        if (value && name === 'ads' && isObject(consent))
          expect(isConsented(consent['categoryPreferences'] as JsonObject, this.#categories)).toBe(true);
      }
    }
    return fresh.length;
  }

  async #catchUp(): Promise<void> {
    for (let slices = 0; (await this.#processor.slice()).hasMore; ) expect(++slices).toBeLessThan(1000);
  }

  /** Everybody who may be told knows what is so, and nobody knows a member who is none. */
  async check(): Promise<void> {
    for (const time of [0, 2 * SECOND, MINUTE, MINUTE, 2 * SECOND]) {
      await this.#clock.pass(time);
      await this.#catchUp();
      while ((await this.#publish(100)) > 0) await this.#processor.sent(this.#published);
    }
    for (const user of USERS.keys()) {
      const { isMember, isAllowed } = this.#naive(user);
      if (!this.#wasAllowed.has(user)) expect(this.#heard.get(`ads ${USERS[user]}`)).not.toBe(true);
      const heard = (name: string) => this.#heard.get(`${name} ${USERS[user]}`) ?? false;
      expect(['ops', USERS[user], heard('ops')]).toEqual(['ops', USERS[user], isMember]);
      if (!isMember || isAllowed)
        expect(['ads', USERS[user], heard('ads')]).toEqual(['ads', USERS[user], isMember]);
    }
  }

  /** The truth about a user, from all calls that are theirs. */
  #naive(user: number): { readonly isMember: boolean; readonly isAllowed: boolean } {
    const all = this.#calls.filter((one) => one.user === user);
    const isJoined = all.some(({ by }) => by === 'both');
    const own = all.filter(({ by }) => by !== 'device' || isJoined);
    if (!own.some(({ by }) => by !== 'device')) return { isMember: false, isAllowed: true };
    const isNewer = (one: Kept, other: Kept) =>
      one.at > other.at || (one.at === other.at && one.messageId > other.messageId);
    const newest = (some: readonly Kept[]) =>
      some.reduce<Kept | undefined>((a, b) => (a === undefined || isNewer(b, a) ? b : a), undefined);
    const said = newest(own.filter(({ consent }) => consent !== undefined))?.consent;
    const isSeenStrictly = this.#isRequired && own.some(({ isStrict }) => isStrict);
    const consented = said ?? (isSeenStrictly ? [] : this.#categories);
    return {
      isMember: newest(own.filter(({ plan }) => plan !== undefined))?.plan === 'pro',
      isAllowed: this.#categories.every((id) => consented.includes(id)),
    };
  }
}

async function live(place: ProfilesPlace, { steps, ...settings }: Course): Promise<void> {
  const world = new World(place, settings);
  try {
    await world.start();
    for (const one of steps) await world.run(one);
    await world.check();
  } finally {
    await world.stop();
    await place.remove();
  }
}

describe('whatever is said of consent, asked for and interrupted, destinations know what they may know', () => {
  const runs = amountOf({ gate: 400, long: 6000 });

  test('with profiles in memory', () =>
    fc.assert(
      fc.asyncProperty(courses, (course) => live(memoryPlace(), course)),
      { numRuns: runs },
    ));

  test('with profiles in users.db', () =>
    fc.assert(
      fc.asyncProperty(courses, (course) => live(diskPlace(), course)),
      { numRuns: Math.ceil(runs / 3) },
    ));
});
