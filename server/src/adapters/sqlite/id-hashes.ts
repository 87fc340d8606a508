import type { NewEvent } from '../../ports/event-log.ts';
import type { KeyHash } from './key-hash.ts';

/** In place of a source when a userId is hashed: users are the same in all sources. */
const USERS = 0;

/** Two words for each event. */
interface IdHashes {
  /** Of its source and messageId. */
  readonly keys: Uint32Array;
  /** Of its userId; two zeros where it has none. */
  readonly users: Uint32Array;
}

/** Texts are hashed only where the ids are not in place: to make them costs as much as to hash them. */
export function hashIds(hash: KeyHash, events: readonly NewEvent[]): IdHashes {
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
