import type { Delivery } from '../../model/delivery.ts';
import type { Event, Position } from '../../model/event.ts';
import type { Duration, Time } from '../../model/time.ts';
import type { SetId } from '../../ports/backlog.ts';
import type {
  Appended,
  Batch,
  EventLog,
  NewEvent,
  Owed,
  Skipped,
  StoredEvent,
} from '../../ports/event-log.ts';
import type { Holder, MemoryContents } from './contents.ts';
import { assertOpen } from './contents.ts';
import { putOnDisk } from './due.ts';
import { add, receive, tallyOfDestination, tallyOfSource } from './tally.ts';

/** How many batches are remembered with their answers; the port promises this many. */
const REMEMBERED_BATCHES = 64;

/**
 * The event log in memory. An append runs from its first to its last line without a pause, which is all the atomicity
 * it needs; its cost depends on the batch alone, not on what is stored.
 */
export function openEventLog(contents: MemoryContents, holder: Holder, dedupeWindow: Duration): EventLog {
  return {
    async append(batch) {
      assertOpen(contents, holder);
      const known = contents.answers.get(batch.id);
      if (known !== undefined) return known;

      const positions = storeEvents(contents, batch, dedupeWindow);
      const held = batch.owed.map((owed) =>
        owe(contents, owed, { positions, holder, dueAt: batch.receivedAt }),
      );
      for (const skipped of batch.skipped) skip(contents, skipped, positions);
      for (const received of batch.received) receive(contents, received);

      const answer = { positions, held };
      remember(contents, batch.id, answer);
      return answer;
    },

    async read(positions) {
      return positions.map((position) => readEvent(contents, position));
    },
  };
}

/** Stores the events that are no duplicates; the answer has their positions, in the order given. */
function storeEvents(
  contents: MemoryContents,
  batch: Batch,
  dedupeWindow: Duration,
): readonly (Position | undefined)[] {
  const before = contents.events.length;
  return batch.events.map((event) => {
    const tally = tallyOfSource(contents, event.source);
    const names = newestOfSource(contents, event.source);
    const earlier = names.get(event.messageId);
    if (earlier !== undefined) {
      const age = batch.receivedAt - contents.events[earlier - 1]!.receivedAt;
      if (earlier > before || age < dedupeWindow) {
        tally.duplicates += 1;
        return undefined;
      }
    }
    const position = pushEvent(contents, event, batch.receivedAt);
    // A duplicate does not renew the window: only a stored event does.
    names.set(event.messageId, position);
    tally.accepted += 1;
    return position;
  });
}

/** Maps within a map, so that no key is put together from two names that another pair could make too. */
function newestOfSource(contents: MemoryContents, source: number): Map<string, Position> {
  const known = contents.newest.get(source);
  if (known !== undefined) return known;
  const names = new Map<string, Position>();
  contents.newest.set(source, names);
  return names;
}

/** The length of the array after the push is the event's position: they start at 1. */
function pushEvent(contents: MemoryContents, event: NewEvent, receivedAt: Time): Position {
  return contents.events.push({ source: event.source, receivedAt, json: event.json });
}

interface Birth {
  readonly positions: readonly (Position | undefined)[];
  readonly holder: Holder;
  readonly dueAt: Time;
}

/** Makes the pending set of one entry of `owed`, unless all its events are duplicates; its id when it is held. */
function owe(contents: MemoryContents, owed: Owed, birth: Birth): SetId | undefined {
  const deliveries = new Map<Position, Delivery>();
  for (const index of owed.indexes) {
    const position = birth.positions[index];
    if (position !== undefined) deliveries.set(position, { position, rounds: 0 });
  }
  if (deliveries.size === 0) return undefined;

  tallyOfDestination(contents, owed.destination).owed += deliveries.size;
  const isHeld = owed.state === 'held';
  const id = ++contents.lastSet;
  const holder = isHeld ? birth.holder : undefined;
  const set = { id, destination: owed.destination, dueAt: birth.dueAt, holder, deliveries };
  contents.sets.set(id, set);
  if (isHeld) return id;
  putOnDisk(contents, set);
  return undefined;
}

/** Duplicates are not skipped: they were planned when they came first. */
function skip(
  contents: MemoryContents,
  skipped: Skipped,
  positions: readonly (Position | undefined)[],
): void {
  const count = skipped.indexes.filter((index) => positions[index] !== undefined).length;
  add(tallyOfDestination(contents, skipped.destination).skipped, skipped.reason, count);
}

/** A map keeps the order of insertion, so the first key is the batch that was answered longest ago. */
function remember(contents: MemoryContents, id: string, answer: Appended): void {
  contents.answers.set(id, answer);
  if (contents.answers.size <= REMEMBERED_BATCHES) return;
  for (const oldest of contents.answers.keys()) {
    contents.answers.delete(oldest);
    return;
  }
}

/** Parsed anew for every reader, so that nobody can change what is stored. */
function readEvent(contents: MemoryContents, position: Position): StoredEvent | undefined {
  const record = contents.events[position - 1];
  if (record === undefined) return undefined;
  return { source: record.source, event: JSON.parse(record.json) as Event };
}
