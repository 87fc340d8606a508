import type { NewEvent } from '../../ports/event-log.ts';
import type { Chunk } from './chunk-codec.ts';
import type { KeyHash } from './key-hash.ts';

/** In place of a source when a userId is hashed: users are the same in all sources. */
const USERS = 0;

/** Two words for each event. */
export interface IdHashes {
  /** Of its source and messageId. */
  readonly keys: Uint32Array;
  /** Of its userId; two zeros where it has none. */
  readonly users: Uint32Array;
}

type HasIds = Pick<NewEvent, 'source' | 'messageId' | 'userId' | 'idsInPlace'>;

/** Texts are hashed only where the ids are not in place: to make them costs as much as to hash them. */
export function hashIds(hash: KeyHash, events: readonly HasIds[]): IdHashes {
  const keys = new Uint32Array(events.length * 2);
  const users = new Uint32Array(events.length * 2);
  for (let index = 0; index < events.length; index++) {
    const event = events[index]!;
    const { source, idsInPlace } = event;
    if (idsInPlace === undefined) {
      const { messageId, userId } = event;
      hash(source, messageId, keys, index * 2);
      if (userId !== undefined) hash(USERS, userId, users, index * 2);
      continue;
    }
    const { bytes, idFrom, idTo, userFrom, userTo } = idsInPlace;
    hash(source, { bytes, from: idFrom, to: idTo }, keys, index * 2);
    if (userTo > 0) hash(USERS, { bytes, from: userFrom, to: userTo }, users, index * 2);
  }
  return { keys, users };
}

/** The same of the lines of a chunk; two zeros where an event was erased. */
export function hashLines(
  hash: KeyHash,
  { n, body, starts, sources }: Pick<Chunk, 'n' | 'body' | 'starts' | 'sources'>,
): IdHashes {
  const keys = new Uint32Array(n * 2);
  const users = new Uint32Array(n * 2);
  for (let index = 0; index < n; index++) {
    const line = body.subarray(starts[index]!, starts[index + 1]! - 1);
    if (line.length === 0) continue;
    const { messageId, userId } = idsOf(line);
    hash(sources[index]!, messageId, keys, index * 2);
    if (userId !== undefined) hash(USERS, userId, users, index * 2);
  }
  return { keys, users };
}

/** The ids of an event, or of the messageId that is kept of one. */
export function idsOf(line: Buffer): { messageId: string; userId?: string } {
  const parsed = JSON.parse(line.toString()) as string | { messageId: string; userId?: string };
  return typeof parsed === 'string' ? { messageId: parsed } : parsed;
}
