import type { Computation } from '../model/definition.ts';
import type { Json } from '../model/json.ts';
import type { ProfileStore } from '../ports/profile-store.ts';
import type { Addressee } from './computation-event.ts';
import type { EventIdentities } from './identity-graph.ts';
import { hearerOf, type MembershipSync } from './membership-sync.ts';
import {
  ANONYMOUS,
  decodeProfile,
  newIdentity,
  newProfile,
  type ProfileState,
  USER,
} from './profile-state.ts';
import type { Slice } from './slice.ts';

/** The document that says how many parts there are and of which computations. */
const HEAD = 'told-before';
/** Addressees of one part, which is a document. */
const PART = 1000;
/** Profiles that are read at once. */
const SCAN = 500;

interface Head {
  readonly computations: readonly number[];
  readonly parts: number;
}

/** What one addressee was told, by id of the computation. */
type Told = Readonly<Record<string, Json>>;

/**
 * What destinations were told of users before all profiles were made anew. They hear of differences only: a user who is a member
 * again hears nothing, one who is no member any more, or whom no stored event names, hears `false`.
 *
 * It is kept in documents of the store, a thousand users each, until the rebuild has come to its end, and in memory meanwhile: some
 * hundred bytes a user who was told something. What was told stands in one place at any time, here or in the profile (`told`): it
 * moves there when the walk comes to the profile, and is stored there with the same slice.
 */
export class ToldBefore {
  /** Ids of computations that were in force before. */
  readonly computations: readonly number[];
  readonly #parts: Map<string, Told>[];
  /** The number of the part of each addressee. */
  readonly #partOf = new Map<string, number>();
  /** Parts that are to be stored with the slice at work. */
  readonly #changed = new Set<number>();

  private constructor(computations: readonly number[], parts: Map<string, Told>[]) {
    this.computations = computations;
    this.#parts = parts;
    for (const [nth, part] of parts.entries()) for (const key of part.keys()) this.#partOf.set(key, nth);
  }

  /** Undefined while no rebuild is under way. */
  static async read(store: ProfileStore): Promise<ToldBefore | undefined> {
    const head = (await store.document(HEAD)) as Head | null | undefined;
    if (head === undefined || head === null) return undefined;
    const parts: Map<string, Told>[] = [];
    for (let nth = 0; nth < head.parts; nth++) {
      const part = (await store.document(nameOf(nth))) as Readonly<Record<string, Told>> | undefined;
      parts.push(new Map(Object.entries(part ?? {})));
    }
    return new ToldBefore(head.computations, parts);
  }

  /** What the profiles say that destinations were told, as the documents for a store that is cleared. */
  static async collect(
    store: ProfileStore,
    computations: readonly Computation[],
  ): Promise<Record<string, Json>> {
    const before = await ToldBefore.read(store);
    // A rebuild that has not come to its end has told only a part of them.
    const all = new Map(before === undefined ? [] : before.#parts.flatMap((part) => [...part]));
    for (let after = 0; ; ) {
      const rows = await store.scan(after, SCAN);
      for (const { id, state } of rows) {
        after = id;
        const profile = decodeProfile(id, state);
        for (const computation of computations) {
          const told = profile.computed.get(computation.id)?.told;
          const addressee = hearerOf(profile, computation);
          if (told === undefined || addressee === undefined) continue;
          const key = keyOf(addressee);
          all.set(key, { ...all.get(key), [computation.id]: told });
        }
      }
      if (rows.length < SCAN) break;
    }
    return documentsOf({ computations: computations.map(({ id }) => id) }, [...all]);
  }

  /**
   * Moves what was told of a profile into it, and tells whether there was something. To be called whenever a slice has changed a profile to
   * which the walk has come, or which was made behind it.
   */
  recall(profile: ProfileState, computations: readonly Computation[]): boolean {
    let isRecalled = false;
    for (const computation of computations) {
      const addressee = hearerOf(profile, computation);
      const told = addressee && this.#take(keyOf(addressee), computation.id);
      if (told === undefined) continue;
      isRecalled = true;
      const value = computation.kind === 'audience' ? false : null;
      const known = profile.computed.get(computation.id);
      if (known === undefined)
        profile.computed.set(computation.id, { value, since: profile.lastSeenAt, told, transition: 0 });
      else if (known.told === undefined) known.told = told;
    }
    return isRecalled;
  }

  /** What has changed, to be stored with the slice at work. */
  documents(): Record<string, Json> {
    const documents: Record<string, Json> = {};
    for (const nth of this.#changed) {
      const part = this.#parts[nth];
      if (part !== undefined) documents[nameOf(nth)] = Object.fromEntries(part);
    }
    this.#changed.clear();
    return documents;
  }

  /**
   * After the walk: tells those of one part of whom there is no profile any more. Resolves to whether there is more to do; then the
   * next slice calls it again.
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
    const addressees = [...part.keys()].map(addresseeIn);
    await slice.loadOwners(addressees.map((one) => idsOf(one, slice)));
    for (const [place, addressee] of addressees.entries()) {
      const owner = slice.ownerOf(idsOf(addressee, slice));
      // This slice may have made it.
      if (owner !== undefined && this.recall(owner, computations)) slice.change(owner);
      const told = part.get(keyOf(addressee)) ?? {};
      for (const computation of computations) {
        if (told[computation.id] !== true) continue;
        // No profile has this number, and no event of it the number of the place.
        const nobody = profileOf(addressee);
        const transition = nth * PART + place;
        nobody.computed.set(computation.id, { value: true, since: slice.now, told: true, transition });
        slice.notify(sync.renaming(nobody, slice.now));
      }
    }
    this.#parts.pop();
    slice.document(nameOf(nth), null);
    const head: Head = { computations: this.computations, parts: nth };
    slice.document(HEAD, head as unknown as Json);
    return true;
  }

  /** Documents without these ids, of users or anonymous ones; undefined when they are not in them. */
  without(ids: readonly string[]): Record<string, Json> | undefined {
    const gone = new Set(ids.flatMap((id) => [keyOf({ userId: id }), keyOf({ anonymousId: id })]));
    const all = this.#parts.flatMap((part) => [...part]);
    const rest = all.filter(([key]) => !gone.has(key));
    if (rest.length === all.length) return undefined;
    const documents = documentsOf({ computations: this.computations }, rest);
    for (let nth = 0; nth < this.#parts.length; nth++) documents[nameOf(nth)] ??= null;
    return documents;
  }

  /** Removes what one addressee was told of one computation. */
  #take(key: string, computation: number): Json | undefined {
    const nth = this.#partOf.get(key);
    const part = nth === undefined ? undefined : this.#parts[nth];
    const { [computation]: told, ...rest } = part?.get(key) ?? {};
    if (nth === undefined || part === undefined || told === undefined) return undefined;
    this.#changed.add(nth);
    if (Object.keys(rest).length > 0) part.set(key, rest);
    else {
      part.delete(key);
      this.#partOf.delete(key);
    }
    return told;
  }
}

function documentsOf(
  head: Pick<Head, 'computations'>,
  entries: readonly (readonly [string, Told])[],
): Record<string, Json> {
  const documents: Record<string, Json> = {};
  const parts = Math.ceil(entries.length / PART);
  for (let nth = 0; nth < parts; nth++)
    documents[nameOf(nth)] = Object.fromEntries(entries.slice(nth * PART, (nth + 1) * PART));
  documents[HEAD] = { ...head, parts };
  return documents;
}

function nameOf(part: number): string {
  return `${HEAD} ${part}`;
}

function idsOf(addressee: Addressee, { identityReader }: Slice): EventIdentities {
  return { user: identityReader.identity(...identityOf(addressee)), anonymous: undefined, external: [] };
}

/** A profile that only says to whom an event goes. */
function profileOf(addressee: Addressee): ProfileState {
  const profile = newProfile(0);
  const [kind, value] = identityOf(addressee);
  if (kind === USER) profile.userId = value;
  profile.identities.push(newIdentity(kind, value, 0));
  return profile;
}

function identityOf(addressee: Addressee): readonly [kind: string, value: string] {
  return 'userId' in addressee ? [USER, addressee.userId] : [ANONYMOUS, addressee.anonymousId];
}

function keyOf(addressee: Addressee): string {
  return identityOf(addressee).join(' ');
}

function addresseeIn(key: string): Addressee {
  const value = key.slice(key.indexOf(' ') + 1);
  return key.startsWith(`${USER} `) ? { userId: value } : { anonymousId: value };
}
