import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type { Source } from '../model/settings.ts';
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

/** The calls of one request. `parseCalls` and `fast-path/parser.ts` read them in two ways with the same results. */
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

/** Why the calls of a request cannot be read. */
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

/** Turns one parsed call into the event to store, or says why there is none. */
export function acceptValue(call: Json, source: Source, envelope: Envelope): AcceptedEvent | DiscardReason {
  if (!isObject(call)) return 'not_an_object';
  const event = normalize(call, envelope);
  if (typeof event === 'string') return event;
  try {
    const json = JSON.stringify(event);
    if (envelope.type === 'batch' && isTooLarge(call, json)) return 'message_too_large';
    return isTooDeep(json) ? 'too_deeply_nested' : acceptEvent(source, event, json);
  } catch (error) {
    // The call is nested so deep that writing it overflowed the stack. Nothing else fails on a value of `JSON.parse`.
    if (error instanceof RangeError) return 'too_deeply_nested';
    throw error;
  }
}

/** Gives the list of calls. `null` is an empty one: version 2.0.0 of Go's library sends it at each `Close` with an empty queue. */
function listIn({ batch }: JsonObject): readonly Json[] | undefined {
  if (batch === null) return [];
  return Array.isArray(batch) ? batch : undefined;
}
