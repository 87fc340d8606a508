import type { Computation } from '../../model/definition.ts';
import { defined, type Json } from '../../model/json.ts';
import type { ProfileId, ProfileStore } from '../../ports/profile-store.ts';
import type { EventIdentities } from '../identity/identity-reader.ts';
import {
  type ComputedValue,
  newIdentity,
  newProfile,
  type ProfileState,
  USER,
} from '../identity/profile-state.ts';
import { walkProfiles } from '../identity/walk.ts';
import type { Slice } from '../slice.ts';
import type { MembershipSync } from './membership-sync.ts';
import { everyRecipientOf, identityIn, keyOf, type Recipient, recipientIn } from './recipient.ts';
import {
  behind,
  isNothing,
  NOTHING_SENT,
  type Sent,
  withNew,
  withOwed,
  withRepeated,
  withUnsure,
} from './sent.ts';

/** Name of the document with the number of parts and their computations. */
const HEAD = 'told-before';
/** Recipients in one part; a part is one document. */
const PART = 1000;

interface Head {
  readonly computations: readonly number[];
  /**
   * Names of their destinations at that time, by id; absent in documents of earlier programs. Other
   * destinations know nothing of what was sent.
   */
  readonly destinations?: Readonly<Record<string, readonly string[]>>;
  readonly parts: number;
  /** Absent in documents of earlier programs, which kept the values alone. */
  readonly format?: 2;
}

/** Names of destinations, by id of the computation; undefined where they are not known. */
export type RebuiltComputations = ReadonlyMap<number, readonly string[] | undefined>;

/**
 * Destinations that a walk has still to tell of a profile: those that know nothing, and those that are to
 * hear once more of members.
 */
interface Waiting {
  readonly fresh: readonly string[];
  readonly repeated: readonly string[];
}

/** Values that were sent of one recipient, by id of the computation. */
type SentOf = Readonly<Record<string, Sent>>;

/**
 * Keeps what destinations were sent before all profiles were made anew, so that they hear of differences
 * only: a user who is a member again causes no event, one who is a member no more, or whom no stored event
 * names, causes `false`.
 *
 * It is kept in documents of the store, a thousand users each, until the rebuild is complete, and in memory
 * meanwhile: some hundred bytes for each user who was a member. A value stands in one place at any time, here
 * or in the profile (`sent`): it moves to the profile when the walk comes to it, and is stored there with the
 * same slice.
 */
export class SentBefore {
  readonly #head: Omit<Head, 'parts' | 'format'>;
  readonly #parts: Map<string, SentOf>[];
  /** The number of the part of each recipient. */
  readonly #partOf = new Map<string, number>();
  /** Parts that are to be stored with the slice at work. */
  readonly #changed = new Set<number>();

  private constructor(
    { computations, destinations }: Omit<Head, 'parts' | 'format'>,
    parts: Map<string, SentOf>[],
  ) {
    this.#head = { computations, ...defined({ destinations }) };
    this.#parts = parts;
    for (const [nth, part] of parts.entries()) for (const key of part.keys()) this.#partOf.set(key, nth);
  }

  /** Reads the documents; undefined while no rebuild is under way. */
  static async read(store: ProfileStore): Promise<SentBefore | undefined> {
    const head = (await store.document(HEAD)) as Head | null | undefined;
    if (head === undefined || head === null) return undefined;
    const parts: Map<string, SentOf>[] = [];
    for (let nth = 0; nth < head.parts; nth++) {
      const part = (await store.document(nameOf(nth))) as Readonly<Record<string, unknown>> | undefined;
      parts.push(new Map(Object.entries(part ?? {}).map(([key, sent]) => [key, sentIn(sent, head)])));
    }
    return new SentBefore(head, parts);
  }

  /**
   * The computations that were in force before, with the names of those that were their destinations, where
   * that is known.
   */
  get computations(): RebuiltComputations {
    const { computations, destinations = {} } = this.#head;
    return new Map(computations.map((id) => [id, destinations[id]]));
  }

  /**
   * Makes the documents for a store that is cleared, from what its profiles know of destinations.
   * @param awaited destinations that count as new for a computation and a profile, and destinations that are
   * to be told every member once more
   */
  static async collect(
    store: ProfileStore,
    computations: readonly Computation[],
    awaited: (computation: number, profile: ProfileId) => Waiting,
  ): Promise<Record<string, Json>> {
    const before = await SentBefore.read(store);
    // A rebuild that has not come to its end has told only a part of them.
    const all = new Map(before?.awaiting(computations, (id) => awaited(id, Number.POSITIVE_INFINITY)));
    const add = (key: string, id: number, sent: Sent) => all.set(key, { ...all.get(key), [id]: sent });
    for await (const profile of walkProfiles(store)) {
      for (const computation of computations) {
        const sent = profile.computed.get(computation.id)?.sent ?? NOTHING_SENT;
        const { owed = [], ...known } = sent;
        const current = withAwaited(known, computation, awaited(computation.id, profile.id));
        for (const { to, destinations } of owed)
          add(to, computation.id, { ...current, value: undefined, known: knownAsMember(destinations) });
        const recipient = everyRecipientOf(profile, computation);
        if (recipient !== undefined && !isNothing(current)) add(keyOf(recipient), computation.id, current);
      }
    }
    const destinations = Object.fromEntries(computations.map(({ id, destinations }) => [id, destinations]));
    return documentsOf({ computations: computations.map(({ id }) => id), destinations }, [...all]);
  }

  /**
   * Values that were sent of recipients to whom no walk has come, together with what destinations wait for.
   */
  awaiting(
    computations: readonly Computation[],
    awaited: (computation: number) => Waiting,
  ): [string, SentOf][] {
    const all = this.#parts.flatMap((part) => [...part]);
    for (const computation of computations) {
      const { id } = computation;
      const by = awaited(id);
      if (by.fresh.length + by.repeated.length === 0) continue;
      for (const entry of all) {
        const { [id]: sent } = entry[1];
        if (sent !== undefined) entry[1] = { ...entry[1], [id]: withAwaited(sent, computation, by) };
      }
    }
    return all;
  }

  /**
   * Moves what was sent of a profile into it, and tells whether there was something. Call it whenever a slice
   * has changed a profile that the walk has passed, or that was made behind the walk.
   */
  recall(profile: ProfileState, computations: readonly Computation[]): boolean {
    let isRecalled = false;
    for (const computation of computations) {
      const recipient = everyRecipientOf(profile, computation);
      const sent = recipient && this.#take(keyOf(recipient), computation.id);
      if (sent === undefined) continue;
      isRecalled = true;
      const known = computedOf(profile, computation);
      known.sent = isNothing(known.sent)
        ? withOwed(behind(sent, known.sent), known.sent.owed ?? [])
        : behind(known.sent, sent);
    }
    return isRecalled;
  }

  /**
   * Notes that some destinations may or may not have got an earlier event. Returns whether this object knows
   * what was sent of the recipient: put into a profile, it would hide what the other destinations were sent.
   */
  uncertain(key: string, computation: number, destinations: readonly string[]): boolean {
    const nth = this.#partOf.get(key);
    const part = nth === undefined ? undefined : this.#parts[nth];
    const { [computation]: sent, ...others } = part?.get(key) ?? {};
    if (nth === undefined || part === undefined || sent === undefined) return false;
    part.set(key, { ...others, [computation]: withUnsure(sent, destinations) });
    this.#changed.add(nth);
    return true;
  }

  /** Changed documents, to store with the slice at work. */
  documents(): Record<string, Json> {
    const documents: Record<string, Json> = {};
    for (const nth of this.#changed) {
      const part = this.#parts[nth];
      if (part !== undefined) documents[nameOf(nth)] = jsonOf(part);
    }
    this.#changed.clear();
    return documents;
  }

  /**
   * Tells `false`, after the walk, for recipients of one part who have no profile any more. Resolves to
   * whether there is more to do; the next slice then calls it again.
   */
  async tellMissing(
    slice: Slice,
    { sync, computations }: { readonly sync: MembershipSync; readonly computations: readonly Computation[] },
  ): Promise<boolean> {
    const nth = this.#parts.length - 1;
    const part = this.#parts.at(-1);
    if (part === undefined) {
      slice.document(HEAD, null);
      return false;
    }
    const recipients = [...part.keys()].map(recipientIn);
    await slice.loadOwners(recipients.map((one) => idsOf(one, slice)));
    for (const [place, to] of recipients.entries()) {
      const owner = slice.ownerOf(idsOf(to, slice));
      // This slice may have made it.
      if (owner !== undefined && this.recall(owner, computations)) slice.change(owner);
      for (const computation of computations) {
        const sent = part.get(keyOf(to))?.[computation.id];
        if (sent === undefined) continue;
        // No profile has this number.
        const nobody = profileOf(to, -1 - nth * PART - place);
        computedOf(nobody, computation).sent = sent;
        const taken = sync.takeBack(nobody, computation.id, { to, sent, now: slice.now });
        slice.notify(taken.notifications);
        if (owner === undefined || taken.owed.length === 0) continue;
        const known = computedOf(owner, computation);
        known.sent = withOwed(behind(known.sent, sent), taken.owed);
        slice.change(owner);
      }
    }
    this.#parts.pop();
    slice.document(nameOf(nth), null);
    const head: Head = { ...this.#head, parts: nth, format: 2 };
    slice.document(HEAD, head as unknown as Json);
    return true;
  }

  /** Documents without these recipients; undefined when they are not in them. */
  without(gone: ReadonlySet<string>): Record<string, Json> | undefined {
    const all = this.#parts.flatMap((part) => [...part]);
    const rest = all.filter(([key]) => !gone.has(key));
    if (rest.length === all.length) return undefined;
    const documents = documentsOf(this.#head, rest);
    for (let nth = 0; nth < this.#parts.length; nth++) documents[nameOf(nth)] ??= null;
    return documents;
  }

  /** Removes what was sent of one recipient and one computation. */
  #take(key: string, computation: number): Sent | undefined {
    const nth = this.#partOf.get(key);
    const part = nth === undefined ? undefined : this.#parts[nth];
    const { [computation]: sent, ...rest } = part?.get(key) ?? {};
    if (nth === undefined || part === undefined || sent === undefined) return undefined;
    this.#changed.add(nth);
    if (Object.keys(rest).length > 0) part.set(key, rest);
    else {
      part.delete(key);
      this.#partOf.delete(key);
    }
    return sent;
  }
}

function documentsOf(
  head: Omit<Head, 'parts' | 'format'>,
  entries: readonly (readonly [string, SentOf])[],
): Record<string, Json> {
  const documents: Record<string, Json> = {};
  const parts = Math.ceil(entries.length / PART);
  for (let nth = 0; nth < parts; nth++)
    documents[nameOf(nth)] = jsonOf(new Map(entries.slice(nth * PART, (nth + 1) * PART)));
  documents[HEAD] = { ...head, parts, format: 2 } as unknown as Json;
  return documents;
}

/**
 * Adapts what was sent for destinations that count as new, and for destinations that are to be told every
 * member once more.
 */
function withAwaited(known: Sent, computation: Computation, { fresh, repeated }: Waiting): Sent {
  const sent = fresh.length === 0 || isNothing(known) ? known : withNew(known, fresh);
  const others = repeated.filter((name) => !fresh.includes(name));
  return withRepeated(sent, others, computation);
}

function jsonOf(part: ReadonlyMap<string, SentOf>): Json {
  return Object.fromEntries(part) as unknown as Json;
}

/** Reads what was sent of one recipient, from documents of this program and of earlier ones. */
function sentIn(stored: unknown, { format }: Head): SentOf {
  const byComputation = Object.entries(stored as Record<string, Json | Sent>);
  return Object.fromEntries(
    byComputation.map(([id, sent]) => [
      id,
      format === undefined ? { ...NOTHING_SENT, value: sent as Json } : (sent as Sent),
    ]),
  );
}

function nameOf(part: number): string {
  return `${HEAD} ${part}`;
}

function idsOf(recipient: Recipient, { identityReader }: Slice): EventIdentities {
  return { user: identityReader.identity(...identityIn(recipient)), anonymous: undefined, external: [] };
}

/** A profile without events, which only has the ids of a recipient. */
function profileOf(recipient: Recipient, id: number): ProfileState {
  const profile = newProfile(id);
  const [kind, value] = identityIn(recipient);
  if (kind === USER) profile.userId = value;
  profile.identities.push(newIdentity(kind, value, 0));
  return profile;
}

function computedOf(profile: ProfileState, { id, kind }: Computation): ComputedValue {
  const known = profile.computed.get(id);
  if (known !== undefined) return known;
  const value = kind === 'audience' ? false : null;
  const computed = { value, since: profile.lastSeenAt, sent: NOTHING_SENT };
  profile.computed.set(id, computed);
  return computed;
}

/** State in which these destinations know a recipient as a member, and all others know nothing of it. */
export function knownAsMember(destinations: readonly string[]): Sent['known'] & object {
  return Object.fromEntries(destinations.map((name) => [name, [true]]));
}
