import type { Position } from '../model/event.ts';
import { InvalidId, readId } from '../model/ids.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
import type { IdentityKey, MergeRecord, ProfileId } from '../ports/profile-store.ts';
import type { IdentityHash, IdentitySettings } from './contract.ts';
import {
  ANONYMOUS,
  firstAnonymousId,
  isBefore,
  mergeProfiles,
  newProfile,
  type ProfileState,
  USER,
} from './profile-state.ts';

/** An id with the key by which the store finds it. */
export interface KeyedIdentity {
  readonly kind: string;
  readonly value: string;
  readonly key: IdentityKey;
}

/** A previousId as it would be known as a userId and as an anonymous id. */
interface PreviousId {
  readonly user: KeyedIdentity;
  readonly anonymous: KeyedIdentity;
}

/** The ids of one event that can join something. */
export interface EventIdentities {
  readonly user: KeyedIdentity | undefined;
  readonly anonymous: KeyedIdentity | undefined;
  /** That of an alias. */
  readonly previous?: PreviousId | undefined;
  /** Ids among the traits of an identify call. */
  readonly external: readonly KeyedIdentity[];
  /** Values there that are no ids: they stay traits. */
  readonly invalid?: number;
}

/** The event that makes the graph decide something. */
export interface EventCause {
  readonly at: Time;
  readonly messageId: string;
  readonly position: Position;
}

/** Numbers of ids and events that were not joined. */
export interface IdentityCounts {
  /** Events without an id that stands for someone. */
  unattributed: number;
  /** Ids that were not bound and profiles that were not merged, because the result would have too many ids. */
  overLimit: number;
  /** External ids and previousIds that were not bound, because they belong to another user. */
  conflicts: number;
  /** Ids whose key belongs to another id. */
  collisions: number;
  /** External ids that are no ids, and so were not bound: too long, half a character, or neither text nor number. */
  invalid: number;
}

/** Zeros with or without dashes, such as the nil UUID. */
const ZEROS = /^[0-]*0[0-]*$/;

const NO_IDS = { external: [], invalid: 0 };

/** Makes identities of values and leaves out those that stand for no one. spec/specification.md, "Identities". */
export class IdentityReader {
  readonly #hash: IdentityHash;
  readonly #blocked: ReadonlySet<string>;
  readonly #externalIds: readonly string[];

  constructor(hash: IdentityHash, { blocked, externalIds }: IdentitySettings) {
    this.#hash = hash;
    this.#blocked = new Set(blocked.map((value) => value.trim().toLowerCase()));
    this.#externalIds = externalIds;
  }

  /** Undefined for a value that stands for no one, and for one that is no text. */
  identity(kind: string, value: unknown): KeyedIdentity | undefined {
    const id = readId(value as Json | undefined);
    if (typeof id !== 'string' || (id.length <= 36 && this.#isBlocked(id))) return undefined;
    return { kind, value: id, key: this.#hash(kind, id) };
  }

  /** The previousId of an alias. */
  previous(value: unknown): PreviousId | undefined {
    const user = this.identity(USER, value);
    const anonymous = this.identity(ANONYMOUS, value);
    return user === undefined || anonymous === undefined ? undefined : { user, anonymous };
  }

  /** External ids among traits. A number counts as its text; a value that is no id binds nothing. */
  external(traits: JsonObject): Pick<EventIdentities, 'external' | 'invalid'> {
    if (this.#externalIds.length === 0) return NO_IDS;
    const ids: KeyedIdentity[] = [];
    let invalid = 0;
    for (const name of this.#externalIds) {
      const value = Object.hasOwn(traits, name) ? traits[name] : undefined;
      const id = this.identity(name, value);
      if (id !== undefined) ids.push(id);
      else if (readId(value) instanceof InvalidId) invalid++;
    }
    return { external: ids, invalid };
  }

  #isBlocked(value: string): boolean {
    const text = value.trim().toLowerCase();
    return text === '' || this.#blocked.has(text) || ZEROS.test(text);
  }
}

/** Parts of the graph that a slice of the log touches. */
export interface LoadedIdentities {
  /** Profiles of the keys that the slice mentions. */
  readonly owners: Map<IdentityKey, ProfileId>;
  /** The state of each of these profiles; undefined for one that is gone. */
  readonly load: (profile: ProfileId) => ProfileState | undefined;
  readonly nextProfile: ProfileId;
}

/** Hears of what the graph does to profiles. */
export interface IdentityHooks {
  /** Two profiles will become one; both are still whole. */
  readonly merging?: (winner: ProfileState, loser: ProfileState) => void;
  /** They are one, and this number is gone. */
  readonly merged?: (profile: ProfileState, gone: ProfileId) => void;
  /** A profile will get its userId, or another anonymous id that stands for it. */
  readonly renaming?: (profile: ProfileState) => void;
}

/**
 * Decides whose an event is, binds ids and merges profiles, over what one slice of the log touches. It does no input or output: the
 * caller loads the owners of all ids that the slice mentions, and stores `bound`, `removed` and `merges` afterwards.
 *
 * spec/specification.md, "Identities".
 */
export class IdentityGraph {
  /** Keys that got another owner. */
  readonly bound = new Map<IdentityKey, ProfileId>();
  /** Profiles that were merged into others. */
  readonly removed = new Set<ProfileId>();
  readonly merges: MergeRecord[] = [];
  readonly counts: IdentityCounts = {
    unattributed: 0,
    overLimit: 0,
    conflicts: 0,
    collisions: 0,
    invalid: 0,
  };
  nextProfile: ProfileId;

  readonly #hash: IdentityHash;
  readonly #limit: number;
  readonly #owners: Map<IdentityKey, ProfileId>;
  readonly #load: (profile: ProfileId) => ProfileState | undefined;
  readonly #states = new Map<ProfileId, ProfileState>();
  readonly #hooks: IdentityHooks;

  constructor(
    hash: IdentityHash,
    { limit }: Pick<IdentitySettings, 'limit'>,
    { owners, load, nextProfile }: LoadedIdentities,
    hooks: IdentityHooks = {},
  ) {
    this.#hash = hash;
    this.#limit = limit;
    this.#owners = owners;
    this.#load = load;
    this.nextProfile = nextProfile;
    this.#hooks = hooks;
  }

  /**
   * The profile for which an event counts, after its ids were bound and profiles were merged. Undefined when the event has no id
   * that stands for someone.
   */
  attribute(ids: EventIdentities, cause: EventCause): ProfileState | undefined {
    const { user, anonymous, previous, external, invalid = 0 } = ids;
    this.counts.invalid += invalid;
    let profile = user === undefined ? undefined : this.#ofUser(user, anonymous, cause);
    if (profile === undefined && anonymous !== undefined) profile = this.#ofAnonymous(anonymous, cause);
    if (profile === undefined) {
      this.counts.unattributed++;
      return undefined;
    }
    for (const id of external) profile = this.#joinExternal(profile, id, cause);
    if (previous !== undefined) profile = this.#alias(profile, previous, cause);
    return profile;
  }

  /** The state of a profile as the slice has left it. */
  state(id: ProfileId): ProfileState | undefined {
    const known = this.#states.get(id);
    if (known !== undefined || this.removed.has(id)) return known;
    const loaded = this.#load(id);
    if (loaded !== undefined) this.#states.set(id, loaded);
    return loaded;
  }

  /** The profile that has an id; undefined when none has. */
  ownerOf(id: KeyedIdentity | undefined): ProfileState | undefined {
    const owner = id === undefined ? TAKEN : this.#owner(id);
    return owner === TAKEN ? undefined : owner;
  }

  /** An event with a userId counts for that user, whoever the anonymous id belongs to. */
  #ofUser(
    user: KeyedIdentity,
    anonymous: KeyedIdentity | undefined,
    cause: EventCause,
  ): ProfileState | undefined {
    let profile = this.#owner(user);
    if (profile === TAKEN) return undefined;
    const other = anonymous === undefined ? TAKEN : this.#owner(anonymous);
    if (profile === undefined) {
      // A profile without a userId becomes the user's: it is one person who has now said who it is.
      if (
        other !== undefined &&
        other !== TAKEN &&
        other.userId === undefined &&
        this.#bind(other, user, cause)
      )
        profile = other;
      else {
        profile = this.#create();
        this.#bind(profile, user, cause);
      }
    }
    if (profile.userId === undefined) {
      this.#hooks.renaming?.(profile);
      becomeUser(profile, user.value);
    }
    if (anonymous === undefined || other === profile || other === TAKEN) return profile;
    if (other === undefined) this.#bind(profile, anonymous, cause);
    else if (other.userId === undefined)
      profile = this.#merge(profile, other, { ...cause, rule: 'identify', identity: anonymous }) ?? profile;
    return profile;
  }

  #ofAnonymous(anonymous: KeyedIdentity, cause: EventCause): ProfileState | undefined {
    const owner = this.#owner(anonymous);
    if (owner !== undefined) return owner === TAKEN ? undefined : owner;
    const profile = this.#create();
    this.#bind(profile, anonymous, cause);
    return profile;
  }

  /** An external id joins profiles as long as at most one of them has a userId. */
  #joinExternal(profile: ProfileState, id: KeyedIdentity, cause: EventCause): ProfileState {
    const owner = this.#owner(id);
    if (owner === profile || owner === TAKEN) return profile;
    if (owner === undefined) {
      this.#bind(profile, id, cause);
      return profile;
    }
    if (profile.userId !== undefined && owner.userId !== undefined) {
      this.counts.conflicts++;
      return profile;
    }
    const [winner, loser] = profile.userId === undefined ? [owner, profile] : [profile, owner];
    return this.#merge(winner, loser, { ...cause, rule: 'external', identity: id }) ?? profile;
  }

  /**
   * An alias joins whoever had the previousId to the new id. As a userId it may belong to another user, who then becomes this one. As an
   * anonymous id it stays with another user who had it first: two people at one device are not one. Afterwards the previousId is
   * bound as both, so that it does not matter whether its own events come before or after. One that belongs to the profile already says
   * nothing new, and is not bound in another way.
   */
  #alias(profile: ProfileState, previous: PreviousId, cause: EventCause): ProfileState {
    const asUser = this.#owner(previous.user);
    const asAnonymous = this.#owner(previous.anonymous);
    let winner = profile;
    if (asUser !== undefined && asUser !== TAKEN && asUser !== winner) {
      const merged = this.#merge(winner, asUser, { ...cause, rule: 'alias', identity: previous.user });
      if (merged === undefined) return profile;
      winner = merged;
    }
    const rest = this.#owner(previous.anonymous);
    if (rest !== undefined && rest !== TAKEN && rest !== winner) {
      if (rest.userId === undefined)
        winner =
          this.#merge(winner, rest, { ...cause, rule: 'alias', identity: previous.anonymous }) ?? winner;
      else if (asUser === undefined) {
        this.counts.conflicts++;
        return winner;
      }
    }
    if (asUser === undefined && asAnonymous !== profile) this.#bindFormer(winner, previous.user, cause);
    if (asAnonymous === undefined && asUser !== profile) this.#bind(winner, previous.anonymous, cause);
    return winner;
  }

  #bindFormer(profile: ProfileState, user: KeyedIdentity, cause: EventCause): void {
    if (!this.#bind(profile, user, cause)) return;
    profile.formerUserIds = [...profile.formerUserIds, user.value].sort();
  }

  #create(): ProfileState {
    const profile = newProfile(this.nextProfile++);
    this.#states.set(profile.id, profile);
    return profile;
  }

  /** The profile of an id: undefined when it has none, `TAKEN` when its key belongs to another id. */
  #owner({ kind, value, key }: KeyedIdentity): ProfileState | undefined | typeof TAKEN {
    const id = this.#owners.get(key);
    const profile = id === undefined ? undefined : this.state(id);
    if (profile === undefined) return undefined;
    const { identities } = profile;
    for (let index = identities.length - 1; index >= 0; index--) {
      const identity = identities[index]!;
      if (identity.value === value && identity.kind === kind) return profile;
    }
    this.counts.collisions++;
    return TAKEN;
  }

  /** Gives a free id to a profile. Returns false when the profile has too many. */
  #bind(profile: ProfileState, { kind, value, key }: KeyedIdentity, { at }: EventCause): boolean {
    if (profile.identities.length >= this.#limit) {
      this.counts.overLimit++;
      return false;
    }
    const first = kind === ANONYMOUS && profile.userId === undefined ? firstAnonymousId(profile) : undefined;
    // An alias that arrived late may be of an earlier time than the id that stands for the profile until now.
    if (first !== undefined && isBefore({ value, at }, first)) this.#hooks.renaming?.(profile);
    profile.identities.push({ kind, value, at });
    this.#assign(key, profile.id);
    return true;
  }

  #assign(key: IdentityKey, profile: ProfileId): void {
    this.#owners.set(key, profile);
    this.bound.set(key, profile);
  }

  /** Returns undefined when the result would have too many ids. */
  #merge(
    winner: ProfileState,
    loser: ProfileState,
    { rule, identity, at, messageId, position }: EventCause & Pick<MergeRecord, 'rule' | 'identity'>,
  ): ProfileState | undefined {
    if (winner.identities.length + loser.identities.length > this.#limit) {
      this.counts.overLimit++;
      return undefined;
    }
    // An alias without a userId may name a user, who goes on being told what it was told.
    if (winner.userId === undefined && loser.userId !== undefined) [winner, loser] = [loser, winner];
    this.#hooks.merging?.(winner, loser);
    const merged = mergeProfiles(winner, loser);
    const gone = merged.id === winner.id ? loser : winner;
    for (const { kind, value } of gone.identities) this.#assign(this.#hash(kind, value), merged.id);
    this.#states.delete(gone.id);
    this.removed.add(gone.id);
    this.#states.set(merged.id, merged);
    this.#hooks.merged?.(merged, gone.id);
    this.merges.push({
      winner: merged.id,
      loser: gone.id,
      rule,
      identity: { kind: identity.kind, value: identity.value },
      messageId,
      at,
      position,
    });
    return merged;
  }
}

const TAKEN = Symbol('taken');

/** Gives a profile its userId, which an alias without a userId may have made a former id of it. */
function becomeUser(profile: ProfileState, userId: string): void {
  profile.userId = userId;
  profile.formerUserIds = profile.formerUserIds.filter((former) => former !== userId);
}
