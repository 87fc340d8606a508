import { readFileSync } from 'node:fs';
import { CALL_TYPES } from '../model/call.ts';
import { channelOf } from './channel.ts';
import type { Envelope } from './envelope.ts';
import { LONGEST_MESSAGE_ID } from './identifiers.ts';
import { LARGEST_ITEM, MOST_CALLS } from './size.ts';
import { readTime } from './timestamps.ts';

/**
 * The part of receiving that is WebAssembly, compiled from `server/scribe`: it scans the bytes of a body, and writes the lines
 * of its events from pieces of them. It has one memory, used again for every body: what it says is to be read before the next
 * one comes. Reading never waits, so nobody gets in between.
 */

/** The names it recognises, in the order of `server/scribe/names.ts`; `undefined` where a number is no name. */
const NAMES = [
  ...['messageId', 'type', 'channel', 'userId', 'anonymousId', 'previousId', 'groupId', 'event'],
  ...['name', 'category', 'properties', 'traits', 'context', 'integrations', 'timestamp'],
  ...['originalTimestamp', 'sentAt', 'receivedAt', 'writeKey', undefined, 'library', 'direct', 'batch'],
];

/** All that `channelOf` can say of a library, in the order of `server/scribe/library.ts`. */
const CHANNELS = ['server', 'browser', 'mobile'];

/** In place of the type of a single call. */
const IN_BATCH = -1;

/** What is said of each call, as places among eight numbers: `server/scribe/accounts.ts`. */
const ACCOUNT = 8;
const CALL_FROM = 0;
const CALL_TO = 1;
const MARKS = 2;
const LINE_FROM = 3;
const LINE_TO = 4;
const ID_TO = 5;
const USER_FROM = 6;
const USER_TO = 7;
const KEYED = 1;
const ODD = 2;
const TRANSCRIBED = 4;
const UNDIRECTED = 8;
const SKEWED = 16;
const ESCAPED_USER = 32;

/** Bytes that may be touched behind the end of a body or of the lines, and that are zeros behind a body. */
const BEYOND = 64;

/** Larger bodies are left to `JSON.parse`, and those whose lines might be larger: this memory is never given back. */
const LARGEST_BODY = 1024 * 1024;
const LARGEST_LINES = 8 * 1024 * 1024;

/** Bytes of a record for each byte of a call: `"a":1,` takes 12. What is shorter has no field, and there are few calls. */
const RECORD_BYTES = 2;
const SHORT_RECORDS = 16 * 1024;

/** Bytes a line may have that its call has not, beside what is inherited: names of fields, four times, an assigned id. */
const MOST_ADDED = 400;

const PAGE = 65_536;

/** Whole fields, `"context":{…}`. `merges`: a call's own must be merged with what its batch shares. */
export interface Inherited {
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
export interface Transcribed {
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

interface Place {
  readonly value: number;
}

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer; readonly grow: (pages: number) => number };
  readonly ACCOUNTS: Place;
  readonly PIECES: Place;
  readonly calls: Place;
  readonly oddCalls: Place;
  readonly listFrom: Place;
  readonly listTo: Place;
  readonly limit: (calls: number, item: number, messageId: number) => number;
  readonly forgetNames: () => void;
  readonly roomOfName: (name: number) => number;
  readonly learn: (name: number, length: number) => number;
  readonly scanOne: (body: number, records: number) => number;
  readonly scanBatch: (body: number, limit: number, records: number) => number;
  readonly arrive: (type: number, receivedAt: number, sentAt: number) => void;
  readonly inherit: (mergesContext: boolean, mergesIntegrations: boolean, hasIntegrations: boolean) => void;
  readonly transcribe: (records: number, lines: number) => number;
}

export class Scribe {
  readonly #exports: Exports;
  /** Where a body is put. */
  readonly #body: number;
  readonly #accounts: number;
  #bytes: Buffer;
  #words: Uint32Array;
  /** Where the records of the body are. */
  #records = 0;
  /** Where they end at most. */
  #behind = 0;
  #size = 0;
  #newMessageId: () => string = () => '';

  constructor() {
    const code = readFileSync(new URL('scribe.wasm', import.meta.url));
    const program = {
      isAsWritten: (from: number, to: number) => isAsWritten(this.#bytes.toString('latin1', from, to)),
      timeOf: (from: number, to: number) => readTime(this.#bytes.toString('latin1', from, to)),
      channelOf: (from: number, to: number) => channelNumber(this.#bytes.toString('utf8', from, to)),
      newMessageId: (at: number) => this.#bytes.write(this.#newMessageId(), at, 'latin1'),
    };
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(code), { program });
    this.#exports = exports as Exports;
    this.#bytes = Buffer.from(this.#exports.memory.buffer);
    this.#words = new Uint32Array(this.#exports.memory.buffer);
    this.#body = this.#exports.limit(MOST_CALLS, LARGEST_ITEM, LONGEST_MESSAGE_ID);
    this.#accounts = this.#exports.ACCOUNTS.value / 4;
    this.#learnNames();
  }

  /** Whether the first `length` bytes of a body are one canonical call. */
  scanOne(body: Buffer, length: number): boolean {
    if (!this.#take(body)) return false;
    return this.#exports.scanOne(this.#body, this.#records) === this.#body + length;
  }

  /** Where in the body the list of calls is, if the first `length` bytes of it have a canonical one. */
  scanBatch(body: Buffer, length: number): { readonly from: number; readonly to: number } | undefined {
    if (!this.#take(body)) return undefined;
    const { scanBatch, listFrom, listTo } = this.#exports;
    if (scanBatch(this.#body, this.#body + length, this.#records) === 0) return undefined;
    return { from: listFrom.value - this.#body, to: listTo.value - this.#body };
  }

  get calls(): number {
    return this.#exports.calls.value;
  }

  /** How many of them are not canonical. Whether they are valid at all must be asked of `JSON.parse`. */
  get oddCalls(): number {
    return this.#exports.oddCalls.value;
  }

  isOdd(index: number): boolean {
    return (this.#said(index, MARKS) & ODD) !== 0;
  }

  /** Whether the call may carry a write key. */
  isKeyed(index: number): boolean {
    return (this.#said(index, MARKS) & KEYED) !== 0;
  }

  /** The text of one call. */
  textOf(index: number): string {
    return this.#bytes.toString('utf8', this.#said(index, CALL_FROM), this.#said(index, CALL_TO));
  }

  /** Whether there is room for the lines of all calls. */
  hasRoom({ context, integrations, channel, times }: Inherited): boolean {
    const pieces = context.length + integrations.length + channel.length + times.length;
    const lines = this.#size + this.calls * (MOST_ADDED + context.length + integrations.length);
    return lines <= LARGEST_LINES && this.#reach(this.#behind + pieces + lines + BEYOND);
  }

  /**
   * Writes the lines of all calls that can be transcribed: in a buffer of their own, with a line feed behind each. To be asked
   * when there is room.
   */
  transcribe(envelope: Envelope, inherited: Inherited): Buffer {
    const { arrive, inherit, transcribe } = this.#exports;
    const type = envelope.type === 'batch' ? IN_BATCH : CALL_TYPES.indexOf(envelope.type);
    arrive(type, envelope.receivedAt, envelope.sentAt);
    inherit(inherited.mergesContext, inherited.mergesIntegrations, inherited.hasIntegrations);
    const lines = this.#putPieces(inherited);
    this.#newMessageId = envelope.newMessageId;
    this.#lines = lines;
    const end = transcribe(this.#records, lines);
    const copy = Buffer.allocUnsafe(end - lines);
    this.#bytes.copy(copy, 0, lines, end);
    return copy;
  }

  #lines = 0;

  /** What was written of a call into the lines; `undefined` when it is to be parsed. */
  transcribed(index: number, bytes: Buffer): Transcribed | undefined {
    const marks = this.#said(index, MARKS);
    if ((marks & TRANSCRIBED) === 0) return undefined;
    const lines = this.#lines;
    const userTo = this.#said(index, USER_TO);
    return {
      bytes,
      from: this.#said(index, LINE_FROM) - lines,
      to: this.#said(index, LINE_TO) - lines,
      idTo: this.#said(index, ID_TO) - lines,
      userFrom: userTo === 0 ? 0 : this.#said(index, USER_FROM) - lines,
      userTo: userTo === 0 ? 0 : userTo - lines,
      isUserEscaped: (marks & ESCAPED_USER) !== 0,
      isUndirected: (marks & UNDIRECTED) !== 0,
      isSkewed: (marks & SKEWED) !== 0,
    };
  }

  #said(index: number, what: number): number {
    return this.#words[this.#accounts + index * ACCOUNT + what]!;
  }

  /** Copies a body into memory; false when it is too large. */
  #take(body: Buffer): boolean {
    const size = body.length;
    if (size > LARGEST_BODY) return false;
    const records = (this.#body + size + BEYOND + 3) & ~3;
    const behind = records + size * RECORD_BYTES + SHORT_RECORDS;
    if (!this.#reach(behind)) return false;
    this.#bytes.set(body, this.#body);
    this.#bytes.fill(0, this.#body + size, this.#body + size + BEYOND);
    this.#size = size;
    this.#records = records;
    this.#behind = behind;
    return true;
  }

  /** Writes what is inherited behind the records, and where it is; the place behind it. */
  #putPieces({ context, integrations, channel, times }: Inherited): number {
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
  #reach(place: number): boolean {
    const missing = place - this.#bytes.length;
    if (missing <= 0) return true;
    const { memory } = this.#exports;
    try {
      memory.grow(Math.ceil(missing / PAGE));
    } catch {
      return false;
    }
    this.#bytes = Buffer.from(memory.buffer);
    this.#words = new Uint32Array(memory.buffer);
    return true;
  }

  #learnNames(): void {
    const { forgetNames, roomOfName, learn } = this.#exports;
    forgetNames();
    for (const [number, name] of NAMES.entries()) {
      if (name === undefined) continue;
      this.#bytes.write(name, roomOfName(number), 'latin1');
      if (learn(number, name.length) === 0) throw new Error(`two names share the slot of ${name}`);
    }
  }
}

function isAsWritten(text: string): number {
  return String(Number(text)) === text ? 1 : 0;
}

function channelNumber(library: string): number {
  return CHANNELS.indexOf(channelOf(undefined, { library: JSON.parse(library) }));
}
