import { isUtf8 } from 'node:buffer';
import { isObject, type Json } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import type { CallRequest } from '../ports/receiver.ts';
import type { AcceptedEvent } from './accepted.ts';
import { acceptValue, type Calls, MOST_CALLS } from './calls.ts';
import { CLOSE_OBJECT, COMMA, endOfAny, endOfKey, NOWHERE, OPEN_OBJECT } from './canonical.ts';
import { channelOf } from './channel.ts';
import { type Envelope, envelopeOf, envelopeOfBatch } from './envelope.ts';
import { WrittenNumbers } from './identifiers.ts';
import { Lines } from './lines.ts';
import { isTooDeep } from './nesting.ts';
import type { DiscardReason } from './reasons.ts';
import {
  RECORD_FROM,
  RECORD_HEAD,
  RECORD_KEYED,
  RECORD_LENGTH,
  RECORD_TO,
  type Scanned,
  scanCall,
  scanCalls,
} from './scan.ts';
import { ownKey } from './standing.ts';
import { type Inherited, type Manuscript, MOST_ADDED, transcribe } from './transcribe.ts';

/**
 * The calls of a body that is canonical JSON, as most libraries send it, without parsing them. `undefined` when the body is
 * left to `parsedCalls`: what is wrong with a request is found out there and nowhere else.
 *
 * What this gives is to be used up before the next body is read.
 */
export function scannedCalls(request: CallRequest, newMessageId: () => string): Calls | undefined {
  const { body, type } = request;
  if (!isUtf8(body)) return undefined;
  let length = body.length;
  while (length > 0 && BLANKS.includes(body[length - 1]!)) length--;
  if (type !== 'batch') {
    const scanned = scanCall(body, 0);
    if (scanned?.end !== length) return undefined;
    const envelope = envelopeOf({ request, text: '', newMessageId });
    const inherited = { ...NOTHING, times: timesOf(envelope) };
    const { records } = scanned;
    return new ScannedCalls(scanned, { bytes: body, records, envelope, inherited });
  }
  const batch = findBatch(body, length);
  if (batch === undefined) return undefined;
  try {
    const around: Json = JSON.parse(textAround(body, batch));
    if (!isObject(around)) return undefined;
    const envelope = envelopeOfBatch(around, { request, text: '', newMessageId });
    if (typeof envelope === 'string') return undefined;
    const inherited = inheritedFrom(envelope);
    if (inherited === undefined) return undefined;
    const { scanned } = batch;
    const { records } = scanned;
    return new ScannedCalls(scanned, { bytes: body, records, envelope, inherited }, ownKey(around));
  } catch (error) {
    // Not JSON after all, or too deep to be written; parsing the whole body will tell.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** What JSON allows around values: space, tab, line feed, carriage return. */
const BLANKS = [0x20, 0x09, 0x0a, 0x0d];

const BATCH = Buffer.from('"batch":');

/** Where the list of calls is, and what is in it. The fields around it are only stepped over. */
function findBatch(body: Buffer, length: number): { at: number; scanned: Scanned } | undefined {
  if (body[0] !== OPEN_OBJECT) return undefined;
  let batch: { at: number; scanned: Scanned } | undefined;
  let at = 0;
  do {
    const key = at + 1;
    const value = endOfKey(body, key, 0, 0);
    if (value === NOWHERE) return undefined;
    if (value - key === BATCH.length && body.compare(BATCH, 0, BATCH.length, key, value) === 0) {
      // A second list of this name would count, and not the first.
      const scanned = batch === undefined ? scanCalls(body, value, MOST_CALLS) : undefined;
      if (scanned === undefined) return undefined;
      batch = { at: value, scanned };
      at = scanned.end;
    } else {
      at = endOfAny(body, value);
      if (at === NOWHERE) return undefined;
    }
  } while (body[at] === COMMA);
  return body[at] === CLOSE_OBJECT && at === length - 1 ? batch : undefined;
}

/** The body without its calls. */
function textAround(body: Buffer, { at, scanned }: { at: number; scanned: Scanned }): string {
  return `${body.toString('utf8', 0, at)}[]${body.toString('utf8', scanned.end)}`;
}

const NOTHING: Omit<Inherited, 'times'> = {
  context: Buffer.from('"context":{}'),
  mergesContext: false,
  integrations: Buffer.from('"integrations":{}'),
  mergesIntegrations: false,
  hasIntegrations: false,
  channel: Buffer.from('"channel":"server"'),
};

/** `undefined` when it needs more than copying. */
function inheritedFrom(envelope: Envelope): Inherited | undefined {
  const { context, integrations } = envelope;
  if (context === undefined && integrations === undefined) return { ...NOTHING, times: timesOf(envelope) };
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

const FIRST = Int32Array.of(0);

class ScannedCalls implements Calls {
  readonly envelope: Envelope;
  readonly length: number;
  readonly sharedKey: string | undefined;
  readonly #manuscript: Manuscript;
  /** Where the record of each call begins. */
  readonly #places: Int32Array;
  #lines: Lines | undefined;
  /** Calls that had to be parsed, with what they were written as. */
  #parsed: Map<number, { readonly value: Json; readonly text: string }> | undefined;

  /** Throws a `SyntaxError` when a call that is not canonical is no JSON either. */
  constructor({ records, calls }: Scanned, manuscript: Manuscript, sharedKey?: string) {
    this.envelope = manuscript.envelope;
    this.length = calls;
    this.sharedKey = sharedKey;
    this.#manuscript = manuscript;
    this.#places = calls === 1 ? FIRST : new Int32Array(calls);
    for (let index = 0, place = 0; index < calls; index++) {
      this.#places[index] = place;
      if (records[place + RECORD_LENGTH] === RECORD_HEAD) this.#parse(index);
      place += records[place + RECORD_LENGTH]!;
    }
  }

  keyOf(index: number): string | undefined {
    const { records } = this.#manuscript;
    return records[this.#places[index]! + RECORD_KEYED] === 1 ? ownKey(this.valueOf(index)) : undefined;
  }

  accept(index: number, source: Source): AcceptedEvent | DiscardReason {
    this.#lines ??= new Lines(this.#mostBytes());
    const event = transcribe(this.#manuscript, this.#places[index]!, source, this.#lines);
    if (event !== undefined) return event;
    const { value, text } = this.#parse(index);
    return acceptValue(value, source, { ...this.envelope, written: new WrittenNumbers(text) });
  }

  valueOf(index: number): Json {
    return this.#parse(index).value;
  }

  /** How much room the lines of all calls need at most. */
  #mostBytes(): number {
    const { bytes, inherited } = this.#manuscript;
    return (
      bytes.length + this.length * (MOST_ADDED + inherited.context.length + inherited.integrations.length)
    );
  }

  #parse(index: number): { readonly value: Json; readonly text: string } {
    this.#parsed ??= new Map();
    let parsed = this.#parsed.get(index);
    if (parsed === undefined) {
      const { records, bytes } = this.#manuscript;
      const place = this.#places[index]!;
      const own = bytes.toString('utf8', records[place + RECORD_FROM], records[place + RECORD_TO]);
      parsed = { value: JSON.parse(own), text: own };
      this.#parsed.set(index, parsed);
    }
    return parsed;
  }
}
