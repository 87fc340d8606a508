import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Position } from '../../model/event.ts';
import { defined } from '../../model/json.ts';
import type { LogReader } from '../../ports/event-log.ts';
import type { MergeRecord, ProfileStore } from '../../ports/profile-store.ts';
import type { DoubtfulMerge, DoubtfulMerges } from '../../ports/users.ts';
import type { IdentityHash, UsersSettings } from '../contract.ts';
import { apartIds, IdentityGraph } from '../identity/identity-graph.ts';
import type { IdentityReader } from '../identity/identity-reader.ts';
import { ANONYMOUS, type ProfileState, USER } from '../identity/profile-state.ts';
import { walkProfiles } from '../identity/walk.ts';
import { readEventsOf } from '../log-events.ts';

export interface DoubtfulMergesDependencies {
  readonly store: Pick<ProfileStore, 'scan' | 'merges'>;
  readonly reader: LogReader;
  readonly hash: IdentityHash;
  readonly identityReader: IdentityReader;
  readonly settings: UsersSettings;
  /** The next position that live slices apply. */
  readonly position: Position;
  /** Called after every step; throws when the answer is no longer wanted. */
  readonly check: () => void;
}

/** Most profiles with several userIds on one page: all stored events are read for each page. */
const PROFILES = 500;
/** Most profiles that one page scans. */
const SCANNED = 500_000;
/** Ids whose events are gathered in one page. */
const IDS = 100_000;
const EVENTS = 2000;
/** Merges of one profile that are looked through. */
const MERGES = 2000;

/**
 * Lists userIds that share a profile although the rules of today would not join them, such as those that
 * earlier versions joined by the id of a device. It works out the identities of these profiles again from the
 * stored events, and leaves the stored profiles alone.
 */
export async function doubtfulMerges(
  dependencies: DoubtfulMergesDependencies,
  after = 0,
): Promise<DoubtfulMerges> {
  const { states, next } = await joinedProfiles(dependencies, after);
  const known = await identitiesByLog(states, dependencies);
  const merges: DoubtfulMerge[] = [];
  let undecided = 0;
  for (const state of states) {
    const found = apartIn(state, known);
    undecided += found.undecided;
    if (found.apart.length === 0) continue;
    const records = await dependencies.store.merges(state.id, MERGES);
    for (const [userId, former] of found.apart)
      merges.push({ userId, formerUserId: former, ...evidenceOf(former, records, known) });
  }
  return { merges, undecided, ...defined({ next }) };
}

/** Profiles with several userIds. */
async function joinedProfiles({ store, check }: DoubtfulMergesDependencies, after: number) {
  const states: ProfileState[] = [];
  let scanned = 0;
  let ids = 0;
  const between = async () => {
    await nextTurn();
    check();
  };
  for await (const state of walkProfiles(store, { after, between })) {
    if (state.formerUserIds.length > 0) {
      states.push(state);
      ids += state.identities.length;
    }
    if (states.length === PROFILES || ids >= IDS || ++scanned === SCANNED) return { states, next: state.id };
  }
  return { states };
}

/** Works out, from the stored events alone, to which profile each id belongs. */
class IdentitiesByLog {
  readonly #graph: IdentityGraph;
  readonly #reader: IdentityReader;
  /** UserIds of the stored events. */
  readonly #users = new Set<string>();

  constructor({ hash, identityReader, settings }: DoubtfulMergesDependencies) {
    this.#reader = identityReader;
    const apart = apartIds(settings.apart ?? []);
    const nothing = { owners: new Map(), load: () => undefined, nextProfile: 1, apart };
    this.#graph = new IdentityGraph(hash, settings.identities, nothing);
  }

  add(event: ReturnType<typeof readEventsOf>[number]): void {
    this.#graph.attribute(event.ids, event);
    if (event.ids.user !== undefined) this.#users.add(event.ids.user.value);
  }

  /** Whether a stored event has this as its userId. */
  isUser(userId: string): boolean {
    return this.#users.has(userId);
  }

  areOne(a: string, b: string): boolean {
    const [one, other] = [a, b].map((id) => this.#graph.ownerOf(this.#reader.identity(USER, id)));
    return one !== undefined && one === other;
  }
}

async function identitiesByLog(
  states: readonly ProfileState[],
  dependencies: DoubtfulMergesDependencies,
): Promise<IdentitiesByLog> {
  const { reader, identityReader, settings, position, check } = dependencies;
  const known = new IdentitiesByLog(dependencies);
  const ids = new Set<string>();
  for (const { identities } of states)
    for (const { kind, value } of identities) if (kind === USER || kind === ANONYMOUS) ids.add(value);
  const { first } = await reader.bounds();
  for (let from = first; ids.size > 0 && from < position; ) {
    const page = await reader.page(from, EVENTS);
    if (page.next === from) break;
    for (const event of readEventsOf(ids, page, identityReader, settings))
      if (event.position < position) known.add(event);
    from = page.next;
    await nextTurn();
    check();
  }
  return known;
}

/**
 * Pairs of userIds of a profile that the log does not join. Each is paired with the userId that stands for
 * the profile, or with the first that has events. `undecided`: userIds without stored events.
 */
function apartIn({ userId, formerUserIds }: ProfileState, known: IdentitiesByLog) {
  const all = [...(userId === undefined ? [] : [userId]), ...formerUserIds];
  const stored = all.filter((id) => known.isUser(id));
  const [stands = '', ...others] = stored;
  const apart = others.filter((id) => !known.areOne(stands, id)).map((id) => [stands, id] as const);
  return { apart, undecided: all.length - stored.length };
}

/** The merge that joined a former userId, or one by an id that was never a userId. */
function evidenceOf(
  former: string,
  records: readonly MergeRecord[],
  known: IdentitiesByLog,
): Omit<DoubtfulMerge, 'userId' | 'formerUserId'> {
  const record =
    records.find(({ identity }) => identity.kind === USER && identity.value === former) ??
    records.find(({ identity }) => identity.kind === USER && !known.isUser(identity.value));
  if (record === undefined) return {};
  const { rule, identity, messageId, at } = record;
  return { merge: { rule, identity, messageId, at } };
}
