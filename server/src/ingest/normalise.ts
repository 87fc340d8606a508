import { isCallType } from '../model/call.ts';
import type { Event } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
import { channelOf } from './channel.ts';
import type { Envelope } from './envelope.ts';
import { readId, readMessageId } from './identifiers.ts';
import type { DiscardReason } from './reasons.ts';
import { correctedTime, formatTime, readCanonical, readTime } from './timestamps.ts';
import { type Draft, whatIsMissing } from './validate.ts';

const NOTHING: JsonObject = Object.freeze({});

/**
 * One call as the client sent it → the canonical event, or why there is none. Neither the call nor what its batch shares
 * is changed, but values are taken over as they are, not copied.
 *
 * The fields are written in the order every event has: first those the protocol knows, then the client's others.
 * decisions.md section 1 has every rule.
 */
export function normalise(call: JsonObject, envelope: Envelope): Event | DiscardReason {
  const type = envelope.type === 'batch' ? call.type : envelope.type;
  if (!isCallType(type)) return 'unknown_type';
  const said = merged(envelope.context, call.context);
  if (said === undefined) return 'context_not_object';
  const context = said.direct === true ? withAddress(said, envelope.peer?.remoteAddress) : said;
  const integrations = merged(envelope.integrations, call.integrations);
  if (integrations === undefined) return 'integrations_not_object';

  const draft: Draft = {
    messageId: readMessageId(call.messageId, envelope.written) ?? envelope.newMessageId(),
    type,
    channel: channelOf(call.channel, context),
  };
  const wrong = takeIds(draft, call, envelope) ?? takeWords(draft, call) ?? takeObjects(draft, call);
  if (wrong !== undefined) return wrong;
  const missing = whatIsMissing(draft);
  if (missing !== undefined) return missing;

  draft.context = context;
  draft.integrations = integrations;
  takeTimes(draft, call, envelope);
  takeOthers(draft, call);
  return draft as Event;
}

/** What the batch shares with its calls, under what the call says itself; `undefined` when the call's is no object. */
function merged(shared: JsonObject | undefined, own: Json | undefined): JsonObject | undefined {
  if (own === undefined || own === null) return shared ?? NOTHING;
  if (!isObject(own)) return undefined;
  // Spreading defines properties and never assigns them, so a key named `__proto__` stays a key.
  return shared === undefined ? own : { ...shared, ...own };
}

/** IPv4 addresses of a listener on IPv6. */
const MAPPED = /^::ffff:(?=\d+\.)/i;

/** `direct: true` asks for the address the call came from; an address of the client's own stays. wire.md section 1.1. */
function withAddress(context: JsonObject, address: string | undefined): JsonObject {
  if (address === undefined || (context.ip !== undefined && context.ip !== null)) return context;
  return { ...context, ip: address.replace(MAPPED, '') };
}

function takeIds(draft: Draft, call: JsonObject, { written }: Envelope): DiscardReason | undefined {
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

/** An empty text is as good as none: some clients send `name: ""` for a page without a name. */
function takeWords(draft: Draft, { event, name, category }: JsonObject): DiscardReason | undefined {
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

function takeObjects(draft: Draft, { properties, traits }: JsonObject): DiscardReason | undefined {
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
 * The four times. What cannot be read is left out and counted; `timestamp` is then the time of arrival. A client's clock
 * that is more than 24 hours off is counted and not corrected: then its own word is worth more.
 */
function takeTimes(draft: Draft, call: JsonObject, envelope: Envelope): void {
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

/** Writes one of the client's times to the event. A text that is canonical already is kept instead of being written anew. */
function takeTime(
  draft: Draft,
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

/** Fields the protocol does not know are kept as they are; the write key is a credential and is not. */
function takeOthers(draft: Draft, call: JsonObject): void {
  for (const key in call) {
    if (!isKnown(key)) define(draft, key, call[key]);
  }
}

/** Assigning `__proto__` would replace the prototype of the event instead of giving it a field. */
function define(draft: Draft, key: string, value: Json | undefined): void {
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
