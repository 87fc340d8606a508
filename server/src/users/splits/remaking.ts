import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Position } from '../../model/event.ts';
import type { LogReader } from '../../ports/event-log.ts';
import type { IdentityKey, OutboxEntry, ProfileId, ProfileStore } from '../../ports/profile-store.ts';
import type { SplitReport } from '../../ports/users.ts';
import type { ProfileComputations } from '../computation/profile-computations.ts';
import type { UsersSettings } from '../contract.ts';
import type { IdentityReader, KeyedIdentity } from '../identity/identity-reader.ts';
import { idsByKind } from '../identity/ids-by-kind.ts';
import { ANONYMOUS, type ProfileIdentity, type ProfileState, USER } from '../identity/profile-state.ts';
import { type LogEvent, readEventsOf } from '../log-events.ts';
import type { Slice } from '../slice.ts';
import { noticeIn } from '../sync/computation-event.ts';
import type { ProfileBefore } from '../sync/membership-sync.ts';
import { keyOf } from '../sync/recipient.ts';
import { behind, NOTHING_SENT, type Sent } from '../sync/sent.ts';
import { knownAsMember } from '../sync/sent-before.ts';

/** Events that are read at once. */
const PAGE = 2000;

export interface RemakingDependencies {
  readonly reader: LogReader;
  readonly identityReader: IdentityReader;
  readonly settings: Pick<UsersSettings, 'ownSource' | 'serverSources'>;
  readonly computations: Pick<ProfileComputations, 'slotsAt' | 'activeIds'>;
}

/** A profile that was made of stored events. */
export interface RemadeProfile {
  readonly id: ProfileId;
  /** Its stored events. */
  readonly events: number;
}

/** The result of taking profiles apart. */
export interface Remade {
  readonly profiles: readonly RemadeProfile[];
  /** True when some of their events are not stored any more. */
  readonly isPoorer: boolean;
}

/**
 * The rest of an erased profile: ids of users who are not erased, and what destinations know of the id that
 * stood for the profile.
 */
export interface LeftOver {
  readonly ids: readonly Known[];
  readonly userId?: string;
  /** By id of the computation. */
  readonly sent: Readonly<Record<string, Sent>>;
}

/**
 * Computes the rest of an erased profile; undefined when all its userIds are erased. `erased`: texts of the
 * erased userIds and anonymous ids.
 */
export function leftOver(
  { identities, userId, computed }: ProfileState,
  erased: ReadonlySet<string>,
): LeftOver | undefined {
  const ids = identities
    .filter(({ value }) => !erased.has(value))
    .map(({ kind, value }) => ({ kind, value }));
  if (!ids.some(({ kind }) => kind === USER)) return undefined;
  if (userId === undefined || erased.has(userId)) return { ids, sent: {} };
  const sent = Array.from(
    computed,
    ([
      id,
      {
        sent: { owed: _, ...rest },
      },
    ]) => [id, rest] as const,
  );
  return { ids, userId, sent: Object.fromEntries(sent) };
}

/**
 * Name of the document that keeps the rests of profiles that are being erased, until they are made anew: a
 * crash in between loses no user.
 */
export const LEFT_DOCUMENT = 'left';

/** Makes profiles from the rests of erased ones. */
export async function remakeLeft(
  slice: Slice,
  left: readonly LeftOver[],
  dependencies: RemakingDependencies,
): Promise<void> {
  for (const { ids, userId, sent } of left) {
    const profiles = await ownersOf(slice, ids, dependencies);
    await remakeProfiles(slice, { profiles, ids, isAlone: true }, dependencies);
    const heir =
      userId === undefined ? undefined : ownerIn(slice, { kind: USER, value: userId }, dependencies);
    if (heir === undefined) continue;
    for (const [computation, one] of Object.entries(sent)) know(heir, Number(computation), one);
    slice.change(heir);
  }
  slice.document(LEFT_DOCUMENT, null);
}

/** The profiles that have these ids now. */
async function ownersOf(
  slice: Slice,
  ids: readonly Known[],
  { identityReader }: Pick<RemakingDependencies, 'identityReader'>,
): Promise<ProfileId[]> {
  const named = ids.flatMap(({ kind, value }) => identityReader.identity(kind, value) ?? []);
  await slice.loadOwners([{ user: undefined, anonymous: undefined, external: named }]);
  return [...new Set(named.flatMap((id) => ownerOf(slice, id)?.id ?? []))];
}

/** Options of taking profiles apart. */
export interface Apart {
  /** With this, aliases that name other ids join nothing: those ids are erased. */
  readonly isAlone?: true;
  readonly profiles: readonly ProfileId[];
  /** Further ids whose stored events count. */
  readonly ids: readonly Known[];
}

/**
 * Takes profiles apart and makes them anew within one slice, from the stored events of their ids, in the
 * order of the log and by the rules of today. Destinations are told the new values at once; the profile that
 * gets the userId of an old one continues what destinations know of it. Events of other profiles that name
 * one of the ids decide again to whom it belongs, but count for no profile twice.
 */
async function remakeProfiles(
  slice: Slice,
  { profiles, ids, isAlone }: Apart,
  dependencies: RemakingDependencies,
): Promise<Remade> {
  await slice.load(profiles);
  const apart = profiles.flatMap((id) => slice.dissolve(id) ?? []);
  const known = [...apart.flatMap(({ state }) => state.identities), ...ids];
  const { events, first } = await applyEvents(slice, { ids: known, isAlone }, dependencies);
  for (const { state } of apart) revive(slice, state, dependencies);
  for (const { state, before } of apart) succeed(slice, state, { before, ...dependencies });
  const owners = new Set(known.flatMap((id) => ownerIn(slice, id, dependencies)?.id ?? []));
  for (const id of owners) slice.tellAtOnce(id, dependencies.computations.activeIds);
  return {
    profiles: [...owners].sort((a, b) => a - b).map((id) => ({ id, events: events.get(id) ?? 0 })),
    isPoorer: apart.some(({ state }) => !Number.isFinite(state.firstPosition) || state.firstPosition < first),
  };
}

/** The profiles that have ids which are kept apart. */
export async function profilesApart(
  pairs: readonly (readonly [IdentityKey, IdentityKey])[],
  store: Pick<ProfileStore, 'resolve'>,
): Promise<ProfileId[]> {
  if (pairs.length === 0) return [];
  const owners = await store.resolve(pairs.flat());
  const found = pairs.flatMap((_, nth) => {
    const [one, other] = [owners[2 * nth], owners[2 * nth + 1]];
    return one !== undefined && one === other ? one : [];
  });
  return [...new Set(found)];
}

/** Takes the profiles apart that have ids which are kept apart, in one slice. */
export async function splitProfiles(
  slice: Slice,
  profiles: readonly ProfileId[],
  dependencies: RemakingDependencies,
): Promise<Remade> {
  return await remakeProfiles(slice, { profiles, ids: [] }, dependencies);
}

/** Reports what a split would do. `notifications`: those of the slice, which is not stored. */
export function reportOf(
  slice: Slice,
  { profiles, isPoorer }: Remade,
  notifications: readonly Pick<OutboxEntry, 'json'>[],
): Omit<SplitReport, 'keys'> {
  return {
    profiles: profiles.flatMap(({ id, events }) => {
      const state = slice.state(id);
      return state === undefined ? [] : [{ ...idsByKind(state), events }];
    }),
    told: notifications.map(({ json }) => noticeIn(json)),
    isPoorer,
  };
}

type Known = Pick<ProfileIdentity, 'kind' | 'value'>;

/** Applies every stored event of these ids that live slices have applied. */
async function applyEvents(
  slice: Slice,
  { ids, isAlone = false }: { readonly ids: readonly Known[]; readonly isAlone: boolean | undefined },
  { reader, identityReader, settings, computations }: RemakingDependencies,
): Promise<{ readonly events: ReadonlyMap<ProfileId, number>; readonly first: Position }> {
  const users = new Set(ids.flatMap(({ kind, value }) => (kind === USER ? value : [])));
  const anonymous = new Set(ids.flatMap(({ kind, value }) => (kind === ANONYMOUS ? value : [])));
  const texts = new Set([...users, ...anonymous]);
  const isOwn = ({ ids }: LogEvent) =>
    ids.user === undefined ? anonymous.has(ids.anonymous?.value ?? '') : users.has(ids.user.value);
  const events = new Map<ProfileId, number>();
  const { first } = await reader.bounds();
  for (let from = first; from < slice.cursor.position; ) {
    const page = await reader.page(from, PAGE);
    if (page.next === from) break;
    const named = readEventsOf(texts, page, identityReader, settings);
    const applied = named.filter(({ position }) => position < slice.cursor.position);
    const found = isAlone ? applied.map((event) => withoutOthers(event, texts)) : applied;
    await slice.loadOwners(found.map((event) => event.ids));
    for (const event of found) {
      // What an alias of others has joined of others is so already.
      if (!isOwn(event)) slice.joinAgain(asOfThen(withoutOthers(event, texts), slice, { users, anonymous }));
      else {
        slice.applyAgain(asOfThen(event, slice, { users, anonymous }), computations.slotsAt(event.position));
        const owner = slice.ownerOf(event.ids);
        if (owner !== undefined) events.set(owner.id, (events.get(owner.id) ?? 0) + 1);
      }
    }
    from = page.next;
    await nextTurn();
  }
  return { events, first };
}

function withoutOthers(event: LogEvent, ids: ReadonlySet<string>): LogEvent {
  const { previous, ...rest } = event.ids;
  return previous === undefined || ids.has(previous.user.value) ? event : { ...event, ids: rest };
}

/**
 * Limits an alias to the profiles that it joined when it was applied. It did not join a profile that exists
 * beside the result: either the id was not yet used and became an anonymous id, or the merge was refused.
 */
function asOfThen(event: LogEvent, slice: Slice, { users, anonymous }: IdTexts): LogEvent {
  const { previous, ...rest } = event.ids;
  if (previous === undefined || users.has(previous.user.value)) return event;
  const isOthers = [previous.user, previous.anonymous].some((id) => ownerOf(slice, id) !== undefined);
  if (!anonymous.has(previous.user.value)) return isOthers ? { ...event, ids: rest } : event;
  return { ...event, ids: { ...rest, previous: { ...previous, isBeforeUser: true } } };
}

/** Texts of the ids of the profiles that are taken apart. */
interface IdTexts {
  readonly users: ReadonlySet<string>;
  readonly anonymous: ReadonlySet<string>;
}

/** Makes a profile for a user whose events are no longer stored. */
function revive(slice: Slice, state: ProfileState, { identityReader }: RemakingDependencies): void {
  for (const { kind, value, at } of state.identities) {
    const id = kind === USER ? identityReader.identity(kind, value) : undefined;
    const profile = id === undefined ? undefined : slice.revive(id, at);
    if (profile === undefined) continue;
    profile.firstSeenAt = at;
    profile.lastSeenAt = at;
    for (const source of state.sources) profile.sources.add(source);
  }
}

/**
 * Makes the profile with the id that stood for an old one its successor: destinations know of it what they
 * were sent of the old one. What they must still hear of former ids stands in the profiles that have these
 * ids now.
 */
function succeed(
  slice: Slice,
  state: ProfileState,
  { before, identityReader }: RemakingDependencies & { readonly before: readonly ProfileBefore[] },
): void {
  const [{ userId, anonymousId } = { userId: undefined, anonymousId: undefined }] = before;
  const stood =
    userId === undefined ? { kind: ANONYMOUS, value: anonymousId } : { kind: USER, value: userId };
  const id = identityReader.identity(stood.kind, stood.value);
  const heir = id === undefined ? undefined : ownerOf(slice, id);
  if (heir === undefined) return;
  const names = new Set<string>();
  for (const { kind, value } of state.identities) {
    const other = ownerIn(slice, { kind, value }, { identityReader });
    if (other === undefined || other === heir || (kind !== USER && kind !== ANONYMOUS)) continue;
    const key = keyOf(kind === USER ? { userId: value } : { anonymousId: value });
    names.add(key);
    for (const [computation, { sent }] of state.computed) {
      const owed = (sent.owed ?? []).filter(({ to }) => to === key).flatMap((one) => one.destinations);
      if (owed.length > 0)
        know(other, computation, { ...behind(NOTHING_SENT, sent), known: knownAsMember(owed) });
    }
  }
  for (const [computation, { sent }] of state.computed) {
    const { owed = [], ...rest } = sent;
    const left = owed.filter(({ to }) => !names.has(to));
    know(heir, computation, left.length === 0 ? rest : { ...rest, owed: left });
  }
  slice.succeed(heir, before);
}

function know(profile: ProfileState, computation: number, sent: Sent): void {
  const known = profile.computed.get(computation);
  if (known === undefined) profile.computed.set(computation, { value: null, since: 0, sent });
  else known.sent = sent;
}

function ownerIn(
  slice: Slice,
  { kind, value }: Known,
  { identityReader }: Pick<RemakingDependencies, 'identityReader'>,
): ProfileState | undefined {
  const id = identityReader.identity(kind, value);
  return id === undefined ? undefined : ownerOf(slice, id);
}

function ownerOf(slice: Slice, id: KeyedIdentity): ProfileState | undefined {
  return slice.ownerOf({ user: id, anonymous: undefined, external: [] });
}
