import type { Event, Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { StoredEvent } from '../../ports/event-log.ts';
import type { MemoryContents } from './contents.ts';
import { hashOfName, type Named } from './names.ts';

/** The slot in `names` of the newest event that has the same source and messageId; −1 when there is none. */
export function slotOfName(contents: MemoryContents, event: Named, hash: number): number {
  const { names, events } = contents;
  for (let slot = names.first(hash); slot >= 0; slot = names.next(slot)) {
    const record = events.get(names.positionAt(slot));
    if (record?.source === event.source && record.messageId === event.messageId) return slot;
  }
  return -1;
}

/** Removes an event that was erased. */
export function makeGap(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record !== undefined && position >= contents.retainedFrom) {
    contents.gaps.set(position, record.receivedAt);
  }
  remove(contents, position);
}

/** Removes an event that is past its retention; its messageId is remembered. */
export function letGo(contents: MemoryContents, position: Position): void {
  const record = contents.events.get(position);
  if (record !== undefined) contents.pastNames.set(pastName(record), record.receivedAt);
  remove(contents, position);
}

export function pastName({ source, messageId }: Named): string {
  return `${source} ${messageId}`;
}

/** When the event at a position arrived, also when it is a gap by now; absent where the log no longer reaches. */
export function arrivalOf(contents: MemoryContents, position: Position): Time | undefined {
  return contents.events.get(position)?.receivedAt ?? contents.gaps.get(position);
}

/** What is owed of the event must have left its sets before. */
function remove(contents: MemoryContents, position: Position): void {
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
export function read(contents: MemoryContents, position: Position): StoredEvent | undefined {
  const record = contents.events.get(position);
  if (record === undefined) return undefined;
  const { source, json, receivedAt } = record;
  return { source, event: JSON.parse(json) as Event, arrivedAt: receivedAt };
}
