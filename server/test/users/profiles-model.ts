import { hash as digest } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect } from 'vitest';
import { DESTINATION_TYPES } from '../../src/destinations/list.ts';
import type { Computation } from '../../src/model/definition.ts';
import type { EventFilter } from '../../src/model/delivery-policy.ts';
import { type Destination, hearsOfComputations } from '../../src/model/destination.ts';
import type { Event, Position } from '../../src/model/event.ts';
import type { Json } from '../../src/model/json.ts';
import { AUDIENCES_SOURCE, type Source } from '../../src/model/settings.ts';
import { isoTime, MINUTE, SECOND, type Time } from '../../src/model/time.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import type { ProfileStore } from '../../src/ports/profile-store.ts';
import { surveyUsers } from '../../src/regulations/survey.ts';
import { Router } from '../../src/routing/router.ts';
import { Computations } from '../../src/users/computation/computations.ts';
import { DEFAULT_IDENTITY_SETTINGS, type IdentityHash, KEEP_PROFILES } from '../../src/users/contract.ts';
import { decodeProfile, type ProfileState } from '../../src/users/identity/profile-state.ts';
import { createProcessor, type Processor } from '../../src/users/processor.ts';
import { emptyContents } from '../memory-store/contents.ts';
import { openMemoryLogReader } from '../memory-store/log-reader.ts';
import { openMemoryStore } from '../memory-store/store.ts';
import { handClock } from '../support/clock.ts';
import { computations } from './computations.ts';
import { anonymousKey, type Between, type Heard, keyOf, lastHeard, readNotification } from './heard.ts';
import { computeNaively } from './naive-computation.ts';
import { type ApartPair, type NaiveCall, NaivePeople, type NaivePerson } from './naive-people.ts';
import {
  DESTINATIONS,
  type DestinationName,
  PUBLIC_SOURCE,
  SERVER_SOURCE,
  type Step,
  step,
} from './profile-steps.ts';

const START: Time = Date.parse('2026-11-22T12:00:00.000Z');
const OWN_SOURCE = 9;
const IDENTITIES = { ...DEFAULT_IDENTITY_SETTINGS, externalIds: ['email'] };
const AUDIENCES: Source = { ...AUDIENCES_SOURCE, id: OWN_SOURCE };
/** Fails the test when anything is given up after an error. */
const LOGGER = {
  ...{ debug() {}, info() {}, warn() {} },
  error(fields: object, event: string) {
    throw new Error(event, { cause: fields });
  },
};

const hash: IdentityHash = (kind, value) =>
  Number.parseInt(digest('sha256', `${kind} ${value}`).slice(0, 13), 16);

/** A log, its profiles in memory, and the naive model beside them. */
class World {
  #computations: readonly Computation[] = [];
  #lastId = 0;
  readonly #clock = handClock(START);
  readonly #contents = emptyContents();
  readonly #place: ProfilesPlace;
  #naive = new NaivePeople();
  readonly #calls = new Map<Position, NaiveCall>();
  readonly #heard: Readonly<Record<DestinationName, (Heard | Between)[]>> = { crm: [], erp: [] };
  #destinations: readonly Destination[] = DESTINATIONS.map(destinationOf);
  #store: ProfileStore | undefined;
  #processor!: Processor;
  /** The highest number that the log has of the producer. */
  #published = 0;
  #failCommit = false;

  /**
   * Puts other definitions in place of those in force, but for those to be kept. One in the place of another
   * is a newer version of it; ids are never used again.
   */
  define(definitions: readonly Computation[], kept: readonly boolean[]): void {
    const before = this.#computations;
    this.#computations = definitions.map((definition, i) => {
      const old = before[i];
      if (old !== undefined && kept[i]) return old;
      const id = old?.id ?? ++this.#lastId;
      if (old?.enabled === false) this.#note({ enabled: id });
      const destinations = old?.destinations ?? DESTINATIONS;
      return { ...definition, id, version: (old?.version ?? 0) + 1, key: `k${id}`, destinations };
    });
  }

  #note(one: Between, names: readonly DestinationName[] = DESTINATIONS): void {
    for (const name of names) this.#heard[name].push(one);
  }

  /**
   * Connects a computation with these destinations alone. One that it did not have gets every member, and
   * hears who left.
   */
  async #connect(nth: number, names: readonly DestinationName[]): Promise<void> {
    const computation = this.#computations[nth];
    if (computation === undefined) return;
    const { id, destinations, enabled } = computation;
    await this.#noteChange();
    const isChanged = (name: DestinationName) => names.includes(name) !== destinations.includes(name);
    await this.#noteUncertain(DESTINATIONS.filter(isChanged), id);
    this.#note({ disconnected: id }, DESTINATIONS.filter(isChanged));
    if (enabled)
      this.#note(
        { asked: id },
        names.filter((name) => !destinations.includes(name)),
      );
    this.#computations = this.#computations.with(nth, { ...computation, destinations: names });
    await this.#configure();
  }

  /** These destinations are enabled from now on, and no others. */
  #hear(names: readonly DestinationName[]): Promise<void> {
    return this.#setDestinations((one) => ({ ...one, enabled: names.includes(one.name as DestinationName) }));
  }

  /** Lets a destination have other events than before. */
  #filter(name: DestinationName, filter: EventFilter): Promise<void> {
    return this.#setDestinations((one) => (one.name === name ? { ...one, filter } : one));
  }

  async #setDestinations(change: (one: Destination) => Destination): Promise<void> {
    await this.#noteChange();
    const after = this.#destinations.map(change);
    const isSwitched = (one: Destination, nth: number) =>
      hearsOfComputations(one) !== hearsOfComputations(this.#destinations[nth]!);
    await this.#noteUncertain(namesOf(after.filter(isSwitched)));
    this.#destinations = after;
    this.#note({ waived: 'all' }, this.#deaf());
    await this.#configure();
  }

  /**
   * Notes a change of the destinations that hear. The thread begins a slice as soon as it has taken settings,
   * so two changes within one slice, or a death before its end, are not drawn.
   */
  async #noteChange(): Promise<void> {
    while (this.#isChanged) await this.#slice();
    this.#isChanged = true;
  }

  /** These are disabled or enabled. */
  async #noteSwitched(computations: readonly Computation[]): Promise<void> {
    if (computations.length === 0) return;
    await this.#noteChange();
    for (const { id } of computations) await this.#noteUncertain(DESTINATIONS, id);
  }

  /** Notes that these destinations may or may not get what is in the outbox, of one computation or of all. */
  async #noteUncertain(names: readonly DestinationName[], computation?: number): Promise<void> {
    const onTheirWay = await this.#processor.outbox(0, 1000);
    const fresh = onTheirWay
      .filter(({ sequence }) => sequence > (this.#certain ?? this.#told))
      .map(({ json }) => readNotification(json))
      .filter((one) => computation === undefined || one.computation === computation);
    this.#note({ uncertain: fresh.map(keyOf) }, names);
  }

  async run(step: Step): Promise<void> {
    switch (step.op) {
      case 'call':
        return this.#call(step);
      case 'slice':
        await this.#slice();
        return;
      case 'pass':
        return this.#clock.pass(step.time);
      case 'failing commit':
        this.#failCommit = true;
        return;
      case 'define':
        // A changed definition is enabled.
        await this.#noteSwitched(this.#computations.filter(({ enabled }) => !enabled));
        this.define(step.definitions, step.kept);
        return this.#configure();
      case 'connect':
        return this.#connect(step.nth, step.names as DestinationName[]);
      case 'hear':
        return this.#hear(step.names as DestinationName[]);
      case 'filter':
        return this.#filter(step.name as DestinationName, step.filter);
      case 'switch':
        return this.#switch(step.nth);
      case 'repeat':
        return this.#repeat(step.nth, step.name);
      case 'delete':
        return this.#delete(step.userId);
      case 'split':
        return this.#split(`user ${step.userId}`, step.other);
      case 'rebuild':
        return this.#rebuild();
      case 'crash':
        return this.start();
      case 'publish':
        await this.#publish(3);
        return step.crashes ? this.start() : this.#tellPublished();
      case 'check':
        return this.check();
    }
  }

  /** Disables a computation, or enables it again. Profiles go on having its values. */
  async #switch(nth: number): Promise<void> {
    const computation = this.#computations[nth];
    if (computation === undefined) return;
    const { id, enabled } = computation;
    await this.#noteSwitched([computation]);
    this.#computations = this.#computations.with(nth, { ...computation, enabled: !enabled });
    if (!enabled) this.#note({ enabled: id });
    await this.#configure();
  }

  /** A destination is told every member again. */
  async #repeat(nth: number, name: DestinationName): Promise<void> {
    const computation = this.#computations[nth];
    if (computation === undefined) return;
    await this.#publishAll();
    await this.#retried(async () => {
      if (await this.#processor.repeat(computation.id, name)) this.#note({ asked: computation.id }, [name]);
    });
    // Who is disabled when the walk comes to a profile hears nothing of it.
    this.#note({ waived: 'all' }, this.#deaf());
  }

  /** Deletes a user as a regulation does. The user may come back with the next call. */
  async #delete(userId: string): Promise<void> {
    await this.#catchUp();
    await this.#publishAll();
    // Nobody comes back within the millisecond of being deleted.
    await this.#clock.pass(1);
    const { log } = openMemoryStore({ contents: this.#contents });
    const [joined] = await this.#processor.joinedIds([userId]);
    const { subjects } = await surveyUsers([userId], {
      log,
      users: this.#processor,
      identities: IDENTITIES,
      trusted: [SERVER_SOURCE],
      confirm: false,
      checkStop: () => {},
    });
    const { formerUserIds, anonymousIds } = subjects[0]!;
    const userIds = [userId, ...formerUserIds];
    const below = (await log.size()).end;
    // Events of a device that others have used too stay in the log: a definition of later would count them
    // for whoever has the device then. The naive model forgets them with the profile, and so they are erased
    // here.
    const ofProfile = [...anonymousIds, ...(joined?.anonymousIds ?? [])];
    await log.erase({ userIds, anonymousIds: ofProfile, below });
    await this.#retried(() => this.#processor.erase(userIds, anonymousIds));
    this.#isAsMadeAnew = false;
    this.#naive.remove(userIds, anonymousIds);
    this.#note({ deleted: [...userIds.map((id) => `user ${id}`), ...anonymousIds.map(anonymousKey)] });
    // What destinations that hear nothing have to be told of former ids is deleted with the profile.
    this.#note({ deleted: ofProfile.map(anonymousKey) }, this.#deaf());
    for (const position of this.#calls.keys())
      if (!this.#contents.events.has(position)) this.#calls.delete(position);
  }

  /** Makes all profiles anew from the calls that are still stored. New ones come while that is done. */
  async #rebuild(): Promise<void> {
    await this.#retried(() => this.#processor.rebuild({ dryRun: false }));
    this.#makeNaiveAnew();
  }

  #makeNaiveAnew(): void {
    this.#naive = new NaivePeople(this.#apart);
    for (const call of this.#calls.values()) this.#naive.take(call);
    this.#isAsMadeAnew = true;
  }

  /** Keeps two ids apart. */
  async #split(one: string, other: string): Promise<void> {
    if (one === other) return;
    this.#apart = [...this.#apart, [one, other]];
    await this.#configure();
    await this.#retried(() => this.#processor.applySplits());
    // Whoever is beside the profile stays as it is: what was deleted once may have joined others, and an
    // earlier split parted them.
    if (!this.#isAsMadeAnew) await this.#rebuild();
    this.#makeNaiveAnew();
    this.#isAsMadeAnew = false;
  }

  /** The next commit may fail; the caller of the processor then asks again. */
  async #retried(run: () => Promise<unknown>): Promise<void> {
    try {
      await run();
    } catch (error) {
      expect(error).toBeInstanceOf(StorageError);
      await run();
    }
  }

  constructor(place: ProfilesPlace) {
    this.#place = place;
  }

  async stop(): Promise<void> {
    await this.#store?.stop();
  }

  /** A new process on the same disk. */
  async start(): Promise<void> {
    this.#told = 0;
    this.#certain = undefined;
    // It may have died before it noted that they begin or cease to hear.
    if (this.#store !== undefined) await this.#noteUncertain(DESTINATIONS);
    await this.stop();
    const store = this.#place.open();
    this.#store = store;
    const reader = openMemoryLogReader(this.#contents);
    const commit = store.commit.bind(store);
    const erase = store.erase.bind(store);
    const mayFail = () => {
      const fails = this.#failCommit;
      this.#failCommit = false;
      if (fails) throw new StorageError('the disk is full');
    };
    store.commit = async (changes) => {
      mayFail();
      await commit(changes);
    };
    store.erase = async (...erased) => {
      mayFail();
      await erase(...erased);
    };
    this.#processor = createProcessor({
      reader,
      store,
      clock: this.#clock,
      logger: LOGGER,
      hash,
      computations: new Computations({ reader, clock: this.#clock }),
    });
    await this.#configure();
  }

  #configure(): Promise<void> {
    const computations = this.#computations;
    this.#certain ??= this.#told;
    return this.#processor.configure({
      computations,
      identities: IDENTITIES,
      serverSources: [SERVER_SOURCE],
      hearing: this.#hearing(),
      retention: KEEP_PROFILES,
      ownSource: OWN_SOURCE,
      apart: this.#apart.map(([one, other]) => [keyOfId(one), keyOfId(other)] as const),
    });
  }

  /** Applies everything, and expects the profiles, values and notifications of the naive model. */
  async check(): Promise<void> {
    await this.#catchUp();
    await this.#compareAll();
    // A change waits for a second, and one that waited when the process died or the commit failed up to a
    // minute more.
    for (const time of [2 * SECOND, MINUTE, 2 * SECOND, 2 * SECOND]) {
      await this.#clock.pass(time);
      await this.#catchUp();
    }
    await this.#compareAll();
    await this.#publishAll();
    for (const name of DESTINATIONS) this.#compareHeard(name);
  }

  async #compareAll(): Promise<void> {
    const stored = await this.#store!.scan(0, 1000);
    const states = stored.map(({ id, state }) => decodeProfile(id, state));
    expect(states.length).toBe(this.#naive.people.length);
    for (const person of this.#naive.people) {
      const state = states.find(({ identities }) =>
        identities.every(({ kind, value }) => person.ids.has(`${kind} ${value}`)),
      );
      this.#compare(person, state!);
    }
    const statuses = await this.#processor.computations();
    const members = new Map(statuses.map(({ id, members }) => [id, members]));
    const expected = this.#computations.map((one) => [one.name, this.#membersOf(one)]);
    expect(this.#computations.map(({ id, name }) => [name, members.get(id)])).toEqual(expected);
  }

  #compare(person: NaivePerson, state: ProfileState): void {
    expect(state.userId).toBe(person.userId);
    expect(state.identities.length).toBe(person.ids.size);
    const traits = Object.fromEntries([...person.traits].map(([name, { value }]) => [name, value]));
    expect(Object.fromEntries([...state.traits].map(([name, { value }]) => [name, value]))).toEqual(traits);
    const expected = this.#valuesOf(person, this.#clock.now());
    const values = this.#computations.map(({ id, kind }) => {
      return state.computed.get(id)?.value ?? (kind === 'audience' ? false : null);
    });
    expect(values).toEqual(this.#computations.map(({ id }) => expected.get(id)));
  }

  #membersOf(computation: Computation): number {
    const { id, kind } = computation;
    const takesAnonymous = kind === 'audience' && computation.includeAnonymous;
    const isMember = (person: NaivePerson) => {
      if (person.userId === undefined && !takesAnonymous) return false;
      const value = this.#valuesOf(person, this.#clock.now()).get(id);
      return kind === 'audience' ? value === true : value !== null;
    };
    return this.#naive.people.filter(isMember).length;
  }

  /**
   * Expects that the events tell a destination every member and every value, and never the same one twice.
   */
  #compareHeard(name: DestinationName): void {
    const { last, unsure, owed } = lastHeard(this.#heard[name]);
    if (!this.#hearing().includes(name)) return;
    const computations = this.#computations.filter(
      ({ enabled, destinations }) => enabled && destinations.includes(name),
    );
    const members = new Set<string>();
    for (const person of this.#naive.people) {
      // What has changed since the last look but one may still wait.
      const times = [this.#clock.now() - 2 * SECOND, this.#clock.now()];
      const [before, after] = times.map((time) => this.#valuesOf(person, time));
      for (const { id, kind } of computations) {
        const told = addresseesOf(person).map((who) => `${who} ${id}`);
        for (const key of told) members.add(key);
        expect(told.filter((key) => owed.has(key))).toEqual([]);
        const values = told.flatMap((key) => (last.has(key) ? [{ value: last.get(key)! }] : []));
        const isAudience = kind === 'audience';
        const heard = isAudience ? values.filter(({ value }) => value === true) : values;
        expect(heard.length).toBeLessThanOrEqual(1);
        const known = heard[0]?.value ?? (isAudience ? false : null);
        const isAddressed = person.userId !== undefined || (isAudience && after!.get(id) === true);
        if (isAddressed && !isDeepStrictEqual(known, before!.get(id))) {
          expect([told, known]).toEqual([told, after!.get(id)]);
        }
      }
    }
    // Ids that belong to others by now are no members.
    const isDefined = (key: string) => computations.some(({ id }) => key.endsWith(` ${id}`));
    for (const [key, value] of last)
      if (!members.has(key) && isDefined(key) && !unsure.has(key))
        expect([key, value]).not.toEqual([key, true]);
  }

  #valuesOf({ userId, events, traits, groups }: NaivePerson, now: Time): ReadonlyMap<number, Json> {
    const values = Object.fromEntries([...traits].map(([name, { value }]) => [name, value]));
    const user = { userId, events, traits: values, groups: [...groups] };
    return computeNaively(this.#computations, user, now);
  }

  #call({ op, age = 0, source: given, ...rest }: Extract<Step, { op: 'call' }>): void {
    if (rest.userId === undefined && rest.anonymousId === undefined) return;
    const position = ++this.#contents.lastPosition;
    const now = this.#clock.now();
    const messageId = `m${(position * 7919) % 1000}`;
    const source = given ?? SERVER_SOURCE;
    const isPublic = source === PUBLIC_SOURCE;
    const taken = { ...rest, source, isPublic, at: Math.min(now, now - age), messageId } as NaiveCall;
    this.#naive.take(taken);
    this.#calls.set(position, taken);
    const { name, type, userId, anonymousId, previousId, ...fields } = {
      name: undefined,
      ...rest,
    } as NaiveCall;
    const named = type === 'track' ? { event: name } : { name };
    // Lines begin as the log's do: they are searched without being parsed.
    const head = { messageId, type, userId, anonymousId, previousId };
    const times = { timestamp: isoTime(now - age), receivedAt: isoTime(now) };
    this.#contents.events.set(position, {
      source,
      messageId,
      userId: rest.userId,
      receivedAt: this.#clock.monotonic(),
      json: JSON.stringify({ ...head, context: {}, ...fields, ...named, ...times }),
      owed: [],
      skipped: [],
    });
  }

  async #slice(): Promise<boolean> {
    try {
      const { hasMore } = await this.#processor.slice();
      this.#certain = undefined;
      this.#isChanged = false;
      return hasMore;
    } catch (error) {
      expect(error).toBeInstanceOf(StorageError);
      return true;
    }
  }

  async #catchUp(): Promise<void> {
    let slices = 0;
    while (await this.#slice()) expect(++slices).toBeLessThan(1000);
  }

  /** Appends to the log what it does not have yet, as the publisher does. */
  async #publish(max: number): Promise<number> {
    const entries = await this.#processor.outbox(0, max);
    const router = new Router(this.#destinations, DESTINATION_TYPES, this.#computations);
    for (const { sequence, json } of entries) {
      if (sequence <= this.#published) continue;
      // Entries of users who were deleted before are missing.
      expect(sequence).toBeGreaterThan(this.#published);
      this.#published = sequence;
      const { owed } = router.plan(JSON.parse(json) as Event, AUDIENCES);
      for (const { name } of owed) this.#heard[name as DestinationName].push(readNotification(json));
    }
    const fresh = entries.filter(({ sequence }) => sequence > this.#acknowledged).length;
    this.#acknowledged = this.#published;
    return fresh;
  }

  async #publishAll(): Promise<void> {
    while ((await this.#publish(100)) > 0) await this.#tellPublished();
  }

  #hearing(): DestinationName[] {
    return namesOf(this.#destinations.filter(hearsOfComputations));
  }

  #deaf(): DestinationName[] {
    return namesOf(this.#destinations.filter((one) => !hearsOfComputations(one)));
  }

  async #tellPublished(): Promise<void> {
    await this.#processor.sent(this.#published);
    this.#told = this.#published;
  }

  #acknowledged = 0;
  /** Pairs of ids that are kept apart. */
  #apart: readonly ApartPair[] = [];
  /** All calls that are stored, taken in their order, make the people of now. */
  #isAsMadeAnew = true;
  /** True when the destinations that hear have changed since the last slice. */
  #isChanged = false;
  /** Entries that the process at work knows to be in the log. */
  #told = 0;
  /** The same at the time when the settings changed with which the next slice begins. */
  #certain: number | undefined;
}

/** Of a kind and a value with a blank in between. */
function keyOfId(id: string): number {
  const [kind, value] = id.split(' ') as [string, string];
  return hash(kind, value);
}

function destinationOf(name: DestinationName, nth: number): Destination {
  const settings = { endpoints: [], format: 'documented' } as const;
  return { id: nth + 1, name, type: 'webhooks', sources: [], enabled: true, version: 1, settings };
}

function namesOf(destinations: readonly Destination[]): DestinationName[] {
  return destinations.map(({ name }) => name as DestinationName);
}

/** Ids that may hear of a person: the userId, or any of the ids of someone who has none. */
function addresseesOf({ userId, ids }: NaivePerson): string[] {
  if (userId !== undefined) return [`user ${userId}`];
  return [...ids].filter((id) => id.startsWith(anonymousKey('')));
}

/** A place where profiles survive the process that wrote them. */
export interface ProfilesPlace {
  /** Opens the store of a new process. */
  open(): ProfileStore;
  remove(): Promise<void>;
}

/**
 * Random calls, definitions, crashes and passages of time. Whenever all is applied, profiles, memberships,
 * values and what destinations have heard are those of the naive model. Throws with the seed that repeats a
 * failure.
 */
export function compareWithModel(
  makePlace: () => ProfilesPlace,
  parameters: { readonly numRuns: number; readonly seed?: number },
): Promise<void> {
  const steps = fc.array(step, { maxLength: 60, size: 'max' });
  const property = fc.asyncProperty(computations, steps, (definitions, steps) =>
    compareSteps(makePlace(), { definitions, steps }),
  );
  return fc.assert(property, parameters);
}

/** As `compareWithModel`, for these definitions and steps. */
export async function compareSteps(
  place: ProfilesPlace,
  { definitions, steps }: { readonly definitions: readonly Computation[]; readonly steps: readonly Step[] },
): Promise<void> {
  const world = new World(place);
  world.define(definitions, []);
  try {
    await world.start();
    for (const one of steps) await world.run(one);
    await world.check();
  } finally {
    await world.stop();
    await place.remove();
  }
}
