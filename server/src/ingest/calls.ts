import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import { type AcceptedEvent, acceptEvent } from './accepted-event.ts';
import { findSyntaxError } from './json-syntax-error.ts';
import { isTooDeep, isTooLarge, MAX_BATCH_CALLS } from './limits.ts';
import {
  batchEnvelope,
  type DiscardReason,
  type Envelope,
  normalize,
  type RefusalCode,
  type RequestText,
  singleEnvelope,
} from './normalize.ts';
import { writeKeyOf } from './write-key-auth.ts';

/** The calls of one request, read in one of two ways that give the same: parsed here, or scanned. */
export interface RequestCalls {
  readonly envelope: Envelope;
  readonly length: number;
  /** The write key beside the batch; a single call has only its own. */
  readonly sharedKey: string | undefined;
  /** The write key that a call carries itself. */
  keyOf(index: number): string | undefined;
  /** Once for each call at most, as times that cannot be used are counted. */
  accept(index: number, source: Source): AcceptedEvent | DiscardReason;
  valueOf(index: number): Json;
}

/** Why a request cannot be taken apart. `detail` is a sentence for the client. */
export interface ParseFailure {
  readonly code: RefusalCode;
  readonly detail?: string;
  /** The write key in the body, where one was found. */
  readonly writeKey?: string | undefined;
  /** How many calls it holds, where they were counted. */
  readonly calls?: number;
}

/** The calls of a body by `JSON.parse`. */
export function parseCalls(request: RequestText): RequestCalls | ParseFailure {
  let body: Json;
  try {
    body = JSON.parse(request.text);
  } catch {
    const fault = findSyntaxError(request.request.body);
    const detail = fault?.sentence ?? 'It is nested too deep to be read.';
    return { code: 'invalid_json', detail, writeKey: fault?.writeKey };
  }
  if (request.request.type !== 'batch') {
    return new ParsedCalls([body], undefined, singleEnvelope(request));
  }
  const writeKey = writeKeyOf(body);
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
  const envelope = batchEnvelope(body, request);
  if (typeof envelope === 'string') {
    return { code: envelope, detail: 'It stands beside the array named batch.', writeKey, calls };
  }
  return new ParsedCalls(batch, writeKey, envelope);
}

class ParsedCalls implements RequestCalls {
  readonly envelope: Envelope;
  readonly sharedKey: string | undefined;
  readonly #values: readonly Json[];

  constructor(values: readonly Json[], sharedKey: string | undefined, envelope: Envelope) {
    this.#values = values;
    this.sharedKey = sharedKey;
    this.envelope = envelope;
  }

  get length(): number {
    return this.#values.length;
  }

  keyOf(index: number): string | undefined {
    return writeKeyOf(this.#values[index]!);
  }

  accept(index: number, source: Source): AcceptedEvent | DiscardReason {
    const { envelope } = this;
    if (envelope.type === 'batch') envelope.numbers.index = index;
    return acceptValue(this.#values[index]!, source, envelope);
  }

  valueOf(index: number): Json {
    return this.#values[index]!;
  }
}

/** One call as a value → the event to be stored, or why there is none. */
export function acceptValue(call: Json, source: Source, envelope: Envelope): AcceptedEvent | DiscardReason {
  if (!isObject(call)) return 'not_an_object';
  const event = normalize(call, envelope);
  if (typeof event === 'string') return event;
  try {
    const json = JSON.stringify(event);
    if (envelope.type === 'batch' && isTooLarge(call, json)) return 'message_too_large';
    return isTooDeep(json) ? 'too_deeply_nested' : acceptEvent(source, event, json);
  } catch (error) {
    // Nested so deep that writing it overflowed the stack; nothing else can fail on what JSON.parse made.
    if (error instanceof RangeError) return 'too_deeply_nested';
    throw error;
  }
}

/** `null` is an empty batch: Go's library of version 2.0.0 sends one at each `Close` with an empty queue. */
function listIn({ batch }: JsonObject): readonly Json[] | undefined {
  if (batch === null) return [];
  return Array.isArray(batch) ? batch : undefined;
}
