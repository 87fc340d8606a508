import type { Json, JsonObject } from '../model/json.ts';

/** More calls in one batch are refused. spec/specification.md, "Size limits". */
export const MAX_BATCH_CALLS = 2_500;

/** Bytes of compact JSON one item of a batch may have. spec/specification.md, "Size limits". */
export const MAX_BATCH_CALL_BYTES = 32_768;

/** UTF-16 units a value may have that the event does not keep, and still be covered by `SLACK`. */
const SHORT_LENGTH = 100;

/**
 * Bytes an item may have that its event has not: the 7 fields `isShort` looks at, each up to 100 units of at most 6 bytes
 * (`\u0000`) with a name and punctuation of at most 24 bytes, and at most 18 known fields that are `null` or empty, each
 * at most 26 bytes with its name. That is 7 × 624 + 18 × 26 = 4,836.
 */
const SLACK = 5_000;

/**
 * Whether an item of a batch is larger than allowed. `json` is its event.
 *
 * Measuring means making its JSON a second time, so a bound comes first: everything an item has is in its event too,
 * except what `SLACK` covers, and a UTF-16 unit has at most 3 bytes in UTF-8. What the batch shares with its items makes
 * events larger than their items, never smaller.
 */
export function isTooLarge(item: JsonObject, json: string): boolean {
  if (json.length * 3 + SLACK <= MAX_BATCH_CALL_BYTES && hasShortDroppedFields(item)) return false;
  return Buffer.byteLength(JSON.stringify(item)) > MAX_BATCH_CALL_BYTES;
}

/** Whether the values that are replaced or left out are short. */
function hasShortDroppedFields(item: JsonObject): boolean {
  return (
    isShort(item.writeKey) &&
    isShort(item.messageId) &&
    isShort(item.channel) &&
    isShort(item.timestamp) &&
    isShort(item.originalTimestamp) &&
    isShort(item.sentAt) &&
    isShort(item.receivedAt)
  );
}

function isShort(value: Json | undefined): boolean {
  return typeof value === 'string'
    ? value.length <= SHORT_LENGTH
    : typeof value !== 'object' || value === null;
}

/**
 * Levels of objects and arrays in an event, itself included. `JSON.stringify` overflows the stack at some 4,000 levels,
 * depending on what is on the stack already; the limit keeps every later use of an accepted event far from that.
 */
export const MAX_NESTING = 500;

const QUOTE = 34;
const BACKSLASH = 92;

/** Whether compact JSON is nested deeper than `DEEPEST`. Cheap for nearly every event: it reads only suspicious texts. */
export function isTooDeep(json: string): boolean {
  // A level takes two characters, its bracket and the closing one, and one opening bracket.
  if (json.length <= 2 * MAX_NESTING) return false;
  return countBrackets(json) > MAX_NESTING && depthOf(json) > MAX_NESTING;
}

/** Opening brackets of both kinds, those inside of strings too: at least the depth. Stops soon after the limit. */
function countBrackets(json: string): number {
  let count = 0;
  for (const bracket of ['{', '[']) {
    for (let at = json.indexOf(bracket); at >= 0 && count <= MAX_NESTING; at = json.indexOf(bracket, at + 1))
      count++;
  }
  return count;
}

function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(json, at);
    else if (unit === 0x7b || unit === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (unit === 0x7d || unit === 0x5d) depth--;
  }
  return deepest;
}

/** The index of the quote that closes the string opened at `at`. */
function endOfString(json: string, at: number): number {
  for (at++; json.charCodeAt(at) !== QUOTE; at++) {
    if (json.charCodeAt(at) === BACKSLASH) at++;
  }
  return at;
}
