import { type CallType, TYPES } from './call.ts';
import { type Failure, type FailureCode, failure } from './failure.ts';

/** Bytes of JSON one call may have (spec/specification.md, "Size limits"). */
export const LARGEST_CALL = 32_768;

/** Levels of objects and arrays the server takes, the call itself included. */
const DEEPEST = 500;

/** Dependencies of encoding a call. */
export interface Encoding {
  readonly newMessageId: () => string;
  readonly now: () => number;
  /** Whether a call without a time gets the one of now; else the server gives it one. */
  readonly stamps: boolean;
}

/** A call that may be queued. */
export interface Encoded {
  readonly json: string;
  /** UTF-8. */
  readonly bytes: number;
}

type Draft = Record<string, unknown>;

/**
 * Fields every call may have; `type` and `sentAt` are the library's, and what a caller says there means
 * nothing.
 */
const SHARED = 'type sentAt messageId timestamp context integrations userId ';
const names = (own: string) => new Set(`${SHARED}${own}`.split(' '));
const FIELDS: Readonly<Record<CallType, ReadonlySet<string>>> = {
  identify: names('anonymousId traits'),
  track: names('anonymousId event properties'),
  page: names('anonymousId name category properties traits'),
  screen: names('anonymousId name category properties'),
  group: names('anonymousId groupId traits'),
  alias: names('previousId'),
};

/**
 * One call as the program gave it → its JSON, or why not. The rules are the server's own, because a call that
 * breaks one inside a batch is discarded there while the batch is answered with 200: nobody would ever hear
 * of it.
 *
 * Nothing of the caller's is changed or kept: the JSON is made now, so later changes to its objects do not
 * matter.
 */
export function encode(type: unknown, call: unknown, tools: Encoding): Encoded | Failure {
  let messageId: string | undefined;
  try {
    if (!isType(type)) return failure('unknown_type');
    if (!isObject(call)) return failure('not_an_object');
    const draft: Draft = { messageId: call['messageId'] || tools.newMessageId(), type };
    if (!isMessageId(draft['messageId'])) return failure('invalid_message_id');
    messageId = draft['messageId'];
    const both = type === 'page' && isGiven(call['properties']) && isGiven(call['traits']);
    for (const field in call) {
      // With both in a page there is no telling which are meant.
      const isKnown = FIELDS[type].has(field) && !(both && field === 'traits');
      if (!isKnown && call[field] !== undefined) return failure('unknown_field', { messageId, field });
    }
    const wrong =
      takeIds(draft, call) ??
      takeWords(draft, call) ??
      whatIsMissing(draft) ??
      takeObjects(draft, call) ??
      takeTime(draft, call['timestamp'], tools);
    if (wrong !== undefined) return failure(wrong, { messageId });
    const json = JSON.stringify(draft);
    const bytes = bytesOf(json);
    if (bytes > LARGEST_CALL) return failure('message_too_large', { messageId });
    return isTooDeep(json) ? failure('too_deeply_nested', { messageId }) : { json, bytes };
  } catch (cause) {
    return failure('unencodable', messageId === undefined ? { cause } : { messageId, cause });
  }
}

/** Half of a surrogate pair. */
const HALF = /[\ud800-\udfff]/u;

/** Numbers become decimal digits; `null` and an empty text are absent (spec/specification.md, "Ids"). */
function takeIds(draft: Draft, call: Draft): FailureCode | undefined {
  for (const field of ['userId', 'anonymousId', 'previousId', 'groupId']) {
    const id = call[field] ?? '';
    if (id === '') continue;
    // An integer beyond 2^53 may be another one, rounded; Infinity has no rest.
    if (typeof id !== 'string' && !(typeof id === 'number' && (Number.isSafeInteger(id) || id % 1)))
      return 'id_not_string';
    const text = `${id}`;
    if (text.length > 1024) return 'id_too_long';
    if (HALF.test(text)) return 'id_not_unicode';
    draft[field] = text;
  }
  return undefined;
}

function takeWords(draft: Draft, call: Draft): FailureCode | undefined {
  for (const field of ['event', 'name', 'category'] as const) {
    const word = call[field] ?? '';
    // Here as on the server an empty one counts as absent.
    if (word === '') continue;
    if (typeof word !== 'string') return `${field}_not_string`;
    draft[field] = word;
  }
  return undefined;
}

function whatIsMissing({ type, userId, anonymousId, ...draft }: Draft): FailureCode | undefined {
  if (type === 'alias') {
    // spec/specification.md, "Calls of a client": a client needs both ids of an alias; the server would take
    // an anonymousId for the new one.
    if (userId === undefined) return 'user_id_missing';
    return draft['previousId'] === undefined ? 'previous_id_missing' : undefined;
  }
  if (userId === undefined && anonymousId === undefined) return 'no_user_anon_id';
  if (type === 'group' && draft['groupId'] === undefined) return 'group_id_missing';
  return type === 'track' && draft['event'] === undefined ? 'event_not_defined' : undefined;
}

/** The traits of a page travel as properties (spec/specification.md, "Calls of a client"). */
function takeObjects(draft: Draft, call: Draft): FailureCode | undefined {
  for (const field of ['traits', 'properties', 'context', 'integrations'] as const) {
    let value = call[field] ?? undefined;
    if (value === undefined) continue;
    // A model of a database library is an object whose JSON is another object; a Date is one whose JSON is a
    // text.
    if (isObject(value) && typeof value['toJSON'] === 'function') value = value['toJSON'](field);
    if (!isObject(value)) return `${field}_not_object`;
    draft[field === 'traits' && draft['type'] === 'page' ? 'properties' : field] = value;
  }
  return undefined;
}

/** ISO 8601 in UTC with milliseconds. */
function takeTime(draft: Draft, said: unknown, { now, stamps }: Encoding): FailureCode | undefined {
  if (!stamps && (said ?? undefined) === undefined) return undefined;
  let time = now();
  if (said instanceof Date) time = said.getTime();
  else if (typeof said === 'string') time = readTime(said);
  else if (said !== undefined && said !== null) return 'invalid_timestamp';
  // Outside of the years 0 to 9999 ISO 8601 has another form, which the server does not take.
  if (!(time >= -62_167_219_200_000 && time <= 253_402_300_799_999)) return 'invalid_timestamp';
  draft['timestamp'] = new Date(time).toISOString();
  return undefined;
}

const ISO =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:[T ](\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d+))?)? ?(?:[Zz]|([+-])(\d\d):?(\d\d)?)?)?$/;

/** `Date.parse` takes the 30th of February and reads a time without a zone as local, so it is not asked. */
function readTime(text: string): number {
  const [
    match,
    year,
    month,
    day,
    hour = 0,
    minute = 0,
    second = 0,
    fraction = '',
    sign,
    offHour = 0,
    offMinute = 0,
  ] = ISO.exec(text.trim()) ?? [];
  if (match === undefined || +hour > 23 || +minute > 59 || +second > 59) return Number.NaN;
  const date = new Date(0);
  date.setUTCFullYear(+year!, +month! - 1, +day!);
  if (date.getUTCMonth() !== +month! - 1 || date.getUTCDate() !== +day!) return Number.NaN;
  date.setUTCHours(+hour, +minute, +second, +fraction.slice(0, 3).padEnd(3, '0'));
  const offset = (+offHour * 60 + +offMinute) * 60_000;
  return date.getTime() - (sign === '-' ? -offset : offset);
}

function isType(type: unknown): type is CallType {
  return (TYPES as readonly unknown[]).includes(type);
}

function isMessageId(id: unknown): id is string {
  return typeof id === 'string' && id.length <= 100 && !HALF.test(id);
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isObject(value: unknown): value is Draft {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const { Buffer: native } = globalThis as { Buffer?: { byteLength?(text: string): number } };

/** Bytes of UTF-8. Node counts without copying. */
export function bytesOf(json: string): number {
  return native?.byteLength?.(json) ?? new TextEncoder().encode(json).length;
}

/** A level takes two characters, so only long texts are looked at. */
function isTooDeep(json: string): boolean {
  if (json.length <= 2 * DEEPEST) return false;
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (quoted) {
      if (unit === 92) at++;
      else if (unit === 34) quoted = false;
    } else if (unit === 34) quoted = true;
    else if (unit === 123 || unit === 91) {
      if (++depth > DEEPEST) return true;
    } else if (unit === 125 || unit === 93) depth--;
  }
  return false;
}
