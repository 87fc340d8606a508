import { readFileSync } from 'node:fs';
import { CALL_TYPES } from '../../model/call.ts';
import { MAX_MESSAGE_ID_LENGTH } from '../identifiers.ts';
import { MAX_BATCH_CALL_BYTES, MAX_BATCH_CALLS } from '../limits.ts';
import type { Envelope } from '../normalize.ts';
import { channelOf } from '../normalize.ts';
import { readTime } from '../timestamps.ts';

/**
 * The part of receiving that is WebAssembly, compiled from `assembly/`: it scans the bytes of a body, and writes the lines
 * of its events from pieces of them. It has one memory, used again for every body: what it says is to be read before the next
 * one comes. Reading never waits, so nobody gets in between.
 */

/** The names it recognises, in the order of `server/src/ingest/fast-path/assembly/names.ts`; `undefined` where a number is no name. */
const NAMES = [
  ...['messageId', 'type', 'channel', 'userId', 'anonymousId', 'previousId', 'groupId', 'event'],
  ...['name', 'category', 'properties', 'traits', 'context', 'integrations', 'timestamp'],
  ...['originalTimestamp', 'sentAt', 'receivedAt', 'writeKey', undefined, 'library', 'direct', 'batch'],
];

/** All that `channelOf` can say of a library, in the order of `server/src/ingest/fast-path/assembly/library.ts`. */
const CHANNELS = ['server', 'browser', 'mobile'];

/** In place of the type of a single call. */
const IN_BATCH = -1;

/** What is said of each call, as places among eight numbers: `server/src/ingest/fast-path/assembly/accounts.ts`. */
const DESCRIPTOR_WORDS = 8;
const CALL_FROM = 0;
const CALL_TO = 1;
const MARKS = 2;
const LINE_FROM = 3;
const LINE_TO = 4;
const ID_TO = 5;
const USER_FROM = 6;
const USER_TO = 7;
const HAS_WRITE_KEY = 1;
const NON_CANONICAL = 2;
const ENCODED = 4;
const NO_INTEGRATIONS = 8;
const SKEWED = 16;
const ESCAPED_USER = 32;

/** Bytes that may be touched behind the end of a body or of the lines, and that are zeros behind a body. */
const PADDING = 64;

/** Larger bodies are left to `JSON.parse`, and those whose lines might be larger: this memory is never given back. */
const MAX_BODY_BYTES = 1024 * 1024;
const MAX_LINES_BYTES = 8 * 1024 * 1024;

/** Bytes of a record for each byte of a call: `"a":1,` takes 12. What is shorter has no field, and there are few calls. */
const RECORD_BYTES = 2;
const MIN_RECORDS_BYTES = 16 * 1024;

/** Bytes a line may have that its call has not, beside what is inherited: names of fields, four times, an assigned id. */
const MAX_ADDED_BYTES = 400;

const PAGE_BYTES = 65_536;

/** Whole fields, `"context":{…}`. `merges`: a call's own must be merged with what its batch shares. */
export interface SharedFields {
  readonly context: Buffer;
  readonly mergesContext: boolean;
  readonly integrations: Buffer;
  readonly mergesIntegrations: boolean;
  /** Whether there is any word in them. */
  readonly hasIntegrations: boolean;
  readonly channel: Buffer;
  /** The time of arrival, behind that of sending where the batch has one, from the quote before it to the one behind it. */
  readonly times: Buffer;
}

/** Where the line of one call stands, and what is known of it. */
export interface EncodedEvent {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
  /** Where its messageId ends. */
  readonly idTo: number;
  /** Where its userId begins and ends; 0 where it has none. */
  readonly userFrom: number;
  readonly userTo: number;
  readonly isUserEscaped: boolean;
  readonly isUndirected: boolean;
  readonly isSkewed: boolean;
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
  readonly setLimits: (calls: number, item: number, messageId: number) => number;
  readonly clearNames: () => void;
  readonly nameAddress: (name: number) => number;
  readonly registerName: (name: number, length: number) => number;
  readonly scanOne: (body: number, records: number) => number;
  readonly scanBatch: (body: number, limit: number, records: number) => number;
  readonly setRequest: (type: number, receivedAt: number, sentAt: number) => void;
  readonly setShared: (mergesContext: boolean, mergesIntegrations: boolean, hasIntegrations: boolean) => void;
  readonly encode: (records: number, lines: number) => number;
}

export class Encoder {
  readonly #exports: EncoderExports;
  /** Where a body is put. */
  readonly #body: number;
  readonly #descriptors: number;
  #bytes: Buffer;
  #words: Uint32Array;
  /** Where the records of the body are. */
  #records = 0;
  /** Where they end at most. */
  #behind = 0;
  #size = 0;
  #newMessageId: () => string = () => '';

  constructor() {
    const code = readFileSync(new URL('encoder.wasm', import.meta.url));
    const host = {
      isCanonicalNumber: (from: number, to: number) =>
        isCanonicalNumber(this.#bytes.toString('latin1', from, to)),
      parseTime: (from: number, to: number) => readTime(this.#bytes.toString('latin1', from, to)),
      channelOf: (from: number, to: number) => channelNumber(this.#bytes.toString('utf8', from, to)),
      newMessageId: (at: number) => this.#bytes.write(this.#newMessageId(), at, 'latin1'),
    };
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code), { host });
    this.#exports = exports as EncoderExports;
    this.#bytes = Buffer.from(this.#exports.memory.buffer);
    this.#words = new Uint32Array(this.#exports.memory.buffer);
    this.#body = this.#exports.setLimits(MAX_BATCH_CALLS, MAX_BATCH_CALL_BYTES, MAX_MESSAGE_ID_LENGTH);
    this.#descriptors = this.#exports.DESCRIPTORS.value / 4;
    this.#registerNames();
  }

  /** Whether the first `length` bytes of a body are one canonical call. */
  scanOne(body: Buffer, length: number): boolean {
    if (!this.#load(body)) return false;
    return this.#exports.scanOne(this.#body, this.#records) === this.#body + length;
  }

  /** Where in the body the list of calls is, if the first `length` bytes of it have a canonical one. */
  scanBatch(body: Buffer, length: number): { readonly from: number; readonly to: number } | undefined {
    if (!this.#load(body)) return undefined;
    const { scanBatch, listFrom, listTo } = this.#exports;
    if (scanBatch(this.#body, this.#body + length, this.#records) === 0) return undefined;
    return { from: listFrom.value - this.#body, to: listTo.value - this.#body };
  }

  get calls(): number {
    return this.#exports.calls.value;
  }

  /** How many of them are not canonical. Whether they are valid at all must be asked of `JSON.parse`. */
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

  /** The text of one call. */
  textOf(index: number): string {
    return this.#bytes.toString('utf8', this.#descriptor(index, CALL_FROM), this.#descriptor(index, CALL_TO));
  }

  /** Whether there is room for the lines of all calls. */
  hasRoom({ context, integrations, channel, times }: SharedFields): boolean {
    const pieces = context.length + integrations.length + channel.length + times.length;
    const lines = this.#size + this.calls * (MAX_ADDED_BYTES + context.length + integrations.length);
    return lines <= MAX_LINES_BYTES && this.#grow(this.#behind + pieces + lines + PADDING);
  }

  /**
   * Writes the lines of all calls that can be transcribed: in a buffer of their own, with a line feed behind each. To be asked
   * when there is room.
   */
  encode(envelope: Envelope, inherited: SharedFields): Buffer {
    const { setRequest, setShared, encode } = this.#exports;
    const type = envelope.type === 'batch' ? IN_BATCH : CALL_TYPES.indexOf(envelope.type);
    setRequest(type, envelope.receivedAt, envelope.sentAt);
    setShared(inherited.mergesContext, inherited.mergesIntegrations, inherited.hasIntegrations);
    const lines = this.#putPieces(inherited);
    this.#newMessageId = envelope.newMessageId;
    this.#lines = lines;
    const end = encode(this.#records, lines);
    const copy = Buffer.allocUnsafe(end - lines);
    this.#bytes.copy(copy, 0, lines, end);
    return copy;
  }

  #lines = 0;

  /** What was written of a call into the lines; `undefined` when it is to be parsed. */
  encodedEvent(index: number, bytes: Buffer): EncodedEvent | undefined {
    const marks = this.#descriptor(index, MARKS);
    if ((marks & ENCODED) === 0) return undefined;
    const lines = this.#lines;
    const userTo = this.#descriptor(index, USER_TO);
    return {
      bytes,
      from: this.#descriptor(index, LINE_FROM) - lines,
      to: this.#descriptor(index, LINE_TO) - lines,
      idTo: this.#descriptor(index, ID_TO) - lines,
      userFrom: userTo === 0 ? 0 : this.#descriptor(index, USER_FROM) - lines,
      userTo: userTo === 0 ? 0 : userTo - lines,
      isUserEscaped: (marks & ESCAPED_USER) !== 0,
      isUndirected: (marks & NO_INTEGRATIONS) !== 0,
      isSkewed: (marks & SKEWED) !== 0,
    };
  }

  #descriptor(index: number, what: number): number {
    return this.#words[this.#descriptors + index * DESCRIPTOR_WORDS + what]!;
  }

  /** Copies a body into memory; false when it is too large. */
  #load(body: Buffer): boolean {
    const size = body.length;
    if (size > MAX_BODY_BYTES) return false;
    const records = (this.#body + size + PADDING + 3) & ~3;
    const behind = records + size * RECORD_BYTES + MIN_RECORDS_BYTES;
    if (!this.#grow(behind)) return false;
    this.#bytes.set(body, this.#body);
    this.#bytes.fill(0, this.#body + size, this.#body + size + PADDING);
    this.#size = size;
    this.#records = records;
    this.#behind = behind;
    return true;
  }

  /** Writes what is inherited behind the records, and where it is; the place behind it. */
  #putPieces({ context, integrations, channel, times }: SharedFields): number {
    let piece = this.#exports.PIECES.value / 4;
    let at = this.#behind;
    for (const bytes of [context, integrations, channel, times]) {
      this.#bytes.set(bytes, at);
      this.#words[piece++] = at;
      at += bytes.length;
      this.#words[piece++] = at;
    }
    return at;
  }

  /** Makes memory reach as far as a place; false when there is no more. */
  #grow(place: number): boolean {
    const missing = place - this.#bytes.length;
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
    for (const [number, name] of NAMES.entries()) {
      if (name === undefined) continue;
      this.#bytes.write(name, nameAddress(number), 'latin1');
      if (registerName(number, name.length) === 0) throw new Error(`two names share the slot of ${name}`);
    }
  }
}

function isCanonicalNumber(text: string): number {
  return String(Number(text)) === text ? 1 : 0;
}

function channelNumber(library: string): number {
  return CHANNELS.indexOf(channelOf(undefined, { library: JSON.parse(library) }));
}
