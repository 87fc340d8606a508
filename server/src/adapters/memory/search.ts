import type { Position } from '../../model/event.ts';
import type { Found, Query } from '../../ports/event-log.ts';
import type { MemoryContents, StoredRecord } from './contents.ts';

/** Looks at every event: nothing is kept for searches, so that an append costs the same with or without them. */
export function find(contents: MemoryContents, query: Query, below = Number.POSITIVE_INFINITY): Found {
  const matches = testOf(query);
  const positions: Position[] = [];
  for (const [position, record] of contents.events) {
    if (position >= below) break;
    if (matches(record)) positions.push(position);
  }
  return { positions: positions.reverse() };
}

function testOf(query: Query): (record: StoredRecord) => boolean {
  if ('messageId' in query) return ({ messageId }) => messageId === query.messageId;
  if ('userId' in query) return ({ userId }) => userId === query.userId;
  return ({ receivedAt }) => receivedAt >= query.from && receivedAt < query.to;
}
