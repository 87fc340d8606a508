import {
  COLON,
  CR,
  equalsIgnoreCase,
  isFieldValueByte,
  isTokenByte,
  LF,
  SPACE,
} from '../../model/http-syntax.ts';

/** Longer heads are refused. Node has the same limit. */
const MAX_HEAD_BYTES = 16 * 1024;

/** Bounds the interim answers to one request: an endpoint could send nothing else without end. */
export const MAX_INTERIM_RESPONSES = 10;
const MAX_INTERIM_BYTES = 64 * 1024;

const EMPTY = Buffer.alloc(0);

/** Gets an answer while it is read. */
export interface ResponseHandler {
  /** Called once, and not for interim answers. */
  onHead(status: number, retryAfter: string | undefined): void;
  onBody: BodyCallback;
}

/** `more`: the answer goes on. `malformed`: it is not HTTP. */
export type ParseProgress = 'more' | 'complete' | 'malformed';

/**
 * Reads the answers of one connection, one after the other, in pieces of any size.
 *
 * ```
 *   head ──▶ counted ──▶ complete          interim answers (100, 103 …) are skipped: head ──▶ head
 *     ├────▶ chunked ──▶ complete
 *     ├────▶ until_close                   the body ends with the connection
 *     └────▶ complete                      without a body
 * ```
 */
export class ResponseParser {
  readonly #head = new ResponseHead();
  #state: 'head' | 'counted' | 'chunked' | 'until_close' | 'complete' = 'head';
  /** Buffer for a head that has not arrived completely. Its first `#partialLength` bytes are filled. */
  #partialHead: Buffer = EMPTY;
  #partialLength = 0;
  #interim = 0;
  #interimBytes = 0;
  #remaining = 0;
  #chunks: ChunkedBodyParser | undefined;
  #keeps = false;
  #problem = '';

  /** Must be called when a request is sent: the next bytes are its answer. */
  reset(): void {
    this.#state = 'head';
    this.#keeps = false;
    this.#interim = 0;
    this.#interimBytes = 0;
    this.#head.reset();
  }

  /** Whether the connection may carry another request: the answer is complete, and nothing came behind it. */
  get keepAlive(): boolean {
    return this.#keeps;
  }

  /** Seconds for which the receiver says that it keeps the idle connection; `NaN` where it says nothing. */
  get keepAliveSeconds(): number {
    return this.#head.keepAliveSeconds;
  }

  /** Whether the end of the connection is the end of the answer. */
  get endsWithConnection(): boolean {
    return this.#state === 'until_close';
  }

  /** The fault of a malformed answer, as the end of a sentence. */
  get problem(): string {
    return this.#problem;
  }

  /** Reads the first `length` bytes of a buffer. The buffer is reused by others when this returns. */
  parse(bytes: Buffer, length: number, handler: ResponseHandler): ParseProgress {
    if (this.#state !== 'head') return this.#readBody(bytes, 0, length, handler);
    if (this.#partialLength === 0) return this.#readHead(bytes, length, handler);
    this.#appendPartial(bytes, length);
    return this.#readHead(this.#partialHead, this.#partialLength, handler);
  }

  #readHead(bytes: Buffer, length: number, handler: ResponseHandler): ParseProgress {
    const head = this.#head;
    let at = 0;
    for (;;) {
      const next = head.parse(bytes, at, length);
      if (next === MALFORMED) return this.#malformed(head.problem);
      const size = (next === INCOMPLETE ? length : next) - at;
      if (size > MAX_HEAD_BYTES) return this.#malformed('its head is longer than 16 KB');
      if (next === INCOMPLETE) {
        this.#savePartial(bytes, at, length);
        return 'more';
      }
      at = next;
      if (!head.isInterim) break;
      this.#interimBytes += size;
      if (++this.#interim > MAX_INTERIM_RESPONSES || this.#interimBytes > MAX_INTERIM_BYTES) {
        return this.#malformed('more than 10 interim answers come before it, or 64 KB of them');
      }
      head.reset();
    }
    this.#dropPartial();
    this.#state = this.#bodyKind();
    handler.onHead(head.status, head.retryAfter);
    return this.#readBody(bytes, at, length, handler);
  }

  /**
   * Copies the beginning of a head, from `at` to `length`, because the buffer is reused for the next read.
   */
  #savePartial(bytes: Buffer, at: number, length: number): void {
    if (at === length) this.#dropPartial();
    else if (bytes !== this.#partialHead) this.#partialHead = Buffer.from(bytes.subarray(at, length));
    else if (at > 0) this.#partialHead.copyWithin(0, at, length);
    this.#partialLength = length - at;
  }

  /**
   * Doubles the buffer when it is full, so that no byte is copied more than a few times, however small the
   * pieces are.
   */
  #appendPartial(bytes: Buffer, length: number): void {
    const size = this.#partialLength + length;
    if (size > this.#partialHead.length) {
      const larger = Buffer.allocUnsafe(Math.max(size, 2 * this.#partialHead.length));
      this.#partialHead.copy(larger, 0, 0, this.#partialLength);
      this.#partialHead = larger;
    }
    bytes.copy(this.#partialHead, this.#partialLength, 0, length);
    this.#partialLength = size;
  }

  #dropPartial(): void {
    this.#partialHead = EMPTY;
    this.#partialLength = 0;
  }

  #bodyKind(): 'counted' | 'chunked' | 'until_close' {
    const { isChunked, length } = this.#head;
    if (isChunked) {
      this.#chunks ??= new ChunkedBodyParser();
      this.#chunks.reset();
      return 'chunked';
    }
    if (Number.isNaN(length)) return 'until_close';
    this.#remaining = length;
    return 'counted';
  }

  #readBody(bytes: Buffer, from: number, end: number, handler: ResponseHandler): ParseProgress {
    let at = from;
    switch (this.#state) {
      case 'counted':
        at = Math.min(from + this.#remaining, end);
        this.#remaining -= at - from;
        if (at > from) handler.onBody(bytes, from, at);
        return this.#remaining > 0 ? 'more' : this.#complete(at === end);
      case 'chunked': {
        const chunks = this.#chunks!;
        at = chunks.parse(bytes, from, end, (...piece) => handler.onBody(...piece));
        if (at === MALFORMED) return this.#malformed('its body is not in chunks as its head says');
        return chunks.isComplete ? this.#complete(at === end) : 'more';
      }
      default:
        if (end > from) handler.onBody(bytes, from, end);
        return 'more';
    }
  }

  /** Bytes behind an answer belong to no request. They must not become the answer to the next one. */
  #complete(isLast: boolean): ParseProgress {
    this.#state = 'complete';
    this.#keeps = isLast && this.#head.keepAlive;
    return 'complete';
  }

  #malformed(problem: string): ParseProgress {
    this.#problem = problem;
    return 'malformed';
  }
}

const SEMICOLON = 0x3b;

/** Digits of a chunk's size; no body is longer. */
const MAX_SIZE_DIGITS = 12;

/** Bytes of chunk extensions and trailers, which are skipped. */
const MAX_EXTENSION_BYTES = 16 * 1024;

/** Takes the bytes of a body from `from` to `to`. The buffer is reused by others when this returns. */
export type BodyCallback = (bytes: Buffer, from: number, to: number) => void;

/**
 * Reads a body in chunks, in pieces of any size. RFC 9112 section 7.1.
 *
 * ```
 *   size ──▶ extension ──▶ size-lf ──▶ data ──▶ data-cr ──▶ data-lf ──▶ size …
 *    └────────────────────────▲ └─(size 0)─▶ trailer ──▶ last-lf ──▶ end
 *                                              ▲ └▶ trailer-name ──▶ trailer-value ─┐
 *                                              └──────────── trailer-lf ◀───────────┘
 * ```
 */
export class ChunkedBodyParser {
  #state:
    | 'size'
    | 'extension'
    | 'size-lf'
    | 'data'
    | 'data-cr'
    | 'data-lf'
    | 'trailer'
    | 'trailer-name'
    | 'trailer-value'
    | 'trailer-lf'
    | 'last-lf'
    | 'end' = 'size';
  #size = 0;
  #digits = 0;
  #extensionBytes = 0;

  reset(): void {
    this.#state = 'size';
    this.#size = 0;
    this.#digits = 0;
    this.#extensionBytes = 0;
  }

  get isComplete(): boolean {
    return this.#state === 'end';
  }

  /**
   * Returns the place behind the bytes it has read, which is `end` unless the body ends before; or
   * `MALFORMED`.
   */
  parse(bytes: Buffer, from: number, end: number, take: BodyCallback): number {
    let at = from;
    while (at < end && this.#state !== 'end') {
      if (this.#state === 'data') {
        const to = Math.min(at + this.#size, end);
        take(bytes, at, to);
        this.#size -= to - at;
        at = to;
        if (this.#size === 0) this.#state = 'data-cr';
      } else if (!this.#step(bytes[at++]!)) return MALFORMED;
    }
    return at;
  }

  /** False when the byte is not allowed here. */
  #step(byte: number): boolean {
    switch (this.#state) {
      case 'size':
        return this.#stepInSize(byte);
      case 'extension':
        return this.#stepInText(byte, 'size-lf');
      case 'size-lf':
        this.#state = this.#size > 0 ? 'data' : 'trailer';
        return byte === LF;
      case 'data-cr':
        this.#state = 'data-lf';
        return byte === CR;
      case 'data-lf':
        this.#state = 'size';
        this.#digits = 0;
        return byte === LF;
      case 'trailer':
        this.#state = byte === CR ? 'last-lf' : 'trailer-name';
        return byte === CR || isTokenByte(byte);
      case 'trailer-name':
        if (byte === COLON) this.#state = 'trailer-value';
        return (byte === COLON || isTokenByte(byte)) && ++this.#extensionBytes <= MAX_EXTENSION_BYTES;
      case 'trailer-value':
        return this.#stepInText(byte, 'trailer-lf');
      case 'trailer-lf':
        this.#state = 'trailer';
        return byte === LF;
      default:
        this.#state = 'end';
        return byte === LF;
    }
  }

  #stepInText(byte: number, next: 'size-lf' | 'trailer-lf'): boolean {
    if (byte === CR) this.#state = next;
    return (byte === CR || isFieldValueByte(byte)) && ++this.#extensionBytes <= MAX_EXTENSION_BYTES;
  }

  #stepInSize(byte: number): boolean {
    const digit = hexadecimal(byte);
    if (digit >= 0) {
      this.#size = this.#size * 16 + digit;
      return ++this.#digits <= MAX_SIZE_DIGITS;
    }
    if (this.#digits === 0) return false;
    if (byte === CR) this.#state = 'size-lf';
    else if (byte === SEMICOLON) this.#state = 'extension';
    else return false;
    return true;
  }
}

function hexadecimal(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const small = byte | 0x20;
  return small >= 0x61 && small <= 0x66 ? small - 0x57 : -1;
}

/** Results of `ResponseHead.parse` in place of a position. */
export const INCOMPLETE = -1;
const MALFORMED = -2;

const ZERO = 0x30;

const VERSION = Buffer.from('HTTP/1.');
const CONNECTION = Buffer.from('connection');
const KEEP_ALIVE = Buffer.from('keep-alive');
const RETRY_AFTER = Buffer.from('retry-after');
const CONTENT_LENGTH = Buffer.from('content-length');
const TRANSFER_ENCODING = Buffer.from('transfer-encoding');

const CHUNKED = 'chunked';

/** A length with more digits, a petabyte and more, is malformed. */
const MAX_LENGTH_DIGITS = 15;

/** The end of the status in the first line, which begins with `HTTP/1.x nnn`. */
const STATUS_END = VERSION.length + 5;

const SWITCHING_PROTOCOLS = 101;
const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

/**
 * The head of an answer, as far as a client that only posts needs it (RFC 9112 sections 4 to 6). It is read
 * strictly: two readings of where an answer ends would give one request the answer of another. One object
 * reads one head after the other. A head may come in any number of pieces: `parse` remembers how far it got
 * and reads no byte twice.
 */
export class ResponseHead {
  status = 0;
  /** Bytes of the body; `NaN` when it ends with the connection, and without meaning when it is chunked. */
  length = 0;
  isChunked = false;
  /** Whether the connection may carry another request after the body. */
  keepAlive = false;
  /** Seconds for which the receiver says that it keeps an idle connection; `NaN` where it says nothing. */
  keepAliveSeconds = Number.NaN;
  /** The first such header, as it came. */
  retryAfter: string | undefined;
  /** The problem of a malformed head, as the end of a sentence. */
  problem = '';
  #hasLength = false;
  #hasEncoding = false;
  /** Whether the answer is of HTTP/1.0. */
  #isHttp10 = false;
  /** Whether the connection ends with this answer, whatever other headers say. */
  #mustClose = false;
  /** Where the head begins in the bytes that are being read. The positions below are relative to it. */
  #start = 0;
  /** Start of the line that is being read. */
  #line = 0;
  /** End of the part of that line that was read, when the bytes ended within it. */
  #scanned = 0;
  /** The end of the name in that line; 0 while it is not known. */
  #colon = 0;

  /** An interim answer is followed by the final one. RFC 9110 section 15.2. */
  get isInterim(): boolean {
    return this.status < 200;
  }

  /** Must be called before the first `parse` of each head. */
  reset(): void {
    this.#hasLength = false;
    this.#hasEncoding = false;
    this.#mustClose = false;
    this.#line = 0;
    this.#scanned = 0;
    this.#colon = 0;
    this.length = Number.NaN;
    this.isChunked = false;
    this.keepAliveSeconds = Number.NaN;
    this.retryAfter = undefined;
  }

  /**
   * Returns the position behind the head that begins at `from`; `INCOMPLETE` when the head goes on behind
   * `end`; or `MALFORMED`. After `INCOMPLETE` it is called again with the same bytes and more behind them.
   */
  parse(bytes: Buffer, from: number, end: number): number {
    this.#start = from;
    let at = this.#line === 0 ? this.#readStatus(bytes, end) : from + this.#line;
    while (at >= 0) {
      this.#line = at - from;
      if (at >= end) return INCOMPLETE;
      if (bytes[at] === CR) return this.#finish(bytes, at, end);
      at = this.#readField(bytes, at, end);
    }
    return at;
  }

  /** Reads the status line. Another protocol is refused at its first byte, as its line may never end. */
  #readStatus(bytes: Buffer, end: number): number {
    const from = this.#start;
    const minor = from + VERSION.length;
    const code = minor + 2;
    const reason = from + STATUS_END;
    for (let at = from + this.#scanned; at < reason; at++) {
      if (at >= end) return this.#suspendAt(at);
      if (at < minor) {
        if (bytes[at] !== VERSION[at - from]) return this.#malformed('it is not HTTP');
      } else if (at === code - 1 ? bytes[at] !== SPACE : !isDigit(bytes[at]!)) {
        return this.#malformed('its first line is not that of an answer');
      }
    }
    if (bytes[minor]! > ZERO + 1) return this.#malformed('it is not HTTP/1.0 or HTTP/1.1');
    this.#isHttp10 = bytes[minor] === ZERO;
    // A receiver that speaks HTTP/1.0 must say that it keeps the connection.
    this.keepAlive = !this.#isHttp10;
    this.status = (bytes[code]! - ZERO) * 100 + (bytes[code + 1]! - ZERO) * 10 + bytes[code + 2]! - ZERO;
    if (this.status < 100) return this.#malformed('its status is none');
    if (reason < end && bytes[reason] !== SPACE && bytes[reason] !== CR) {
      return this.#malformed('its first line is not that of an answer');
    }
    return this.#endOfLine(bytes, Math.max(reason, from + this.#scanned), end);
  }

  /** Reads one header line, and returns the position behind it. */
  #readField(bytes: Buffer, from: number, end: number): number {
    let colon = this.#start + this.#colon;
    if (this.#colon === 0) {
      colon = Math.max(from, this.#start + this.#scanned);
      while (colon < end && isTokenByte(bytes[colon]!)) colon++;
      if (colon >= end) return this.#suspendAt(colon);
      if (bytes[colon] !== COLON || colon === from) return this.#malformed('a line of its head is no header');
    }
    const next = this.#endOfLine(bytes, Math.max(colon + 1, this.#start + this.#scanned), end);
    this.#colon = next === INCOMPLETE ? colon - this.#start : 0;
    if (next < 0) return next;
    const problem = this.#recordHeader(bytes, from, colon, next - 2);
    return problem === undefined ? next : this.#malformed(problem);
  }

  /** The bytes end here. Reading goes on at this position. */
  #suspendAt(at: number): number {
    this.#scanned = at - this.#start;
    return INCOMPLETE;
  }

  /**
   * Returns the position behind the line that goes on at `at`. Control characters other than tabs are
   * malformed.
   */
  #endOfLine(bytes: Buffer, at: number, end: number): number {
    for (; at < end; at++) {
      const byte = bytes[at]!;
      if (byte === CR) {
        if (at + 1 >= end) return this.#suspendAt(at);
        return bytes[at + 1] === LF ? at + 2 : this.#malformed('a line of its head ends without a line feed');
      }
      if (!isFieldValueByte(byte)) {
        return this.#malformed('there is a control character in its head');
      }
    }
    return this.#suspendAt(at);
  }

  /**
   * Records the header whose name is from `from` to `colon` and whose value ends at `to`. Returns its
   * problem, if any.
   */
  #recordHeader(bytes: Buffer, from: number, colon: number, to: number): string | undefined {
    switch (colon - from) {
      case CONNECTION.length:
        if (equalsIgnoreCase(bytes, from, CONNECTION)) {
          this.#recordConnection(bytes, colon, to);
        } else if (equalsIgnoreCase(bytes, from, KEEP_ALIVE)) {
          const seconds = /(?:^|[,;\s])timeout\s*=\s*"?(\d{1,9})/i.exec(fieldValue(bytes, colon, to))?.[1];
          if (seconds !== undefined) this.keepAliveSeconds = Number(seconds);
        }
        return undefined;
      case RETRY_AFTER.length:
        if (equalsIgnoreCase(bytes, from, RETRY_AFTER)) this.retryAfter ??= fieldValue(bytes, colon, to);
        return undefined;
      case CONTENT_LENGTH.length:
        return equalsIgnoreCase(bytes, from, CONTENT_LENGTH)
          ? this.#recordLength(bytes, colon, to)
          : undefined;
      case TRANSFER_ENCODING.length:
        return equalsIgnoreCase(bytes, from, TRANSFER_ENCODING)
          ? this.#recordTransferEncoding(fieldValue(bytes, colon, to).toLowerCase())
          : undefined;
      default:
        return undefined;
    }
  }

  #recordConnection(bytes: Buffer, colon: number, to: number): void {
    const from = valueStart(bytes, colon, to);
    // As nearly all receivers say it. A text would be made of the bytes otherwise.
    if (to - from === KEEP_ALIVE.length && equalsIgnoreCase(bytes, from, KEEP_ALIVE)) {
      this.keepAlive = true;
      return;
    }
    for (const option of fieldValue(bytes, colon, to).toLowerCase().split(',')) {
      const name = option.trim();
      if (name === 'close') this.#mustClose = true;
      else if (name === 'keep-alive') this.keepAlive = true;
    }
  }

  #recordLength(bytes: Buffer, colon: number, to: number): string | undefined {
    if (this.#hasLength) return 'it has two lengths';
    const length = decimal(bytes, valueStart(bytes, colon, to), to) ?? lengthOf(fieldValue(bytes, colon, to));
    if (length === undefined) return 'its length is no number';
    this.#hasLength = true;
    this.length = length;
    return undefined;
  }

  /**
   * All parsers agree about `chunked` alone in HTTP/1.1. After any other coding the connection is closed, so
   * that no reading of it can reach another answer.
   */
  #recordTransferEncoding(value: string): string | undefined {
    if (this.#hasEncoding) return 'it has two transfer encodings';
    if (value === '') return 'its transfer encoding has no name';
    this.#hasEncoding = true;
    if (value !== CHUNKED || this.#isHttp10) this.#mustClose = true;
    this.isChunked = /(?:^|,)\s*chunked$/.test(value);
    return undefined;
  }

  /** `at` is where the empty line begins. */
  #finish(bytes: Buffer, at: number, end: number): number {
    if (at + 1 >= end) return INCOMPLETE;
    if (bytes[at + 1] !== LF) return this.#malformed('a line of its head ends without a line feed');
    const { status } = this;
    if (status === SWITCHING_PROTOCOLS) return this.#malformed('it switches to another protocol');
    if (this.#hasLength && this.#hasEncoding)
      return this.#malformed('it has a length and a transfer encoding');
    if (this.isInterim || status === NO_CONTENT || status === NOT_MODIFIED) {
      // A body is not allowed here. If one came all the same, it would be read as the next answer.
      if (this.#hasEncoding || this.length > 0) this.#mustClose = true;
      this.length = 0;
      this.isChunked = false;
    }
    if (this.#mustClose || (Number.isNaN(this.length) && !this.isChunked)) this.keepAlive = false;
    if (this.isInterim && !this.keepAlive)
      return this.#malformed('it is interim, and the last of its connection');
    return at + 2;
  }

  #malformed(problem: string): number {
    this.problem = problem;
    return MALFORMED;
  }
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= ZERO + 9;
}

/** Where the value of a header begins, behind blanks. */
function valueStart(bytes: Buffer, colon: number, to: number): number {
  let at = colon + 1;
  while (at < to && bytes[at] === SPACE) at++;
  return at;
}

/** The number whose digits are all that stands between two positions; undefined where something else does. */
function decimal(bytes: Buffer, from: number, to: number): number | undefined {
  if (from === to || to - from > MAX_LENGTH_DIGITS) return undefined;
  let value = 0;
  for (let at = from; at < to; at++) {
    if (!isDigit(bytes[at]!)) return undefined;
    value = 10 * value + bytes[at]! - ZERO;
  }
  return value;
}

/** A length with blanks behind it, or `undefined`. */
function lengthOf(value: string): number | undefined {
  return /^\d+$/.test(value) && value.length <= MAX_LENGTH_DIGITS ? Number(value) : undefined;
}

function fieldValue(bytes: Buffer, colon: number, to: number): string {
  return bytes.toString('latin1', colon + 1, to).trim();
}
