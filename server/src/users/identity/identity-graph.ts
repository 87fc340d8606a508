import type { Position } from '../../model/event.ts';
import { MAX_ID_LENGTH } from '../../model/ids.ts';
import type { JoinRule } from '../../model/regulation.ts';
import type { Time } from '../../model/time.ts';
import type { IdentityKey, MergeRecord, ProfileId } from '../../ports/profile-store.ts';
import type { RefusalReason } from '../../ports/users.ts';
import type { IdentityHash, IdentitySettings } from '../contract.ts';
import type { EventIdentities, KeyedIdentity, PreviousId } from './identity-reader.ts';
import {
  ANONYMOUS,
  firstAnonymousId,
  mergeProfiles,
  newIdentity,
  newProfile,
  type ProfileIdentity,
  type ProfileState,
  USER,
} from './profile-state.ts';
import { type Refusal, withRefusal } from './refusals.ts';

/** The event that makes the graph decide something. */
export interface EventCause {
  readonly at: Time;
  readonly messageId: string;
  readonly position: Position;
  /**
   * True for an event of a client source, whose write key is public: it may bind an anonymous id to a user,
   * and do nothing more.
   */
  readonly isPublic: boolean;
  readonly source: number;
}

/** Numbers of ids and events that were not joined. */
export interface IdentityCounts {
  /** Events without an id that stands for someone. */
  unattributed: number;
  /**
   * Ids that were not bound, or went to make room for others, and profiles that were not merged: the result
   * would have too many ids.
   */
  overLimit: number;
  /** External ids and previousIds that were not bound, because they belong to another user. */
  conflicts: number;
  /** Aliases of client sources whose previousId they have never used, or that name no user. */
  unproven: number;
  /** Ids whose key belongs to another id. */
  collisions: number;
  /** Merges and ids that were refused because an operator keeps them apart. */
  apart: number;
  /**
   * External ids that are no ids, and so were not bound: too long, half a character, or neither text nor
   * number.
   */
  invalid: number;
}

/** Parts of the graph that a slice of the log touches. */
export interface LoadedIdentities {
  /** Profiles of the keys that the slice mentions. */
  readonly owners: Map<IdentityKey, ProfileId>;
  /** The state of each of these profiles; undefined for one that is gone. */
  readonly load: (profile: ProfileId) => ProfileState | undefined;
  readonly nextProfile: ProfileId;
  /** Ids that are never ids of one profile, each with the others; absent when there are none. */
  readonly apart?: ApartIds | undefined;
}

export type ApartIds = ReadonlyMap<IdentityKey, ReadonlySet<IdentityKey>>;

/** Makes a lookup in which either key of a pair finds the other. */
export function apartIds(pairs: readonly (readonly [IdentityKey, IdentityKey])[]): ApartIds | undefined {
  if (pairs.length === 0) return undefined;
  const all = new Map<IdentityKey, Set<IdentityKey>>();
  for (const [a, b] of [...pairs, ...pairs.map(([a, b]) => [b, a] as const)])
    all.set(a, (all.get(a) ?? new Set<IdentityKey>()).add(b));
  return all;
}

/**
 * Decides to which profile an event belongs, binds ids and merges profiles, for the ids that one slice of the
 * log mentions. It does no input or output: the caller loads the owners of all these ids, and stores `bound`,
 * `unbound`, `removed` and `merges` afterwards.
 *
 * spec/specification.md, "Identities".
 */
export class IdentityGraph {
  /** Keys that got another owner. */
  readonly bound = new Map<IdentityKey, ProfileId>();
  /** Keys without an owner, because their ids were removed to make room. */
  readonly unbound = new Set<IdentityKey>();
  /** Profiles that were merged into others. */
  readonly removed = new Set<ProfileId>();
  readonly merges: MergeRecord[] = [];
  readonly counts: IdentityCounts = {
    unattributed: 0,
    overLimit: 0,
    conflicts: 0,
    unproven: 0,
    apart: 0,
    collisions: 0,
    invalid: 0,
  };
  /** Number of traits and groups that were too much for merged profiles. */
  traitsGone = 0;
  nextProfile: ProfileId;

  readonly #hash: IdentityHash;
  readonly #settings: Pick<IdentitySettings, 'limits' | 'alias'>;
  readonly #owners: Map<IdentityKey, ProfileId>;
  readonly #load: (profile: ProfileId) => ProfileState | undefined;
  readonly #apart: ApartIds | undefined;
  readonly #states = new Map<ProfileId, ProfileState>();
  /**
   * Ids that the event at work has bound, and those that were looked up for it, as their profiles know them.
   */
  readonly #fresh = new NamedIds();
  readonly #named = new NamedIds();

  constructor(
    hash: IdentityHash,
    settings: Pick<IdentitySettings, 'limits' | 'alias'>,
    { owners, load, nextProfile, apart }: LoadedIdentities,
  ) {
    this.#apart = apart;
    this.#hash = hash;
    this.#settings = settings;
    this.#owners = owners;
    this.#load = load;
    this.nextProfile = nextProfile;
  }

  /**
   * The profile for which an event counts, after its ids were bound and profiles were merged. Undefined when
   * the event has no id that stands for someone.
   */
  attribute(ids: EventIdentities, cause: EventCause): ProfileState | undefined {
    const { user, anonymous, previous, external, invalid = 0 } = ids;
    this.counts.invalid += invalid;
    let profile = user === undefined ? undefined : this.#ofUser(user, anonymous, cause);
    if (profile === undefined && anonymous !== undefined) profile = this.#ofAnonymous(anonymous, cause);
    if (profile === undefined) {
      this.counts.unattributed++;
      this.#forgetEvent();
      return undefined;
    }
    if (cause.isPublic) {
      if (previous !== undefined) profile = this.#aliasOfClient(profile, { ...ids, previous }, cause);
    } else {
      for (const id of external) profile = this.#joinExternal(profile, id, cause);
      if (previous !== undefined) profile = this.#alias(profile, previous, cause);
    }
    this.#note(profile, ids, cause);
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

  /** Makes a profile without events, for an id that no profile has any more. */
  remnant(id: KeyedIdentity): ProfileState {
    const profile = this.#create();
    this.#bind(profile, id, NO_EVENT);
    if (id.kind === USER) profile.userId = id.value;
    this.#forgetEvent();
    return profile;
  }

  /** The profile that has an id; undefined when none has. */
  ownerOf(id: KeyedIdentity | undefined): ProfileState | undefined {
    const owner = id === undefined ? TAKEN : this.#owner(id);
    this.#forgetEvent();
    return owner === TAKEN ? undefined : owner;
  }

  /** Takes a profile apart: removes it and unbinds its ids, until events say again whose they are. */
  dissolve(profile: ProfileState): void {
    for (const { kind, value } of profile.identities) this.#release(this.#hash(kind, value));
    this.#states.delete(profile.id);
    this.removed.add(profile.id);
  }

  /** Makes a profile for a userId that no event names any more. No profile may have the id. */
  revive(id: KeyedIdentity, at: Time): ProfileState {
    const profile = this.#create();
    profile.identities.push(newIdentity(id.kind, id.value, at));
    this.#assign(id.key, profile.id);
    becomeUser(profile, id.value);
    return profile;
  }

  /** Finds the profile of an event with a userId: that user's, whoever has the anonymous id. */
  #ofUser(
    user: KeyedIdentity,
    anonymous: KeyedIdentity | undefined,
    cause: EventCause,
  ): ProfileState | undefined {
    let profile = this.#owner(user);
    if (profile === TAKEN) return undefined;
    const other = anonymous === undefined ? TAKEN : this.#owner(anonymous);
    if (profile === undefined) {
      // A profile without a userId becomes the user's: the same person has now logged in.
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
    if (profile.userId === undefined) becomeUser(profile, user.value);
    if (anonymous === undefined || other === profile || other === TAKEN) return profile;
    if (other === undefined) this.#bind(profile, anonymous, cause);
    else if (other.userId === undefined)
      profile = this.#tryMerge(profile, [profile, other], { rule: 'identify', id: anonymous }, cause);
    return profile;
  }

  #ofAnonymous(anonymous: KeyedIdentity, cause: EventCause): ProfileState | undefined {
    const owner = this.#owner(anonymous);
    if (owner !== undefined) return owner === TAKEN ? undefined : owner;
    const profile = this.#create();
    this.#bind(profile, anonymous, cause);
    return profile;
  }

  /** Joins profiles by an external id, as long as at most one of them has a userId. */
  #joinExternal(profile: ProfileState, id: KeyedIdentity, cause: EventCause): ProfileState {
    const owner = this.#owner(id);
    if (owner === profile || owner === TAKEN) return profile;
    if (owner === undefined) {
      this.#bind(profile, id, cause, 'external');
      return profile;
    }
    if (profile.userId !== undefined && owner.userId !== undefined)
      return this.#refuse(profile, { rule: 'external', reason: 'belongs_to_another_user', id }, cause);
    const [winner, loser] = profile.userId === undefined ? [owner, profile] : [profile, owner];
    return this.#tryMerge(profile, [winner, loser], { rule: 'external', id }, cause);
  }

  /**
   * Joins two users by an alias, if an event has named the previousId as a userId before. Otherwise the
   * previousId becomes an anonymous id of the new user where it is free. It stays with a user who had it
   * first, because two people at one device are not one.
   */
  #alias(profile: ProfileState, previous: PreviousId, cause: EventCause): ProfileState {
    const former = this.#ownerOfPrevious(previous);
    if (former === profile || former === TAKEN) return profile;
    if (former !== undefined) {
      const joinsUsers = profile.userId !== undefined;
      if (!joinsUsers || this.#settings.alias === 'join')
        return this.#tryMerge(profile, [profile, former], { rule: 'alias', id: previous.user }, cause);
      return this.#refuse(profile, { rule: 'alias', reason: 'alias_off', id: previous.user }, cause);
    }
    return this.#joinAnonymous(profile, previous.anonymous, cause);
  }

  /**
   * Handles an alias of a client source, which anybody can send. It only joins an anonymous id to a user, and
   * only an id that this source has used: the one of the call itself, or one that it has named before.
   */
  #aliasOfClient(
    profile: ProfileState,
    { user, anonymous, previous }: EventIdentities & { readonly previous: PreviousId },
    cause: EventCause,
  ): ProfileState {
    const owner = this.#owner(previous.anonymous);
    const former = this.#ownerOfPrevious(previous);
    if (owner === profile || former === profile) return profile;
    const isOfCall = previous.anonymous.key === anonymous?.key;
    const isOfSource = owner !== undefined && owner !== TAKEN && owner.sources.has(cause.source);
    if (user !== undefined && former === undefined && (isOfCall || isOfSource))
      return this.#joinAnonymous(profile, previous.anonymous, cause);
    return this.#refuse(profile, { rule: 'alias', reason: 'unproven', id: previous.user }, cause);
  }

  #ownerOfPrevious({ user, isBeforeUser }: PreviousId): ProfileState | undefined | typeof TAKEN {
    return isBeforeUser === true ? undefined : this.#owner(user);
  }

  /** Makes the previousId of an alias an anonymous id of the profile, unless another user has it already. */
  #joinAnonymous(profile: ProfileState, id: KeyedIdentity, cause: EventCause): ProfileState {
    const owner = this.#owner(id);
    if (owner === profile || owner === TAKEN) return profile;
    if (owner === undefined) {
      this.#bind(profile, id, cause, 'alias');
      return profile;
    }
    if (owner.userId === undefined)
      return this.#tryMerge(profile, [profile, owner], { rule: 'alias', id }, cause);
    return this.#refuse(profile, { rule: 'alias', reason: 'belongs_to_another_user', id }, cause);
  }

  /** Counts a merge that is refused, and notes it with the profile, which it returns. */
  #refuse(
    profile: ProfileState,
    { id, ...why }: Pick<Refusal, 'rule' | 'reason'> & { readonly id: KeyedIdentity },
    { position, source, at, isPublic }: EventCause,
  ): ProfileState {
    this.counts[COUNTED_AS[why.reason]]++;
    profile.refusals = withRefusal(profile.refusals, { ...why, key: id.key, position, source, at, isPublic });
    return profile;
  }

  #create(): ProfileState {
    const profile = newProfile(this.nextProfile++);
    this.#states.set(profile.id, profile);
    return profile;
  }

  /** The profile of an id: undefined when it has none, `TAKEN` when its key belongs to another id. */
  #owner(id: KeyedIdentity): ProfileState | undefined | typeof TAKEN {
    const owner = this.#owners.get(id.key);
    const profile = owner === undefined ? undefined : this.state(owner);
    if (profile === undefined) return undefined;
    const identity = identityOf(profile, id);
    if (identity !== undefined) {
      this.#named.add(id.key, identity);
      return profile;
    }
    this.counts.collisions++;
    return TAKEN;
  }

  /** Notes that an event of a profile has named these ids of it, apart from those that it has just bound. */
  #note(
    profile: ProfileState,
    { user, anonymous, external }: EventIdentities,
    { isPublic }: EventCause,
  ): void {
    if (user !== undefined) this.#mark(profile, user, isPublic);
    if (anonymous !== undefined) this.#mark(profile, anonymous, isPublic);
    for (const id of external) this.#mark(profile, id, isPublic);
    this.#forgetEvent();
  }

  #mark(profile: ProfileState, { key }: KeyedIdentity, isPublic: boolean): void {
    const known = this.#named.get(key);
    if (known === undefined || this.#owners.get(key) !== profile.id || this.#fresh.has(known)) return;
    known.isUsed = true;
    known.isPublic &&= isPublic;
  }

  #forgetEvent(): void {
    this.#fresh.clear();
    this.#named.clear();
  }

  /**
   * Gives a free id to a profile. Returns false when the profile has too many, or the id is kept apart from
   * it.
   */
  #bind(profile: ProfileState, id: KeyedIdentity, cause: EventCause, rule: JoinRule = 'identify'): boolean {
    const { kind, value, key } = id;
    if (this.#isApart(key, profile)) {
      this.#refuse(profile, { rule, reason: 'split', id }, cause);
      return false;
    }
    const { at, isPublic } = cause;
    if (!this.#makeRoom(profile, kind, weightOf(value))) {
      this.counts.overLimit++;
      return false;
    }
    const identity = { kind, value, at, isPublic, isUsed: false };
    profile.identities.push(identity);
    this.#fresh.add(key, identity);
    this.#assign(key, profile.id);
    return true;
  }

  /**
   * Removes ids of this kind until there is room for `wanted` more. It removes only ids that client sources
   * alone have named: first those of a single event, and among equals those that were bound first. Returns
   * false when removing all of them is not enough.
   */
  #makeRoom(profile: ProfileState, kind: string, wanted: number): boolean {
    let excess = this.#excessOf(profile.identities, kind) + wanted;
    if (excess <= 0) return true;
    const removable = this.#removableOf(profile, kind);
    const gone = new Set<ProfileIdentity>();
    for (const isUsed of [false, true]) {
      for (const identity of removable) {
        if (excess <= 0 || identity.isUsed !== isUsed) continue;
        gone.add(identity);
        excess -= weightOf(identity.value);
      }
    }
    if (excess > 0) return false;
    profile.identities = profile.identities.filter((identity) => !gone.has(identity));
    for (const { kind, value } of gone) this.#release(this.#hash(kind, value));
    this.counts.overLimit += gone.size;
    return true;
  }

  /**
   * Number by which the ids of a kind exceed their limit; negative where there is room. UserIds have no
   * limit.
   */
  #excessOf(identities: readonly ProfileIdentity[], kind: string): number {
    if (kind === USER) return Number.NEGATIVE_INFINITY;
    const { anonymousIds, externalIds } = this.#settings.limits;
    const limit = kind === ANONYMOUS ? anonymousIds : externalIds;
    if ((identities.length + 1) * MAX_WEIGHT <= limit) return Number.NEGATIVE_INFINITY;
    let weight = 0;
    for (const identity of identities) if (isOfKind(identity, kind)) weight += weightOf(identity.value);
    return weight - limit;
  }

  /**
   * Ids that may be removed: only client sources have named them, and they do not stand for a profile without
   * a userId.
   */
  #removableOf(profile: ProfileState, kind: string): ProfileIdentity[] {
    const kept = profile.userId === undefined ? firstAnonymousId(profile) : undefined;
    return profile.identities.filter(
      (identity) => identity.isPublic && identity !== kept && isOfKind(identity, kind),
    );
  }

  #release(key: IdentityKey): void {
    this.#owners.delete(key);
    this.bound.delete(key);
    this.unbound.add(key);
  }

  #assign(key: IdentityKey, profile: ProfileId): void {
    this.#owners.set(key, profile);
    this.bound.set(key, profile);
    this.unbound.delete(key);
  }

  /**
   * Merges two profiles for an event of `profile`. Where the merge is refused, `profile` stays as it is and
   * notes the refusal.
   */
  #tryMerge(
    profile: ProfileState,
    pair: readonly [winner: ProfileState, loser: ProfileState],
    { rule, id }: Pick<Refusal, 'rule'> & { readonly id: KeyedIdentity },
    cause: EventCause,
  ): ProfileState {
    const reason = this.#reasonAgainst(pair);
    if (reason !== undefined) return this.#refuse(profile, { rule, reason, id }, cause);
    return this.#merge(pair, { ...cause, rule, identity: { kind: id.kind, value: id.value } });
  }

  /** Reason why two profiles must not become one; undefined where they may. */
  #reasonAgainst([winner, loser]: readonly [ProfileState, ProfileState]): RefusalReason | undefined {
    if (this.#areApart(winner, loser)) return 'split';
    const both = [...winner.identities, ...loser.identities].filter(({ isPublic }) => !isPublic);
    return LIMITED.every((kind) => this.#excessOf(both, kind) <= 0) ? undefined : 'too_many_ids';
  }

  #areApart(one: ProfileState, other: ProfileState): boolean {
    if (this.#apart === undefined) return false;
    const [few, many] = one.identities.length < other.identities.length ? [one, other] : [other, one];
    return few.identities.some(({ kind, value }) => this.#isApart(this.#hash(kind, value), many));
  }

  /** Tells whether an id is kept apart from an id of a profile. */
  #isApart(key: IdentityKey, { identities }: ProfileState): boolean {
    const others = this.#apart?.get(key);
    return others !== undefined && identities.some(({ kind, value }) => others.has(this.#hash(kind, value)));
  }

  #merge(
    [winner, loser]: readonly [ProfileState, ProfileState],
    { rule, identity, at, messageId, position, source }: EventCause & Pick<MergeRecord, 'rule' | 'identity'>,
  ): ProfileState {
    // An alias without a userId may name a user, who goes on being told what it was told.
    if (winner.userId === undefined && loser.userId !== undefined) [winner, loser] = [loser, winner];
    const leftOut = winner.leftOut + loser.leftOut;
    const merged = mergeProfiles(winner, loser);
    const gone = merged.id === winner.id ? loser : winner;
    for (const { kind, value } of gone.identities) this.#assign(this.#hash(kind, value), merged.id);
    this.#states.delete(gone.id);
    this.removed.add(gone.id);
    this.#states.set(merged.id, merged);
    for (const kind of LIMITED) this.#makeRoom(merged, kind, 0);
    this.traitsGone += merged.leftOut - leftOut;
    this.merges.push({
      winner: merged.id,
      loser: gone.id,
      rule,
      identity,
      messageId,
      ...{ at, position, source },
      userId: merged.userId,
    });
    return merged;
  }
}

const COUNTED_AS = {
  belongs_to_another_user: 'conflicts',
  alias_off: 'conflicts',
  too_many_ids: 'overLimit',
  unproven: 'unproven',
  split: 'apart',
} as const;

const TAKEN = Symbol('taken');

/** Cause of an id that is bound without an event. */
const NO_EVENT: EventCause = { at: 0, messageId: '', position: 0, isPublic: true, source: 0 };

/**
 * A few ids, looked up by key. Its arrays are reused: a map, or new arrays, would be allocated for every
 * event.
 */
class NamedIds {
  readonly #keys: IdentityKey[] = [];
  readonly #identities: ProfileIdentity[] = [];
  #size = 0;

  add(key: IdentityKey, identity: ProfileIdentity): void {
    this.#keys[this.#size] = key;
    this.#identities[this.#size++] = identity;
  }

  /** The id that was added last under a key. */
  get(key: IdentityKey): ProfileIdentity | undefined {
    for (let nth = this.#size - 1; nth >= 0; nth--) if (this.#keys[nth] === key) return this.#identities[nth];
    return undefined;
  }

  has(identity: ProfileIdentity): boolean {
    for (let nth = 0; nth < this.#size; nth++) if (this.#identities[nth] === identity) return true;
    return false;
  }

  clear(): void {
    this.#size = 0;
  }
}

/** Length up to which an id counts once against the limit. */
const USUAL_LENGTH = 64;
const MAX_WEIGHT = MAX_ID_LENGTH / USUAL_LENGTH;

/** Number of ids as which a long id counts, so that the limits bound the size of a profile too. */
function weightOf(value: string): number {
  return Math.max(1, Math.ceil(value.length / USUAL_LENGTH));
}

/** Kinds with a limit; `external` stands for all external ids. */
const LIMITED = [ANONYMOUS, 'external'];

function isOfKind(identity: ProfileIdentity, kind: string): boolean {
  if (kind === ANONYMOUS || identity.kind === ANONYMOUS) return identity.kind === kind;
  return identity.kind !== USER;
}

/** Finds an id in a profile, from the newest on; undefined when the profile does not have it. */
function identityOf(
  { identities }: ProfileState,
  { kind, value }: Pick<KeyedIdentity, 'kind' | 'value'>,
): ProfileIdentity | undefined {
  for (let nth = identities.length - 1; nth >= 0; nth--) {
    const identity = identities[nth]!;
    if (identity.value === value && identity.kind === kind) return identity;
  }
  return undefined;
}

/** Gives a profile its userId, which an alias without a userId may have made a former id of it. */
function becomeUser(profile: ProfileState, userId: string): void {
  profile.userId = userId;
  profile.formerUserIds = profile.formerUserIds.filter((former) => former !== userId);
}
