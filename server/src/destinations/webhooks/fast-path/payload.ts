import type { CallType } from '../../../model/event.ts';
import type { JsonLine } from '../../../model/serialized-event.ts';

/**
 * Payloads made from pieces of the stored line, without parsing it. The bytes are those that `JSON.stringify`
 * makes of the parsed event, because the line and each of its values are fixed points of it.
 * docs/decisions/0005-scanning.md.
 */

/** The fields that payloads are made of, each with a number. */
const FIELD = {
  messageId: 0,
  type: 1,
  userId: 2,
  anonymousId: 3,
  previousId: 4,
  groupId: 5,
  event: 6,
  name: 7,
  category: 8,
  properties: 9,
  traits: 10,
  context: 11,
  timestamp: 12,
} as const;
const FIELDS = 13;

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Shorter pieces are copied byte by byte: the call of a copying function would cost more. */
const SHORT = 64;

/** Most bytes that a payload has more than its line: the names of the documented fields. */
const MAX_ADDED_BYTES = 256;

const NAMES = Object.keys(FIELD).map((name) => Buffer.from(name));
const SLOTS = 64;
/** The number of a field by the hash of its name. There are no collisions. */
const BY_HASH = new Int8Array(SLOTS).fill(-1);
NAMES.forEach((name, field) => {
  BY_HASH[slotOf(name, 0, name.length)] = field;
});

/**
 * Start and end of each field's value in the line that was read last. An end of 0 means that the field is
 * absent.
 */
const starts = new Int32Array(FIELDS);
const ends = new Int32Array(FIELDS);

/** The payload in the documented format; undefined where the line has to be parsed. */
export function documentedPayloadFromBytes(line: JsonLine): Buffer | undefined {
  const { bytes } = line;
  locateFields(line);
  const type = hasField(FIELD.type) ? TYPE_BY_LETTER.get(bytes[starts[FIELD.type]! + 1]!) : undefined;
  // Properties and traits of a page are merged key by key.
  if (type === undefined || (type === 'page' && hasField(FIELD.properties) && hasField(FIELD.traits)))
    return undefined;
  const twice = duplicatedBytes(bytes, type);
  const body = Buffer.allocUnsafe(line.to - line.from + twice + MAX_ADDED_BYTES);
  let at = append(body, 0, PAYLOAD_STARTS[type]);
  for (const { name, field, fallback, defaultValue } of PAYLOAD_FIELDS[type]) {
    const from = hasField(field) ? field : fallback;
    if (hasField(from)) {
      at = append(body, at, name);
      at = copyRange({ bytes, from: starts[from]!, to: ends[from]! }, body, at);
    } else if (defaultValue !== undefined) at = append(body, append(body, at, name), defaultValue);
  }
  body[at++] = CLOSE_OBJECT;
  return body.subarray(0, at);
}

/**
 * Bytes that the payload has twice and the line once: the anonymousId of an alias without a userId, and the
 * traits of an identify that has them only in its context. This function also locates those.
 */
function duplicatedBytes(bytes: Buffer, type: CallType): number {
  if (type === 'alias' && hasField(FIELD.anonymousId)) return lengthOf(FIELD.anonymousId);
  if (
    type !== 'identify' ||
    !hasField(FIELD.context) ||
    (hasField(FIELD.traits) && lengthOf(FIELD.traits) > 2)
  )
    return 0;
  return locateContextTraits(bytes, starts[FIELD.context]!, ends[FIELD.context]!)
    ? lengthOf(FIELD.traits)
    : 0;
}

/**
 * Uses the traits of the context as those of the event. False when the context has no traits that are an
 * object.
 */
function locateContextTraits(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from + 1; at < to - 1; at++) {
    const name = at + 1;
    const nameEnd = endOfString(bytes, name);
    const value = nameEnd + 2;
    at = endOfValue(bytes, value);
    if (fieldOf(bytes, name, nameEnd) !== FIELD.traits) continue;
    if (bytes[value] !== OPEN_OBJECT) return false;
    starts[FIELD.traits] = value;
    ends[FIELD.traits] = at;
    return true;
  }
  return false;
}

/** The messageId of a line; undefined where it is not made of visible ASCII characters alone. */
export function messageIdFromBytes({ bytes, from }: JsonLine): string | undefined {
  for (let at = 0; at < MESSAGE_ID_START.length; at++)
    if (bytes[from + at] !== MESSAGE_ID_START[at]) return undefined;
  const first = from + MESSAGE_ID_START.length;
  let end = first;
  for (let byte = bytes[end]!; byte !== QUOTE; byte = bytes[++end]!) {
    if (!(byte > 0x20 && byte <= 0x7e) || byte === BACKSLASH) return undefined;
  }
  return bytes.toString('latin1', first, end);
}

/** The beginning of nearly every line. */
const MESSAGE_ID_START = Buffer.from('{"messageId":"');

/** One field of a payload. */
interface PayloadField {
  /** The key with the comma before it and the colon behind it. */
  readonly name: Buffer;
  /** The field of the event that it is copied from. */
  readonly field: number;
  /** The field to copy where `field` is absent. */
  readonly fallback: number;
  /** The value where both are absent; without one the field is left out. */
  readonly defaultValue: Buffer | undefined;
}

function payloadField(name: string, field: number, fallback = field, defaultValue?: Buffer): PayloadField {
  return { name: Buffer.from(`,${JSON.stringify(name)}:`), field, fallback, defaultValue };
}

const EMPTY_OBJECT = Buffer.from('{}');
const fromField = (name: keyof typeof FIELD) => payloadField(name, FIELD[name]);
const orEmptyObject = (name: keyof typeof FIELD) =>
  payloadField(name, FIELD[name], FIELD[name], EMPTY_OBJECT);
const IDENTITY_FIELDS = [fromField('userId'), fromField('anonymousId'), fromField('messageId')];
const TRAILING_FIELDS = [fromField('context'), fromField('timestamp')];

/** In the order of `documentedPayload`. */
const PAYLOAD_FIELDS: Readonly<Record<CallType, readonly PayloadField[]>> = {
  identify: [...IDENTITY_FIELDS, orEmptyObject('traits'), ...TRAILING_FIELDS],
  group: [...IDENTITY_FIELDS, fromField('groupId'), orEmptyObject('traits'), ...TRAILING_FIELDS],
  track: [...IDENTITY_FIELDS, fromField('event'), orEmptyObject('properties'), ...TRAILING_FIELDS],
  // A page that has both properties and traits is not handled here.
  page: [
    ...IDENTITY_FIELDS,
    fromField('name'),
    fromField('category'),
    payloadField('properties', FIELD.properties, FIELD.traits, EMPTY_OBJECT),
    ...TRAILING_FIELDS,
  ],
  screen: [
    ...IDENTITY_FIELDS,
    fromField('name'),
    fromField('category'),
    orEmptyObject('properties'),
    ...TRAILING_FIELDS,
  ],
  alias: [
    payloadField('Previous ID', FIELD.previousId),
    payloadField('User ID', FIELD.userId, FIELD.anonymousId),
    fromField('anonymousId'),
    fromField('messageId'),
    ...TRAILING_FIELDS,
  ],
};

const PAYLOAD_STARTS = Object.fromEntries(
  Object.keys(PAYLOAD_FIELDS).map((type) => [type, Buffer.from(`{"version":1,"type":"${type}"`)]),
) as Record<CallType, Buffer>;

/** No two types begin with the same letter. */
const TYPE_BY_LETTER: ReadonlyMap<number, CallType> = new Map(
  (Object.keys(PAYLOAD_FIELDS) as CallType[]).map((type) => [type.charCodeAt(0), type]),
);

function lengthOf(field: number): number {
  return ends[field]! - starts[field]!;
}

function hasField(field: number): boolean {
  return ends[field]! > 0;
}

/** Finds the values of the fields. */
function locateFields({ bytes, from, to }: JsonLine): void {
  ends.fill(0);
  let at = from + 1;
  while (at < to) {
    const name = at + 1;
    const nameEnd = endOfString(bytes, name);
    const value = nameEnd + 2;
    at = endOfValue(bytes, value);
    const field = fieldOf(bytes, name, nameEnd);
    if (field >= 0) {
      starts[field] = value;
      ends[field] = at;
    }
    // Behind the comma, or the brace at the end.
    at++;
  }
}

function fieldOf(bytes: Buffer, from: number, to: number): number {
  const field = BY_HASH[slotOf(bytes, from, to)]!;
  if (field < 0) return field;
  const name = NAMES[field]!;
  if (name.length !== to - from) return -1;
  for (let at = 0; at < name.length; at++) if (bytes[from + at] !== name[at]) return -1;
  return field;
}

function slotOf(bytes: Buffer, from: number, to: number): number {
  return (to - from + bytes[from]! + 5 * bytes[from + 2]!) & (SLOTS - 1);
}

/**
 * The meaning of a byte outside of strings: none (0), start of a string, start or end of an object or array.
 */
const [STRING, OPEN, CLOSE] = [1, 2, 3];
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte === QUOTE) return STRING;
  if (byte === OPEN_OBJECT || byte === OPEN_LIST) return OPEN;
  return byte === CLOSE_OBJECT || byte === CLOSE_LIST ? CLOSE : 0;
});

/** The position of the closing quote; `at` is behind the opening one. */
function endOfString(bytes: Buffer, at: number): number {
  const { length } = bytes;
  for (; at < length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
  return at;
}

/** The end of the value that begins at `at`. */
function endOfValue(bytes: Buffer, at: number): number {
  const { length } = bytes;
  const kind = KINDS[bytes[at]!];
  if (kind === STRING) return endOfString(bytes, at + 1) + 1;
  if (kind !== OPEN) {
    while (at < length && bytes[at] !== COMMA && bytes[at] !== CLOSE_OBJECT) at++;
    return at;
  }
  let depth = 0;
  for (; at < length; at++) {
    const kind = KINDS[bytes[at]!];
    if (kind === 0) continue;
    if (kind === STRING) at = endOfString(bytes, at + 1);
    else if (kind === OPEN) depth++;
    else if (--depth === 0) return at + 1;
  }
  return at;
}

function append(body: Buffer, at: number, piece: Buffer): number {
  return copyRange({ bytes: piece, from: 0, to: piece.length }, body, at);
}

function copyRange({ bytes, from, to }: JsonLine, body: Buffer, at: number): number {
  if (to - from >= SHORT) return at + bytes.copy(body, at, from, to);
  for (let place = from; place < to; place++) body[at++] = bytes[place]!;
  return at;
}
