import type { Destination } from '../model/destination.ts';
import type { Event, Position } from '../model/event.ts';
import { EMPTY_PLAN, groupByPlan, type OwedLane, type Plan } from '../model/plan.ts';
import { type RegulationSubject, userIdsOf } from '../model/regulation.ts';
import type { Source } from '../model/settings.ts';
import { isoTime, type Monotonic } from '../model/time.ts';
import type { Batch, EventLog, NewEvent, OwedEvents } from '../ports/event-log.ts';
import type { StoredRegulation } from '../ports/regulations.ts';

/** One delete notification. */
export interface DeleteNotification {
  readonly userId: string;
  /** Id of the source. */
  readonly source: number;
  readonly messageId: string;
}

/**
 * The notifications of a regulation, always in the same order: for each subject, its present and former
 * userIds, and for each of these the affected sources; none for visitors, whom a notification cannot name,
 * and none of a silent regulation. Their places are their numbers, so nothing but what is stored may decide
 * them.
 */
export function notificationsOf(
  { id, silent }: Pick<StoredRegulation, 'id' | 'silent'>,
  subjects: readonly RegulationSubject[],
  sourceName: (id: number) => string,
): DeleteNotification[] {
  if (silent === true) return [];
  const numbers = new Map<number, number>();
  return subjects.flatMap((subject) =>
    userIdsOf(subject).flatMap((one) =>
      subject.sources.map((source) => {
        const n = (numbers.get(source) ?? 0) + 1;
        numbers.set(source, n);
        return { userId: one, source, messageId: `del_${id}_${sourceName(source)}_${n}` };
      }),
    ),
  );
}

/**
 * The notifications of a regulation whose subjects are lost, as far as they are in the log: those of each
 * source are numbered from 1. Some at the beginning may be erased already.
 */
export async function findNotifications(
  { id, subjects, streamStatus }: StoredRegulation,
  sources: readonly Pick<Source, 'id' | 'name'>[],
  find: EventLog['find'],
): Promise<{
  readonly notifications: readonly DeleteNotification[];
  readonly positions: readonly Position[];
}> {
  const notifications: DeleteNotification[] = [];
  const positions: Position[] = [];
  const sure = streamStatus.reduce((most, { sent }) => Math.max(most, sent), subjects);
  for (const { id: source, name } of sources) {
    for (let n = 1; ; n++) {
      const messageId = `del_${id}_${name}_${n}`;
      const [position] = (await find({ messageId })).positions;
      if (position !== undefined) {
        notifications.push({ userId: '', source, messageId });
        positions.push(position);
      } else if (n > sure) break;
    }
  }
  return { notifications, positions };
}

/** Sample of a notification, to find its destinations. */
const SAMPLE: Event = {
  messageId: '',
  type: 'delete',
  channel: 'server',
  context: {},
  integrations: {},
  timestamp: '',
  receivedAt: '',
};

/**
 * The destinations that a source feeds with delete notifications, a lane each: the enabled ones.
 * spec/specification.md, "Deletion".
 */
export function notifiedBy(
  source: number,
  {
    sources,
    plan,
  }: { readonly sources: readonly Source[]; readonly plan: (event: Event, source: Source) => Plan },
): readonly OwedLane[] {
  const found = sources.find(({ id }) => id === source);
  return found === undefined ? [] : plan(SAMPLE, found).owed;
}

/**
 * The names of the enabled destinations that these sources feed and that are not told of deletions, because
 * they are of a type that only passes calls on.
 */
export function untoldBy(
  sources: readonly Source[],
  {
    destinations,
    plan,
  }: {
    readonly destinations: readonly Destination[];
    readonly plan: (event: Event, source: Source) => Plan;
  },
): string[] {
  const untold = sources.flatMap((source) => {
    const told = new Set(plan(SAMPLE, source).owed.map(({ name }) => name));
    const fed = destinations.filter((one) => one.enabled && one.sources.includes(source.name));
    return fed.map(({ name }) => name).filter((name) => !told.has(name));
  });
  return [...new Set(untold)].sort();
}

/** The producer of notifications, for `Batch.producer`. */
const PRODUCER = 'regulations';

/** Numbers that one regulation may use. Regulations are notified in the order of their numbers. */
const NUMBERS = 2 ** 24;

export interface DeleteNotificationBatch {
  readonly regulation: StoredRegulation;
  readonly notifications: readonly DeleteNotification[];
  /** Index of the first of them among all of the regulation. */
  readonly first: number;
  readonly sources: ReadonlyMap<number, Source>;
  readonly plan: (event: Event, source: Source) => Plan;
  readonly now: Monotonic;
}

/** The batch that appends some notifications, all of them parked: the workers claim them in their turn. */
export function batchOf({
  regulation,
  notifications,
  first,
  sources,
  plan,
  now,
}: DeleteNotificationBatch): Batch {
  const eventPlans: Plan[] = [];
  const events = notifications.map((notification): NewEvent => {
    const event = eventOf(notification, regulation);
    const source = sources.get(notification.source);
    eventPlans.push(source === undefined ? EMPTY_PLAN : plan(event, source));
    const { messageId, userId } = notification;
    return { source: notification.source, messageId, userId, json: JSON.stringify(event) };
  });
  const { plans, planIndexes, owed } = groupByPlan(eventPlans);
  return {
    id: `${regulation.id}-${first}`,
    receivedAt: now,
    events,
    plans,
    planIndexes,
    owed: [...owed].map(([destination, indexes]): OwedEvents => ({ destination, state: 'parked', indexes })),
    received: [],
    producer: { name: PRODUCER, sequence: regulation.number * NUMBERS + first + 1 },
  };
}

/**
 * The stored event. Receivers get its type, userId and timestamp only. spec/specification.md, "Delete
 * notification".
 */
function eventOf({ messageId, userId }: DeleteNotification, { createdAt }: StoredRegulation): Event {
  const timestamp = isoTime(createdAt);
  return {
    messageId,
    type: 'delete',
    channel: 'server',
    userId,
    context: {},
    integrations: {},
    timestamp,
    receivedAt: timestamp,
  };
}
