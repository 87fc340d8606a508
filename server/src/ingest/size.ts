import type { Json, JsonObject } from '../model/json.ts';

/** More calls in one batch are refused. decisions.md section 1, "limits". */
export const MOST_CALLS = 2_500;

/** Bytes of compact JSON one item of a batch may have. decisions.md section 1, "limits". */
export const LARGEST_ITEM = 32_768;

/** UTF-16 units a value may have that the event does not keep, and still be covered by `SLACK`. */
const SHORT = 100;

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
  if (json.length * 3 + SLACK <= LARGEST_ITEM && losesLittle(item)) return false;
  return Buffer.byteLength(JSON.stringify(item)) > LARGEST_ITEM;
}

/** Whether the values that are replaced or left out are short. */
function losesLittle(item: JsonObject): boolean {
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
  return typeof value === 'string' ? value.length <= SHORT : typeof value !== 'object' || value === null;
}
