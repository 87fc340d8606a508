import type { Event } from '../model/event.ts';
import { isCallType } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
import {
  correctedTime,
  type DiscardReason,
  type Envelope,
  formatTime,
  type IdField,
  type NumberLiterals,
  readCanonical,
  readTime,
} from './envelope.ts';
import { MAX_MESSAGE_ID_LENGTH } from './limits.ts';

const EMPTY: JsonObject = Object.freeze({});

/**
 * Turns one call as the client sent it into the canonical event, or says why there is none. It changes neither the call nor the
 * fields of its batch, but the event shares their values.
 *
 * Every event has its fields in the same order: first those that the protocol knows, then the client's others.
 * spec/specification.md, "Events" has every rule.
 */
export function normalize(call: JsonObject, envelope: Envelope): Event | DiscardReason {
  const type = envelope.type === 'batch' ? call.type : envelope.type;
  if (!isCallType(type)) return 'unknown_type';
  const said = mergeShared(envelope.context, call.context);
  if (said === undefined) return 'context_not_object';
  const context = said.direct === true ? withAddress(said, envelope.peer?.remoteAddress) : said;
  const integrations = mergeShared(envelope.integrations, call.integrations);
  if (integrations === undefined) return 'integrations_not_object';

  const draft: EventDraft = {
    messageId: readMessageId(call.messageId, envelope.numbers) ?? envelope.newMessageId(),
    type,
    channel: channelOf(call.channel, context),
  };
  const wrong = takeIds(draft, call, envelope) ?? takeTexts(draft, call) ?? takeObjects(draft, call);
  if (wrong !== undefined) return wrong;
  const missing = missingField(draft);
  if (missing !== undefined) return missing;

  draft.context = context;
  draft.integrations = integrations;
  takeTimes(draft, call, envelope);
  takeOthers(draft, call);
  return draft as Event;
}

/** Merges an object of the call's own over that of its batch; undefined when the call's own is no object. */
function mergeShared(shared: JsonObject | undefined, own: Json | undefined): JsonObject | undefined {
  if (own === undefined || own === null) return shared ?? EMPTY;
  if (!isObject(own)) return undefined;
  // Spreading defines properties and never assigns them, so a key named `__proto__` stays a key.
  return shared === undefined ? own : { ...shared, ...own };
}

/** The prefix of IPv4 addresses at a listener on IPv6. */
const MAPPED = /^::ffff:(?=\d+\.)/i;

/**
 * Adds the address from which the call came, which `direct: true` asks for. An address that the client gives stays.
 * spec/specification.md, "Address of the client".
 */
function withAddress(context: JsonObject, address: string | undefined): JsonObject {
  if (address === undefined || (context.ip !== undefined && context.ip !== null)) return context;
  return { ...context, ip: address.replace(MAPPED, '') };
}

function takeIds(
  draft: EventDraft,
  call: JsonObject,
  { numbers: written }: Envelope,
): DiscardReason | undefined {
  const userId = readId(call.userId, 'userId', written);
  const anonymousId = readId(call.anonymousId, 'anonymousId', written);
  const previousId = readId(call.previousId, 'previousId', written);
  const groupId = readId(call.groupId, 'groupId', written);
  if (userId === false || anonymousId === false || previousId === false || groupId === false) {
    return 'id_not_string';
  }
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

function takeObjects(draft: EventDraft, { properties, traits }: JsonObject): DiscardReason | undefined {
  if (properties !== undefined && properties !== null) {
    if (!isObject(properties)) return 'properties_not_object';
    draft.properties = properties;
  }
  if (traits !== undefined && traits !== null) {
    if (!isObject(traits)) return 'traits_not_object';
    draft.traits = traits;
  }
  return undefined;
}

/**
 * Writes the four times. A time that cannot be read is left out and counted; `timestamp` is then the time of arrival. A client's
 * clock that is more than 24 hours off is counted and not corrected, because the client's own time is then worth more.
 */
function takeTimes(draft: EventDraft, call: JsonObject, envelope: Envelope): void {
  draft.timestamp = envelope.receivedAtText;
  const original = takeTime(
    draft,
    call.timestamp ?? call.originalTimestamp,
    'originalTimestamp',
    envelope.clock,
  );
  let { sentAt } = envelope;
  if (call.sentAt !== undefined && call.sentAt !== null) {
    sentAt = takeTime(draft, call.sentAt, 'sentAt', envelope.clock);
  } else if (envelope.sentAtText !== undefined) {
    draft.sentAt = envelope.sentAtText;
  }
  draft.receivedAt = envelope.receivedAtText;
  if (draft.originalTimestamp === undefined) return;

  draft.timestamp = draft.originalTimestamp;
  if (Number.isNaN(sentAt) || sentAt === envelope.receivedAt) return;
  const corrected = correctedTime(original, sentAt, envelope.receivedAt);
  if (Number.isNaN(corrected)) envelope.clock.skewed++;
  else draft.timestamp = formatTime(corrected);
}

/** Writes one of the client's times to the event. Keeps a text that is canonical already. */
function takeTime(
  draft: EventDraft,
  said: Json | undefined,
  field: 'originalTimestamp' | 'sentAt',
  clock: Envelope['clock'],
): Time {
  if (said === undefined || said === null) return Number.NaN;
  let time = typeof said === 'string' ? readCanonical(said) : Number.NaN;
  if (!Number.isNaN(time)) {
    draft[field] = said as string;
    return time;
  }
  time = readTime(said);
  if (Number.isNaN(time)) clock.unparseable++;
  else draft[field] = formatTime(time);
  return time;
}

/** Keeps fields that the protocol does not know as they are. Drops the write key, which is a credential. */
function takeOthers(draft: EventDraft, call: JsonObject): void {
  for (const key in call) {
    if (!isKnown(key)) defineField(draft, key, call[key]);
  }
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
 * The code for a field that a call of this type lacks. Every call needs a userId or an anonymousId; an alias may have the latter
 * as its new id. spec/specification.md, "Required fields".
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

/**
 * The names of client libraries in `context.library.name` that do not run on servers. analytics-node, -python, -ruby, -go, -php,
 * -java and all unknown libraries run on servers.
 */
const CHANNELS: ReadonlyMap<Json | undefined, string> = new Map([
  ['analytics.js', 'browser'],
  ['analytics-next', 'browser'],
  ['@segment/analytics-next', 'browser'],
  ['RudderLabs JavaScript SDK', 'browser'],
  ['jitsu-js', 'browser'],
  ['analytics-android', 'mobile'],
  ['analytics-ios', 'mobile'],
  ['analytics-kotlin', 'mobile'],
  ['analytics-swift', 'mobile'],
  ['analytics-react-native', 'mobile'],
  ['@segment/analytics-react-native', 'mobile'],
  ['analytics-flutter', 'mobile'],
  ['analytics_flutter', 'mobile'],
]);

/** The channel that the client names, else that of its library, else `server`. */
export function channelOf(said: Json | undefined, context: JsonObject): string {
  if (typeof said === 'string' && said !== '') return said;
  const { library } = context;
  return (isObject(library) && CHANNELS.get(library.name)) || 'server';
}

/**
 * An id as it is stored: a text with at least one character stays as it is, a number becomes its decimal digits, `null` counts as
 * absent. `false` for anything else. spec/specification.md, "Ids".
 */
function readId(
  value: Json | undefined,
  field: IdField,
  written: NumberLiterals,
): string | undefined | false {
  if (typeof value === 'string') return value !== '' && value;
  if (value === undefined || value === null) return undefined;
  return typeof value === 'number' && digitsOf(value, field, written);
}

/** The client's messageId without blanks around it; undefined when one must be assigned. */
function readMessageId(value: Json | undefined, written: NumberLiterals): string | undefined {
  if (typeof value !== 'string' && typeof value !== 'number') return undefined;
  const id = typeof value === 'string' ? value.trim() : digitsOf(value, 'messageId', written) || '';
  return id.length > 0 && id.length <= MAX_MESSAGE_ID_LENGTH ? id : undefined;
}

function digitsOf(value: number, field: IdField, written: NumberLiterals): string | false {
  if (Number.isSafeInteger(value) || !Number.isInteger(value)) return Number.isFinite(value) && String(value);
  return written.digitsOf(field) ?? false;
}
