import { isUtf8 } from 'node:buffer';
import { isObject, type Json } from '../model/json.ts';
import type { Source } from '../model/source.ts';
import type { CallRequest } from '../ports/receiver.ts';
import { type AcceptedEvent, acceptedLine } from './accepted.ts';
import { acceptValue, type Calls } from './calls.ts';
import { channelOf } from './channel.ts';
import { type Envelope, envelopeOf, envelopeOfBatch } from './envelope.ts';
import { WrittenNumbers } from './identifiers.ts';
import { isTooDeep } from './nesting.ts';
import type { DiscardReason } from './reasons.ts';
import { type Inherited, Scribe } from './scribe.ts';
import { ownKey } from './standing.ts';

/**
 * The calls of a body that is canonical JSON, as most libraries send it, without parsing them. `undefined` when the body is
 * left to `parsedCalls`: what is wrong with a request is found out there and nowhere else.
 *
 * What this gives is to be used up before the next body is read.
 */
export function scannedCalls(request: CallRequest, newMessageId: () => string): Calls | undefined {
  const { body, type } = request;
  if (!isUtf8(body)) return undefined;
  scribe ??= new Scribe();
  let length = body.length;
  while (length > 0 && BLANKS.includes(body[length - 1]!)) length--;
  if (type !== 'batch') {
    if (!scribe.scanOne(body, length)) return undefined;
    const envelope = envelopeOf({ request, text: '', newMessageId });
    return callsOf(scribe, envelope, { ...NOTHING, times: timesOf(envelope) });
  }
  const list = scribe.scanBatch(body, length);
  if (list === undefined) return undefined;
  try {
    const around: Json = JSON.parse(textAround(body, list));
    if (!isObject(around)) return undefined;
    const envelope = envelopeOfBatch(around, { request, text: '', newMessageId });
    if (typeof envelope === 'string') return undefined;
    const inherited = inheritedFrom(envelope);
    return inherited && callsOf(scribe, envelope, inherited, ownKey(around));
  } catch (error) {
    // Not JSON after all, or too deep to be written; parsing the whole body will tell.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** One for the whole process: a body is read without a pause. */
let scribe: Scribe | undefined;

/** Loads what scanning needs, so that a program whose files are not all there fails when it starts and not at its first call. */
export function prepareScanning(): void {
  scribe ??= new Scribe();
}

/** What JSON allows around values: space, tab, line feed, carriage return. */
const BLANKS = [0x20, 0x09, 0x0a, 0x0d];

/** The body without its calls. */
function textAround(body: Buffer, { from, to }: { readonly from: number; readonly to: number }): string {
  return `${body.toString('utf8', 0, from)}[]${body.toString('utf8', to)}`;
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

/** Throws a `SyntaxError` when a call that is not canonical is no JSON either. */
function callsOf(
  scribe: Scribe,
  envelope: Envelope,
  inherited: Inherited,
  sharedKey?: string,
): Calls | undefined {
  if (!scribe.hasRoom(inherited)) return undefined;
  const calls = new ScannedCalls(scribe, envelope, inherited, sharedKey);
  if (scribe.oddCalls > 0) {
    for (let index = 0; index < calls.length; index++) if (scribe.isOdd(index)) calls.valueOf(index);
  }
  return calls;
}

class ScannedCalls implements Calls {
  readonly envelope: Envelope;
  readonly length: number;
  readonly sharedKey: string | undefined;
  readonly #scribe: Scribe;
  readonly #inherited: Inherited;
  #lines: Buffer | undefined;
  /** Calls that had to be parsed, with what they were written as. */
  #parsed: Map<number, { readonly value: Json; readonly text: string }> | undefined;

  constructor(scribe: Scribe, envelope: Envelope, inherited: Inherited, sharedKey: string | undefined) {
    this.envelope = envelope;
    this.length = scribe.calls;
    this.sharedKey = sharedKey;
    this.#scribe = scribe;
    this.#inherited = inherited;
  }

  keyOf(index: number): string | undefined {
    return this.#scribe.isKeyed(index) ? ownKey(this.valueOf(index)) : undefined;
  }

  accept(index: number, source: Source): AcceptedEvent | DiscardReason {
    const { envelope } = this;
    this.#lines ??= this.#scribe.transcribe(envelope, this.#inherited);
    const transcribed = this.#scribe.transcribed(index, this.#lines);
    if (transcribed !== undefined) {
      if (transcribed.isSkewed) envelope.clock.skewed++;
      return acceptedLine(source, transcribed);
    }
    const { value, text } = this.#parse(index);
    return acceptValue(value, source, { ...envelope, written: new WrittenNumbers(text) });
  }

  valueOf(index: number): Json {
    return this.#parse(index).value;
  }

  #parse(index: number): { readonly value: Json; readonly text: string } {
    this.#parsed ??= new Map();
    let parsed = this.#parsed.get(index);
    if (parsed === undefined) {
      const text = this.#scribe.textOf(index);
      parsed = { value: JSON.parse(text), text };
      this.#parsed.set(index, parsed);
    }
    return parsed;
  }
}
