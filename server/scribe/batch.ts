import { CLOSE_OBJECT, COMMA, OPEN_OBJECT } from './characters';
import { endOfKey, HASHES, lastName } from './keys';
import { BATCH } from './names';
import { NOWHERE } from './place';
import { scanList } from './records';
import { endOfAny } from './values';

/** Where the list of calls begins and ends. */
export let listFrom: usize = NOWHERE;
export let listTo: usize = NOWHERE;

/** Whether the body from `body` to `limit` has one canonical list named `batch`. What is around it is only stepped over. */
export function scanBatch(body: usize, limit: usize, record: usize): bool {
  listFrom = NOWHERE;
  if (load<u8>(body) !== OPEN_OBJECT) return false;
  let at = body;
  do {
    const value = endOfKey(at + 1, HASHES, HASHES);
    if (value === NOWHERE) return false;
    if (lastName() === BATCH) {
      // A second list of this name would count, and not the first.
      if (listFrom !== NOWHERE) return false;
      listFrom = value;
      at = listTo = scanList(value, limit, record);
    } else at = endOfAny(value, limit);
    if (at === NOWHERE) return false;
  } while (load<u8>(at) === COMMA);
  return load<u8>(at) === CLOSE_OBJECT && at === limit - 1 && listFrom !== NOWHERE;
}
