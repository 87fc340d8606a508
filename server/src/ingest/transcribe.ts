import { CALL_TYPES, type CallType } from '../model/call.ts';
import type { Source } from '../model/source.ts';
import type { Time } from '../model/time.ts';
import { AcceptedEvent } from './accepted.ts';
import { CLOSE_OBJECT, COMMA, OPEN_OBJECT, QUOTE } from './canonical.ts';
import { channelOfLibrary } from './channel.ts';
import type { Envelope } from './envelope.ts';
import {
  ABSENT,
  EMPTY_TEXT,
  ends,
  isPlain,
  kinds,
  OBJECT,
  readRecord,
  starts,
  TEXT,
  textOf,
  valueAt,
} from './fields.ts';
import { LONGEST_MESSAGE_ID } from './identifiers.ts';
import type { Lines } from './lines.ts';
import {
  FIELD,
  LIBRARY,
  OTHER,
  RECORD_FIELD,
  RECORD_FROM,
  RECORD_HEAD,
  RECORD_LENGTH,
  RECORD_TO,
} from './scan.ts';
import { LARGEST_ITEM } from './size.ts';
import { CANONICAL_LENGTH, correctedTime, readCanonicalAt, readTime } from './timestamps.ts';

/** What a scan found in the bytes of a body, with those bytes. They are valid UTF-8. */
export interface Manuscript {
  readonly bytes: Buffer;
  readonly records: Int32Array;
  readonly envelope: Envelope;
  /** What goes into lines where the call has no such field of its own, in bytes. */
  readonly inherited: Inherited;
}

/** Whole fields, `"context":{…}`. `merges`: a call's own must be merged with what its batch shares. */
export interface Inherited {
  readonly context: Buffer;
  readonly mergesContext: boolean;
  readonly integrations: Buffer;
  readonly mergesIntegrations: boolean;
  /** Whether there is any word in them. */
  readonly hasIntegrations: boolean;
  readonly channel: Buffer;
  /** The time of arrival, behind that of sending where the batch has one, from the quote before it to the one behind it. */
  readonly times: Buffer;
}

const BLANK = 0x20;

/** Bytes a line may have that its call has not, beside what is inherited: names of fields, four times, an assigned id. */
export const MOST_ADDED = 400;

/** The times of the call being written: as the client has them, corrected, and when the client sent it. */
let originalAt: Time = Number.NaN;
let sentAt: Time = Number.NaN;

/**
 * Writes the event of the call whose record is at `place` from pieces of the body: byte for byte what `normalise` and
 * `JSON.stringify` make of it, at a third of the cost. `undefined` where they are to be asked: for every call that is to be
 * discarded, and for what is too rare to be worth a second way.
 */
export function transcribe(
  manuscript: Manuscript,
  place: number,
  source: Source,
  lines: Lines,
): AcceptedEvent | undefined {
  const { bytes, records, envelope } = manuscript;
  if (!readRecord(records, place, bytes) || isTooLarge(manuscript, place)) return undefined;
  const type = typeOf(manuscript);
  if (type === undefined || !isGood(type) || !isInherited(manuscript.inherited) || !readTimes(bytes)) {
    return undefined;
  }
  const from = lines.length;
  let messageId: string;
  if (kinds[FIELD.messageId] === ABSENT) {
    messageId = envelope.newMessageId();
    lines.putAll(Buffer.from(`{"messageId":"${messageId}"`));
  } else {
    if (!isPlainId(bytes)) return undefined;
    messageId = textOf(bytes, FIELD.messageId);
    lines.putByte(OPEN_OBJECT);
    putField(lines, bytes, FIELD.messageId);
  }
  lines.putAll(TYPES[type]);
  putChannel(lines, manuscript);
  for (let field: number = FIELD.userId; field <= FIELD.traits; field++) {
    if (kinds[field] !== TEXT && kinds[field] !== OBJECT) continue;
    lines.putByte(COMMA);
    putField(lines, bytes, field);
  }
  putShared(lines, manuscript);
  putTimes(lines, manuscript);
  putOthers(lines, manuscript, place);
  lines.putByte(CLOSE_OBJECT);
  const userId = userIdOf(bytes);
  const line = { bytes: lines.bytes, from, to: lines.length };
  const isUndirected = hasNoIntegrations(manuscript.inherited);
  return new AcceptedEvent(source, line, { messageId, userId, arrivedAt: envelope.receivedAt, isUndirected });
}

/** No two types begin with the same letter. */
const BY_LETTER: ReadonlyMap<number, CallType> = new Map(
  CALL_TYPES.map((type) => [type.charCodeAt(0), type]),
);

const bytesOf = (text: string) => Buffer.from(text);

const TYPES: Readonly<Record<CallType, Buffer>> = {
  identify: bytesOf(',"type":"identify",'),
  track: bytesOf(',"type":"track",'),
  page: bytesOf(',"type":"page",'),
  screen: bytesOf(',"type":"screen",'),
  group: bytesOf(',"type":"group",'),
  alias: bytesOf(',"type":"alias",'),
};

/** All that `channelOfLibrary` can say. */
const CHANNELS: ReadonlyMap<string, Buffer> = new Map(
  ['server', 'browser', 'mobile'].map((channel) => [channel, bytesOf(`"channel":"${channel}"`)]),
);

const TIMESTAMP = bytesOf(',"timestamp":"');
const ORIGINAL_TIMESTAMP = bytesOf('","originalTimestamp":"');
const SENT_AT = bytesOf('","sentAt":"');
const RECEIVED_AT = bytesOf('","receivedAt":"');

/** As `isTooLarge` of a value: what is canonical is its own compact JSON. */
function isTooLarge({ records, envelope }: Manuscript, place: number): boolean {
  const size = records[place + RECORD_TO]! - records[place + RECORD_FROM]!;
  return envelope.type === 'batch' && size > LARGEST_ITEM;
}

function typeOf({ bytes, envelope }: Manuscript): CallType | undefined {
  if (envelope.type !== 'batch') return envelope.type;
  if (kinds[FIELD.type] !== TEXT) return undefined;
  const first = valueAt(FIELD.type) + 1;
  const type = BY_LETTER.get(bytes[first]!);
  if (type === undefined || type.length !== ends[FIELD.type]! - 1 - first) return undefined;
  for (let at = 0; at < type.length; at++) if (bytes[first + at] !== type.charCodeAt(at)) return undefined;
  return type;
}

/** As `whatIsMissing`, and every field is of its kind. */
function isGood(type: CallType): boolean {
  for (let field: number = FIELD.userId; field <= FIELD.groupId; field++) {
    if (kinds[field]! > TEXT) return false;
  }
  for (let field: number = FIELD.event; field <= FIELD.category; field++) {
    if (kinds[field]! > EMPTY_TEXT) return false;
  }
  for (let field: number = FIELD.properties; field <= FIELD.integrations; field++) {
    if (kinds[field] !== ABSENT && kinds[field] !== OBJECT) return false;
  }
  if (kinds[FIELD.userId] === ABSENT && kinds[FIELD.anonymousId] === ABSENT) return false;
  if (type === 'track') return kinds[FIELD.event] === TEXT;
  if (type === 'group') return kinds[FIELD.groupId] === TEXT;
  return type !== 'alias' || kinds[FIELD.previousId] === TEXT;
}

/** Nor has its context: one with such a field is not canonical. */
function hasNoIntegrations({ hasIntegrations }: Inherited): boolean {
  if (kinds[FIELD.integrations] === OBJECT) {
    return ends[FIELD.integrations]! - valueAt(FIELD.integrations) === EMPTY_OBJECT;
  }
  return !hasIntegrations;
}

/** Bytes of `{}`. */
const EMPTY_OBJECT = 2;

/** False when the call's own context or integrations must be merged with those of its batch. */
function isInherited({ mergesContext, mergesIntegrations }: Inherited): boolean {
  return (
    !(mergesContext && kinds[FIELD.context] === OBJECT) &&
    !(mergesIntegrations && kinds[FIELD.integrations] === OBJECT)
  );
}

/** False when a time cannot be read here: `takeTimes` counts those. */
function readTimes(bytes: Buffer): boolean {
  originalAt = timeOf(bytes, clientTime());
  sentAt = timeOf(bytes, FIELD.sentAt);
  return (
    (kinds[clientTime()] === ABSENT || !Number.isNaN(originalAt)) &&
    (kinds[FIELD.sentAt] === ABSENT || !Number.isNaN(sentAt))
  );
}

/** The field that says when it happened. */
function clientTime(): number {
  return kinds[FIELD.timestamp] === ABSENT ? FIELD.originalTimestamp : FIELD.timestamp;
}

function timeOf(bytes: Buffer, field: number): Time {
  if (kinds[field] !== TEXT) return Number.NaN;
  const time = canonicalTimeOf(bytes, field);
  return Number.isNaN(time) ? readTime(textOf(bytes, field)) : time;
}

/** `NaN` when the text is not exactly as we write times. */
function canonicalTimeOf(bytes: Buffer, field: number): Time {
  const value = valueAt(field);
  const exact = ends[field]! - value === CANONICAL_LENGTH + 2;
  return exact ? readCanonicalAt(bytes, value + 1) : Number.NaN;
}

/** Whether the client's messageId is kept as it is. */
function isPlainId(bytes: Buffer): boolean {
  const first = valueAt(FIELD.messageId) + 1;
  const end = ends[FIELD.messageId]! - 1;
  if (kinds[FIELD.messageId] !== TEXT || end - first > LONGEST_MESSAGE_ID) return false;
  return bytes[first] !== BLANK && bytes[end - 1] !== BLANK && isPlain(bytes, first, end);
}

function userIdOf(bytes: Buffer): string | undefined {
  if (kinds[FIELD.userId] !== TEXT) return undefined;
  const first = valueAt(FIELD.userId);
  const end = ends[FIELD.userId]!;
  if (isPlain(bytes, first, end)) return bytes.toString('latin1', first + 1, end - 1);
  return JSON.parse(bytes.toString('utf8', first, end)) as string;
}

/** Key and value. */
function putField(lines: Lines, bytes: Buffer, field: number): void {
  lines.put(bytes, starts[field]!, ends[field]!);
}

function putChannel(lines: Lines, { bytes, inherited }: Manuscript): void {
  if (kinds[FIELD.channel] === TEXT) putField(lines, bytes, FIELD.channel);
  else if (kinds[FIELD.context] === ABSENT) lines.putAll(inherited.channel);
  else {
    const named = kinds[LIBRARY] !== ABSENT;
    const channel = named ? channelOfLibrary(bytes, starts[LIBRARY]!, ends[LIBRARY]!) : 'server';
    lines.putAll(CHANNELS.get(channel)!);
  }
}

function putShared(lines: Lines, { bytes, inherited }: Manuscript): void {
  lines.putByte(COMMA);
  if (kinds[FIELD.context] === OBJECT) putField(lines, bytes, FIELD.context);
  else lines.putAll(inherited.context);
  lines.putByte(COMMA);
  if (kinds[FIELD.integrations] === OBJECT) putField(lines, bytes, FIELD.integrations);
  else lines.putAll(inherited.integrations);
}

/** As `takeTimes`. Each name begins with the quote that closes the time before it. */
function putTimes(lines: Lines, { envelope, inherited }: Manuscript): void {
  const { receivedAt, clock } = envelope;
  const sent = kinds[FIELD.sentAt] === ABSENT ? envelope.sentAt : sentAt;
  lines.putAll(TIMESTAMP);
  if (Number.isNaN(originalAt)) lines.putTime(receivedAt);
  else {
    let timestamp = originalAt;
    if (!Number.isNaN(sent) && sent !== receivedAt) {
      const corrected = correctedTime(originalAt, sent, receivedAt);
      if (Number.isNaN(corrected)) clock.skewed++;
      else timestamp = corrected;
    }
    lines.putTime(timestamp);
    lines.putAll(ORIGINAL_TIMESTAMP);
    lines.putTime(originalAt);
  }
  if (kinds[FIELD.sentAt] === ABSENT) lines.putAll(inherited.times);
  else {
    lines.putAll(SENT_AT);
    lines.putTime(sentAt);
    lines.putAll(RECEIVED_AT);
    lines.putTime(receivedAt);
    lines.putByte(QUOTE);
  }
}

/** The fields the protocol does not know, in the client's order. */
function putOthers(lines: Lines, { records, bytes }: Manuscript, place: number): void {
  const end = place + records[place + RECORD_LENGTH]!;
  for (let at = place + RECORD_HEAD; at < end; at += RECORD_FIELD) {
    if (records[at] !== OTHER) continue;
    lines.putByte(COMMA);
    lines.put(bytes, records[at + 1]!, records[at + 2]!);
  }
}
