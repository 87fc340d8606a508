import { beginDescriptor, DESCRIPTORS, mark, maxCalls } from './host';
import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COMMA,
  endOfAny,
  endOfKey,
  endOfValue,
  FAILED,
  HASHES,
  lastName,
  NULL,
  OPEN_LIST,
  OPEN_OBJECT,
} from './json';
import {
  BATCH,
  CONTEXT,
  DESCRIPTOR,
  DIRECT,
  HAS_WRITE_KEY,
  INTEGRATIONS,
  IP,
  LIBRARY,
  NON_CANONICAL,
  OTHER,
  WRITE_KEY,
} from './layout';

/**
 * The field index of a call is a row of 32-bit numbers: its own length in bytes, then three for each field:
 * the field's number, the address of its key (of a library and an ip: of its value) and the address behind
 * its value. A call that is not canonical has no fields in it. The indexes of a batch stand one behind the
 * other.
 */

export const INDEX_HEAD: usize = 4;
export const INDEX_ENTRY: usize = 12;

/**
 * Any batch may have so many calls that are not canonical, and one more for every four. With more, scanning
 * gives up.
 */
const MAX_NON_CANONICAL: i32 = 3;

/** How many calls were scanned, and how many of them are not canonical. */
export let calls: i32 = 0;
export let nonCanonicalCalls: i32 = 0;

/** The address behind the single call at `at`. Writes its field index. */
export function scanOne(at: usize, fieldIndex: usize): usize {
  calls = 1;
  nonCanonicalCalls = 0;
  return scanCall(at, fieldIndex, DESCRIPTORS);
}

/**
 * The address behind the list of calls at `at`. `FAILED` when it is no list, breaks off, has blanks between
 * its calls, more calls than a batch may have, or many that are not canonical. A call that is not canonical
 * may be no JSON: the program has to ask `JSON.parse`.
 */
export function scanList(at: usize, limit: usize, fieldIndex: usize): usize {
  calls = 0;
  nonCanonicalCalls = 0;
  if (load<u8>(at) !== OPEN_LIST) return FAILED;
  if (load<u8>(at + 1) === CLOSE_LIST) return at + 2;
  let descriptor = DESCRIPTORS;
  do {
    at++;
    if (calls++ === maxCalls) return FAILED;
    let end = scanCall(at, fieldIndex, descriptor);
    if (end === FAILED) {
      end = ++nonCanonicalCalls <= MAX_NON_CANONICAL + calls / 4 ? endOfAny(at, limit) : FAILED;
      if (end === FAILED) return FAILED;
      beginDescriptor(descriptor, at, end);
      mark(descriptor, HAS_WRITE_KEY | NON_CANONICAL);
      store<u32>(fieldIndex, <u32>INDEX_HEAD);
    }
    fieldIndex += load<u32>(fieldIndex);
    descriptor += DESCRIPTOR;
    at = end;
  } while (load<u8>(at) === COMMA);
  return load<u8>(at) === CLOSE_LIST ? at + 1 : FAILED;
}

function scanCall(at: usize, fieldIndex: usize, descriptor: usize): usize {
  if (load<u8>(at) !== OPEN_OBJECT) return FAILED;
  let next = fieldIndex + INDEX_HEAD;
  let top = HASHES;
  let keyMark: u32 = 0;
  let end = at + 1;
  if (load<u8>(end) !== CLOSE_OBJECT) {
    for (; ; end++) {
      const key = end;
      const value = endOfKey(key, HASHES, top);
      if (value === FAILED) return FAILED;
      top += 4;
      const name = lastName();
      if (name === WRITE_KEY) keyMark = HAS_WRITE_KEY;
      const inside = name === CONTEXT && load<u8>(value) === OPEN_OBJECT;
      end = inside ? endOfContext(value, top, next + INDEX_ENTRY) : endOfValue(value, 1, top);
      if (end === FAILED) return FAILED;
      addField(next, min(name, OTHER), key, end);
      next += INDEX_ENTRY;
      if (inside) next = contextEntriesEnd;
      if (load<u8>(end) !== COMMA) break;
    }
    if (load<u8>(end) !== CLOSE_OBJECT) return FAILED;
  }
  store<u32>(fieldIndex, <u32>(next - fieldIndex));
  beginDescriptor(descriptor, at, end + 1);
  mark(descriptor, keyMark);
  return end + 1;
}

function addField(fieldIndex: usize, field: i32, from: usize, to: usize): void {
  store<u32>(fieldIndex, field);
  store<u32>(fieldIndex, <u32>from, 4);
  store<u32>(fieldIndex, <u32>to, 8);
}

/** The address behind the entries that `endOfContext` has added to the field index. */
let contextEntriesEnd: usize = 0;

/**
 * The end of an object, as `endOfValue` gives it. Adds its fields `library` and `ip` to the field index,
 * where it has them. Fails at the field `direct`, with which a context may get an address from us, at
 * `integrations`, which may say where the event goes, and at an `ip` that is `null`: all are rare, and
 * `normalize` handles them.
 */
function endOfContext(at: usize, top: usize, fieldIndex: usize): usize {
  contextEntriesEnd = fieldIndex;
  const first = top;
  let end = at + 1;
  if (load<u8>(end) === CLOSE_OBJECT) return end + 1;
  for (;;) {
    const value = endOfKey(end, first, top);
    if (value === FAILED) return FAILED;
    top += 4;
    const name = lastName();
    if (name === DIRECT || name === INTEGRATIONS) return FAILED;
    end = endOfValue(value, 2, top);
    if (end === FAILED) return FAILED;
    if (name === LIBRARY || name === IP) {
      if (name === IP && load<u32>(value) === NULL) return FAILED;
      addField(contextEntriesEnd, name, value, end);
      contextEntriesEnd += INDEX_ENTRY;
    }
    if (load<u8>(end) !== COMMA) break;
    end++;
  }
  return load<u8>(end) === CLOSE_OBJECT ? end + 1 : FAILED;
}

/** Begin and end of the list of calls. */
export let listFrom: usize = FAILED;
export let listTo: usize = FAILED;

/**
 * Whether the body from `body` to `limit` has one canonical list named `batch`. Steps over everything around
 * it.
 */
export function scanBatch(body: usize, limit: usize, fieldIndex: usize): bool {
  listFrom = FAILED;
  if (load<u8>(body) !== OPEN_OBJECT) return false;
  let at = body;
  do {
    const value = endOfKey(at + 1, HASHES, HASHES);
    if (value === FAILED) return false;
    if (lastName() === BATCH) {
      // Of two lists with this name, the second would count.
      if (listFrom !== FAILED) return false;
      listFrom = value;
      at = listTo = scanList(value, limit, fieldIndex);
    } else at = endOfAny(value, limit);
    if (at === FAILED) return false;
  } while (load<u8>(at) === COMMA);
  return load<u8>(at) === CLOSE_OBJECT && at === limit - 1 && listFrom !== FAILED;
}
