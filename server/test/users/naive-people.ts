import type { Json, JsonObject } from '../../src/model/json.ts';
import type { Time } from '../../src/model/time.ts';
import type { UserEvent } from '../../src/users/computation/trait-engine.ts';

/** A call as the naive model takes it. Ids are none that stand for no one. */
export interface NaiveCall {
  readonly type: UserEvent['type'];
  readonly userId?: string | undefined;
  readonly anonymousId?: string | undefined;
  readonly previousId?: string | undefined;
  readonly groupId?: string;
  readonly name?: string;
  readonly properties?: JsonObject;
  readonly traits?: JsonObject;
  readonly at: Time;
  readonly messageId: string;
  /** Absent: 1. */
  readonly source?: number;
  /** Sent with a write key that everybody can read. */
  readonly isPublic?: boolean;
}

/** Two ids, each with its kind. */
export type ApartPair = readonly [string, string];

/** One person with everything that it did. */
export interface NaivePerson {
  userId: string | undefined;
  /** Kind and value of each id. */
  readonly ids: Set<string>;
  readonly events: UserEvent[];
  readonly traits: Map<string, { readonly value: Json; readonly at: Time; readonly messageId: string }>;
  readonly groups: Set<string>;
  readonly sources: Set<number>;
}

/**
 * The specification's "Identities" said a second time: people in a list, searched from its beginning, calls
 * taken in the order of the log. The trait `email` is an external id. `apart`: pairs of ids that are never
 * ids of one person.
 */
export class NaivePeople {
  people: NaivePerson[] = [];
  readonly #apart: readonly ApartPair[];

  constructor(apart: readonly ApartPair[] = []) {
    this.#apart = apart;
  }

  take(call: NaiveCall): void {
    const person = this.#personOf(call);
    if (person === undefined) return;
    const { type, name, properties = {}, at, messageId, source = 1 } = call;
    person.sources.add(source);
    person.events.push({ type, name, properties, at, messageId });
    if (call.groupId !== undefined) person.groups.add(call.groupId);
    for (const [trait, value] of Object.entries(call.traits ?? {})) {
      setTrait(person, trait, { value, at, messageId });
    }
  }

  /** Removes a user, and people without a userId who have one of the anonymous ids. */
  remove(userIds: readonly string[], anonymousIds: readonly string[]): void {
    const isUser = ({ ids }: NaivePerson) => userIds.some((id) => ids.has(`user ${id}`));
    const isNobody = ({ userId, ids }: NaivePerson) =>
      userId === undefined && anonymousIds.some((id) => ids.has(`anonymous ${id}`));
    this.people = this.people.filter((person) => !isUser(person) && !isNobody(person));
  }

  #personOf(call: NaiveCall): NaivePerson | undefined {
    const { userId, anonymousId, previousId, traits, isPublic = false } = call;
    let person = userId === undefined ? undefined : this.#user(userId);
    if (person !== undefined && anonymousId !== undefined) {
      const other = this.#find(`anonymous ${anonymousId}`);
      if (other === undefined) this.#bind(person, `anonymous ${anonymousId}`);
      else if (other.userId === undefined) person = this.#join(person, other);
    }
    if (person === undefined && anonymousId !== undefined) {
      person = this.#find(`anonymous ${anonymousId}`) ?? this.#add(`anonymous ${anonymousId}`);
    }
    if (person === undefined) return undefined;
    if (isPublic) return this.#publicAlias(person, call);
    const email = traits?.['email'];
    if (typeof email === 'string') person = this.#external(person, `email ${email}`);
    return previousId === undefined ? person : this.#alias(person, previousId);
  }

  #external(person: NaivePerson, id: string): NaivePerson {
    const owner = this.#find(id);
    if (owner === undefined) this.#bind(person, id);
    else if (person.userId === undefined) return this.#join(owner, person, person);
    else if (owner.userId === undefined) return this.#join(person, owner);
    return person;
  }

  #alias(person: NaivePerson, previousId: string): NaivePerson {
    const former = this.#find(`user ${previousId}`);
    return former === undefined ? this.#device(person, previousId) : this.#join(person, former);
  }

  #publicAlias(person: NaivePerson, { userId, anonymousId, previousId, source = 1 }: NaiveCall): NaivePerson {
    if (userId === undefined || previousId === undefined) return person;
    if (this.#find(`user ${previousId}`) !== undefined) return person;
    const isSeen = this.#find(`anonymous ${previousId}`)?.sources.has(source) ?? false;
    return previousId === anonymousId || isSeen ? this.#device(person, previousId) : person;
  }

  /** The previousId is an anonymous id of the person, unless another user had it first. */
  #device(person: NaivePerson, previousId: string): NaivePerson {
    const owner = this.#find(`anonymous ${previousId}`);
    if (owner === undefined) this.#bind(person, `anonymous ${previousId}`);
    else if (owner.userId === undefined) return this.#join(person, owner);
    return person;
  }

  #user(userId: string): NaivePerson {
    const person = this.#find(`user ${userId}`) ?? this.#add(`user ${userId}`);
    person.userId ??= userId;
    return person;
  }

  #find(id: string): NaivePerson | undefined {
    return this.people.find(({ ids }) => ids.has(id));
  }

  #add(id: string): NaivePerson {
    const person: NaivePerson = {
      userId: undefined,
      ids: new Set([id]),
      events: [],
      traits: new Map(),
      groups: new Set(),
      sources: new Set(),
    };
    this.people.push(person);
    return person;
  }

  #bind({ ids }: NaivePerson, id: string): void {
    if (!this.#areApart(ids, new Set([id]))) ids.add(id);
  }

  #areApart(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
    return this.#apart.some(([one, other]) => (a.has(one) && b.has(other)) || (a.has(other) && b.has(one)));
  }

  /** Joins two people, and returns to whom the event belongs afterwards: it was `of` before. */
  #join(winner: NaivePerson, loser: NaivePerson, of = winner): NaivePerson {
    if (winner === loser) return winner;
    if (this.#areApart(winner.ids, loser.ids)) return of;
    winner.userId ??= loser.userId;
    for (const id of loser.ids) winner.ids.add(id);
    for (const group of loser.groups) winner.groups.add(group);
    for (const source of loser.sources) winner.sources.add(source);
    for (const [name, trait] of loser.traits) setTrait(winner, name, trait);
    winner.events.push(...loser.events);
    this.people = this.people.filter((person) => person !== loser);
    return winner;
  }
}

type NaiveTrait = { readonly value: Json; readonly at: Time; readonly messageId: string };

/** The last writer wins, by time and then by messageId. */
function setTrait({ traits }: NaivePerson, name: string, trait: NaiveTrait): void {
  const known = traits.get(name);
  const order = known === undefined ? 1 : trait.at - known.at || (trait.messageId > known.messageId ? 1 : -1);
  if (order > 0) traits.set(name, trait);
}
