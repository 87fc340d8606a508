import {
  CLOSE_LIST,
  CLOSE_OBJECT,
  COMMA,
  endOfAny,
  endOfKey,
  endOfValue,
  hashOfKey,
  hashOfLastKey,
  MOST_KEYS,
  NOWHERE,
  OPEN_LIST,
  OPEN_OBJECT,
  QUOTE,
} from './canonical.ts';

/** The fields of a call that normalising looks at, each with a number. */
export const FIELD = {
  ...{ messageId: 0, type: 1, channel: 2, userId: 3, anonymousId: 4, previousId: 5, groupId: 6, event: 7 },
  ...{ name: 8, category: 9, properties: 10, traits: 11, context: 12, integrations: 13, timestamp: 14 },
  ...{ originalTimestamp: 15, sentAt: 16, receivedAt: 17, writeKey: 18 },
} as const;

/** The number of every other field of a call, and of the field `library` of its `context`. */
export const OTHER = 19;
export const LIBRARY = 20;

/**
 * The record of a call is a run of numbers: its own length, where the call begins and ends in the bytes, 1 when
 * it may carry a write key, then three for each field: its number, where its key begins (of a library: where its value begins) and where its value ends. A call that
 * is not canonical has no fields there.
 */
export const RECORD_LENGTH = 0;
export const RECORD_FROM = 1;
export const RECORD_TO = 2;
export const RECORD_KEYED = 3;
export const RECORD_HEAD = 4;
export const RECORD_FIELD = 3;

/** So many calls that are not canonical may be in any batch, and one more for every four; else scanning is given up. */
const FEW_ODD = 3;

/** A call has as many fields as an object may have keys, and a library. */
const LONGEST_RECORD = RECORD_HEAD + (MOST_KEYS + 1) * RECORD_FIELD;

/** A field's number by the low bits of the hash of its name, `OTHER` where there is none; no two fields meet there. */
const SLOTS = 256;
const BY_HASH = new Uint8Array(SLOTS).fill(OTHER);
const NAMES = Object.keys(FIELD).map((name) => new TextEncoder().encode(name));
for (const [name, field] of Object.entries(FIELD)) BY_HASH[hashOfKey(name) & (SLOTS - 1)] = field;
const LIBRARY_HASH = hashOfKey('library');
const DIRECT_HASH = hashOfKey('direct');
const INTEGRATIONS_HASH = hashOfKey('integrations');

/** Scratch memory that is used again and again: what a scan gives is to be read before the next one. */
let records = new Int32Array(8192);

export interface Scanned {
  /** One record behind the other. */
  readonly records: Int32Array;
  readonly calls: number;
  /** Where what was scanned ends. */
  readonly end: number;
}

/** The call that begins at `at`; undefined when it is not canonical. */
export function scanCall(bytes: Uint8Array, at: number): Scanned | undefined {
  const end = writeRecord(bytes, at, 0);
  return end === NOWHERE ? undefined : { records, calls: 1, end };
}

/**
 * The calls of the list that begins at `at`. Whether a call that is not canonical is valid at all must be asked of
 * `JSON.parse`. Undefined when it is no list, when it breaks off, has blanks between its calls, more calls than `most`,
 * or many that are not canonical.
 */
export function scanCalls(bytes: Uint8Array, at: number, most: number): Scanned | undefined {
  if (bytes[at] !== OPEN_LIST) return undefined;
  if (bytes[at + 1] === CLOSE_LIST) return { records, calls: 0, end: at + 2 };
  let calls = 0;
  let odd = 0;
  let place = 0;
  do {
    at++;
    if (calls++ === most) return undefined;
    let end = writeRecord(bytes, at, place);
    if (end === NOWHERE) {
      end = ++odd <= FEW_ODD + calls / 4 ? endOfAny(bytes, at) : NOWHERE;
      if (end === NOWHERE) return undefined;
      records[place + RECORD_LENGTH] = RECORD_HEAD;
      records[place + RECORD_FROM] = at;
      records[place + RECORD_TO] = end;
      records[place + RECORD_KEYED] = 1;
    }
    place += records[place + RECORD_LENGTH]!;
    at = end;
  } while (bytes[at] === COMMA);
  return bytes[at] === CLOSE_LIST ? { records, calls, end: at + 1 } : undefined;
}

/** The end of the call, its record being at `place`. */
function writeRecord(bytes: Uint8Array, at: number, place: number): number {
  if (records.length < place + LONGEST_RECORD + RECORD_HEAD) {
    const larger = new Int32Array(records.length * 2);
    larger.set(records);
    records = larger;
  }
  if (bytes[at] !== OPEN_OBJECT) return NOWHERE;
  let next = place + RECORD_HEAD;
  let keys = 0;
  let keyed = 0;
  let end = at + 1;
  if (bytes[end] !== CLOSE_OBJECT) {
    for (;;) {
      const key = end;
      const value = endOfKey(bytes, key, 0, keys++);
      if (value === NOWHERE) return NOWHERE;
      const field = fieldAt(bytes, key);
      if (field === FIELD.writeKey) keyed = 1;
      const inside = field === FIELD.context && bytes[value] === OPEN_OBJECT ? next + RECORD_FIELD : 0;
      end = inside > 0 ? endOfContext(bytes, value, keys, inside) : endOfValue(bytes, value, 1, keys);
      if (end === NOWHERE) return NOWHERE;
      records[next] = field;
      records[next + 1] = key;
      records[next + 2] = end;
      next += RECORD_FIELD;
      if (inside > 0 && records[next] === LIBRARY) next += RECORD_FIELD;
      if (bytes[end] !== COMMA) break;
      end++;
    }
    if (bytes[end] !== CLOSE_OBJECT) return NOWHERE;
  }
  end++;
  records[place + RECORD_LENGTH] = next - place;
  records[place + RECORD_FROM] = at;
  records[place + RECORD_TO] = end;
  records[place + RECORD_KEYED] = keyed;
  return end;
}

/** The number of the field whose key, read last, begins at `key`. */
function fieldAt(bytes: Uint8Array, key: number): number {
  const field = BY_HASH[hashOfLastKey() & (SLOTS - 1)]!;
  if (field === OTHER) return OTHER;
  const name = NAMES[field]!;
  for (let at = 0; at < name.length; at++) if (bytes[key + 1 + at] !== name[at]) return OTHER;
  return bytes[key + 1 + name.length] === QUOTE ? field : OTHER;
}

/**
 * As `endOfValue` of an object, and the field `library` is written down at `place`, or that there is none. A context with
 * the field `direct` may get an address from us, so it is not stored as it is; one with `integrations` may say where the
 * event goes, which is rare and looked at elsewhere.
 */
function endOfContext(bytes: Uint8Array, at: number, top: number, place: number): number {
  records[place] = OTHER;
  const first = top;
  let end = at + 1;
  if (bytes[end] === CLOSE_OBJECT) return end + 1;
  for (;;) {
    const value = endOfKey(bytes, end, first, top++);
    if (value === NOWHERE) return NOWHERE;
    const hash = hashOfLastKey();
    if (hash === DIRECT_HASH || hash === INTEGRATIONS_HASH) return NOWHERE;
    const isLibrary = hash === LIBRARY_HASH;
    end = endOfValue(bytes, value, 2, top);
    if (end === NOWHERE) return NOWHERE;
    if (isLibrary) {
      records[place] = LIBRARY;
      records[place + 1] = value;
      records[place + 2] = end;
    }
    if (bytes[end] !== COMMA) break;
    end++;
  }
  return bytes[end] === CLOSE_OBJECT ? end + 1 : NOWHERE;
}
