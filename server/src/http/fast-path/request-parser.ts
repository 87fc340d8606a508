import { COLON, CR, equalsIgnoreCase, LF, SPACE, TOKEN_BYTES } from '../../model/http-syntax.ts';
import { type CallAction, ROUTE_TABLE } from '../routes.ts';

/**
 * The head of a plain request: a call as nearly every client sends it.
 *
 * The parser is one-sided. A head that it accepts has one reading only, in every HTTP parser. A head that it
 * rejects may be valid (other methods and paths, chunks, bytes beyond ASCII, a head that is not complete) and
 * is left to `node:http`. Its rules are narrower than RFC 9112 wherever two parsers have been known to
 * disagree: lines end in CR LF; a name is a token with its colon right behind it; no line is folded; the
 * length is there once, in plain digits, and no other header says how long the body is. No request can hide
 * in the body of another.
 */
export interface FastPathRequest {
  readonly action: CallAction;
  /** Where the body begins in the bytes that were read. */
  readonly bodyAt: number;
  readonly contentLength: number;
  readonly contentEncoding: string | undefined;
  readonly authorization: string | undefined;
  readonly traceparent: string | undefined;
  readonly forwardedFor: string | undefined;
  /** Present where a page of a browser sends it. */
  readonly origin: string | undefined;
}

/** The result for a head that is not plain. */
const UNSUPPORTED = -1;

const ZERO = 0x30;
const QUESTION_MARK = 0x3f;

/** A longer head is left to `node:http`, which has a limit of its own. */
const MAX_HEAD_BYTES = 8192;

/**
 * More headers are left to `node:http`, which counts them and refuses more than 1,000. Clients send a dozen.
 */
const MAX_HEADERS = 100;

/** Digits that every parser reads as a number. */
const MAX_DIGITS = 9;

const REQUEST_START = Buffer.from('POST /v1/');
const VERSION = Buffer.from(' HTTP/1.1\r\n');
const KEEP_ALIVE = Buffer.from('keep-alive');

/** 1 for the bytes of a value. */
const PRINTABLE = byteTable(/[ -~]/);
/** 1 for the bytes of a target that every proxy passes on unchanged. */
const IN_TARGET = byteTable(/[\w!$%&'()*+,\-./:;=?@~]/);

function byteTable(pattern: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (pattern.test(String.fromCharCode(byte)) ? 1 : 0));
}

/** Headers that are read, one bit each: none may be there twice. */
const CONTENT_LENGTH = 1;
const CONTENT_ENCODING = 2;
const AUTHORIZATION = 4;
const TRACEPARENT = 8;
const ORIGIN = 16;
const CONNECTION = 32;
const FORWARDED_FOR = 64;
/** The values of these two are not read, but a repeated one is not plain. */
const HOST = 128;
const CONTENT_TYPE = 256;
/** Headers that change how the request is read, or how and when it is answered. */
const UNSUPPORTED_HEADER = 512;

const HEADER_NAMES: readonly (readonly [name: string, field: number])[] = [
  ['content-length', CONTENT_LENGTH],
  ['content-encoding', CONTENT_ENCODING],
  ['authorization', AUTHORIZATION],
  ['traceparent', TRACEPARENT],
  ['origin', ORIGIN],
  ['connection', CONNECTION],
  ['x-forwarded-for', FORWARDED_FOR],
  ['host', HOST],
  ['content-type', CONTENT_TYPE],
  ...['transfer-encoding', 'expect', 'upgrade', 'trailer', 'te', 'proxy-connection'].map(
    (name): [string, number] => [name, UNSUPPORTED_HEADER],
  ),
];

interface KnownHeader {
  readonly name: Uint8Array;
  readonly field: number;
}

/** By the length of the name, so that most headers are told from all of these by a look at their length. */
const HEADERS_BY_LENGTH: readonly (readonly KnownHeader[])[] = Array.from({ length: 18 }, (_, length) =>
  HEADER_NAMES.filter(([name]) => name.length === length).map(([name, field]) => ({
    name: Buffer.from(name),
    field,
  })),
);

/** The part of the head that has been read. */
interface HeadState {
  seen: number;
  /** The position of the last value. */
  from: number;
  to: number;
  contentLength: number;
  contentEncoding: string | undefined;
  authorization: string | undefined;
  traceparent: string | undefined;
  forwardedFor: string | undefined;
  origin: string | undefined;
}

/** The endpoints that take calls, by path. */
const CALL_ROUTES: ReadonlyMap<string, CallAction> = new Map(
  Array.from(ROUTE_TABLE, ([path, { actions }]) => [path, actions.get('POST')] as const).flatMap(
    ([path, action]) => (action?.kind === 'call' ? [[path, action]] : []),
  ),
);

/**
 * Reads the plain request that begins with the first of these bytes; undefined when it is not plain. Its body
 * may follow later.
 */
export function parseFastPathRequest(bytes: Buffer): FastPathRequest | undefined {
  if (!startsWithAt(bytes, 0, REQUEST_START)) return undefined;
  const targetEnd = skipWhile(IN_TARGET, bytes, REQUEST_START.length);
  if (!startsWithAt(bytes, targetEnd, VERSION)) return undefined;
  const action = CALL_ROUTES.get(pathOfTarget(bytes, targetEnd));
  if (action === undefined) return undefined;
  const head: HeadState = {
    seen: 0,
    from: 0,
    to: 0,
    contentLength: 0,
    contentEncoding: undefined,
    authorization: undefined,
    traceparent: undefined,
    forwardedFor: undefined,
    origin: undefined,
  };
  const bodyAt = readHead(bytes, targetEnd + VERSION.length, head);
  if (bodyAt === UNSUPPORTED || (head.seen & CONTENT_LENGTH) === 0) return undefined;
  const { contentLength, contentEncoding, authorization, traceparent, forwardedFor, origin } = head;
  return {
    action,
    bodyAt,
    contentLength,
    contentEncoding,
    authorization,
    traceparent,
    forwardedFor,
    origin,
  };
}

/** The path of the target without its query. The target begins behind `POST `. */
function pathOfTarget(bytes: Buffer, targetEnd: number): string {
  let end = REQUEST_START.length;
  while (end < targetEnd && bytes[end] !== QUESTION_MARK) end++;
  return bytes.toString('latin1', 'POST '.length, end);
}

/** Returns the position behind the empty line. `at` is the first line behind the request line. */
function readHead(bytes: Buffer, at: number, head: HeadState): number {
  for (let headers = 0; bytes[at] !== CR; headers++) {
    at = readHeaderLine(bytes, at, head);
    if (at === UNSUPPORTED || headers === MAX_HEADERS) return UNSUPPORTED;
  }
  return bytes[at + 1] === LF && at + 2 <= MAX_HEAD_BYTES ? at + 2 : UNSUPPORTED;
}

/**
 * Returns the position behind the line that begins at `at`. A byte behind the last one is `undefined`, which
 * ends every loop.
 */
function readHeaderLine(bytes: Buffer, at: number, head: HeadState): number {
  const colon = skipWhile(TOKEN_BYTES, bytes, at);
  if (colon === at || bytes[colon] !== COLON) return UNSUPPORTED;
  const from = bytes[colon + 1] === SPACE ? colon + 2 : colon + 1;
  const to = skipWhile(PRINTABLE, bytes, from);
  if (bytes[to] !== CR || bytes[to + 1] !== LF || to > MAX_HEAD_BYTES) return UNSUPPORTED;
  if (to > from && (bytes[from] === SPACE || bytes[to - 1] === SPACE)) return UNSUPPORTED;
  const field = headerAt(bytes, at, colon);
  if (field === 0) return to + 2;
  if (field === UNSUPPORTED_HEADER || (head.seen & field) !== 0) return UNSUPPORTED;
  head.seen |= field;
  head.from = from;
  head.to = to;
  return readValue(bytes, field, head) ? to + 2 : UNSUPPORTED;
}

/** The bit of the header whose name is from `at` to `end`; 0 for a header that is not read. */
function headerAt(bytes: Buffer, at: number, end: number): number {
  const known = HEADERS_BY_LENGTH[end - at];
  if (known === undefined) return 0;
  for (const { name, field } of known) if (equalsIgnoreCase(bytes, at, name)) return field;
  return 0;
}

/** False when this value makes the request not plain. */
function readValue(bytes: Buffer, field: number, head: HeadState): boolean {
  const { from, to } = head;
  switch (field) {
    case CONTENT_LENGTH:
      head.contentLength = readNumber(bytes, from, to);
      return head.contentLength !== UNSUPPORTED;
    case CONNECTION:
      return to - from === KEEP_ALIVE.length && equalsIgnoreCase(bytes, from, KEEP_ALIVE);
    case CONTENT_ENCODING:
      head.contentEncoding = bytes.toString('latin1', from, to);
      return true;
    case AUTHORIZATION:
      head.authorization = bytes.toString('latin1', from, to);
      return true;
    case TRACEPARENT:
      head.traceparent = bytes.toString('latin1', from, to);
      return true;
    case FORWARDED_FOR:
      head.forwardedFor = bytes.toString('latin1', from, to);
      return true;
    case ORIGIN:
      head.origin = bytes.toString('latin1', from, to);
      return true;
    default:
      return true;
  }
}

function readNumber(bytes: Buffer, from: number, to: number): number {
  const digits = to - from;
  if (digits === 0 || digits > MAX_DIGITS || (bytes[from] === ZERO && digits > 1)) return UNSUPPORTED;
  let number = 0;
  for (let at = from; at < to; at++) {
    const digit = bytes[at]! - ZERO;
    if (digit < 0 || digit > 9) return UNSUPPORTED;
    number = number * 10 + digit;
  }
  return number;
}

function skipWhile(kind: Uint8Array, bytes: Buffer, at: number): number {
  while (kind[bytes[at]!] === 1) at++;
  return at;
}

function startsWithAt(bytes: Buffer, at: number, expected: Uint8Array): boolean {
  for (let nth = 0; nth < expected.length; nth++) if (bytes[at + nth] !== expected[nth]) return false;
  return true;
}
