import type { Computation } from '../model/definition.ts';
import type { Position } from '../model/event.ts';
import { defined, type Json } from '../model/json.ts';
import { type IdJoin, newSubject } from '../model/regulation.ts';
import type { Time } from '../model/time.ts';
import type { LogReader } from '../ports/event-log.ts';
import type { MergeRecord, ProfileId, ProfileStore } from '../ports/profile-store.ts';
import type {
  AliasMerge,
  JoinedIds,
  MembersPage,
  Profile,
  RebuildReport,
  RefusedMerge,
  RefusedMerges,
  UserIdentity,
  Visitor,
} from '../ports/users.ts';
import type { IdentityHash } from './contract.ts';
import type { IdentityReader } from './identity/identity-reader.ts';
import { idsByKind, valuesOf } from './identity/ids-by-kind.ts';
import { ANONYMOUS, decodeProfile, type ProfileState, USER } from './identity/profile-state.ts';
import { walkProfiles } from './identity/walk.ts';
import { readEventAt } from './log-events.ts';
import { type LeftOver, leftOver } from './splits/remaking.ts';
import { readComputationEvent } from './sync/computation-event.ts';
import { keyOf, recipientOf } from './sync/recipient.ts';
import { isMember } from './sync/sent.ts';

export interface ProfileViewOptions {
  readonly store: ProfileStore;
  readonly reader: LogReader;
  readonly hash: IdentityHash;
  readonly identityReader: IdentityReader;
  readonly computations: readonly Computation[];
}

/** Most merges of one profile that are shown. */
const SHOWN_MERGES = 100;

/** Most merges that are searched for those that joined the ids of one profile: it has hardly more ids. */
const JOINING_MERGES = 2000;

/** Profiles that one page of members looks at. */
const MEMBERS_SCAN = 20_000;

/** Entries of the outbox that are read at once. */
const OUTBOX_PAGE = 2000;

/** Profiles as operators see them, as the last commit left them. */
export class ProfileView {
  readonly #options: ProfileViewOptions;

  constructor(options: ProfileViewOptions) {
    this.#options = options;
  }

  /** The profile of a user, also by a former userId, or of an anonymous id. */
  async profile(id: UserIdentity): Promise<Profile | undefined> {
    const [kind, value] = 'userId' in id ? [USER, id.userId] : [ANONYMOUS, id.anonymousId];
    const [state] = await this.#statesOf([[kind, value]]);
    if (state === undefined) return undefined;
    const merges = await this.#options.store.merges(state.id, SHOWN_MERGES);
    return viewOf(state, {
      computations: this.#options.computations,
      merges: merges.map(({ rule, identity, messageId, at }) => ({ rule, identity, messageId, at })),
      refusedMerges: await this.#refusedIn(state),
    });
  }

  /** Adds the refused ids, which stand in their events. */
  async #refusedIn({ refusals }: ProfileState): Promise<RefusedMerges> {
    const { count, samples } = refusals ?? { count: 0, samples: [] };
    const { reader, identityReader } = this.#options;
    const shown: RefusedMerge[] = [];
    for (const { rule, reason, source, at, position, key } of samples.toReversed()) {
      const event = await readEventAt(position, reader, identityReader);
      const { user, anonymous, previous, external } = event?.ids ?? { external: [] };
      const id = [user, anonymous, previous?.user, previous?.anonymous, ...external].find(
        (one) => one?.key === key,
      );
      shown.push({
        ...{ rule, reason, source, at },
        ...defined({ identity: id && { kind: id.kind, value: id.value }, messageId: event?.messageId }),
      });
    }
    return { count, samples: shown };
  }

  /** All ids joined to each of these users. A user without a profile has only itself. */
  async joinedIds(userIds: readonly string[]): Promise<JoinedIds[]> {
    const states = await this.#statesOf(userIds.map((userId) => [USER, userId] as const));
    const merges = await this.#mergesOf(states);
    return userIds.map((userId, nth) => {
      const state = states[nth];
      if (state === undefined) return newSubject(userId);
      const aliases = aliasesOf(merges[nth]!);
      return {
        userId: state.userId ?? userId,
        formerUserIds: state.formerUserIds,
        anonymousIds: valuesOf(state, ANONYMOUS),
        ...externalIdsOf(state),
        sources: [...state.sources].sort((a, b) => a - b),
        joins: joinsOf(state, merges[nth]!),
        ...defined({ aliases: aliases.length === 0 ? undefined : aliases }),
      };
    });
  }

  /** The user to whom each anonymous id is joined. */
  async usersOf(anonymousIds: readonly string[]): Promise<(string | undefined)[]> {
    const states = await this.#statesOf(anonymousIds.map((id) => [ANONYMOUS, id] as const));
    return states.map((state) => state?.userId);
  }

  /** Returns for each anonymous id the visitor or user that has it. */
  async visitors(anonymousIds: readonly string[]): Promise<(Visitor | undefined)[]> {
    const states = await this.#statesOf(anonymousIds.map((id) => [ANONYMOUS, id] as const));
    const merges = await this.#mergesOf(states);
    return states.map(
      (state, nth) =>
        state && {
          profile: state.id,
          ...defined({ userId: state.userId }),
          anonymousIds: valuesOf(state, ANONYMOUS),
          ...externalIdsOf(state),
          sources: [...state.sources].sort((a, b) => a - b),
          joins: joinsOf(state, merges[nth]!),
        },
    );
  }

  /** The merges that made each of these profiles. A profile with a single id has none. */
  async #mergesOf(states: readonly (ProfileState | undefined)[]): Promise<(readonly MergeRecord[])[]> {
    const known = new Map<ProfileId, readonly MergeRecord[]>();
    for (const state of states) {
      if (state === undefined || known.has(state.id) || state.identities.length < 2) continue;
      known.set(state.id, await this.#options.store.merges(state.id, JOINING_MERGES));
    }
    return states.map((state) => (state && known.get(state.id)) ?? []);
  }

  /**
   * The profiles of these users, those without a userId that have one of the anonymous ids, and texts by
   * which their bytes would be recognised. `keys`: their ids with the kind before them, as in
   * users/sync/recipient.ts: an anonymousId may be the userId of somebody else. `left`: what of these
   * profiles belongs to users who are not erased.
   */
  async everythingOf(
    userIds: readonly string[],
    anonymousIds: readonly string[],
  ): Promise<{ profiles: ProfileId[]; texts: string[]; keys: Set<string>; left: LeftOver[] }> {
    const profiles = new Set<ProfileId>();
    const left = new Map<ProfileId, LeftOver>();
    const texts = new Set([...userIds, ...anonymousIds]);
    const keys = new Set([
      ...userIds.map((userId) => keyOf({ userId })),
      ...anonymousIds.map((anonymousId) => keyOf({ anonymousId })),
    ]);
    const states = await this.#statesOf([
      ...userIds.map((userId) => [USER, userId] as const),
      ...anonymousIds.map((id) => [ANONYMOUS, id] as const),
    ]);
    for (const [nth, state] of states.entries()) {
      if (state === undefined || (nth >= userIds.length && state.userId !== undefined)) continue;
      profiles.add(state.id);
      const others = leftOver(state, texts);
      if (others !== undefined) {
        left.set(state.id, others);
        continue;
      }
      for (const { kind, value } of state.identities) {
        texts.add(value);
        keys.add(`${kind} ${value}`);
      }
    }
    return { profiles: [...profiles], texts: [...texts], keys, left: [...left.values()] };
  }

  /**
   * Profiles that no longer exist, but have an entry in the outbox that is not in the log yet and names one
   * of these ids. `keys` as in `everythingOf`.
   */
  async ownersInOutbox(keys: ReadonlySet<string>): Promise<Set<ProfileId>> {
    const { store, identityReader } = this.#options;
    const owners = new Set<ProfileId>();
    for (let after = 0; ; ) {
      const entries = await store.outbox(after, OUTBOX_PAGE);
      for (const { profile, json } of entries)
        if (profile > 0 && keys.has(readComputationEvent(json, identityReader).key)) owners.add(profile);
      if (entries.length < OUTBOX_PAGE) return owners;
      after = entries.at(-1)!.sequence;
    }
  }

  /**
   * Members in the order of their profiles. A page may be short, or empty, and have a next one all the same.
   */
  async members(computation: number, limit: number, from?: string): Promise<MembersPage> {
    const definition = this.#options.computations.find(({ id }) => id === computation);
    const members: MembersPage['members'][number][] = [];
    if (definition === undefined) return { members };
    let after = from === undefined ? 0 : Number(from);
    let scanned = 0;
    for await (const profile of walkProfiles(this.#options.store, { after })) {
      if (scanned++ === MEMBERS_SCAN) return { members, next: String(after) };
      after = profile.id;
      const computed = profile.computed.get(computation);
      if (computed === undefined || !isMember(definition, computed.value)) continue;
      const recipient = recipientOf(profile, definition);
      if (recipient === undefined) continue;
      const { since, value } = computed;
      members.push({ ...recipient, since, value });
      if (members.length === limit) return { members, next: String(after) };
    }
    return { members };
  }

  /** Reports what a rebuild from the whole log would change. Reads every profile. */
  async rebuildReport(): Promise<RebuildReport> {
    const { store, reader } = this.#options;
    const { first, end } = await reader.bounds();
    const eventsSince = await this.#oldestArrival(first);
    let profiles = 0;
    let poorer = 0;
    for await (const { firstSeenAt, firstPosition } of walkProfiles(store)) {
      profiles++;
      // Earlier programs have noted only when the first event is said to have happened, which may be long
      // before it arrived.
      const isWhole = Number.isFinite(firstPosition)
        ? firstPosition >= first
        : firstSeenAt >= (eventsSince ?? 0);
      if (eventsSince === undefined || !isWhole) poorer++;
    }
    return { profiles, events: end - first, poorer, ...defined({ eventsSince }) };
  }

  /** Time at which the oldest stored event arrived that can be read. */
  async #oldestArrival(first: Position): Promise<Time | undefined> {
    for (let from = first; ; ) {
      const { lines, starts, next } = await this.#options.reader.page(from, 1);
      if (next === from) return undefined;
      const nth = starts.findIndex(
        (start, line) => line + 1 < starts.length && starts[line + 1]! - start > 1,
      );
      if (nth >= 0) {
        const line = Buffer.from(lines.subarray(starts[nth]!, starts[nth + 1]! - 1)).toString();
        return Date.parse((JSON.parse(line) as { receivedAt: string }).receivedAt);
      }
      from = next;
    }
  }

  /** States of the profiles of identities, in their order. */
  async #statesOf(
    identities: readonly (readonly [kind: string, value: string])[],
  ): Promise<(ProfileState | undefined)[]> {
    const { store, hash } = this.#options;
    const owners = await store.resolve(identities.map(([kind, value]) => hash(kind, value)));
    const known = owners.filter((owner) => owner !== undefined);
    const states = new Map<ProfileId, ProfileState>();
    for (const [nth, bytes] of (await store.get(known)).entries()) {
      const id = known[nth]!;
      if (bytes !== undefined) states.set(id, decodeProfile(id, bytes));
    }
    return identities.map(([kind, value], nth) => {
      const owner = owners[nth];
      const state = owner === undefined ? undefined : states.get(owner);
      // Two ids may have the same key.
      return state?.identities.some((one) => one.kind === kind && one.value === value) ? state : undefined;
    });
  }
}

/** A profile for people: ids by kind, traits without those that were taken away, computed values by key. */
function viewOf(
  state: ProfileState,
  {
    computations,
    merges,
    refusedMerges,
  }: { computations: readonly Computation[] } & Pick<Profile, 'merges' | 'refusedMerges'>,
): Profile {
  const traits: [string, Json][] = [];
  for (const [name, { value }] of state.traits) if (value !== null) traits.push([name, value]);
  const computedTraits: [string, Json][] = [];
  const audiences: string[] = [];
  for (const computation of computations) {
    const value = state.computed.get(computation.id)?.value ?? null;
    if (computation.kind === 'trait' && value !== null) computedTraits.push([computation.key, value]);
    if (computation.kind === 'audience' && value === true && recipientOf(state, computation) !== undefined)
      audiences.push(computation.name);
  }
  return {
    ...idsByKind(state),
    traits: sortedObject(traits),
    computedTraits: sortedObject(computedTraits),
    audiences: audiences.sort(),
    groups: [...state.groups.keys()].sort(),
    ...(state.consent !== undefined && {
      consent: { categories: state.consent.categories, at: state.consent.at },
    }),
    leftOut: state.leftOut,
    sources: [...state.sources].sort((a, b) => a - b),
    firstSeenAt: state.firstSeenAt,
    lastSeenAt: state.lastSeenAt,
    merges,
    refusedMerges,
  };
}

function externalIdsOf(state: ProfileState): { readonly externalIds?: readonly string[] } {
  const values = [...new Set(Object.values(idsByKind(state).externalIds).flat())];
  return values.length === 0 ? {} : { externalIds: values };
}

/**
 * The userIds and anonymous ids of a profile, each with the merge that joined it. An id that was bound by an
 * event of the user itself has none; the log has that event. An external id says nothing of the ids that it
 * joined, so the first merge by one since the id was there counts.
 */
function joinsOf({ identities }: ProfileState, merges: readonly MergeRecord[]): IdJoin[] {
  // A single id was joined to nobody.
  if (identities.length < 2) return [];
  const oldestFirst = merges.toReversed();
  const byId = new Map(oldestFirst.map((merge) => [`${merge.identity.kind} ${merge.identity.value}`, merge]));
  const external = oldestFirst.filter(({ rule }) => rule === 'external');
  return identities.flatMap(({ kind, value, at }): IdJoin[] => {
    if (!isOwnKind(kind)) return [];
    const merge = byId.get(`${kind} ${value}`) ?? external.find((one) => one.at >= at);
    if (merge === undefined) return [{ kind, value, at }];
    const { rule, messageId, position, source } = merge;
    const join = { kind, value, rule, messageId, at: merge.at, position };
    return [source === undefined ? join : { ...join, source }];
  });
}

/** The aliases among the merges of a profile. */
function aliasesOf(merges: readonly MergeRecord[]): AliasMerge[] {
  return merges.flatMap(({ rule, identity, messageId, position, source, userId }) => {
    if (rule !== 'alias') return [];
    const alias = { previousId: identity.value, messageId, position };
    return [
      {
        ...alias,
        ...defined({ source, userId }),
      },
    ];
  });
}

/** Tells userIds and anonymous ids from external ones. */
function isOwnKind(kind: string): kind is IdJoin['kind'] {
  return kind === USER || kind === ANONYMOUS;
}

/** Sorts the keys, so that the order of arrival does not show. */
function sortedObject(entries: [string, Json][]): Record<string, Json> {
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}
