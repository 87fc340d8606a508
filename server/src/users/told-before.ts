import type { Computation } from '../model/definition.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { OutboxEntry, ProfileStore } from '../ports/profile-store.ts';
import type { Addressee } from './computation-event.ts';
import type { EventIdentities } from './identity-graph.ts';
import { addresseeOf, type MembershipSync } from './membership-sync.ts';
import { ANONYMOUS, decodeProfile, newProfile, type ProfileState, USER } from './profile-state.ts';
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

/** The fields of an event of a computation that say who hears what. */
interface ComputationEvent {
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly traits: JsonObject;
  readonly context: {
    readonly personas: { readonly computation_id: string; readonly computation_key: string };
  };
}

/** What one addressee was told, by id of the computation. */
type Told = Readonly<Record<string, Json>>;

/**
 * What destinations were told of users before all profiles were made anew. They hear of differences only: a user who is a member
 * again hears nothing, one who is no member any more, or whom no stored event names, hears `false`.
 *
 * It is kept in documents of the store, a thousand users each, until the rebuild has come to its end, and in memory meanwhile: some
 * hundred bytes a user who was told something.
 */
export class ToldBefore {
  /** Ids of computations that were in force before. */
  readonly computations: readonly number[];
  readonly #parts: Map<string, Told>[];

  private constructor(computations: readonly number[], parts: Map<string, Told>[]) {
    this.computations = computations;
    this.#parts = parts;
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
          const addressee = addresseeOf(profile, computation);
          if (told === undefined || addressee === undefined) continue;
          const key = keyOf(addressee);
          all.set(key, { ...all.get(key), [computation.id]: told });
        }
      }
      if (rows.length < SCAN) break;
    }
    return documentsOf({ computations: computations.map(({ id }) => id) }, [...all]);
  }

  /** A walk has come to a profile, which the slice stores: what it was told before counts from now on. */
  recall(profile: ProfileState, computations: readonly Computation[]): void {
    for (const computation of computations) {
      const addressee = addresseeOf(profile, computation);
      const told = addressee === undefined ? undefined : this.#toldOf(keyOf(addressee))?.[computation.id];
      if (told === undefined) continue;
      const known = profile.computed.get(computation.id);
      if (known !== undefined) {
        known.told ??= told;
        continue;
      }
      const value = computation.kind === 'audience' ? false : null;
      profile.computed.set(computation.id, { value, since: profile.lastSeenAt, told, transition: 0 });
    }
  }

  /**
   * Forgets memberships whose end these events tell: after a merge nobody would be found for them, and they would be told once more.
   * Returns the documents that are stored with the events.
   */
  heard(events: readonly OutboxEntry[]): Record<string, Json> {
    const documents: Record<string, Json> = {};
    for (const { json } of events) {
      const { userId, anonymousId, traits, context } = JSON.parse(json) as ComputationEvent;
      const { computation_id: id, computation_key: key } = context.personas;
      if (traits[key] !== false) continue;
      const addressee = userId === undefined ? { anonymousId: anonymousId! } : { userId };
      const nth = this.#parts.findIndex((part) => part.has(keyOf(addressee)));
      const part = this.#parts[nth];
      if (part === undefined) continue;
      const { [id.replace(/^\D+/, '')]: _, ...rest } = part.get(keyOf(addressee))!;
      part.set(keyOf(addressee), rest);
      documents[nameOf(nth)] = Object.fromEntries(part);
    }
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
    const part = this.#parts.pop();
    if (part === undefined) {
      slice.document(HEAD, null);
      return false;
    }
    const addressees = [...part.keys()].map(addresseeIn);
    await slice.loadOwners(addressees.map((one) => idsOf(one, slice)));
    for (const [place, told] of [...part.values()].entries()) {
      const addressee = addressees[place]!;
      for (const computation of computations) {
        if (told[computation.id] !== true || isFound(slice, addressee, computation)) continue;
        // No profile has this number, and no event of it the number of the place.
        const nobody = profileOf(addressee);
        const transition = nth * PART + place;
        nobody.computed.set(computation.id, { value: true, since: slice.now, told: true, transition });
        slice.notify(sync.renaming(nobody, slice.now));
      }
    }
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

  #toldOf(key: string): Told | undefined {
    for (const part of this.#parts) {
      const told = part.get(key);
      if (told !== undefined) return told;
    }
    return undefined;
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

/** Whether the events of a computation still go to this addressee. */
function isFound(slice: Slice, addressee: Addressee, computation: Computation): boolean {
  const owner = slice.ownerOf(idsOf(addressee, slice));
  const now = owner === undefined ? undefined : addresseeOf(owner, computation);
  return now !== undefined && keyOf(now) === keyOf(addressee);
}

function idsOf(addressee: Addressee, { identityReader }: Slice): EventIdentities {
  return { user: identityReader.identity(...identityOf(addressee)), anonymous: undefined, external: [] };
}

/** A profile that only says to whom an event goes. */
function profileOf(addressee: Addressee): ProfileState {
  const profile = newProfile(0);
  const [kind, value] = identityOf(addressee);
  if (kind === USER) profile.userId = value;
  profile.identities.push({ kind, value, at: 0 });
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
