import type { Json } from '../model/json.ts';
import { isObject } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import { type AcceptedEvent, acceptedEvent } from './accepted.ts';
import { type Envelope, envelopeOf, envelopeOfBatch, type RequestText } from './envelope.ts';
import { isTooDeep } from './nesting.ts';
import { normalise } from './normalise.ts';
import type { DiscardReason, RefusalCode } from './reasons.ts';
import { isTooLarge, MOST_CALLS } from './size.ts';
import { ownKey } from './standing.ts';

/** The calls of one request, read in one of two ways that give the same: parsed here, or scanned. */
export interface Calls {
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
export interface Unreadable {
  readonly code: RefusalCode;
  readonly detail?: string;
}

/** The calls of a body by `JSON.parse`. */
export function parsedCalls(request: RequestText): Calls | Unreadable {
  let body: Json;
  try {
    body = JSON.parse(request.text);
  } catch (error) {
    return { code: 'invalid_json', detail: whereItBreaks(request.text, error) };
  }
  if (request.request.type !== 'batch') {
    return new ParsedCalls([body], undefined, envelopeOf(request));
  }
  if (!isObject(body) || !isList(body.batch)) return { code: 'batch_not_array' };
  const { batch } = body;
  if (batch.length > MOST_CALLS)
    return { code: 'batch_too_large', detail: `It holds ${batch.length} calls.` };
  const envelope = envelopeOfBatch(body, request);
  if (typeof envelope === 'string')
    return { code: envelope, detail: 'It stands beside the array named batch.' };
  return new ParsedCalls(batch, ownKey(body), envelope);
}

class ParsedCalls implements Calls {
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
    return ownKey(this.#values[index]!);
  }

  accept(index: number, source: Source): AcceptedEvent | DiscardReason {
    const { envelope } = this;
    if (envelope.type === 'batch') envelope.written.index = index;
    return acceptValue(this.#values[index]!, source, envelope);
  }

  valueOf(index: number): Json {
    return this.#values[index]!;
  }
}

/** One call as a value → the event to be stored, or why there is none. */
export function acceptValue(call: Json, source: Source, envelope: Envelope): AcceptedEvent | DiscardReason {
  if (!isObject(call)) return 'not_an_object';
  const event = normalise(call, envelope);
  if (typeof event === 'string') return event;
  try {
    const json = JSON.stringify(event);
    if (envelope.type === 'batch' && isTooLarge(call, json)) return 'message_too_large';
    return isTooDeep(json) ? 'too_deeply_nested' : acceptedEvent(source, event, json);
  } catch (error) {
    // Nested so deep that writing it overflowed the stack; nothing else can fail on what JSON.parse made.
    if (error instanceof RangeError) return 'too_deeply_nested';
    throw error;
  }
}

function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** The parser's own words quote the body, which may hold a write key; its position is enough. */
function whereItBreaks(text: string, error: unknown): string {
  if (text.trim() === '') return 'It is empty.';
  const position = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
  return position === undefined
    ? 'It breaks off or is no JSON at all.'
    : `The error is at character ${position}.`;
}
