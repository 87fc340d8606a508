import type { Event } from '../model/event.ts';
import { idText, LineIds } from '../model/line-ids.ts';
import type { RegulationSubject } from '../model/regulation.ts';
import { type EventLog, ownerQueries, type StoredEvent } from '../ports/event-log.ts';
import type { Users } from '../ports/users.ts';

export interface SurveyDependencies {
  readonly log: Pick<EventLog, 'find' | 'read' | 'sharedIds'>;
  /** Knows nothing while no profiles are kept: stored events are then all that is known. */
  readonly users: Pick<Users, 'joinedIds' | 'usersOf'>;
  /** Values that stand for no one and join nothing; the empty text and texts of zeros never do. */
  readonly blockedIds: readonly string[];
  /** Throws when the program is being stopped. */
  readonly checkStop: () => void;
}

/** A user with what profiles and stored events tell of it. */
interface Surveyed {
  readonly userId: string;
  readonly formerUserIds: Set<string>;
  readonly anonymousIds: Set<string>;
  readonly previousIds: Set<string>;
  readonly sources: Set<number>;
}

interface Survey {
  readonly subjects: readonly RegulationSubject[];
  /** Number of their profiles. */
  readonly profiles: number;
}

/**
 * Finds out everything that belongs to users: the ids that are joined to them and to nobody else, and the sources that saw them.
 * Profiles know of events that are gone, and stored events of those that profiles do not have yet, so both are asked. The events of all
 * users are looked for together: thousands of users cost a few passes over the log and not one each.
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
      anonymousIds: new Set(known?.anonymousIds ?? []),
      previousIds: new Set(),
      sources: new Set(known?.sources ?? []),
    };
  });
  await followUsers(subjects, dependencies);
  const shared = await sharedAmong(subjects, dependencies);
  for (const { anonymousIds, previousIds } of subjects)
    for (const ids of [anonymousIds, previousIds])
      for (const id of ids) if (shared.has(id) || isBlocked(id, dependencies)) ids.delete(id);
  await followAnonymous(subjects, dependencies);
  await followPrevious(subjects, dependencies);
  const found = subjects.map(({ userId, formerUserIds, anonymousIds, sources }) => ({
    userId,
    formerUserIds: [...formerUserIds].filter((id) => id !== userId),
    anonymousIds: [...anonymousIds],
    sources: [...sources].sort((a, b) => a - b),
  }));
  // Every profile was seen by a source, and users of one profile have the same userId there.
  const profiles = new Set(joined.filter(({ sources }) => sources.length > 0).map(({ userId }) => userId));
  return { subjects: found, profiles: profiles.size };
}

/** The sources of the users' own events, and the ids that these events name beside the userId. */
async function followUsers(subjects: readonly Surveyed[], dependencies: SurveyDependencies): Promise<void> {
  const ofUser = groupedBy(subjects, ({ userId, formerUserIds }) => [userId, ...formerUserIds]);
  await lookAt({ userIds: [...ofUser.keys()], anonymousIds: [] }, dependencies, (ids, source) => {
    for (const { sources, anonymousIds, previousIds } of ofUser.get(ids.userId ?? '') ?? []) {
      sources.add(source);
      if (ids.anonymousId !== undefined) anonymousIds.add(ids.anonymousId);
      if (ids.type === 'alias' && ids.previousId !== undefined) previousIds.add(ids.previousId);
    }
  });
}

/** The sources of events that have an anonymous id of a user and no userId. */
async function followAnonymous(
  subjects: readonly Surveyed[],
  dependencies: SurveyDependencies,
): Promise<void> {
  const ofId = groupedBy(subjects, ({ anonymousIds }) => anonymousIds);
  await lookAt({ userIds: [], anonymousIds: [...ofId.keys()] }, dependencies, (ids, source) => {
    for (const { sources } of ofId.get(ids.anonymousId ?? '') ?? []) sources.add(source);
  });
}

/** A previousId is an anonymousId of the user, and a former userId too when events have it as theirs. */
async function followPrevious(
  subjects: readonly Surveyed[],
  dependencies: SurveyDependencies,
): Promise<void> {
  const ofId = groupedBy(subjects, ({ previousIds, formerUserIds }) =>
    [...previousIds].filter((id) => !formerUserIds.has(id)),
  );
  const all = [...ofId.keys()];
  for (const [id, those] of ofId) for (const { anonymousIds } of those) anonymousIds.add(id);
  await lookAt({ userIds: all, anonymousIds: all }, dependencies, (ids, source) => {
    for (const { formerUserIds, sources } of ofId.get(ids.userId ?? ids.anonymousId ?? '') ?? []) {
      sources.add(source);
      if (ids.userId !== undefined) formerUserIds.add(ids.userId);
    }
  });
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
 * Those ids that some other user has used too, or to whom they are joined, as an external id may do. A profile does not know that: it
 * keeps the anonymous id that it had first, whoever uses it afterwards. A previous id may have a profile of its own, which was too
 * large to be merged.
 */
async function sharedAmong(
  subjects: readonly Surveyed[],
  { log, users, checkStop }: SurveyDependencies,
): Promise<ReadonlySet<string>> {
  const previous = [...new Set(subjects.flatMap(({ previousIds }) => [...previousIds]))];
  const ids = [...new Set([...subjects.flatMap(({ anonymousIds }) => [...anonymousIds]), ...previous])];
  const shared = new Set<string>();
  if (ids.length === 0) return shared;
  const owners = new Set(subjects.flatMap(({ userId, formerUserIds }) => [userId, ...formerUserIds]));
  for (const [nth, user] of (await users.usersOf(ids)).entries())
    if (user !== undefined && !owners.has(user)) shared.add(ids[nth]!);
  for (const [nth, { userId, sources }] of (await users.joinedIds(previous)).entries())
    if (sources.length > 0 && !owners.has(userId)) shared.add(previous[nth]!);
  for (let from: number | undefined = 0; from !== undefined; ) {
    checkStop();
    const found = await log.sharedIds({ ids, owners: [...owners] }, from);
    for (const id of found.shared) shared.add(id);
    from = found.next;
  }
  return shared;
}

function isBlocked(id: string, { blockedIds }: SurveyDependencies): boolean {
  const text = id.trim().toLowerCase();
  return /^0*$/.test(text) || blockedIds.some((one) => one.trim().toLowerCase() === text);
}

/** Visits the events of users, and those with an anonymousId and no userId, but for delete notifications. */
async function lookAt(
  {
    userIds,
    anonymousIds,
  }: { readonly userIds: readonly string[]; readonly anonymousIds: readonly string[] },
  { log, checkStop }: Pick<SurveyDependencies, 'log' | 'checkStop'>,
  visit: (ids: EventIds, source: number) => void,
): Promise<void> {
  for (const query of ownerQueries(userIds, anonymousIds)) {
    let below: number | undefined;
    do {
      checkStop();
      const page = await log.find(query, below);
      for (let from = 0; from < page.positions.length; from += READ_AT_ONCE) {
        for (const stored of await log.read(page.positions.slice(from, from + READ_AT_ONCE))) {
          if (stored === undefined) continue;
          const ids = idsOf(stored);
          if (ids.type !== 'delete') visit(ids, stored.source);
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

type EventIds = Pick<Event, 'userId' | 'anonymousId' | 'previousId'> & { readonly type?: Event['type'] };

/** Parses only the few events whose type matters. */
function idsOf(stored: StoredEvent): EventIds {
  const { line } = stored;
  if (line === undefined) return stored.event;
  const { bytes, from, to } = line;
  const mayBeNotification = NOTIFICATION.equals(bytes.subarray(from, from + NOTIFICATION.length));
  if (mayBeNotification || !lineIds.scan(bytes, from, to) || lineIds.previousTo > 0) return stored.event;
  const { userFrom, userTo, anonymousFrom, anonymousTo } = lineIds;
  return {
    ...(userTo === 0 ? {} : { userId: idText(bytes, userFrom, userTo) }),
    ...(anonymousTo === 0 ? {} : { anonymousId: idText(bytes, anonymousFrom, anonymousTo) }),
  };
}
