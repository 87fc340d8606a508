import type { Event, Position } from '../../src/model/event.ts';
import { EMPTY_PLAN, type EventPlan, skipsOf } from '../../src/model/plan.ts';
import type { ErasedCounts } from '../../src/model/regulation.ts';
import type { Duration, Monotonic } from '../../src/model/time.ts';
import type {
  AppendResult,
  Batch,
  EventLog,
  LogQuery,
  LogSize,
  NewEvent,
  OwedEvents,
  PositionPage,
  Producer,
  RangeSize,
  Retention,
  StoredEvent,
} from '../../src/ports/event-log.ts';
import { hasEnded } from '../../src/ports/regulations.ts';
import {
  addCount,
  addDeadLetters,
  addReceived,
  assertOpen,
  countersOfDestination,
  countersOfSource,
  type MemoryContents,
  NO_OPENING,
  type Opening,
  type StoredRecord,
  uncountLetter,
} from './contents.ts';
import { addSet, newDeliveries, withdraw } from './delivery-queue.ts';
import { countErased } from './regulations.ts';

/** No operation pauses, and that is all the atomicity it needs. */
export function openEventLog(contents: MemoryContents, holder: Opening, dedupeWindow: Duration): EventLog {
  return {
    async append(batch) {
      assertOpen(contents, holder);
      return append(contents, batch, { holder, dedupeWindow });
    },
    async producedTo(producer) {
      return contents.producers.get(producer) ?? 0;
    },
    async read(positions) {
      return positions.map((position) => readEvent(contents, position));
    },
    /** Nothing in memory is ever damaged. */
    async damaged() {
      return [];
    },
    async find(query, below) {
      return find(contents, query, below);
    },
    async erase({ userIds, anonymousIds = [], below, regulation, onErased }) {
      assertOpen(contents, holder);
      const queries = [
        ...userIds.map((userId) => ({ userId })),
        ...anonymousIds.map((anonymousId) => ({ anonymousId })),
      ];
      const found = queries.flatMap((query) => find(contents, query, below).positions);
      const positions = found.filter((position) => readEvent(contents, position)?.event.type !== 'delete');
      const counts = eraseEvents(contents, new Set(positions));
      if (regulation !== undefined) countErased(contents, regulation, counts);
      noteErased(contents, holder, positions);
      onErased?.(positions);
      return counts;
    },
    async eraseAt(positions) {
      assertOpen(contents, holder);
      const stored = positions.filter((position) => contents.events.has(position));
      noteErased(contents, holder, stored);
      return eraseEvents(contents, new Set(stored));
    },
    async sharedIds({ ids, owners, trusted }) {
      const isShared = (id: string) =>
        [...contents.events.values()].some(({ json, source }) => {
          const { userId, anonymousId, previousId } = JSON.parse(json) as Event;
          const named = trusted.includes(source) ? [anonymousId, previousId] : [anonymousId];
          return userId !== undefined && !owners.includes(userId) && named.includes(id);
        });
      return { shared: ids.filter(isShared) };
    },
    /** Does everything at once, whatever the budget. */
    async maintain(now, retention, _budget, mark) {
      assertOpen(contents, holder);
      if (mark !== undefined) contents.clocks = mark;
      maintain(contents, { holder, now, retention: { messageIds: dedupeWindow, ...retention } });
      return false;
    },
    async size() {
      return sizeOf(contents);
    },
    async rangeSize(range, from) {
      return rangeSizeOf(contents, range, from);
    },
  };
}

function noteErased({ shared }: MemoryContents, by: Opening, positions: readonly Position[]): void {
  if (positions.length > 0) shared.erasures.push({ by, positions });
}

interface AppendContext {
  readonly holder: Opening;
  /** Where the event has none of its own. */
  readonly dedupeWindow: Duration;
}

function append(contents: MemoryContents, batch: Batch, context: AppendContext): AppendResult {
  const known = contents.answers.get(batch.id) ?? contents.emptyAnswers.get(batch.id);
  if (known !== undefined) return known;
  const positions: (Position | undefined)[] = [];
  const first = contents.lastPosition + 1;
  const appended = batch.producer === undefined ? 0 : advanceProducer(contents, batch.producer, batch);
  for (const [index, event] of batch.events.entries()) {
    if (index < appended) {
      positions.push(undefined);
      continue;
    }
    const counters = countersOfSource(contents, event.source);
    if (batch.producer !== undefined) counters.received += 1;
    const isDuplicate = isKnown(contents, event, {
      receivedAt: batch.receivedAt,
      window: event.dedupeWindow ?? context.dedupeWindow,
      firstOfBatch: first,
    });
    counters[isDuplicate ? 'duplicates' : 'accepted'] += 1;
    positions.push(isDuplicate ? undefined : storeEvent(contents, batch, index));
  }
  const held = batch.owed.map((owed) =>
    addOwed(contents, owed, { positions, batch, holder: context.holder }),
  );
  for (const [index, plan] of batch.planIndexes.entries())
    if (positions[index] !== undefined) countSkips(contents, batch.plans[plan]!);
  for (const received of batch.received) addReceived(contents, received);
  const answer = { positions, held };
  const isEmpty = positions.every((position) => position === undefined);
  rememberAnswer(isEmpty ? contents.emptyAnswers : contents.answers, batch.id, answer);
  return answer;
}

/** The number of events at the beginning of the batch that its producer had appended before. */
function advanceProducer(
  { producers }: MemoryContents,
  { name, sequence }: Producer,
  { events }: Pick<Batch, 'events'>,
): number {
  const highest = producers.get(name) ?? 0;
  producers.set(name, Math.max(highest, sequence + events.length - 1));
  return Math.min(events.length, Math.max(0, highest - sequence + 1));
}

/** A space cannot stand in a number, so no two names share a key. */
function nameKey({ source, messageId }: Pick<NewEvent, 'source' | 'messageId'>): string {
  return `${source} ${messageId}`;
}

interface DedupeTerms {
  readonly receivedAt: Monotonic;
  readonly window: Duration;
  readonly firstOfBatch: Position;
}

/** True for a duplicate. Within one batch an event is stored once, however short the window. */
function isKnown(
  contents: MemoryContents,
  event: NewEvent,
  { receivedAt, window, firstOfBatch }: DedupeTerms,
): boolean {
  const key = nameKey(event);
  const position = contents.names.get(key);
  if (position !== undefined && position >= firstOfBatch) return true;
  const arrivals = [contents.events.get(position ?? 0)?.receivedAt, contents.expiredNames.get(key)];
  return arrivals.some((arrivedAt) => arrivedAt !== undefined && receivedAt - arrivedAt < window);
}

/** Only a stored event renews the dedupe window; a duplicate does not. */
function storeEvent(
  contents: MemoryContents,
  { events, plans, planIndexes, receivedAt }: Batch,
  index: number,
): Position {
  const event = events[index]!;
  const { source, messageId, json } = event;
  const plan = plans[planIndexes[index] ?? -1] ?? EMPTY_PLAN;
  const position = ++contents.lastPosition;
  contents.events.set(position, {
    source,
    messageId,
    userId: event.userId,
    receivedAt,
    json,
    owed: plan.owed.map(({ id }) => id),
    skipped: skipsOf(plan),
  });
  contents.bytes += Buffer.byteLength(json);
  contents.names.set(nameKey(event), position);
  return position;
}

interface OwedContext {
  /** One entry per event of the batch; undefined for a duplicate. */
  readonly positions: readonly (Position | undefined)[];
  readonly batch: Batch;
  readonly holder: Opening;
}

/**
 * Adds the pending set of one entry of `owed`, unless all its events are duplicates; returns its id when it
 * is held.
 */
function addOwed(
  contents: MemoryContents,
  { destination, state, indexes, origin }: OwedEvents,
  { positions, batch, holder }: OwedContext,
) {
  const own = indexes.map((index) => positions[index]).filter((position) => position !== undefined);
  if (own.length === 0) return undefined;
  countersOfDestination(contents, destination).owed += own.length;
  const set = addSet(contents, {
    destination,
    origin,
    dueAt: batch.receivedAt,
    holder: state === 'held' ? holder : undefined,
    deliveries: newDeliveries(own),
  });
  return state === 'held' ? set.id : undefined;
}

/** Duplicates are not skipped: they were planned when they came first. */
function countSkips(contents: MemoryContents, plan: EventPlan): void {
  for (const { destination, reason } of skipsOf(plan))
    addCount(countersOfDestination(contents, destination).skipped, reason, 1);
}

/** Batches remembered with their answers; `EventLog.append` promises this many. */
const MAX_ANSWERS = 64;

function rememberAnswer(answers: Map<string, AppendResult>, id: string, answer: AppendResult): void {
  answers.set(id, answer);
  const [oldest] = answers.keys();
  if (answers.size > MAX_ANSWERS) answers.delete(oldest!);
}

/** Parsed for every reader, so that no reader can change the contents. */
function readEvent(contents: MemoryContents, position: Position): StoredEvent | undefined {
  const record = contents.events.get(position);
  if (record === undefined) return undefined;
  const { source, json, receivedAt } = record;
  return { source, event: JSON.parse(json) as Event, arrivedAt: receivedAt };
}

/** Looks at every event and leaves `like` to the caller. */
function find(contents: MemoryContents, query: LogQuery, below?: Position): PositionPage {
  const matches = predicateOf(query);
  const found = [...contents.events].filter(([, record]) => matches(record)).map(([position]) => position);
  if ('oldestFirst' in query) {
    const start = below ?? 0;
    const positions = found.filter((position) => position >= start);
    return { positions, scanned: Math.max(0, contents.lastPosition + 1 - start) };
  }
  const end = below ?? contents.lastPosition + 1;
  return { positions: found.filter((position) => position < end).reverse(), scanned: end };
}

function predicateOf(query: LogQuery): (record: StoredRecord) => boolean {
  if ('messageId' in query) return ({ messageId }) => messageId === query.messageId;
  if ('userId' in query) return ({ userId }) => userId === query.userId;
  if ('userIds' in query) {
    return ({ userId, json }) =>
      userId === undefined
        ? query.anonymousIds.includes((JSON.parse(json) as Event).anonymousId ?? '')
        : query.userIds.includes(userId);
  }
  if ('anonymousId' in query) {
    return ({ userId, json }) =>
      userId === undefined && (JSON.parse(json) as Event).anonymousId === query.anonymousId;
  }
  return ({ receivedAt }) => receivedAt >= query.from && receivedAt < query.to;
}

/** Leaves gaps and counts, and returns how much there was. */
function eraseEvents(contents: MemoryContents, gone: ReadonlySet<Position>): ErasedCounts {
  const withdrawn = withdraw(
    contents,
    (position) => gone.has(position),
    () => true,
  );
  let deliveries = 0;
  for (const { destination, positions } of withdrawn) {
    countersOfDestination(contents, destination).erased += positions.length;
    deliveries += positions.length;
  }
  const letters = contents.letters.filter(({ position }) => gone.has(position));
  for (const letter of letters) {
    uncountLetter(contents, letter);
    countersOfDestination(contents, letter.destination).erased += 1;
  }
  contents.letters = contents.letters.filter(({ position }) => !gone.has(position));
  // The answer of an endpoint may repeat a part of the event.
  contents.failures = contents.failures.filter(({ position }) => !gone.has(position));
  for (const position of gone) {
    if (position >= contents.retainedFrom)
      contents.gaps.set(position, contents.events.get(position)!.receivedAt);
    removeEvent(contents, position);
  }
  return { events: gone.size, deliveries, deadLetters: letters.length };
}

/** Its deliveries must have left their sets. A newer event of the same name keeps its entry in `names`. */
function removeEvent(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position)!;
  const key = nameKey(record);
  contents.bytes -= Buffer.byteLength(record.json);
  if (contents.names.get(key) === position) contents.names.delete(key);
  contents.events.delete(position);
  contents.dead.delete(position);
  contents.accepted.delete(position);
}

/** Removes an event at the end of its retention; its messageId is remembered. */
function expireEvent(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record === undefined) return;
  contents.expiredNames.set(nameKey(record), record.receivedAt);
  removeEvent(contents, position);
}

interface MaintenanceTerms {
  readonly holder: Opening;
  readonly now: Monotonic;
  readonly retention: Required<Pick<Retention, 'messageIds'>> & Retention;
}

/**
 * The log loses events at its front and in order. It stops at the first event that this process still
 * delivers from memory.
 */
function maintain(contents: MemoryContents, terms: MaintenanceTerms): void {
  expireEvents(contents, terms);
  expireEventsOfDeadLetters(contents, terms);
  expireBeyondSpace(contents, terms);
  const { now, retention } = terms;
  const { retainedFrom } = contents;
  const young = now - retention.deadLetters;
  // Letters and attempts of an event stay as long as the event does.
  if (retainedFrom > 1) {
    contents.failures = contents.failures.filter(
      ({ attempt, position }) => attempt.startedAt >= young || position >= retainedFrom,
    );
    contents.letters = contents.letters.filter(({ at, position }) => at >= young || position >= retainedFrom);
  }
  for (const [name, at] of contents.expiredNames)
    if (at <= now - retention.messageIds) contents.expiredNames.delete(name);
  dropRecords(contents, retention);
}

function dropRecords(contents: MemoryContents, { auditBefore, regulationsBefore }: Retention): void {
  const { audit, regulations } = contents;
  if (auditBefore === undefined && regulationsBefore === undefined) return;
  const kept = audit.filter(({ at }) => auditBefore === undefined || at >= auditBefore);
  contents.auditGone += audit.length - kept.length;
  contents.audit = kept;
  for (const [id, regulation] of regulations)
    if (regulationsBefore !== undefined && hasEnded(regulation, regulationsBefore)) regulations.delete(id);
}

/** Events with dead letters stay readable. */
function expireEvents(contents: MemoryContents, terms: MaintenanceTerms): void {
  const { retainedFrom, lastPosition } = contents;
  const young = terms.now - terms.retention.events;
  if ((arrivalOf(contents, retainedFrom) ?? young) >= young) return;
  const end = Math.min(lowestHeld(contents, terms.holder), lastPosition + 1);
  let cut = retainedFrom;
  while (cut < end && arrivalOf(contents, cut)! < young) cut += 1;
  deadLetterBetween(contents, terms, [retainedFrom, cut]);
  for (let position = retainedFrom; position < cut; position++) {
    if (!contents.dead.has(position)) expireEvent(contents, position);
  }
  retainFrom(contents, cut);
}

/** Events that only their dead letters kept. */
function expireEventsOfDeadLetters(contents: MemoryContents, terms: MaintenanceTerms): void {
  const young = terms.now - terms.retention.deadLetters;
  for (const [position, { receivedAt }] of contents.events) {
    if (position >= contents.retainedFrom || receivedAt >= young) break;
    deadLetterBetween(contents, terms, [position, position + 1]);
    expireEvent(contents, position);
  }
}

/** Events with dead letters go too; otherwise an outage that fills the space would never end. */
function expireBeyondSpace(contents: MemoryContents, terms: MaintenanceTerms): void {
  const { disk } = terms.retention;
  if (disk === undefined) return;
  let excess = contents.bytes - disk;
  const end = lowestHeld(contents, terms.holder);
  const going: Position[] = [];
  for (const [position, { json }] of contents.events) {
    if (excess <= 0 || position >= end) break;
    excess -= Buffer.byteLength(json);
    going.push(position);
  }
  const last = going.at(-1);
  if (last === undefined) return;
  deadLetterBetween(contents, terms, [0, last + 1]);
  for (const position of going) expireEvent(contents, position);
  retainFrom(contents, last + 1);
}

/** Infinite when this process holds nothing. */
function lowestHeld(contents: MemoryContents, holder: Opening): Position {
  let lowest = Number.POSITIVE_INFINITY;
  for (const set of contents.sets.values()) {
    if (set.holder === undefined || !(set.holder === holder || contents.shared.members.has(set.holder)))
      continue;
    for (const position of set.deliveries.keys()) {
      if (position >= contents.retainedFrom) lowest = Math.min(lowest, position);
    }
  }
  return lowest;
}

/** Arrival of the event at a position, erased events included. */
function arrivalOf(contents: MemoryContents, position: Position): Monotonic | undefined {
  return contents.events.get(position)?.receivedAt ?? contents.gaps.get(position);
}

/** Pending deliveries of these events become dead letters, except those that this process holds. */
function deadLetterBetween(
  contents: MemoryContents,
  { holder, now }: MaintenanceTerms,
  [from, end]: readonly [Position, Position],
): void {
  if (from === end) return;
  const withdrawn = withdraw(
    contents,
    (position) => position >= from && position < end,
    (set) => set.holder !== holder && !contents.shared.members.has(set.holder ?? NO_OPENING),
  );
  for (const { destination, origin, positions } of withdrawn) {
    addDeadLetters(
      contents,
      { destination, origin, state: 'dead', reason: 'retention_over', at: now },
      positions,
    );
  }
}

/** Moves the beginning of the log forward, never back. */
function retainFrom(contents: MemoryContents, cut: Position): void {
  for (let position = contents.retainedFrom; position < cut; position++) contents.gaps.delete(position);
  contents.retainedFrom = Math.max(contents.retainedFrom, cut);
}

/** Events past their retention are not counted, though their dead letters may keep them. */
function sizeOf(contents: MemoryContents): LogSize {
  const { retainedFrom, lastPosition } = contents;
  const size = {
    events: lastPosition - retainedFrom + 1,
    end: lastPosition + 1,
    bytes: contents.bytes,
  };
  const oldestAt = arrivalOf(contents, retainedFrom);
  return oldestAt === undefined ? size : { ...size, oldestAt };
}

/** Without gaps. */
function rangeSizeOf(
  { events }: MemoryContents,
  { from, to }: { readonly from: Monotonic; readonly to: Monotonic },
  start: Position,
): RangeSize {
  let [count, bytes] = [0, 0];
  for (const [position, { receivedAt, json }] of events) {
    if (position < start || receivedAt < from || receivedAt >= to) continue;
    count++;
    bytes += Buffer.byteLength(json);
  }
  return { events: count, bytes };
}
