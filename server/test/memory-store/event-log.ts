import type { Event, Position } from '../../src/model/event.ts';
import type { Duration, Time } from '../../src/model/time.ts';
import type {
  AppendResult,
  Batch,
  EventLog,
  LogQuery,
  LogSize,
  NewEvent,
  PositionPage,
  RangeSize,
  Retention,
  SkippedEvents,
  StoredEvent,
} from '../../src/ports/event-log.ts';
import { addPendingSet, withdraw } from './backlog.ts';
import {
  assertOpen,
  type EventName,
  hashOfName,
  MemoryChunk,
  type MemoryContents,
  type Opening,
  type StoredRecord,
} from './contents.ts';
import { addCount, addDeadLetters, addReceived, countersOfDestination, countersOfSource } from './ledger.ts';

/** The slot in `names` of the newest event that has the same source and messageId; −1 when there is none. */
function slotOfName(contents: MemoryContents, event: EventName, hash: number): number {
  const { names, events } = contents;
  for (let slot = names.first(hash); slot >= 0; slot = names.next(slot)) {
    const record = events.get(names.positionAt(slot));
    if (record?.source === event.source && record.messageId === event.messageId) return slot;
  }
  return -1;
}

/** Removes an event that was erased. */
function eraseEvent(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record !== undefined && position >= contents.retainedFrom) {
    contents.gaps.set(position, record.receivedAt);
  }
  removeEvent(contents, position);
}

/** Removes an event that is past its retention; its messageId is remembered. */
function dropEvent(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record !== undefined) contents.pastNames.set(nameKey(record), record.receivedAt);
  removeEvent(contents, position);
}

function nameKey({ source, messageId }: EventName): string {
  return `${source} ${messageId}`;
}

/** When the event at a position arrived, also when it is a gap by now; absent where the log no longer reaches. */
function arrivalOf(contents: MemoryContents, position: Position): Time | undefined {
  return contents.events.get(position)?.receivedAt ?? contents.gaps.get(position);
}

/** What is owed of the event must have left its sets before. */
function removeEvent(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record === undefined) return;
  const slot = slotOfName(contents, record, hashOfName(record));
  // What is gone cannot have duplicates. A newer event of the same name keeps its place here.
  if (slot >= 0 && contents.names.positionAt(slot) === position) contents.names.remove(slot);
  contents.bytes -= contents.events.lengthOf(position);
  contents.events.delete(position);
  contents.dead.delete(position);
  contents.accepted.delete(position);
}

/** Parsed anew for every reader, so that nobody can change what is stored. */
function readEvent(contents: MemoryContents, position: Position): StoredEvent | undefined {
  const record = contents.events.get(position);
  if (record === undefined) return undefined;
  const { source, json, receivedAt } = record;
  return { source, event: JSON.parse(json) as Event, arrivedAt: receivedAt };
}

/**
 * Looks at every event: nothing is kept for searches, so that an append costs the same with or without them. Everything may
 * be `like` what is sought, for all that can be told without reading it.
 */
function find(contents: MemoryContents, query: LogQuery, below?: Position): PositionPage {
  const matches = testOf(query);
  const from = below ?? contents.lastPosition + 1;
  if ('oldestFirst' in query) {
    const start = below ?? 0;
    const positions = upwards(contents, matches, start);
    return { positions, scanned: Math.max(0, contents.lastPosition + 1 - start) };
  }
  return { positions: downwards(contents, matches, from), scanned: from };
}

/** Gaps are left out. */
function extentOf(
  { events }: MemoryContents,
  { from, to }: { readonly from: Time; readonly to: Time },
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

type RecordTest = (record: StoredRecord) => boolean;

function upwards({ events }: MemoryContents, matches: RecordTest, from: Position): Position[] {
  const found = [...events].filter(([position, record]) => position >= from && matches(record));
  return found.map(([position]) => position);
}

function downwards(contents: MemoryContents, matches: RecordTest, below: Position): Position[] {
  const positions: Position[] = [];
  for (const [position, record] of contents.events) {
    if (position >= below) break;
    if (matches(record)) positions.push(position);
  }
  return positions.reverse();
}

function testOf(query: LogQuery): RecordTest {
  if ('messageId' in query) return ({ messageId }) => messageId === query.messageId;
  if ('userId' in query) return ({ userId }) => userId === query.userId;
  return ({ receivedAt }) => receivedAt >= query.from && receivedAt < query.to;
}

/** Leaves nothing of a user but gaps and counts; gives how many events there were. */
function eraseUser(contents: MemoryContents, userId: string): number {
  const gone = new Set(find(contents, { userId }).positions);
  const withdrawn = withdraw(
    contents,
    (position) => gone.has(position),
    () => true,
  );
  for (const { destination, positions } of withdrawn) {
    countersOfDestination(contents, destination).erased += positions.length;
  }
  // What an endpoint answered may repeat what was in the event.
  contents.failures = contents.failures.filter(({ position }) => !gone.has(position));
  for (const position of gone) eraseEvent(contents, position);
  return gone.size;
}

/** Positions that go in one slice. */
const DROP_SLICE = 10_000;

/** When it is, what must go, and whose deliveries are under way. */
export interface MaintenanceRun {
  readonly holder: Opening;
  readonly now: Time;
  readonly retention: Required<Pick<Retention, 'messageIds'>> & Retention;
}

/**
 * Lets go of what is older than its retention, and of the oldest events while there are more bytes than allowed. The log
 * loses events at its front and in order: it stops at the first one that must stay, so what goes is always older in the
 * log than what stays.
 */
function maintain(contents: MemoryContents, upkeep: MaintenanceRun, budget: Duration): boolean {
  const end = performance.now() + budget;
  do {
    const busy =
      dropOld(contents, upkeep) ||
      dropOldDeadLetterEvents(contents, upkeep) ||
      dropBeyondSpace(contents, upkeep) ||
      dropOldFailures(contents, upkeep) ||
      dropOldNames(contents, upkeep);
    if (!busy) return false;
  } while (performance.now() < end);
  return true;
}

/** Events past their retention go, except that those of dead letters stay readable. */
function dropOld(contents: MemoryContents, upkeep: MaintenanceRun): boolean {
  const { retainedFrom, lastPosition } = contents;
  const young = upkeep.now - upkeep.retention.events;
  const end = Math.min(lowestHeld(contents, upkeep.holder), lastPosition + 1, retainedFrom + DROP_SLICE);
  let cut = retainedFrom;
  while (cut < end && arrivalOf(contents, cut)! < young) cut += 1;
  if (cut === retainedFrom) return false;
  deadLetterBetween(contents, upkeep, [retainedFrom, cut]);
  for (let position = retainedFrom; position < cut; position++) {
    if (!contents.dead.has(position)) dropEvent(contents, position);
  }
  retainFrom(contents, cut);
  return true;
}

/** What was left only for its dead letters goes when they do. */
function dropOldDeadLetterEvents(contents: MemoryContents, upkeep: MaintenanceRun): boolean {
  const young = upkeep.now - upkeep.retention.deadLetters;
  const before = contents.events.size;
  for (const [position, { receivedAt }] of contents.events) {
    if (position >= contents.retainedFrom || receivedAt >= young) break;
    deadLetterBetween(contents, upkeep, [position, position + 1]);
    dropEvent(contents, position);
  }
  return contents.events.size < before;
}

/** The space allowed is a bound for dead letters too: otherwise an outage that fills it would never end. */
function dropBeyondSpace(contents: MemoryContents, upkeep: MaintenanceRun): boolean {
  const { holder, retention } = upkeep;
  let excess = contents.bytes - (retention.disk ?? Number.POSITIVE_INFINITY);
  if (excess <= 0) return false;
  const stop = lowestHeld(contents, holder);
  const going: Position[] = [];
  for (const [position] of contents.events) {
    if (excess <= 0 || position >= stop || going.length === DROP_SLICE) break;
    excess -= contents.events.lengthOf(position);
    going.push(position);
  }
  const last = going.at(-1);
  if (last === undefined) return false;
  deadLetterBetween(contents, upkeep, [0, last + 1]);
  for (const position of going) dropEvent(contents, position);
  retainFrom(contents, last + 1);
  return true;
}

/** The log now begins here, unless it does so further on already. */
function retainFrom(contents: MemoryContents, cut: Position): void {
  for (let position = contents.retainedFrom; position < cut; position++) contents.gaps.delete(position);
  contents.retainedFrom = Math.max(contents.retainedFrom, cut);
}

/** Answers of endpoints are kept as long as the dead letters they explain. */
function dropOldFailures(contents: MemoryContents, { now, retention }: MaintenanceRun): boolean {
  const { retainedFrom } = contents;
  const before = contents.failures.length + contents.letters.length;
  const young = now - retention.deadLetters;
  contents.failures = contents.failures.filter(
    ({ attempt, position }) => attempt.startedAt >= young || position >= retainedFrom,
  );
  contents.letters = contents.letters.filter(({ at, position }) => at >= young || position >= retainedFrom);
  return contents.failures.length + contents.letters.length < before;
}

function dropOldNames(contents: MemoryContents, { now, retention }: MaintenanceRun): boolean {
  const before = contents.pastNames.size;
  for (const [name, at] of contents.pastNames)
    if (at <= now - retention.messageIds) contents.pastNames.delete(name);
  return contents.pastNames.size < before;
}

/** Infinite when this process holds nothing. */
function lowestHeld(contents: MemoryContents, holder: Opening): Position {
  let lowest = Number.POSITIVE_INFINITY;
  for (const set of contents.sets.values()) {
    if (set.holder !== holder) continue;
    for (const position of set.deliveries.keys()) {
      if (position >= contents.retainedFrom) lowest = Math.min(lowest, position);
    }
  }
  return lowest;
}

/** What this process holds is never below the position; what an earlier one held is owed on disk like the rest. */
function deadLetterBetween(
  contents: MemoryContents,
  { holder, now }: MaintenanceRun,
  [from, end]: readonly [Position, Position],
): void {
  const withdrawn = withdraw(
    contents,
    (position) => position >= from && position < end,
    (set) => set.holder !== holder,
  );
  for (const { destination, origin, positions } of withdrawn) {
    addDeadLetters(contents, { destination, origin, reason: 'retention_over', at: now }, positions);
  }
}

/** What is left of events past their retention is not counted. */
function sizeOf(contents: MemoryContents): LogSize {
  const { retainedFrom, lastPosition, bytes } = contents;
  const facts = { events: lastPosition - retainedFrom + 1, bytes };
  const oldestAt = arrivalOf(contents, retainedFrom);
  return oldestAt === undefined ? facts : { ...facts, oldestAt };
}

/** How many batches are remembered with their answers; the port promises this many. */
const MAX_ANSWERS = 64;

/**
 * The event log in memory. An append runs from its first to its last line without a pause, which is all the atomicity
 * it needs; its cost depends on the batch alone, not on what is stored.
 */
export function openEventLog(contents: MemoryContents, holder: Opening, dedupeWindow: Duration): EventLog {
  return {
    async append(batch) {
      assertOpen(contents, holder);
      const known = contents.answers.get(batch.id) ?? contents.emptyAnswers.get(batch.id);
      if (known !== undefined) return known;

      const positions = storeEvents(contents, batch, dedupeWindow);
      const held = batch.owed.map((owed) =>
        addPendingSet(contents, owed, { positions, holder, dueAt: batch.receivedAt }),
      );
      for (const skipped of batch.skipped) countSkipped(contents, skipped, positions);
      for (const received of batch.received) addReceived(contents, received);

      const answer = { positions, held };
      const isEmpty = positions.every((position) => position === undefined);
      rememberAnswer(isEmpty ? contents.emptyAnswers : contents.answers, batch.id, answer);
      return answer;
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

    async erase(userId) {
      assertOpen(contents, holder);
      return eraseUser(contents, userId);
    },

    async maintain(now, retention, budget, mark) {
      assertOpen(contents, holder);
      if (mark !== undefined) contents.clocks = mark;
      return maintain(
        contents,
        { holder, now, retention: { messageIds: dedupeWindow, ...retention } },
        budget,
      );
    },

    async size() {
      return sizeOf(contents);
    },

    async rangeSize(range, from) {
      return extentOf(contents, range, from);
    },
  };
}

/** Stores the events that are no duplicates; the answer has their positions, in the order given. */
function storeEvents(
  contents: MemoryContents,
  batch: Batch,
  dedupeWindow: Duration,
): readonly (Position | undefined)[] {
  const { events, names } = contents;
  const chunk = new MemoryChunk(batch, contents.lastPosition + 1);
  events.add(chunk);
  return batch.events.map((event, index) => {
    const tally = countersOfSource(contents, event.source);
    const hash = hashOfName(event);
    const slot = slotOfName(contents, event, hash);
    if (slot >= 0) {
      const earlier = names.positionAt(slot);
      const age = batch.receivedAt - arrivalOf(contents, earlier)!;
      if (earlier >= chunk.first || age < (event.dedupeWindow ?? dedupeWindow)) {
        tally.duplicates += 1;
        return undefined;
      }
    }
    const past = contents.pastNames.get(nameKey(event));
    if (past !== undefined && batch.receivedAt - past < (event.dedupeWindow ?? dedupeWindow)) {
      tally.duplicates += 1;
      return undefined;
    }
    tally.accepted += 1;
    const position = events.grow(index);
    contents.lastPosition = position;
    contents.bytes += lengthOf(event);
    // A duplicate does not renew the dedupe window: only a stored event does.
    if (slot >= 0) names.replace(slot, position);
    else names.add(hash, position);
    return position;
  });
}

/** Bytes of its JSON. */
function lengthOf(event: NewEvent): number {
  const { line } = event;
  return line === undefined ? Buffer.byteLength(event.json) : line.to - line.from;
}

/** Duplicates are not skipped: they were planned when they came first. */
function countSkipped(
  contents: MemoryContents,
  skipped: SkippedEvents,
  positions: readonly (Position | undefined)[],
): void {
  const count = skipped.indexes.filter((index) => positions[index] !== undefined).length;
  addCount(countersOfDestination(contents, skipped.destination).skipped, skipped.reason, count);
}

/** A map keeps the order of insertion, so the first key is the batch that was answered longest ago. */
function rememberAnswer(answers: Map<string, AppendResult>, id: string, answer: AppendResult): void {
  answers.set(id, answer);
  if (answers.size <= MAX_ANSWERS) return;
  for (const oldest of answers.keys()) {
    answers.delete(oldest);
    return;
  }
}
