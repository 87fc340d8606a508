import type { Event, Position } from '../model/event.ts';
import { BlockedIds } from '../model/ids.ts';
import { defined } from '../model/json.ts';
import { idText, LineIds } from '../model/line-ids.ts';
import type { IdJoin, RegulationSubject } from '../model/regulation.ts';
import { trustOf } from '../model/settings.ts';
import { type EventLog, ownerQueries, type StoredEvent } from '../ports/event-log.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import type { AliasMerge, JoinedIds, Users } from '../ports/users.ts';
import { AliasGraph, JoinEvidence } from './joins.ts';

export interface SurveyDependencies {
  readonly log: Pick<EventLog, 'find' | 'read' | 'sharedIds'>;
  /** The profiles. Without profiles it finds nothing, and stored events are the only source. */
  readonly users: Pick<Users, 'joinedIds' | 'usersOf'>;
  /** Rules for joining ids, for the stored events. */
  readonly identities: SurveyedIdentities;
  /** Ids of the sources whose calls may join users. */
  readonly trusted: readonly number[];
  /** True to include userIds that client sources alone have joined. */
  readonly confirm: boolean;
  /** Throws when the program is being stopped. */
  readonly checkStop: () => void;
}

/** As in the configuration. */
export interface SurveyedIdentities {
  /** Values that stand for no one and join nothing; the empty text and texts of zeros never do. */
  readonly blocked: readonly string[];
  readonly alias: 'join' | 'refuse';
}

/** As `SurveyDependencies.trusted`, by the settings. */
export function trustedSources({ sources }: Pick<SettingsSnapshot, 'sources'>): number[] {
  return sources.flatMap((source) =>
    trustOf(source) === 'server' && source.shadow !== true ? [source.id] : [],
  );
}

/** A user with all facts from profiles and stored events. */
interface Surveyed {
  readonly userId: string;
  readonly formerUserIds: Set<string>;
  /** UserIds of its profile that client sources alone have joined. */
  readonly leftOut: Set<string>;
  readonly anonymousIds: Set<string>;
  readonly known: JoinedIds | undefined;
  readonly aliases: AliasGraph;
  readonly evidence: JoinEvidence;
  /** Ids that aliases of the user name. */
  readonly previousIds: Map<string, Aliases>;
  readonly sources: Set<number>;
}

/** The aliases of a user that name the same id. */
interface Aliases {
  /** Position of the newest that may join users; −1 when none of them may. */
  joins: Position;
  readonly sources: Set<number>;
}

interface Survey {
  readonly subjects: readonly RegulationSubject[];
  /** Number of their profiles. */
  readonly profiles: number;
}

/**
 * Finds everything that belongs to users: the ids that are joined to them and to nobody else, and the sources
 * that saw them. Profiles know events that are gone, and stored events may not be in profiles yet, so it asks
 * both. It searches for the events of all users together: thousands of users cost a few passes over the log
 * instead of one each.
 */
export async function surveyUsers(
  userIds: readonly string[],
  dependencies: SurveyDependencies,
): Promise<Survey> {
  const joined = await dependencies.users.joinedIds(userIds);
  const subjects = userIds.map((userId, nth): Surveyed => {
    const known = joined[nth];
    // The id that was asked for may itself be a former one: deleting one of them means all.
    const former = new Set(known === undefined ? [] : [known.userId, ...known.formerUserIds]);
    former.delete(userId);
    return {
      userId,
      formerUserIds: former,
      leftOut: new Set(),
      anonymousIds: new Set(known?.anonymousIds ?? []),
      known,
      aliases: new AliasGraph(),
      evidence: new JoinEvidence(known?.joins),
      previousIds: new Map(),
      sources: new Set(known?.sources ?? []),
    };
  });
  await followUsers(subjects, dependencies);
  if (!dependencies.confirm) {
    await followMerges(subjects, dependencies);
    await followUsers(leaveOut(subjects, dependencies.trusted), dependencies);
  }
  const shared = await sharedAmong(subjects, dependencies);
  const blocked = new BlockedIds(dependencies.identities.blocked);
  for (const { anonymousIds, previousIds } of subjects)
    for (const ids of [anonymousIds, previousIds])
      for (const id of ids.keys()) if (shared.has(id) || blocked.has(id)) ids.delete(id);
  // Looks at the events of all anonymous ids, those that it finds included.
  await followPrevious(subjects, dependencies);
  const events = await readJoining(
    subjects.flatMap(({ evidence }) => evidence.positions()),
    dependencies,
  );
  const found = subjects.map((subject) => {
    const { userId, formerUserIds, leftOut, anonymousIds, known, sources, evidence } = subject;
    const former = [...formerUserIds].filter((id) => id !== userId);
    const joinsOf = (kind: IdJoin['kind'], ids: Iterable<string>) =>
      Array.from(ids, (value) => evidence.join(kind, value, events));
    return {
      userId,
      formerUserIds: former,
      anonymousIds: [...anonymousIds],
      ...defined({ externalIds: known?.externalIds }),
      sources: [...sources].sort((a, b) => a - b),
      joins: [...joinsOf('user', former), ...joinsOf('anonymous', anonymousIds)],
      ...defined({ leftOut: leftOut.size === 0 ? undefined : joinsOf('user', leftOut) }),
    };
  });
  // Every profile was seen by a source, and users of one profile have the same userId there.
  const profiles = new Set(joined.filter(({ sources }) => sources.length > 0).map(({ userId }) => userId));
  return { subjects: found, profiles: profiles.size };
}

/** The sources of the users' own events, and the ids that these events name beside the userId. */
async function followUsers(subjects: readonly Surveyed[], dependencies: SurveyDependencies): Promise<void> {
  const ofUser = groupedBy(subjects, ({ userId, formerUserIds }) => [userId, ...formerUserIds]);
  const { identities, trusted } = dependencies;
  await lookAt(
    { userIds: [...ofUser.keys()], anonymousIds: [] },
    dependencies,
    (ids, { source, position }) => {
      const joins = identities.alias === 'join' && trusted.includes(source) ? position : -1;
      const userId = ids.userId ?? '';
      for (const subject of ofUser.get(userId) ?? []) {
        const { sources, anonymousIds, previousIds, evidence } = subject;
        sources.add(source);
        if (ids.anonymousId !== undefined) {
          anonymousIds.add(ids.anonymousId);
          evidence.note({ kind: 'anonymous', value: ids.anonymousId, rule: 'identify', source, position });
        }
        if (ids.type !== 'alias' || ids.previousId === undefined) continue;
        subject.aliases.add(userId, ids.previousId, source);
        const joined = { value: ids.previousId, rule: 'alias', source, position } as const;
        evidence.note({ ...joined, kind: 'anonymous' });
        evidence.note({ ...joined, kind: 'user' });
        if (ids.previousId !== subject.userId) evidence.noteNew(userId, joined);
        const aliases = previousIds.get(ids.previousId) ?? { joins, sources: new Set() };
        aliases.joins = Math.max(aliases.joins, joins);
        aliases.sources.add(source);
        previousIds.set(ids.previousId, aliases);
      }
    },
  );
}

/**
 * Finds the aliases that have merged profiles: they outlast their events. A merge that no stored event
 * explains counts as one of a server source, because no later call can say what it was.
 */
async function followMerges(subjects: readonly Surveyed[], dependencies: SurveyDependencies): Promise<void> {
  const isWhole = ({ source, userId }: AliasMerge) => source !== undefined && userId !== undefined;
  const older = subjects.flatMap(({ known }) => known?.aliases?.filter((one) => !isWhole(one)) ?? []);
  const events = await readJoining(
    older.map(({ position }) => position),
    dependencies,
  );
  for (const { known, aliases } of subjects) {
    for (const { previousId, messageId, position, ...merge } of known?.aliases ?? []) {
      const stored = events.get(position);
      const of = stored?.event.messageId === messageId ? stored : undefined;
      const userId = merge.userId ?? of?.event.userId ?? known!.userId;
      aliases.add(userId, previousId, merge.source ?? of?.source);
    }
  }
}

/**
 * Leaves out userIds of a profile that client sources alone have joined, as earlier versions allowed. Returns
 * the affected subjects, whose events must be read again.
 */
function leaveOut(subjects: readonly Surveyed[], trusted: readonly number[]): Surveyed[] {
  const asked = new Set(subjects.map(({ userId }) => userId));
  for (const { userId, formerUserIds, leftOut, aliases } of subjects) {
    const all = [userId, ...formerUserIds];
    const named = all.filter((id) => asked.has(id));
    const joined = aliases.joinedTo(named);
    const kept = aliases.joinedTo(named, trusted);
    for (const id of all) {
      // Where nothing that is stored says who joined an id, it belongs to the user as before.
      if (kept.has(id) || !joined.has(id)) continue;
      formerUserIds.delete(id);
      leftOut.add(id);
    }
  }
  const fewer = subjects.filter(({ leftOut }) => leftOut.size > 0);
  for (const { known, anonymousIds, previousIds, sources } of fewer) {
    for (const set of [anonymousIds, previousIds, sources]) set.clear();
    for (const id of known?.anonymousIds ?? []) anonymousIds.add(id);
    for (const source of known?.sources ?? []) sources.add(source);
  }
  return fewer;
}

/** The events at these positions, as far as they are stored. */
export async function readJoining(
  positions: readonly Position[],
  { log, checkStop }: Pick<SurveyDependencies, 'log' | 'checkStop'>,
): Promise<ReadonlyMap<Position, StoredEvent>> {
  const found = new Map<Position, StoredEvent>();
  const all = [...new Set(positions)];
  for (let from = 0; from < all.length; from += READ_AT_ONCE) {
    checkStop();
    const some = all.slice(from, from + READ_AT_ONCE);
    for (const [nth, stored] of (await log.read(some)).entries())
      if (stored !== undefined) found.set(some[nth]!, stored);
  }
  return found;
}

/** The sources of events that have an anonymous id of a user and no userId. */
async function followAnonymous(
  subjects: readonly Surveyed[],
  dependencies: SurveyDependencies,
): Promise<void> {
  const ofId = groupedBy(subjects, ({ anonymousIds }) => anonymousIds);
  await lookAt({ userIds: [], anonymousIds: [...ofId.keys()] }, dependencies, (ids, { source }) => {
    for (const { sources } of ofId.get(ids.anonymousId ?? '') ?? []) sources.add(source);
  });
}

/** Uses of a previousId in stored events: the sources that sent it as a userId, and as an anonymousId. */
class NamedId {
  /** Position of the first event that had it as its userId. */
  firstAsUser = Number.POSITIVE_INFINITY;
  readonly sourcesAsUser = new Set<number>();
  readonly sourcesAsAnonymous = new Set<number>();
}

/**
 * Decides what each previousId is. It is a former userId, with all its events, if an event had it as its
 * userId before an alias that may join users. It is an anonymous id if it was never a userId, and the alias
 * may join users or its source has used the id. Otherwise it belongs to somebody else. spec/specification.md,
 * "Identities".
 */
async function followPrevious(
  subjects: readonly Surveyed[],
  dependencies: SurveyDependencies,
): Promise<void> {
  const ofId = groupedBy(subjects, ({ previousIds }) => previousIds.keys());
  const all = [...ofId.keys()];
  const named = new Map(all.map((id) => [id, new NamedId()]));
  await lookAt({ userIds: all, anonymousIds: all }, dependencies, (ids, { source, position }) => {
    const { userId, anonymousId = '' } = ids;
    const id = named.get(userId ?? anonymousId);
    if (id === undefined) return;
    if (userId === undefined) id.sourcesAsAnonymous.add(source);
    else {
      id.firstAsUser = Math.min(id.firstAsUser, position);
      id.sourcesAsUser.add(source);
    }
  });
  for (const [id, those] of ofId) {
    const { firstAsUser, sourcesAsUser, sourcesAsAnonymous } = named.get(id)!;
    for (const { formerUserIds, leftOut, anonymousIds, previousIds, sources } of those) {
      const aliases = previousIds.get(id)!;
      const isFormer = firstAsUser < aliases.joins;
      if (leftOut.has(id)) continue;
      const isSeen = aliases.joins >= 0 || [...aliases.sources].some((one) => sourcesAsAnonymous.has(one));
      if (isFormer) for (const source of sourcesAsUser) sources.add(source);
      if (isFormer) formerUserIds.add(id);
      if (isFormer || (sourcesAsUser.size === 0 && isSeen)) anonymousIds.add(id);
    }
  }
  await followAnonymous(subjects, dependencies);
}

function groupedBy(
  subjects: readonly Surveyed[],
  idsOf: (subject: Surveyed) => Iterable<string>,
): Map<string, Surveyed[]> {
  const grouped = new Map<string, Surveyed[]>();
  for (const subject of subjects) {
    for (const id of idsOf(subject)) {
      const those = grouped.get(id);
      if (those === undefined) grouped.set(id, [subject]);
      else those.push(subject);
    }
  }
  return grouped;
}

/**
 * Finds ids that another user has used too, or to whom an external id has joined them. A profile does not
 * know that: it keeps the anonymous id that it had first. A previous id may have a profile of its own that
 * was too large to merge.
 */
async function sharedAmong(
  subjects: readonly Surveyed[],
  { log, users, trusted, checkStop }: SurveyDependencies,
): Promise<ReadonlySet<string>> {
  const previous = [...new Set(subjects.flatMap(({ previousIds }) => [...previousIds.keys()]))];
  const ids = [...new Set([...subjects.flatMap(({ anonymousIds }) => [...anonymousIds]), ...previous])];
  const shared = new Set<string>();
  if (ids.length === 0) return shared;
  const owners = new Set(subjects.flatMap(({ userId, formerUserIds }) => [userId, ...formerUserIds]));
  // A profile is known by the userId that it has now, which may be left out.
  const inProfiles = new Set([...owners, ...subjects.flatMap(({ leftOut }) => [...leftOut])]);
  for (const [nth, user] of (await users.usersOf(ids)).entries())
    if (user !== undefined && !inProfiles.has(user)) shared.add(ids[nth]!);
  for (const [nth, { userId, sources }] of (await users.joinedIds(previous)).entries())
    if (sources.length > 0 && !inProfiles.has(userId)) shared.add(previous[nth]!);
  for (let from: number | undefined = 0; from !== undefined; ) {
    checkStop();
    const found = await log.sharedIds({ ids, owners: [...owners], trusted }, from);
    for (const id of found.shared) shared.add(id);
    from = found.next;
  }
  return shared;
}

/** Visits the events of users, and those with an anonymousId and no userId, but for delete notifications. */
export async function lookAt(
  {
    userIds,
    anonymousIds,
  }: { readonly userIds: readonly string[]; readonly anonymousIds: readonly string[] },
  { log, checkStop }: Pick<SurveyDependencies, 'log' | 'checkStop'>,
  visit: (ids: EventIds, origin: { readonly source: number; readonly position: Position }) => void,
): Promise<void> {
  for (const query of ownerQueries(userIds, anonymousIds)) {
    let below: number | undefined;
    do {
      checkStop();
      const page = await log.find(query, below);
      for (let from = 0; from < page.positions.length; from += READ_AT_ONCE) {
        const positions = page.positions.slice(from, from + READ_AT_ONCE);
        for (const [nth, stored] of (await log.read(positions)).entries()) {
          if (stored === undefined) continue;
          const ids = idsOf(stored);
          if (ids.type !== 'delete') visit(ids, { source: stored.source, position: positions[nth]! });
        }
      }
      below = page.next;
    } while (below !== undefined);
  }
}

/** Events read at once: their lines are looked through on the thread that takes calls. */
const READ_AT_ONCE = 1000;

const lineIds = new LineIds();
const NOTIFICATION = Buffer.from('{"messageId":"del_');

type EventIds = {
  readonly [Name in 'userId' | 'anonymousId' | 'previousId' | 'type']?: Event[Name] | undefined;
};

/** Parses only the few events whose type matters. */
function idsOf(stored: StoredEvent): EventIds {
  const { line } = stored;
  if (line === undefined) return stored.event;
  const { bytes, from, to } = line;
  const mayBeNotification = NOTIFICATION.equals(bytes.subarray(from, from + NOTIFICATION.length));
  if (mayBeNotification || !lineIds.scan(bytes, from, to) || lineIds.previousTo > 0) return stored.event;
  const { userFrom, userTo, anonymousFrom, anonymousTo } = lineIds;
  return {
    userId: userTo === 0 ? undefined : idText(bytes, userFrom, userTo),
    anonymousId: anonymousTo === 0 ? undefined : idText(bytes, anonymousFrom, anonymousTo),
  };
}
