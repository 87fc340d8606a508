import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Extent, Found, Query } from '../../ports/event-log.ts';
import type { MemoryContents } from './contents.ts';
import type { StoredRecord } from './stored-record.ts';

/**
 * Looks at every event: nothing is kept for searches, so that an append costs the same with or without them. Everything may
 * be `like` what is sought, for all that can be told without reading it.
 */
export function find(contents: MemoryContents, query: Query, below?: Position): Found {
  const matches = testOf(query);
  const from = below ?? contents.lastPosition + 1;
  if ('oldestFirst' in query) {
    const start = below ?? 0;
    const positions = upwards(contents, matches, start);
    return { positions, looked: Math.max(0, contents.lastPosition + 1 - start) };
  }
  return { positions: downwards(contents, matches, from), looked: from };
}

/** Gaps are left out. */
export function extentOf(
  { events }: MemoryContents,
  { from, to }: { readonly from: Time; readonly to: Time },
  start: Position,
): Extent {
  let [count, bytes] = [0, 0];
  for (const [position, { receivedAt, json }] of events) {
    if (position < start || receivedAt < from || receivedAt >= to) continue;
    count++;
    bytes += Buffer.byteLength(json);
  }
  return { events: count, bytes };
}

type Test = (record: StoredRecord) => boolean;

function upwards({ events }: MemoryContents, matches: Test, from: Position): Position[] {
  const found = [...events].filter(([position, record]) => position >= from && matches(record));
  return found.map(([position]) => position);
}

function downwards(contents: MemoryContents, matches: Test, below: Position): Position[] {
  const positions: Position[] = [];
  for (const [position, record] of contents.events) {
    if (position >= below) break;
    if (matches(record)) positions.push(position);
  }
  return positions.reverse();
}

function testOf(query: Query): Test {
  if ('messageId' in query) return ({ messageId }) => messageId === query.messageId;
  if ('userId' in query) return ({ userId }) => userId === query.userId;
  return ({ receivedAt }) => receivedAt >= query.from && receivedAt < query.to;
}
