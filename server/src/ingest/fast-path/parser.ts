import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { CALL_TYPES } from '../../model/event.ts';
import { MAX_ID_LENGTH } from '../../model/ids.ts';
import { isObject, type Json, type JsonObject } from '../../model/json.ts';
import { channelOf, isClientLibrary } from '../../model/libraries.ts';
import type { Source } from '../../model/settings.ts';
import type { IngestRequest } from '../../ports/ingest.ts';
import { type AddressWish, addressWishOf, callerAddress } from '../address.ts';
import { isHeldByDouble, parseJson } from '../body.ts';
import {
  AcceptedEvent,
  acceptValue,
  type EventLine,
  MESSAGE_ID_OFFSET,
  type RequestCalls,
  writeKeyOf,
} from '../calls.ts';
import { batchEnvelope, type DiscardReason, type Envelope, singleEnvelope } from '../envelope.ts';
import { isTooDeep, MAX_BATCH_CALL_BYTES, MAX_BATCH_CALLS, MAX_MESSAGE_ID_LENGTH } from '../limits.ts';
import { readTime } from '../times.ts';
import { CHANNELS, DESCRIPTOR, FIELD_NAMES, IN_BATCH, MARK_BITS } from './layout.ts';

/**
 * Reads the calls of a body that is canonical JSON, as most libraries send it, without parsing them.
 * Undefined for every other body: `parseCalls` reads it, and only `parseCalls` finds out what is wrong with
 * one.
 *
 * The calls are valid until the next body is read, because the encoder has one memory. Their events are valid
 * for good.
 */
export function parseCallsFast(request: IngestRequest, newMessageId: () => string): RequestCalls | undefined {
  const { body, type } = request;
  // The address of an image's sender goes into every call, whatever its library: `withAddress` knows.
  if (!isUtf8(body) || request.isFromBrowser === true) return undefined;
  encoder ??= new Encoder();
  let length = body.length;
  while (length > 0 && BLANKS.includes(body[length - 1]!)) length--;
  if (type !== 'batch') {
    if (!encoder.scanOne(body, length)) return undefined;
    const envelope = singleEnvelope({ request, newMessageId });
    return callsOf(encoder, envelope, { ...NOTHING_SHARED, times: timesOf(envelope) });
  }
  const list = encoder.scanBatch(body, length);
  if (list === undefined) return undefined;
  try {
    const { value: around, numbersAsText } = parseJson(textAround(body, list));
    if (!isObject(around)) return undefined;
    const envelope = batchEnvelope(around, { request, newMessageId });
    if (typeof envelope === 'string') return undefined;
    envelope.changes.add('numbers_as_text', numbersAsText);
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

/**
 * Loads the WebAssembly module, so that a program without its file fails when it starts and not at its first
 * call.
 */
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
  if (context !== undefined && !isStoredAsItIs(context)) return undefined;
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

/**
 * Whether the context of a batch goes into its events without a look at each: no address may be added to it
 * or taken from it.
 */
function isStoredAsItIs(context: JsonObject): boolean {
  return !('direct' in context || 'ip' in context || 'integrations' in context || isClientLibrary(context));
}

function timesOf({ sentAtText, receivedAtText }: Envelope): Buffer {
  const sentAt = sentAtText === undefined ? '' : `","sentAt":"${sentAtText}`;
  return Buffer.from(`${sentAt}","receivedAt":"${receivedAtText}"`);
}

/**
 * The calls of a body, read with `JSON.parse` where they are not canonical. Throws a `SyntaxError` for
 * invalid JSON.
 */
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
  /** Written when the first call is accepted, as its source wants addresses. */
  #lines: readonly (EventLine | undefined)[] | undefined;
  #wish: AddressWish | undefined;
  /** The calls that had to be parsed. */
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
    const wish = addressWishOf(source);
    this.#wish ??= wish;
    this.#lines ??= this.#encoder.encode(envelope, this.#shared, wish);
    const line = this.#lines[index];
    if (line !== undefined && wish === this.#wish) {
      if (line.isSkewed) envelope.changes.note('skewed_clocks');
      return new AcceptedEvent(source, line);
    }
    const { value, numbersAsText } = this.#parse(index);
    envelope.changes.add('numbers_as_text', numbersAsText);
    return acceptValue(value, source, envelope);
  }

  valueOf(index: number): Json {
    return this.#parse(index).value;
  }

  #parse(index: number): ParsedCall {
    this.#parsed ??= new Map();
    let parsed = this.#parsed.get(index);
    if (parsed === undefined) {
      parsed = parseJson(this.#encoder.textOf(index));
      this.#parsed.set(index, parsed);
    }
    return parsed;
  }
}

type ParsedCall = ReturnType<typeof parseJson>;

/**
 * Runs the WebAssembly module compiled from `assembly/`. The module scans the bytes of a body and writes the
 * lines of its events from pieces of them. It has one memory, which the next body overwrites: a scan is used
 * up before the next one begins.
 */

const { CALL_FROM, CALL_TO, MARKS, LINE_FROM, LINE_TO, ID_TO, USER_FROM, USER_TO } = DESCRIPTOR;
const { HAS_WRITE_KEY, NON_CANONICAL, ENCODED, NO_INTEGRATIONS, SKEWED, ESCAPED_USER } = MARK_BITS;
const DESCRIPTOR_WORDS = Object.keys(DESCRIPTOR).length;

/**
 * Bytes that the module may read or write behind the end of a body and of the lines. Behind a body they must
 * be zeros.
 */
const PADDING = 64;

/**
 * Larger bodies, and bodies whose lines might be larger, go to `JSON.parse`: the memory of the module is
 * never given back.
 */
const MAX_BODY_BYTES = 1024 * 1024;
const MAX_LINES_BYTES = 8 * 1024 * 1024;

/** Bytes of field index for each byte of a call. The shortest field, `"a":1,` of 6 bytes, takes 12. */
const INDEX_BYTES = 2;
const MIN_INDEX_BYTES = 16 * 1024;

/**
 * Bytes that a line may have more than its call, beside the shared fields: names of fields, four times, an
 * assigned id, an address.
 */
const MAX_ADDED_BYTES = 460;

const PAGE_BYTES = 65_536;

/** The fields that a batch shares with its calls, with their names: `"context":{…}`. */
interface SharedFields {
  readonly context: Buffer;
  /** A call's own context must be merged with this one. */
  readonly mergesContext: boolean;
  readonly integrations: Buffer;
  readonly mergesIntegrations: boolean;
  /** Whether the integrations have any key. */
  readonly hasIntegrations: boolean;
  readonly channel: Buffer;
  /** `receivedAt`, behind `sentAt` where the batch has one, without the first quote. */
  readonly times: Buffer;
}

/** The types that come with Node do not have it. */
declare const WebAssembly: {
  readonly Module: new (code: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown };
};

interface WasmGlobal {
  readonly value: number;
}

interface EncoderExports {
  readonly memory: { readonly buffer: ArrayBuffer; readonly grow: (pages: number) => number };
  readonly DESCRIPTORS: WasmGlobal;
  readonly PIECES: WasmGlobal;
  readonly calls: WasmGlobal;
  readonly nonCanonicalCalls: WasmGlobal;
  readonly listFrom: WasmGlobal;
  readonly listTo: WasmGlobal;
  readonly setLimits: (calls: number, call: number, messageId: number, id: number) => number;
  readonly clearNames: () => void;
  readonly nameAddress: (name: number) => number;
  readonly registerName: (name: number, length: number) => number;
  readonly scanOne: (body: number, fieldIndex: number) => number;
  readonly scanBatch: (body: number, limit: number, fieldIndex: number) => number;
  readonly setRequest: (type: number, receivedAt: number, sentAt: number) => void;
  readonly setShared: (mergesContext: boolean, mergesIntegrations: boolean, hasIntegrations: boolean) => void;
  readonly setAddress: (keeps: boolean, fills: boolean) => void;
  readonly encode: (fieldIndex: number, lines: number) => number;
}

class Encoder {
  readonly #exports: EncoderExports;
  /** Address of the body. */
  readonly #body: number;
  /** Index of the first descriptor among `#words`. */
  readonly #descriptors: number;
  #bytes: Buffer;
  #words: Uint32Array;
  /** Address of the field index of the body. */
  #fieldIndex = 0;
  /** The highest address at which the field index may end. */
  #fieldIndexEnd = 0;
  /** Bytes of the body. */
  #size = 0;
  #newMessageId: () => string = () => '';
  #address: () => string | undefined = () => undefined;
  /** Result of `#address` as the last field of a context; undefined until a call needs it. */
  #addressField: string | undefined;

  constructor() {
    const code = readFileSync(new URL('encoder.wasm', import.meta.url));
    const host = {
      isCanonicalNumber: (from: number, to: number) =>
        isCanonicalNumber(this.#bytes.toString('latin1', from, to)),
      parseTime: (from: number, to: number) => readTime(this.#bytes.toString('latin1', from, to)),
      channelOf: (from: number, to: number) => channelNumber(this.#bytes.toString('utf8', from, to)),
      addAddress: (end: number) => this.#addAddress(end),
      newMessageId: (at: number) => this.#bytes.write(this.#newMessageId(), at, 'latin1'),
    };
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code), { host });
    this.#exports = exports as EncoderExports;
    this.#bytes = Buffer.from(this.#exports.memory.buffer);
    this.#words = new Uint32Array(this.#exports.memory.buffer);
    this.#body = this.#exports.setLimits(
      MAX_BATCH_CALLS,
      MAX_BATCH_CALL_BYTES,
      MAX_MESSAGE_ID_LENGTH,
      MAX_ID_LENGTH,
    );
    this.#descriptors = this.#exports.DESCRIPTORS.value / 4;
    this.#registerNames();
  }

  /** Whether the first `length` bytes of a body are one canonical call. */
  scanOne(body: Buffer, length: number): boolean {
    if (!this.#load(body)) return false;
    return this.#exports.scanOne(this.#body, this.#fieldIndex) === this.#body + length;
  }

  /**
   * Offsets of the list of calls in the body; undefined when the first `length` bytes have no canonical one.
   */
  scanBatch(body: Buffer, length: number): { readonly from: number; readonly to: number } | undefined {
    if (!this.#load(body)) return undefined;
    const { scanBatch, listFrom, listTo } = this.#exports;
    if (scanBatch(this.#body, this.#body + length, this.#fieldIndex) === 0) return undefined;
    return { from: listFrom.value - this.#body, to: listTo.value - this.#body };
  }

  /** How many calls the scanned body has. */
  get calls(): number {
    return this.#exports.calls.value;
  }

  /** How many of them are not canonical. They may even be no JSON: `JSON.parse` must look at each. */
  get nonCanonicalCalls(): number {
    return this.#exports.nonCanonicalCalls.value;
  }

  isNotCanonical(index: number): boolean {
    return (this.#descriptor(index, MARKS) & NON_CANONICAL) !== 0;
  }

  /** Whether the call may carry a write key. */
  hasWriteKey(index: number): boolean {
    return (this.#descriptor(index, MARKS) & HAS_WRITE_KEY) !== 0;
  }

  /** The text of one call of the scanned body. */
  textOf(index: number): string {
    return this.#bytes.toString('utf8', this.#descriptor(index, CALL_FROM), this.#descriptor(index, CALL_TO));
  }

  /** Whether memory has room for the lines of all calls. It grows when needed. */
  hasRoom({ context, integrations, channel, times }: SharedFields): boolean {
    const pieces = context.length + integrations.length + channel.length + times.length;
    const lines = this.#size + this.calls * (MAX_ADDED_BYTES + context.length + integrations.length);
    return lines <= MAX_LINES_BYTES && this.#grow(this.#fieldIndexEnd + pieces + lines + PADDING);
  }

  /**
   * The lines of the scanned calls, by index, all in one new buffer with a line feed behind each; undefined
   * for a call that must be parsed. Call it only after `hasRoom` has said yes.
   */
  encode(envelope: Envelope, shared: SharedFields, wish: AddressWish): readonly (EventLine | undefined)[] {
    const { setRequest, setShared, setAddress, encode } = this.#exports;
    const type = envelope.type === 'batch' ? IN_BATCH : CALL_TYPES.indexOf(envelope.type);
    setRequest(type, envelope.receivedAt, envelope.sentAt);
    setShared(shared.mergesContext, shared.mergesIntegrations, shared.hasIntegrations);
    setAddress(wish.keepsOwn, wish.fills);
    this.#newMessageId = envelope.newMessageId;
    this.#address = () => callerAddress(envelope, wish);
    this.#addressField = undefined;
    const from = this.#putPieces(shared);
    const to = encode(this.#fieldIndex, from);
    const bytes = Buffer.allocUnsafe(to - from);
    this.#bytes.copy(bytes, 0, from, to);
    const { calls } = this;
    const lines: (EventLine | undefined)[] = [];
    for (let index = 0; index < calls; index++) lines.push(this.#lineOf(index, bytes, from));
    return lines;
  }

  /** `start`: the address in memory of the first of these bytes. */
  #lineOf(index: number, bytes: Buffer, start: number): EventLine | undefined {
    const marks = this.#descriptor(index, MARKS);
    if ((marks & ENCODED) === 0) return undefined;
    const from = this.#descriptor(index, LINE_FROM) - start;
    const userTo = this.#descriptor(index, USER_TO);
    return {
      bytes,
      from,
      to: this.#descriptor(index, LINE_TO) - start,
      idFrom: from + MESSAGE_ID_OFFSET,
      idTo: this.#descriptor(index, ID_TO) - start,
      userFrom: userTo === 0 ? 0 : this.#descriptor(index, USER_FROM) - start,
      userTo: userTo === 0 ? 0 : userTo - start,
      isUserEscaped: (marks & ESCAPED_USER) !== 0,
      hasNoIntegrations: (marks & NO_INTEGRATIONS) !== 0,
      isSkewed: (marks & SKEWED) !== 0,
    };
  }

  /**
   * Writes the address of the caller into the context that ends before `end`; gives how many bytes it has
   * added.
   */
  #addAddress(end: number): number {
    if (this.#addressField === undefined) {
      const address = this.#address();
      this.#addressField = address === undefined ? '}' : `,"ip":"${address}"}`;
    }
    return this.#bytes.write(this.#addressField, end - 1, 'latin1') - 1;
  }

  #descriptor(index: number, word: number): number {
    return this.#words[this.#descriptors + index * DESCRIPTOR_WORDS + word]!;
  }

  /** Copies a body into memory; false when it is too large. */
  #load(body: Buffer): boolean {
    const size = body.length;
    if (size > MAX_BODY_BYTES) return false;
    const fieldIndex = (this.#body + size + PADDING + 3) & ~3;
    const fieldIndexEnd = fieldIndex + size * INDEX_BYTES + MIN_INDEX_BYTES;
    if (!this.#grow(fieldIndexEnd)) return false;
    this.#bytes.set(body, this.#body);
    this.#bytes.fill(0, this.#body + size, this.#body + size + PADDING);
    this.#size = size;
    this.#fieldIndex = fieldIndex;
    this.#fieldIndexEnd = fieldIndexEnd;
    return true;
  }

  /**
   * Writes the shared fields behind the field index, and their addresses to `PIECES`; gives the address
   * behind them.
   */
  #putPieces({ context, integrations, channel, times }: SharedFields): number {
    let word = this.#exports.PIECES.value / 4;
    let at = this.#fieldIndexEnd;
    // In the order of `PIECE`.
    for (const bytes of [context, integrations, channel, times]) {
      this.#bytes.set(bytes, at);
      this.#words[word++] = at;
      at += bytes.length;
      this.#words[word++] = at;
    }
    return at;
  }

  /** Grows memory up to an address; false when the machine has no more. */
  #grow(address: number): boolean {
    const missing = address - this.#bytes.length;
    if (missing <= 0) return true;
    const { memory } = this.#exports;
    try {
      memory.grow(Math.ceil(missing / PAGE_BYTES));
    } catch {
      return false;
    }
    this.#bytes = Buffer.from(memory.buffer);
    this.#words = new Uint32Array(memory.buffer);
    return true;
  }

  #registerNames(): void {
    const { clearNames, nameAddress, registerName } = this.#exports;
    clearNames();
    for (const [number, name] of Object.values(FIELD_NAMES).entries()) {
      if (name === undefined) continue;
      this.#bytes.write(name, nameAddress(number), 'latin1');
      if (registerName(number, name.length) === 0) throw new Error(`two names share the slot of ${name}`);
    }
  }
}

function isCanonicalNumber(text: string): number {
  return String(Number(text)) === text && isHeldByDouble(text) ? 1 : 0;
}

function channelNumber(library: string): number {
  return CHANNELS.indexOf(channelOf(undefined, { library: JSON.parse(library) }));
}
