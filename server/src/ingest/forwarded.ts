import { createHmac, timingSafeEqual } from 'node:crypto';
import { BACKSLASH, isObject, type Json, type JsonObject, QUOTE } from '../model/json.ts';
import type { Source } from '../model/settings.ts';
import type { ReadBody } from './body.ts';
import { readBody } from './body.ts';
import { type AcceptedEvent, acceptValue, type ParseFailure, type RequestCalls } from './calls.ts';
import {
  ChangeTally,
  type DiscardReason,
  type Envelope,
  type RequestContext,
  singleEnvelope,
} from './envelope.ts';
import { findSyntaxError } from './json-syntax-error.ts';
import { MAX_BATCH_CALL_BYTES, MAX_FORWARDED_CALLS } from './limits.ts';

/** Fields that another service adds to a call; a call may be larger by them. */
const ADDED_BY_OTHERS: ReadonlySet<string> = new Set([
  ...['_metadata', 'projectId', 'writeKey', 'version', 'receivedAt'],
]);

/** Bytes of one call in the body of its request. */
interface Part {
  readonly from: number;
  readonly to: number;
}

/**
 * Reads what another service forwards: one call of any type, or a list of them. `source` is that of the
 * request's own key; undefined where its calls are not accepted, so that they are counted and not read.
 *
 * A list is up to 32 MB: its calls are cut out of the body and read one by one, so that not all are in memory
 * as objects at the same time. spec/specification.md, "Forwarded calls".
 */
export function readForwarded(
  context: RequestContext,
  source: Source | undefined,
): ForwardedCalls | ParseFailure {
  const { body, signature } = context.request;
  const start = skipBlanks(body, hasMark(body) ? 3 : 0);
  const isList = body[start] === OPEN_LIST;
  const secret = source?.forwarded?.sharedSecret;
  if (secret !== undefined && !isSigned(signedPart(body, isList, start), secret, signature))
    return { code: 'invalid_signature' };
  const parts = isList ? partsOf(body, start) : [{ from: 0, to: body.length }];
  if (parts === undefined) return notJson(body);
  if (parts.length > MAX_FORWARDED_CALLS) {
    const [held, most] = [parts.length, MAX_FORWARDED_CALLS].map((count) => count.toLocaleString('en-US'));
    const detail = `It holds ${held} calls, the limit is ${most}.`;
    return { code: 'batch_too_large', detail, calls: parts.length };
  }
  const envelope: Envelope = { ...singleEnvelope(context), peer: undefined, isForwarded: true };
  const calls = new ForwardedCalls(body, parts, { envelope, isList });
  if (source === undefined) return calls;
  return calls.readFor(source) ? calls : notJson(body);
}

function notJson(body: Buffer): ParseFailure {
  const detail = findSyntaxError(body)?.sentence ?? 'It is no JSON, or nested too deep to be read.';
  return { code: 'invalid_json', detail };
}

class ForwardedCalls implements RequestCalls {
  readonly envelope: Envelope;
  readonly isList: boolean;
  readonly sharedKey = undefined;
  readonly #body: Buffer;
  readonly #parts: readonly Part[];
  readonly #results: (AcceptedEvent | DiscardReason)[] = [];
  /** The changes of values in each call that has some. */
  readonly #changes = new Map<number, ChangeTally>();

  constructor(
    body: Buffer,
    parts: readonly Part[],
    { envelope, isList }: { readonly envelope: Envelope; readonly isList: boolean },
  ) {
    this.#body = body;
    this.#parts = parts;
    this.envelope = envelope;
    this.isList = isList;
  }

  get length(): number {
    return this.#parts.length;
  }

  /** Keys in the calls are those of the other service. */
  keyOf(): undefined {
    return undefined;
  }

  /** Makes events of all calls. False where one of them is no JSON. */
  readFor(source: Source): boolean {
    for (const part of this.#parts) {
      const changes = new ChangeTally();
      let read: ReadBody;
      try {
        read = readBody(this.#body.subarray(part.from, part.to));
      } catch (error) {
        if (error instanceof SyntaxError) return false;
        this.#results.push('too_deeply_nested');
        continue;
      }
      changes.add('numbers_as_text', read.numbersAsText);
      const accepted = acceptForwarded(read, part, source, { ...this.envelope, changes });
      if (!changes.isEmpty) this.#changes.set(this.#results.length, changes);
      this.#results.push(accepted);
    }
    return true;
  }

  accept(index: number): AcceptedEvent | DiscardReason {
    const changes = this.#changes.get(index);
    if (changes !== undefined) this.envelope.changes.moveFrom(changes);
    return this.#results[index]!;
  }

  valueOf(index: number): Json {
    const { from, to } = this.#parts[index]!;
    const { value, shown } = readBody(this.#body.subarray(from, to));
    return shown(value);
  }
}

function acceptForwarded(
  read: ReadBody,
  { from, to }: Part,
  source: Source,
  envelope: Envelope,
): AcceptedEvent | DiscardReason {
  if (read.invalidAt !== undefined) return 'not_utf8';
  const call = unwrapped(read.value);
  if (!isObject(call)) return 'not_an_object';
  if (call.type === 'delete') return 'forwarded_delete';
  // Nearly no call is so large: it is then written once more without what others have added.
  if (to - from > MAX_BATCH_CALL_BYTES && isLargeItself(call)) return 'message_too_large';
  return acceptValue(call, source, envelope);
}

/** The call in `{"json": …}`, as some mappings of the other service write it. */
function unwrapped(value: Json): Json {
  if (!isObject(value) || !isObject(value.json)) return value;
  return Object.keys(value).length === 1 ? value.json : value;
}

function isLargeItself(call: JsonObject): boolean {
  const own = Object.fromEntries(Object.entries(call).filter(([key]) => !ADDED_BY_OTHERS.has(key)));
  try {
    return Buffer.byteLength(JSON.stringify(own)) > MAX_BATCH_CALL_BYTES;
  } catch {
    // It is nested too deep to be written, which is said of it next.
    return false;
  }
}

/** The bytes that the other service signs: the body, or the first call of a list. */
function signedPart(body: Buffer, isList: boolean, start: number): Buffer {
  if (!isList) return body;
  const first = skipBlanks(body, start + 1);
  const end = endOfValue(body, first);
  return end === undefined ? body : body.subarray(first, end);
}

/** Whether `X-Signature` is the HMAC with SHA-1 of these bytes, in hexadecimal. */
function isSigned(bytes: Buffer, secret: string, signature: string | undefined): boolean {
  const wanted = createHmac('sha1', secret).update(bytes).digest();
  const given = Buffer.from(signature?.trim() ?? '', 'hex');
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const COMMA = 0x2c;

function hasMark(body: Buffer): boolean {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
}

function skipBlanks(body: Buffer, at: number): number {
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++;
  return at;
}

/**
 * The values of the list that begins at `start`; undefined where it is none. What stands in them is not
 * looked at: whoever reads them sees whether they are JSON.
 */
function partsOf(body: Buffer, start: number): Part[] | undefined {
  const parts: Part[] = [];
  let at = skipBlanks(body, start + 1);
  if (body[at] === CLOSE_LIST) return skipBlanks(body, at + 1) === body.length ? parts : undefined;
  for (;;) {
    const end = endOfValue(body, at);
    if (end === undefined) return undefined;
    parts.push({ from: at, to: end });
    // A body with more calls than it may have is refused as it is counted, and none of them is read.
    at = skipBlanks(body, end);
    if (body[at] === CLOSE_LIST) return skipBlanks(body, at + 1) === body.length ? parts : undefined;
    if (body[at] !== COMMA) return undefined;
    at = skipBlanks(body, at + 1);
  }
}

/** The end of the value at `from`, by its brackets; undefined where there is none. */
function endOfValue(body: Buffer, from: number): number | undefined {
  let depth = 0;
  for (let at = from; at < body.length; at++) {
    const byte = body[at];
    if (byte === QUOTE) {
      at = endOfText(body, at);
      if (depth === 0) return at < body.length ? at + 1 : undefined;
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      if (depth === 0) return at > from ? at : undefined;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && byte === COMMA) return at > from ? at : undefined;
  }
  return undefined;
}

/** The place of the quote that closes the text at `at`. */
function endOfText(body: Buffer, at: number): number {
  for (;;) {
    const end = body.indexOf(QUOTE, at + 1);
    if (end < 0) return body.length;
    let slashes = 0;
    while (body[end - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
    at = end;
  }
}
