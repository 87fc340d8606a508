import { isUtf8 } from 'node:buffer';
import { isObject, type Json } from '../../model/json.ts';
import type { Source } from '../../model/settings.ts';
import type { IngestRequest } from '../../ports/ingest.ts';
import { AcceptedEvent, type EventLine } from '../accepted-event.ts';
import { acceptValue, type RequestCalls } from '../calls.ts';
import { isTooDeep } from '../limits.ts';
import {
  batchEnvelope,
  channelOf,
  type DiscardReason,
  type Envelope,
  NumberLiterals,
  singleEnvelope,
} from '../normalize.ts';
import { writeKeyOf } from '../write-key-auth.ts';
import { Encoder, type SharedFields } from './encoder.ts';

/**
 * Reads the calls of a body that is canonical JSON, as most libraries send it, without parsing them. Undefined for every
 * other body: `parseCalls` reads it, and only `parseCalls` finds out what is wrong with one.
 *
 * The calls are valid until the next body is read, because the encoder has one memory. Their events are valid for good.
 */
export function parseCallsFast(request: IngestRequest, newMessageId: () => string): RequestCalls | undefined {
  const { body, type } = request;
  if (!isUtf8(body)) return undefined;
  encoder ??= new Encoder();
  let length = body.length;
  while (length > 0 && BLANKS.includes(body[length - 1]!)) length--;
  if (type !== 'batch') {
    if (!encoder.scanOne(body, length)) return undefined;
    const envelope = singleEnvelope({ request, text: '', newMessageId });
    return callsOf(encoder, envelope, { ...NOTHING_SHARED, times: timesOf(envelope) });
  }
  const list = encoder.scanBatch(body, length);
  if (list === undefined) return undefined;
  try {
    const around: Json = JSON.parse(textAround(body, list));
    if (!isObject(around)) return undefined;
    const envelope = batchEnvelope(around, { request, text: '', newMessageId });
    if (typeof envelope === 'string') return undefined;
    const shared = sharedFieldsOf(envelope);
    return shared && callsOf(encoder, envelope, shared, writeKeyOf(around));
  } catch (error) {
    // The body is no JSON after all, or too deep to be written. Parsing it as a whole will tell.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** One for the whole process: a body is read in one go. */
let encoder: Encoder | undefined;

/** Loads the WebAssembly module, so that a program without its file fails when it starts and not at its first call. */
export function loadEncoder(): void {
  encoder ??= new Encoder();
}

/** The blanks that JSON allows around values: space, tab, line feed, carriage return. */
const BLANKS = [0x20, 0x09, 0x0a, 0x0d];

/** The body without its calls. */
function textAround(body: Buffer, { from, to }: { readonly from: number; readonly to: number }): string {
  return `${body.toString('utf8', 0, from)}[]${body.toString('utf8', to)}`;
}

const NOTHING_SHARED: Omit<SharedFields, 'times'> = {
  context: Buffer.from('"context":{}'),
  mergesContext: false,
  integrations: Buffer.from('"integrations":{}'),
  mergesIntegrations: false,
  hasIntegrations: false,
  channel: Buffer.from('"channel":"server"'),
};

/** Undefined when the lines need more than copies of them. */
function sharedFieldsOf(envelope: Envelope): SharedFields | undefined {
  const { context, integrations } = envelope;
  if (context === undefined && integrations === undefined)
    return { ...NOTHING_SHARED, times: timesOf(envelope) };
  const json = JSON.stringify([context ?? {}, integrations ?? {}]);
  if (context !== undefined && ('direct' in context || 'integrations' in context)) return undefined;
  if (isTooDeep(json)) return undefined;
  return {
    context: Buffer.from(`"context":${JSON.stringify(context ?? {})}`),
    mergesContext: context !== undefined,
    integrations: Buffer.from(`"integrations":${JSON.stringify(integrations ?? {})}`),
    mergesIntegrations: integrations !== undefined,
    hasIntegrations: integrations !== undefined && Object.keys(integrations).length > 0,
    channel: Buffer.from(`"channel":${JSON.stringify(channelOf(undefined, context ?? {}))}`),
    times: timesOf(envelope),
  };
}

function timesOf({ sentAtText, receivedAtText }: Envelope): Buffer {
  const sentAt = sentAtText === undefined ? '' : `","sentAt":"${sentAtText}`;
  return Buffer.from(`${sentAt}","receivedAt":"${receivedAtText}"`);
}

/** The calls of a body, read with `JSON.parse` where they are not canonical. Throws a `SyntaxError` for invalid JSON. */
function callsOf(
  encoder: Encoder,
  envelope: Envelope,
  shared: SharedFields,
  sharedKey?: string,
): RequestCalls | undefined {
  if (!encoder.hasRoom(shared)) return undefined;
  const calls = new EncodedCalls(encoder, envelope, shared, sharedKey);
  if (encoder.nonCanonicalCalls > 0) {
    for (let index = 0; index < calls.length; index++)
      if (encoder.isNotCanonical(index)) calls.valueOf(index);
  }
  return calls;
}

class EncodedCalls implements RequestCalls {
  readonly envelope: Envelope;
  readonly length: number;
  readonly sharedKey: string | undefined;
  readonly #encoder: Encoder;
  readonly #shared: SharedFields;
  /** Written when the first call is accepted. */
  #lines: readonly (EventLine | undefined)[] | undefined;
  /** The calls that had to be parsed, with their text. */
  #parsed: Map<number, ParsedCall> | undefined;

  constructor(encoder: Encoder, envelope: Envelope, shared: SharedFields, sharedKey: string | undefined) {
    this.envelope = envelope;
    this.length = encoder.calls;
    this.sharedKey = sharedKey;
    this.#encoder = encoder;
    this.#shared = shared;
  }

  keyOf(index: number): string | undefined {
    return this.#encoder.hasWriteKey(index) ? writeKeyOf(this.valueOf(index)) : undefined;
  }

  accept(index: number, source: Source): AcceptedEvent | DiscardReason {
    const { envelope } = this;
    this.#lines ??= this.#encoder.encode(envelope, this.#shared);
    const line = this.#lines[index];
    if (line !== undefined) {
      if (line.isSkewed) envelope.clock.skewed++;
      return new AcceptedEvent(source, line);
    }
    const { value, text } = this.#parse(index);
    return acceptValue(value, source, { ...envelope, numbers: new NumberLiterals(text) });
  }

  valueOf(index: number): Json {
    return this.#parse(index).value;
  }

  #parse(index: number): ParsedCall {
    this.#parsed ??= new Map();
    let parsed = this.#parsed.get(index);
    if (parsed === undefined) {
      const text = this.#encoder.textOf(index);
      parsed = { value: JSON.parse(text), text };
      this.#parsed.set(index, parsed);
    }
    return parsed;
  }
}

interface ParsedCall {
  readonly value: Json;
  readonly text: string;
}
