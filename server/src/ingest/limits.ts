import { BACKSLASH, isObject, type Json, type JsonObject, QUOTE } from '../model/json.ts';

/** Calls that one batch may have. spec/specification.md, "Size limits". */
export const MAX_BATCH_CALLS = 2_500;

/** Calls that one forwarded list may have. spec/specification.md, "Forwarded calls". */
export const MAX_FORWARDED_CALLS = 4_000;

/** Bytes of compact JSON that one call of a batch may have. spec/specification.md, "Size limits". */
export const MAX_BATCH_CALL_BYTES = 32_768;

/** UTF-16 units that a dropped value may have and still be covered by `SLACK`. */
const SHORT_LENGTH = 100;

/**
 * Bytes that a call may have more than its event: the 8 fields that `hasShortDroppedFields` checks, each up
 * to 100 units of at most 6 bytes (`\u0000`) with a name and punctuation of at most 24 bytes, and at most 18
 * known fields that are `null` or empty, each at most 26 bytes with its name. That is 8 × 624 + 18 × 26 =
 * 5,460.
 */
const SLACK = 5_500;

/**
 * Whether a call of a batch is larger than allowed. `json` is the text of its event.
 *
 * Measuring the call means writing its JSON a second time, hence the cheaper bound first. The event has
 * everything that the call has, except what `SLACK` covers, and a UTF-16 unit has at most 3 bytes in UTF-8.
 * Fields shared by the batch make an event larger than its call, never smaller.
 */
export function isTooLarge(call: JsonObject, json: string): boolean {
  if (json.length * 3 + SLACK <= MAX_BATCH_CALL_BYTES && hasShortDroppedFields(call)) return false;
  return Buffer.byteLength(JSON.stringify(call)) > MAX_BATCH_CALL_BYTES;
}

/** Whether the values that are replaced or dropped are short. */
function hasShortDroppedFields(call: JsonObject): boolean {
  return (
    isShort(call.writeKey) &&
    isShort(call.messageId) &&
    isShort(call.channel) &&
    isShort(call.timestamp) &&
    isShort(call.originalTimestamp) &&
    isShort(call.sentAt) &&
    isShort(call.receivedAt) &&
    (!isObject(call.context) || isShort(call.context.ip))
  );
}

function isShort(value: Json | undefined): boolean {
  return typeof value === 'string'
    ? value.length <= SHORT_LENGTH
    : typeof value !== 'object' || value === null;
}

/**
 * Levels of objects and arrays that an event may have, itself included. `JSON.stringify` overflows the stack
 * at some 4,000 levels, fewer when the stack is in use already. The limit keeps every later use of an event
 * far from that.
 */
export const MAX_NESTING = 500;

/**
 * Whether compact JSON is nested deeper than `MAX_NESTING`. Cheap for nearly every event, because few have
 * that many brackets.
 */
export function isTooDeep(json: string): boolean {
  // Every level takes two characters: an opening and a closing bracket.
  if (json.length <= 2 * MAX_NESTING) return false;
  return countBrackets(json) > MAX_NESTING && depthOf(json) > MAX_NESTING;
}

/** Opening brackets of both kinds, also those in strings: at least the depth. Stops soon after the limit. */
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

/** Longer messageIds are replaced. spec/specification.md, "Message ids". */
export const MAX_MESSAGE_ID_LENGTH = 100;
