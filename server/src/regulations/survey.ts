import type { Event } from '../model/event.ts';
import { idText, LineIds } from '../model/line-ids.ts';
import type { RegulationSubject } from '../model/regulation.ts';
import type { EventLog, LogQuery, StoredEvent } from '../ports/event-log.ts';
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

/** Facts about one user from the stored events. */
interface Traces {
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
 * Profiles know of events that are gone, and stored events of those that profiles do not have yet, so both are asked.
 */
export async function surveyUsers(
  userIds: readonly string[],
  dependencies: SurveyDependencies,
): Promise<Survey> {
  const joined = await dependencies.users.joinedIds(userIds);
  const subjects: (Traces & { readonly userId: string; readonly formerUserIds: Set<string> })[] = [];
  for (const [nth, userId] of userIds.entries()) {
    const known = joined[nth];
    // The id that was asked for may itself be a former one: deleting one of them means all.
    const former = new Set(known === undefined ? [] : [known.userId, ...known.formerUserIds]);
    former.delete(userId);
    const traces: Traces = {
      anonymousIds: new Set(known?.anonymousIds ?? []),
      previousIds: new Set(),
      sources: new Set(known?.sources ?? []),
    };
    for (const id of [userId, ...former]) await lookAt({ userId: id }, traces, dependencies);
    subjects.push({ ...traces, userId, formerUserIds: former });
  }
  const shared = await sharedAmong(subjects, dependencies);
  for (const subject of subjects) await sortIds(subject, shared, dependencies);
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

/**
 * Those ids that some other user has used too, or to whom they are joined, as an external id may do. A profile does not know that: it
 * keeps the anonymous id that it had first, whoever uses it afterwards.
 */
async function sharedAmong(
  subjects: readonly (Traces & { readonly userId: string; readonly formerUserIds: ReadonlySet<string> })[],
  { log, users, checkStop }: SurveyDependencies,
): Promise<ReadonlySet<string>> {
  const ids = [
    ...new Set(subjects.flatMap(({ anonymousIds, previousIds }) => [...anonymousIds, ...previousIds])),
  ];
  const shared = new Set<string>();
  if (ids.length === 0) return shared;
  const owners = subjects.flatMap(({ userId, formerUserIds }) => [userId, ...formerUserIds]);
  for (const [nth, user] of (await users.usersOf(ids)).entries())
    if (user !== undefined && !owners.includes(user)) shared.add(ids[nth]!);
  for (let from: number | undefined = 0; from !== undefined; ) {
    checkStop();
    const found = await log.sharedIds({ ids, owners }, from);
    for (const id of found.shared) shared.add(id);
    from = found.next;
  }
  return shared;
}

/** Leaves out ids of others. A previousId is a former userId when events have it as theirs, and otherwise an anonymousId. */
async function sortIds(
  subject: Traces & { readonly formerUserIds: Set<string> },
  shared: ReadonlySet<string>,
  dependencies: SurveyDependencies,
): Promise<void> {
  const { anonymousIds, previousIds, formerUserIds, sources } = subject;
  for (const id of [...anonymousIds]) {
    if (shared.has(id) || isBlocked(id, dependencies)) anonymousIds.delete(id);
    else
      await lookAt(
        { anonymousId: id },
        { ...subject, anonymousIds: new Set(), previousIds: new Set() },
        dependencies,
      );
  }
  for (const id of previousIds) {
    if (shared.has(id) || isBlocked(id, dependencies) || formerUserIds.has(id)) continue;
    const traces = {
      anonymousIds: new Set<string>(),
      previousIds: new Set<string>(),
      sources: new Set<number>(),
    };
    const events = await lookAt({ userId: id }, traces, dependencies);
    if (events > 0) formerUserIds.add(id);
    anonymousIds.add(id);
    await lookAt({ anonymousId: id }, traces, dependencies);
    for (const source of traces.sources) sources.add(source);
  }
}

function isBlocked(id: string, { blockedIds }: SurveyDependencies): boolean {
  const text = id.trim().toLowerCase();
  return /^0*$/.test(text) || blockedIds.some((one) => one.trim().toLowerCase() === text);
}

/** Reads the events that a query finds, but for delete notifications; resolves to their number. */
async function lookAt(
  query: LogQuery,
  traces: Traces,
  { log, checkStop }: Pick<SurveyDependencies, 'log' | 'checkStop'>,
): Promise<number> {
  let events = 0;
  let below: number | undefined;
  do {
    checkStop();
    const page = await log.find(query, below);
    for (let from = 0; from < page.positions.length; from += READ_AT_ONCE) {
      for (const stored of await log.read(page.positions.slice(from, from + READ_AT_ONCE))) {
        if (stored === undefined) continue;
        const ids = idsOf(stored);
        if (ids.type === 'delete') continue;
        events++;
        traces.sources.add(stored.source);
        if (ids.anonymousId !== undefined) traces.anonymousIds.add(ids.anonymousId);
        if (ids.type === 'alias' && ids.previousId !== undefined) traces.previousIds.add(ids.previousId);
      }
    }
    below = page.next;
  } while (below !== undefined);
  return events;
}

/** Events read at once: their lines are looked through on the thread that takes calls. */
const READ_AT_ONCE = 1000;

const lineIds = new LineIds();
const NOTIFICATION = Buffer.from('{"messageId":"del_');

type EventIds = Pick<Event, 'anonymousId' | 'previousId'> & { readonly type?: Event['type'] };

/** Parses only the few events whose type matters. */
function idsOf(stored: StoredEvent): EventIds {
  const { line } = stored;
  if (line === undefined) return stored.event;
  const { bytes, from, to } = line;
  const mayBeNotification = NOTIFICATION.equals(bytes.subarray(from, from + NOTIFICATION.length));
  if (mayBeNotification || !lineIds.scan(bytes, from, to) || lineIds.previousTo > 0) return stored.event;
  const { anonymousFrom, anonymousTo } = lineIds;
  return anonymousTo === 0 ? {} : { anonymousId: idText(bytes, anonymousFrom, anonymousTo) };
}
