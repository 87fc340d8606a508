/**
 * The record of a call is a run of 32-bit numbers: its own length in bytes, then three for each field: its number, where its
 * key begins (of a library: where its value begins) and where its value ends. A call that is not canonical has no fields there.
 */
import { ACCOUNT, ACCOUNTS, describe, KEYED, mark, ODD } from './accounts';
import { CLOSE_LIST, CLOSE_OBJECT, COMMA, OPEN_LIST, OPEN_OBJECT } from './characters';
import { endOfKey, HASHES, lastName } from './keys';
import { mostCalls } from './limits';
import { CONTEXT, DIRECT, INTEGRATIONS, LIBRARY, OTHER, WRITE_KEY } from './names';
import { NOWHERE } from './place';
import { endOfAny, endOfValue } from './values';

export const RECORD_HEAD: usize = 4;
export const RECORD_FIELD: usize = 12;

/** So many calls that are not canonical may be in any batch, and one more for every four; else scanning is given up. */
const FEW_ODD: i32 = 3;

/** How many calls there are, and how many of them are not canonical. */
export let calls: i32 = 0;
export let oddCalls: i32 = 0;

/** The end of the single call that begins at `at`, its record being written at `record`. */
export function scanOne(at: usize, record: usize): usize {
  calls = 1;
  oddCalls = 0;
  return scanCall(at, record, ACCOUNTS);
}

/**
 * The end of the list of calls that begins at `at`. Whether a call that is not canonical is valid at all must be asked of
 * `JSON.parse`. `NOWHERE` when it is no list, when it breaks off, has blanks between its calls, more calls than a batch may
 * have, or many that are not canonical.
 */
export function scanList(at: usize, limit: usize, record: usize): usize {
  calls = 0;
  oddCalls = 0;
  if (load<u8>(at) !== OPEN_LIST) return NOWHERE;
  if (load<u8>(at + 1) === CLOSE_LIST) return at + 2;
  let account = ACCOUNTS;
  do {
    at++;
    if (calls++ === mostCalls) return NOWHERE;
    let end = scanCall(at, record, account);
    if (end === NOWHERE) {
      end = ++oddCalls <= FEW_ODD + calls / 4 ? endOfAny(at, limit) : NOWHERE;
      if (end === NOWHERE) return NOWHERE;
      describe(account, at, end);
      mark(account, KEYED | ODD);
      store<u32>(record, <u32>RECORD_HEAD);
    }
    record += load<u32>(record);
    account += ACCOUNT;
    at = end;
  } while (load<u8>(at) === COMMA);
  return load<u8>(at) === CLOSE_LIST ? at + 1 : NOWHERE;
}

function scanCall(at: usize, record: usize, account: usize): usize {
  if (load<u8>(at) !== OPEN_OBJECT) return NOWHERE;
  let next = record + RECORD_HEAD;
  let top = HASHES;
  let keyed: u32 = 0;
  let end = at + 1;
  if (load<u8>(end) !== CLOSE_OBJECT) {
    for (; ; end++) {
      const key = end;
      const value = endOfKey(key, HASHES, top);
      if (value === NOWHERE) return NOWHERE;
      top += 4;
      const name = lastName();
      if (name === WRITE_KEY) keyed = KEYED;
      const inside = name === CONTEXT && load<u8>(value) === OPEN_OBJECT;
      end = inside ? endOfContext(value, top, next + RECORD_FIELD) : endOfValue(value, 1, top);
      if (end === NOWHERE) return NOWHERE;
      note(next, min(name, OTHER), key, end);
      next += RECORD_FIELD;
      if (inside && load<u32>(next) === LIBRARY) next += RECORD_FIELD;
      if (load<u8>(end) !== COMMA) break;
    }
    if (load<u8>(end) !== CLOSE_OBJECT) return NOWHERE;
  }
  store<u32>(record, <u32>(next - record));
  describe(account, at, end + 1);
  mark(account, keyed);
  return end + 1;
}

function note(record: usize, field: i32, from: usize, to: usize): void {
  store<u32>(record, field);
  store<u32>(record, <u32>from, 4);
  store<u32>(record, <u32>to, 8);
}

/**
 * As `endOfValue` of an object, and the field `library` is written down at `record`, or that there is none. A context with
 * the field `direct` may get an address from us, so it is not stored as it is; one with `integrations` may say where the
 * event goes, which is rare and looked at elsewhere.
 */
function endOfContext(at: usize, top: usize, record: usize): usize {
  store<u32>(record, OTHER);
  const first = top;
  let end = at + 1;
  if (load<u8>(end) === CLOSE_OBJECT) return end + 1;
  for (;;) {
    const value = endOfKey(end, first, top);
    if (value === NOWHERE) return NOWHERE;
    top += 4;
    const name = lastName();
    if (name === DIRECT || name === INTEGRATIONS) return NOWHERE;
    end = endOfValue(value, 2, top);
    if (end === NOWHERE) return NOWHERE;
    if (name === LIBRARY) note(record, LIBRARY, value, end);
    if (load<u8>(end) !== COMMA) break;
    end++;
  }
  return load<u8>(end) === CLOSE_OBJECT ? end + 1 : NOWHERE;
}
