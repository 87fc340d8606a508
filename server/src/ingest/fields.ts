import { BACKSLASH, OPEN_OBJECT, QUOTE } from './canonical.ts';
import { FIELD, LIBRARY, OTHER, RECORD_FIELD, RECORD_HEAD, RECORD_LENGTH } from './scan.ts';

/** From the quote before a field's name to its value: the name, two quotes and a colon. */
const KEY_LENGTHS = Object.keys(FIELD).map((name) => name.length + 3);
const NULL = 0x6e;
const NOT_ASCII = 0x80;

/** What a field of the call being written holds, where it begins, with its key, and where it ends. */
export const kinds = new Uint8Array(LIBRARY + 1);
export const starts = new Int32Array(LIBRARY + 1);
export const ends = new Int32Array(LIBRARY + 1);

/** Kinds of values; `null` counts as absent. */
export const ABSENT = 0;
export const TEXT = 1;
export const EMPTY_TEXT = 2;
export const OBJECT = 3;
const ODD = 4;

/** Reads the record at `place`; false when it has no fields, because the call is not canonical. */
export function readRecord(records: Int32Array, place: number, bytes: Buffer): boolean {
  const end = place + records[place + RECORD_LENGTH]!;
  if (end === place + RECORD_HEAD) return false;
  kinds.fill(ABSENT);
  for (let at = place + RECORD_HEAD; at < end; at += RECORD_FIELD) {
    const field = records[at]!;
    if (field === OTHER) continue;
    starts[field] = records[at + 1]!;
    ends[field] = records[at + 2]!;
    kinds[field] = field === LIBRARY ? ODD : kindOf(bytes, field);
  }
  return true;
}

function kindOf(bytes: Buffer, field: number): number {
  const value = valueAt(field);
  switch (bytes[value]) {
    case QUOTE:
      return ends[field]! - value === 2 ? EMPTY_TEXT : TEXT;
    case OPEN_OBJECT:
      return OBJECT;
    case NULL:
      return ABSENT;
    default:
      return ODD;
  }
}

/** Where the value of a field begins. */
export function valueAt(field: number): number {
  return starts[field]! + KEY_LENGTHS[field]!;
}

/** A text as it is written; it means what it says when it has no escapes and is ASCII. */
export function textOf(bytes: Buffer, field: number): string {
  return bytes.toString('latin1', valueAt(field) + 1, ends[field]! - 1);
}

/** Whether what is written between two places means exactly that: ASCII without escapes. */
export function isPlain(bytes: Buffer, first: number, end: number): boolean {
  for (let at = first; at < end; at++) {
    if (bytes[at]! >= NOT_ASCII || bytes[at] === BACKSLASH) return false;
  }
  return true;
}
