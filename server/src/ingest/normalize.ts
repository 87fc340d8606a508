import { createHash } from 'node:crypto';
import type { Event } from '../model/event.ts';
import { isCallType } from '../model/event.ts';
import { InvalidId, readId } from '../model/ids.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { channelOf } from '../model/libraries.ts';
import type { Time } from '../model/time.ts';
import { type AddressWish, withAddress } from './address.ts';
import { type DiscardReason, type Envelope, readObject, shownValue } from './envelope.ts';
import { MAX_MESSAGE_ID_LENGTH } from './limits.ts';
import { correctedTime, formatTime, readCanonical, readTime } from './times.ts';

const EMPTY: JsonObject = Object.freeze({});

/**
 * Turns one call as the client sent it into the canonical event, or says why there is none. It changes
 * neither the call nor the fields of its batch, but the event shares their values.
 *
 * Every event has its fields in the same order: first those that the protocol knows, then the client's
 * others. spec/specification.md, "Events" has every rule.
 */
export function normalize(call: JsonObject, envelope: Envelope, address: AddressWish): Event | DiscardReason {
  const type = envelope.type === 'batch' ? call.type : envelope.type;
  if (!isCallType(type)) return 'unknown_type';
  const said = mergeShared(envelope.context, call.context);
  if (said === undefined) return 'context_not_object';
  const context = withAddress(said, envelope, address);
  const integrations = mergeShared(envelope.integrations, call.integrations);
  if (integrations === undefined) return 'integrations_not_object';

  const draft: EventDraft = {
    messageId: readMessageId(call.messageId, envelope),
    type,
    channel: channelOf(call.channel, context),
  };
  const wrong = takeIds(draft, call) ?? takeTexts(draft, call) ?? takeObjects(draft, call);
  if (wrong !== undefined) return wrong;
  const missing = missingField(draft);
  if (missing !== undefined) return missing;

  draft.context = context;
  draft.integrations = integrations;
  if (envelope.isForwarded) takeFinalTimes(draft, call, envelope);
  else takeTimes(draft, call, envelope);
  takeOthers(draft, call, envelope.isForwarded);
  return draft as Event;
}

/** Merges an object of the call's own over that of its batch; undefined when the call's own is no object. */
function mergeShared(shared: JsonObject | undefined, own: Json | undefined): JsonObject | undefined {
  const object = readObject(own);
  if (object === false) return undefined;
  if (object === undefined) return shared ?? EMPTY;
  // Spreading defines properties and never assigns them, so a key named `__proto__` stays a key.
  return shared === undefined ? object : { ...shared, ...object };
}

function takeIds(draft: EventDraft, call: JsonObject): DiscardReason | undefined {
  const userId = readId(call.userId);
  if (userId instanceof InvalidId) return userId.fault;
  const anonymousId = readId(call.anonymousId);
  if (anonymousId instanceof InvalidId) return anonymousId.fault;
  const previousId = readId(call.previousId);
  if (previousId instanceof InvalidId) return previousId.fault;
  const groupId = readId(call.groupId);
  if (groupId instanceof InvalidId) return groupId.fault;
  if (userId !== undefined) draft.userId = userId;
  if (anonymousId !== undefined) draft.anonymousId = anonymousId;
  if (previousId !== undefined) draft.previousId = previousId;
  if (groupId !== undefined) draft.groupId = groupId;
  return undefined;
}

/** Takes an empty text for none: some clients send `name: ""` for a page without a name. */
function takeTexts(draft: EventDraft, { event, name, category }: JsonObject): DiscardReason | undefined {
  if (event !== undefined && event !== null && event !== '') {
    if (typeof event !== 'string') return 'event_not_string';
    draft.event = event;
  }
  if (name !== undefined && name !== null && name !== '') {
    if (typeof name !== 'string') return 'name_not_string';
    draft.name = name;
  }
  if (category !== undefined && category !== null && category !== '') {
    if (typeof category !== 'string') return 'category_not_string';
    draft.category = category;
  }
  return undefined;
}

function takeObjects(draft: EventDraft, call: JsonObject): DiscardReason | undefined {
  const properties = readObject(call.properties);
  if (properties === false) return 'properties_not_object';
  if (properties !== undefined) draft.properties = properties;
  const traits = readObject(call.traits);
  if (traits === false) return 'traits_not_object';
  if (traits !== undefined) draft.traits = traits;
  return undefined;
}

/**
 * Writes the four times. A time that cannot be read is counted, and `timestamp` is then the time of arrival;
 * as `originalTimestamp` it stays as the client wrote it. A client's clock that is more than 24 hours off is
 * counted and not corrected, because the client's own time is then worth more.
 */
function takeTimes(draft: EventDraft, call: JsonObject, envelope: Envelope): void {
  draft.timestamp = envelope.receivedAtText;
  const said = call.timestamp ?? call.originalTimestamp;
  const original = takeTime(draft, said, 'originalTimestamp', envelope);
  if (Number.isNaN(original) && said !== undefined && said !== null)
    draft.originalTimestamp = shownValue(said);
  let { sentAt } = envelope;
  if (call.sentAt !== undefined && call.sentAt !== null) {
    sentAt = takeTime(draft, call.sentAt, 'sentAt', envelope);
  } else if (envelope.sentAtText !== undefined) {
    draft.sentAt = envelope.sentAtText;
  }
  draft.receivedAt = envelope.receivedAtText;
  if (Number.isNaN(original)) return;

  draft.timestamp = draft.originalTimestamp!;
  if (Number.isNaN(sentAt) || sentAt === envelope.receivedAt) return;
  const corrected = correctedTime(original, sentAt, envelope.receivedAt);
  if (Number.isNaN(corrected)) envelope.changes.note('skewed_clocks');
  else draft.timestamp = formatTime(corrected);
}

/**
 * Writes the times of a call that another service has received: it has corrected them, so nothing is moved
 * here. spec/specification.md, "Forwarded calls".
 */
function takeFinalTimes(draft: EventDraft, call: JsonObject, envelope: Envelope): void {
  draft.timestamp = envelope.receivedAtText;
  const original = takeTime(draft, call.originalTimestamp, 'originalTimestamp', envelope);
  if (Number.isNaN(original) && call.originalTimestamp !== undefined && call.originalTimestamp !== null)
    draft.originalTimestamp = shownValue(call.originalTimestamp);
  takeTime(draft, call.sentAt, 'sentAt', envelope);
  draft.receivedAt = envelope.receivedAtText;
  const received = takeTime(draft, call.receivedAt, 'originalReceivedAt', envelope);
  draft.receivedBy = 'forwarded';
  const final = [takeTime(draft, call.timestamp, 'timestamp', envelope), original, received];
  const said = final.find((time) => !Number.isNaN(time));
  draft.timestamp = said === undefined ? envelope.receivedAtText : formatTime(said);
}

/** Writes one of the client's times to the event. Keeps a text that is canonical already. */
function takeTime(
  draft: EventDraft,
  said: Json | undefined,
  field: 'timestamp' | 'originalTimestamp' | 'sentAt' | 'originalReceivedAt',
  { changes }: Envelope,
): Time {
  if (said === undefined || said === null) return Number.NaN;
  let time = typeof said === 'string' ? readCanonical(said) : Number.NaN;
  if (!Number.isNaN(time)) {
    draft[field] = said as string;
    return time;
  }
  time = readTime(said);
  if (Number.isNaN(time)) changes.note('unreadable_times', said);
  else draft[field] = formatTime(time);
  return time;
}

/** Keeps fields that the protocol does not know as they are. Drops the write key, which is a credential. */
function takeOthers(draft: EventDraft, call: JsonObject, isForwarded: boolean): void {
  for (const key in call) {
    if (!isKnown(key) && !(isForwarded && isOfForwarded(key, draft))) defineField(draft, key, call[key]);
  }
}

/** Whether the event has the field from here, because another service has passed its call on. */
function isOfForwarded(key: string, { originalReceivedAt }: EventDraft): boolean {
  return key === 'receivedBy' || (key === 'originalReceivedAt' && originalReceivedAt !== undefined);
}

/** Defines `__proto__` as a field: assigning it would replace the prototype of the event. */
function defineField(draft: EventDraft, key: string, value: Json | undefined): void {
  if (key !== '__proto__') draft[key] = value;
  else Object.defineProperty(draft, key, { value, enumerable: true, configurable: true, writable: true });
}

function isKnown(key: string): boolean {
  switch (key) {
    case 'messageId':
    case 'type':
    case 'channel':
    case 'userId':
    case 'anonymousId':
    case 'previousId':
    case 'groupId':
    case 'event':
    case 'name':
    case 'category':
    case 'properties':
    case 'traits':
    case 'context':
    case 'integrations':
    case 'timestamp':
    case 'originalTimestamp':
    case 'sentAt':
    case 'receivedAt':
    case 'writeKey':
      return true;
    default:
      return false;
  }
}

/** An event while it is being made. */
type EventDraft = { -readonly [Key in keyof Event]?: Event[Key] };

/**
 * The code for a field that a call of this type lacks. Every call needs a userId or an anonymousId; an alias
 * may have the latter as its new id. spec/specification.md, "Required fields".
 */
function missingField(draft: EventDraft): DiscardReason | undefined {
  const anonymous = draft.userId === undefined && draft.anonymousId === undefined;
  switch (draft.type) {
    case 'alias':
      if (anonymous) return 'user_id_missing';
      return draft.previousId === undefined ? 'previous_id_missing' : undefined;
    case 'group':
      if (anonymous) return 'no_user_anon_id';
      return draft.groupId === undefined ? 'group_id_missing' : undefined;
    case 'track':
      if (anonymous) return 'no_user_anon_id';
      return draft.event === undefined ? 'event_not_defined' : undefined;
    default:
      return anonymous ? 'no_user_anon_id' : undefined;
  }
}

/** Ids that the server gives itself: to what audiences and traits tell, and to delete notifications. */
const OWN_ID = /^(?:aud|trt|del)_/;

/**
 * The client's messageId as it is. One that is longer than allowed, has half of a surrogate pair, or looks
 * like one of ours is replaced by a hash of it, the same each time, so that the call is known when it comes
 * again. One of another kind is replaced by a new one. spec/specification.md, "Message ids".
 */
function readMessageId(value: Json | undefined, { changes, newMessageId }: Envelope): string {
  if (value === undefined || value === null || value === '') return newMessageId();
  const id = typeof value === 'string' ? value : readId(value);
  if (typeof id === 'string' && id.length <= MAX_MESSAGE_ID_LENGTH && id.isWellFormed() && !OWN_ID.test(id))
    return id;
  changes.note('replaced_message_ids');
  if (typeof id !== 'string') return newMessageId();
  // Code unit by code unit: UTF-8 would make one of two that differ in half a pair.
  return `hash_${createHash('sha256').update(Buffer.from(id, 'utf16le')).digest('base64url')}`;
}
