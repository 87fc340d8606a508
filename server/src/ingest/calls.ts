import { isUtf8 } from 'node:buffer';
import type { Event } from '../model/event.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { JsonLine, SerializedEvent } from '../model/serialized-event.ts';
import type { Source } from '../model/settings.ts';
import type { Duration, Monotonic } from '../model/time.ts';
import { firstInvalid } from '../model/utf8.ts';
import type { IdRanges, NewEvent } from '../ports/event-log.ts';
import { addressWishOf } from './address.ts';
import { type ReadBody, readBody } from './body.ts';
import {
  batchEnvelope,
  type DiscardReason,
  type Envelope,
  type RefusalCode,
  type RequestContext,
  singleEnvelope,
} from './envelope.ts';
import { findSyntaxError } from './json-syntax-error.ts';
import { isTooDeep, isTooLarge, MAX_BATCH_CALLS } from './limits.ts';
import { normalize } from './normalize.ts';

/** The line of an event, and facts about it that would otherwise need the parsed event. */
export interface EventLine extends JsonLine, IdRanges {
  readonly bytes: Buffer;
  /** Unknown when 0: the event then exists as an object, and its ids are read from that. */
  readonly idTo: number;
  /** The userId is escaped or not ASCII. Its text must then be read with `JSON.parse`. */
  readonly isUserEscaped: boolean;
  /**
   * True when neither the call nor its batch has a key in `integrations`. False also when this was not
   * checked.
   */
  readonly hasNoIntegrations: boolean;
  /** Its timestamp is not corrected, because the client's clock is too far off. */
  readonly isSkewed: boolean;
}

interface EventIds {
  readonly messageId: string;
  readonly userId?: string | undefined;
}

/** A buffer may be up to so many times as long as the line for whose sake it is kept in memory. */
const MAX_BUFFER_RATIO = 4;

/** Offset of the messageId in every line. */
export const MESSAGE_ID_OFFSET = '{"messageId":"'.length;

/**
 * A call that became an event, as the line that is stored. The object and the texts of its ids are made when
 * first read: parsing costs more than the rest of receiving, and an event that no destination takes is never
 * read.
 */
export class AcceptedEvent implements NewEvent, SerializedEvent {
  /** The source that sent the call; `source` is its id. */
  readonly sender: Source;
  readonly line: EventLine;
  /** Set when the event is committed. */
  arrivedAt: Monotonic = 0;
  #ids: EventIds | undefined;
  #event: Event | undefined;

  constructor(sender: Source, line: EventLine, event?: Event) {
    this.sender = sender;
    this.line = line;
    this.#ids = event;
    this.#event = event;
  }

  get source(): number {
    return this.sender.id;
  }

  get dedupeWindow(): Duration | undefined {
    return this.sender.dedupeWindow;
  }

  get messageId(): string {
    this.#ids ??= idsIn(this.line);
    return this.#ids.messageId;
  }

  get userId(): string | undefined {
    this.#ids ??= idsIn(this.line);
    return this.#ids.userId;
  }

  get idRanges(): IdRanges | undefined {
    const { line } = this;
    return line.idTo === 0 || line.isUserEscaped ? undefined : line;
  }

  /**
   * The same event for a delivery. Copies the line out of a much larger buffer, which a waiting event would
   * keep in memory.
   */
  detached(arrivedAt: Monotonic): SerializedEvent {
    this.arrivedAt = arrivedAt;
    if (this.line.bytes.length <= MAX_BUFFER_RATIO * this.length) return this;
    const copy = new AcceptedEvent(this.sender, copyOf(this.line));
    copy.arrivedAt = arrivedAt;
    copy.#ids = this.#ids;
    copy.#event = this.#event;
    return copy;
  }

  /** Bytes of the line. */
  get length(): number {
    return this.line.to - this.line.from;
  }

  /** `JSON.stringify(event)`: a fixed point, parsing and writing it again gives the same text. */
  get json(): string {
    const { bytes, from, to } = this.line;
    return bytes.toString('utf8', from, to);
  }

  get event(): Event {
    this.#event ??= JSON.parse(this.json) as Event;
    return this.#event;
  }
}

/** An event that exists as an object already. `json` is its text. */
export function acceptEvent(source: Source, event: Event, json: string): AcceptedEvent {
  const bytes = Buffer.from(json);
  const line = {
    bytes,
    from: 0,
    to: bytes.length,
    idFrom: 0,
    idTo: 0,
    userFrom: 0,
    userTo: 0,
    isUserEscaped: false,
    hasNoIntegrations: false,
    isSkewed: false,
  };
  return new AcceptedEvent(source, line, event);
}

function idsIn({ bytes, idFrom, idTo, userFrom, userTo, isUserEscaped }: EventLine): EventIds {
  const messageId = bytes.toString('latin1', idFrom, idTo);
  if (userTo === 0) return { messageId, userId: undefined };
  if (!isUserEscaped) return { messageId, userId: bytes.toString('latin1', userFrom, userTo) };
  return { messageId, userId: JSON.parse(bytes.toString('utf8', userFrom - 1, userTo + 1)) as string };
}

/** The line in a buffer of its own. */
function copyOf(line: EventLine): EventLine {
  const { bytes, from, to, idFrom, idTo, userFrom, userTo } = line;
  return {
    bytes: Buffer.from(bytes.subarray(from, to)),
    from: 0,
    to: to - from,
    idFrom: idTo === 0 ? 0 : idFrom - from,
    idTo: idTo === 0 ? 0 : idTo - from,
    userFrom: userTo === 0 ? 0 : userFrom - from,
    userTo: userTo === 0 ? 0 : userTo - from,
    isUserEscaped: line.isUserEscaped,
    hasNoIntegrations: line.hasNoIntegrations,
    isSkewed: line.isSkewed,
  };
}

/**
 * The calls of one request. `parseCalls` and `fast-path/parser.ts` read them in two ways with the same
 * results.
 */
export interface RequestCalls {
  readonly envelope: Envelope;
  readonly length: number;
  /** The write key of a batch. A single call has only its own. */
  readonly sharedKey: string | undefined;
  /** The write key that a call carries itself. */
  keyOf(index: number): string | undefined;
  /** Call it at most once for each index: it counts times that cannot be used. */
  accept(index: number, source: Source): AcceptedEvent | DiscardReason;
  valueOf(index: number): Json;
}

/** The reason why the calls of a request cannot be read. */
export interface ParseFailure {
  readonly code: RefusalCode;
  /** A sentence for the client. */
  readonly detail?: string;
  /** The write key in the body, where one was found. */
  readonly writeKey?: string | undefined;
  /** How many calls it holds, where they were counted. */
  readonly calls?: number;
}

/** Reads the calls of a body with `JSON.parse`. */
export function parseCalls(context: RequestContext): RequestCalls | ParseFailure {
  const { request } = context;
  const keyIn = request.ignoresBodyKeys ? () => undefined : writeKeyOf;
  let read: ReadBody;
  try {
    read = readBody(request.body);
  } catch {
    const fault = findSyntaxError(request.body);
    if (!isUtf8(request.body)) return notUtf8(request.body, undefined, fault?.writeKey);
    const detail = fault?.sentence ?? 'It is nested too deep to be read.';
    return { code: 'invalid_json', detail, writeKey: fault?.writeKey };
  }
  const { value: body, numbersAsText } = read;
  const writeKey = keyIn(body);
  if (request.type !== 'batch') {
    if (read.invalidAt !== undefined) return notUtf8(request.body, read.invalidAt, writeKey);
    const envelope = singleEnvelope(context);
    envelope.changes.add('numbers_as_text', numbersAsText);
    return new ParsedCalls([body], undefined, { envelope, read, keyIn });
  }
  const batch = isObject(body) ? listIn(body) : undefined;
  if (!isObject(body) || batch === undefined) return { code: 'batch_not_array', writeKey };
  const calls = batch.length;
  if (calls > MAX_BATCH_CALLS) {
    const [held, most] = [calls, MAX_BATCH_CALLS].map((number) => number.toLocaleString('en-US'));
    return {
      code: 'batch_too_large',
      detail: `It holds ${held} calls, the limit is ${most}.`,
      writeKey,
      calls,
    };
  }
  if (read.hasInvalid({ ...body, batch: null })) return notUtf8(request.body, read.invalidAt, writeKey);
  const envelope = batchEnvelope(body, context);
  if (typeof envelope === 'string') {
    return { code: envelope, detail: 'It stands beside the array named batch.', writeKey, calls };
  }
  envelope.changes.add('numbers_as_text', numbersAsText);
  return new ParsedCalls(batch, writeKey, { envelope, read, keyIn });
}

function notUtf8(
  body: Buffer,
  at = firstInvalid(body),
  writeKey: string | undefined = undefined,
): ParseFailure {
  const byte = body[at]!.toString(16).padStart(2, '0');
  const detail = `Byte ${at.toLocaleString('en-US')} of it, 0x${byte}, belongs to no character of UTF-8.`;
  return { code: 'not_utf8', detail, writeKey };
}

interface BodyParts {
  readonly envelope: Envelope;
  readonly read: ReadBody;
  /** The write key that a part of the body carries, as far as it counts. */
  readonly keyIn: (value: Json) => string | undefined;
}

class ParsedCalls implements RequestCalls {
  readonly envelope: Envelope;
  readonly sharedKey: string | undefined;
  readonly #values: readonly Json[];
  readonly #body: ReadBody;
  readonly #keyIn: BodyParts['keyIn'];

  constructor(values: readonly Json[], sharedKey: string | undefined, { envelope, read, keyIn }: BodyParts) {
    this.#values = values;
    this.sharedKey = sharedKey;
    this.envelope = envelope;
    this.#body = read;
    this.#keyIn = keyIn;
  }

  get length(): number {
    return this.#values.length;
  }

  keyOf(index: number): string | undefined {
    return this.#keyIn(this.#values[index]!);
  }

  accept(index: number, source: Source): AcceptedEvent | DiscardReason {
    const value = this.#values[index]!;
    if (this.#body.invalidAt !== undefined && this.#body.hasInvalid(value)) return 'not_utf8';
    return acceptValue(value, source, this.envelope);
  }

  valueOf(index: number): Json {
    return this.#body.shown(this.#values[index]!);
  }
}

/** Turns one parsed call into the event to store, or says why there is none. */
export function acceptValue(call: Json, source: Source, envelope: Envelope): AcceptedEvent | DiscardReason {
  if (!isObject(call)) return 'not_an_object';
  const event = normalize(call, envelope, addressWishOf(source));
  if (typeof event === 'string') return event;
  try {
    const json = JSON.stringify(event);
    if (envelope.type === 'batch' && !envelope.isForwarded && isTooLarge(call, json))
      return 'message_too_large';
    return isTooDeep(json) ? 'too_deeply_nested' : acceptEvent(source, event, json);
  } catch (error) {
    // The call is nested so deep that writing it overflowed the stack. Nothing else fails on a value of
    // `JSON.parse`.
    if (error instanceof RangeError) return 'too_deeply_nested';
    throw error;
  }
}

/**
 * Gives the list of calls. `null` is an empty one: version 2.0.0 of Go's library sends it at each `Close`
 * with an empty queue.
 */
function listIn({ batch }: JsonObject): readonly Json[] | undefined {
  if (batch === null) return [];
  return Array.isArray(batch) ? batch : undefined;
}

/** The source of a write key, and whether calls with the key are accepted. */
export interface KeyAuthorization {
  /** Undefined when no source has the key. */
  readonly source: Source | undefined;
  /** The reason why calls with this key are not accepted; undefined when they are. */
  readonly reason: DiscardReason | undefined;
  /** The code that the client gets; undefined when the settings want such calls discarded silently. */
  readonly refusal: RefusalCode | undefined;
}

const NO_KEY: KeyAuthorization = {
  source: undefined,
  reason: 'unknown_write_key',
  refusal: 'missing_write_key',
};

export function authorizeKey(key: string | undefined, keys: WriteKeyLookup): KeyAuthorization {
  if (key === undefined) return NO_KEY;
  const source = keys.find(key);
  if (source === undefined) {
    const refusal = keys.unknown === 'refuse' ? 'invalid_write_key' : undefined;
    return { source, reason: 'unknown_write_key', refusal };
  }
  if (source.enabled) return { source, reason: undefined, refusal: undefined };
  const refusal = source.whenDisabled === 'refuse' ? 'invalid_write_key' : undefined;
  return { source, reason: 'source_disabled', refusal };
}

/**
 * The write key that a call or a batch carries itself. `null` and an empty text are no key. Anything else
 * that is no text is a key that no source has.
 */
export function writeKeyOf(body: Json): string | undefined {
  if (!isObject(body)) return undefined;
  const { writeKey } = body;
  if (writeKey === undefined || writeKey === null || writeKey === '') return undefined;
  return typeof writeKey === 'string' ? writeKey : '';
}

/** Finds the sources of write keys. */
export interface WriteKeyLookup {
  /** The source the key belongs to, enabled or not. */
  find(writeKey: string): Source | undefined;
  /**
   * Answers a request with an unknown key with 401, or with 200 and counts it. spec/specification.md, "Write
   * key".
   */
  readonly unknown: 'refuse' | 'discard';
}

/** When two sources have the same key, the first one gets its calls. */
export function indexWriteKeys(
  sources: readonly Source[],
  unknown: WriteKeyLookup['unknown'],
): WriteKeyLookup {
  const byKey = new Map<string, Source>();
  for (const source of sources) {
    for (const key of source.writeKeys) if (!byKey.has(key)) byKey.set(key, source);
  }
  return { find: (writeKey) => byKey.get(writeKey), unknown };
}
