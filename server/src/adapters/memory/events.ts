import type { Event, Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { NewEvent, StoredEvent } from '../../ports/event-log.ts';
import type { MemoryContents, StoredRecord } from './contents.ts';

/** Shared, because most events of a large log would have two empty lists of their own. */
const NONE: readonly never[] = [];

/** Stores one event behind all others. */
export function put(contents: MemoryContents, event: NewEvent, receivedAt: Time): Position {
  const { source, messageId } = event;
  const position = ++contents.lastPosition;
  contents.events.set(position, new KeptEvent(event, receivedAt));
  contents.bytes += bytesOf(event);
  // A duplicate does not renew the dedupe window: only a stored event does.
  newestOfSource(contents, source).set(messageId, position);
  return position;
}

/** Its text is made when it is read: events come as bytes, and texts of them all would be work for the garbage collector. */
class KeptEvent implements StoredRecord {
  readonly event: NewEvent;
  readonly receivedAt: Time;
  owed: StoredRecord['owed'] = NONE;
  skipped: StoredRecord['skipped'] = NONE;

  constructor(event: NewEvent, receivedAt: Time) {
    this.event = event;
    this.receivedAt = receivedAt;
  }

  get source(): number {
    return this.event.source;
  }

  get messageId(): string {
    return this.event.messageId;
  }

  get userId(): string | undefined {
    return this.event.userId;
  }

  get json(): string {
    return this.event.json;
  }
}

function bytesOf(event: NewEvent): number {
  return event.length ?? Buffer.byteLength(event.json);
}

/** Removes an event that was erased. */
export function makeGap(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record !== undefined && position >= contents.retainedFrom) {
    contents.gaps.set(position, record.receivedAt);
  }
  remove(contents, position);
}

/** When the event at a position arrived, also when it is a gap by now; absent where the log no longer reaches. */
export function arrivalOf(contents: MemoryContents, position: Position): Time | undefined {
  return contents.events.get(position)?.receivedAt ?? contents.gaps.get(position);
}

/** What is owed of the event must have left its sets before. */
export function remove(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record === undefined) return;
  contents.events.delete(position);
  contents.dead.delete(position);
  contents.accepted.delete(position);
  contents.bytes -= Buffer.byteLength(record.json);
  const names = newestOfSource(contents, record.source);
  // What is gone cannot have duplicates. A newer event of the same name keeps its place here.
  if (names.get(record.messageId) === position) names.delete(record.messageId);
}

/** Parsed anew for every reader, so that nobody can change what is stored. */
export function read(contents: MemoryContents, position: Position): StoredEvent | undefined {
  const record = contents.events.get(position);
  if (record === undefined) return undefined;
  const { source, json, receivedAt } = record;
  return { source, event: JSON.parse(json) as Event, arrivedAt: receivedAt };
}

/** Maps within a map, so that no key is put together from two names that another pair could make too. */
export function newestOfSource(contents: MemoryContents, source: number): Map<string, Position> {
  const known = contents.newest.get(source);
  if (known !== undefined) return known;
  const names = new Map<string, Position>();
  contents.newest.set(source, names);
  return names;
}
