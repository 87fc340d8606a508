import type { Position } from '../../model/event.ts';
import type { Duration } from '../../model/time.ts';
import type { Appended, Batch, EventLog, NewEvent, Skipped } from '../../ports/event-log.ts';
import { Chunk } from './chunk.ts';
import type { Holder, MemoryContents } from './contents.ts';
import { assertOpen } from './contents.ts';
import { erase } from './erasing.ts';
import { arrivalOf, pastName, read, slotOfName } from './events.ts';
import { hashOfName } from './names.ts';
import { owe } from './owed.ts';
import { maintain, sizeOf } from './retaining.ts';
import { extentOf, find } from './search.ts';
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
      const known = contents.answers.get(batch.id) ?? contents.emptyAnswers.get(batch.id);
      if (known !== undefined) return known;

      const positions = storeEvents(contents, batch, dedupeWindow);
      const held = batch.owed.map((owed) =>
        owe(contents, owed, { positions, holder, dueAt: batch.receivedAt }),
      );
      for (const skipped of batch.skipped) skip(contents, skipped, positions);
      for (const received of batch.received) receive(contents, received);

      const answer = { positions, held };
      const isEmpty = positions.every((position) => position === undefined);
      remember(isEmpty ? contents.emptyAnswers : contents.answers, batch.id, answer);
      return answer;
    },

    async read(positions) {
      return positions.map((position) => read(contents, position));
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
      return erase(contents, userId);
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

    async extent(range, from) {
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
  const chunk = new Chunk(batch, contents.lastPosition + 1);
  events.add(chunk);
  return batch.events.map((event, index) => {
    const tally = tallyOfSource(contents, event.source);
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
    const past = contents.pastNames.get(pastName(event));
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
function skip(
  contents: MemoryContents,
  skipped: Skipped,
  positions: readonly (Position | undefined)[],
): void {
  const count = skipped.indexes.filter((index) => positions[index] !== undefined).length;
  add(tallyOfDestination(contents, skipped.destination).skipped, skipped.reason, count);
}

/** A map keeps the order of insertion, so the first key is the batch that was answered longest ago. */
function remember(answers: Map<string, Appended>, id: string, answer: Appended): void {
  answers.set(id, answer);
  if (answers.size <= REMEMBERED_BATCHES) return;
  for (const oldest of answers.keys()) {
    answers.delete(oldest);
    return;
  }
}
