import { keyLength, OPEN_OBJECT, QUOTE } from './json';
import { IP, LIBRARY, OTHER } from './layout';
import { INDEX_ENTRY, INDEX_HEAD } from './scan';

/** Kinds of values; `null` counts as absent. */
export const ABSENT: u8 = 0;
export const TEXT: u8 = 1;
export const EMPTY_TEXT: u8 = 2;
export const OBJECT: u8 = 3;
const OTHER_KIND: u8 = 4;

/**
 * Of each field of the call being written: the kind of its value, the address of its key, and the address
 * behind its value.
 */
const KINDS = memory.data(32, 16);
const STARTS = memory.data(32 * 4, 16);
const ENDS = memory.data(32 * 4, 16);

const NULL: u8 = 0x6e;

export function kindOf(field: i32): u8 {
  return load<u8>(KINDS + field);
}

export function fieldFrom(field: i32): usize {
  return load<u32>(STARTS + (field << 2));
}

export function fieldTo(field: i32): usize {
  return load<u32>(ENDS + (field << 2));
}

/** The address of a field's value. */
export function valueFrom(field: i32): usize {
  return fieldFrom(field) + keyLength(field);
}

/** Reads the field index of one call; false when it has no fields, because the call is not canonical. */
export function readFieldIndex(fieldIndex: usize): bool {
  const end = fieldIndex + load<u32>(fieldIndex);
  let at = fieldIndex + INDEX_HEAD;
  if (at === end) return false;
  v128.store(KINDS, i8x16.splat(0));
  v128.store(KINDS, i8x16.splat(0), 16);
  for (; at < end; at += INDEX_ENTRY) {
    const field: i32 = load<u32>(at);
    if (field === OTHER) continue;
    const start: usize = load<u32>(at, 4);
    store<u32>(STARTS + (field << 2), <u32>start);
    const fieldEnd: usize = load<u32>(at, 8);
    store<u32>(ENDS + (field << 2), <u32>fieldEnd);
    const isInContext = field === LIBRARY || field === IP;
    store<u8>(KINDS + field, isInContext ? OTHER_KIND : kindAt(start + keyLength(field), fieldEnd));
  }
  return true;
}

function kindAt(value: usize, end: usize): u8 {
  const byte = load<u8>(value);
  if (byte === QUOTE) return end - value === 2 ? EMPTY_TEXT : TEXT;
  if (byte === OPEN_OBJECT) return OBJECT;
  return byte === NULL ? ABSENT : OTHER_KIND;
}
