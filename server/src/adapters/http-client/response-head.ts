import {
  COLON,
  CR,
  equalsIgnoreCase,
  isFieldValueByte,
  isTokenByte,
  LF,
  SPACE,
} from '../../model/http-syntax.ts';

/** Results of `ResponseHead.parse` in place of a position. */
export const INCOMPLETE = -1;
export const MALFORMED = -2;

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
 * The head of an answer, as far as a client that only posts needs it (RFC 9112 sections 4 to 6). It is read strictly: two
 * readings of where an answer ends would give one request the answer of another. One object reads one head after the other. A
 * head may come in any number of pieces: `parse` remembers how far it got and reads no byte twice.
 */
export class ResponseHead {
  status = 0;
  /** Bytes of the body; `NaN` when it ends with the connection, and without meaning when it is chunked. */
  length = 0;
  isChunked = false;
  /** Whether the connection may carry another request after the body. */
  keepAlive = false;
  /** The time that the receiver announces to keep an idle connection, in seconds; `NaN` without an announcement. */
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
   * Returns the position behind the head that begins at `from`; `INCOMPLETE` when the head goes on behind `end`; or
   * `MALFORMED`. After `INCOMPLETE` it is called again with the same bytes and more behind them.
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

  /** Reads the status line. A protocol other than HTTP is refused at its first byte, as its line may never end. */
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

  /** Returns the position behind the line that goes on at `at`. Control characters other than tabs are malformed. */
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

  /** Records the header whose name is from `from` to `colon` and whose value ends at `to`. Returns its problem, if any. */
  #recordHeader(bytes: Buffer, from: number, colon: number, to: number): string | undefined {
    switch (colon - from) {
      case CONNECTION.length:
        if (equalsIgnoreCase(bytes, from, CONNECTION)) {
          this.#recordConnection(fieldValue(bytes, colon, to).toLowerCase());
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
          ? this.#recordLength(fieldValue(bytes, colon, to))
          : undefined;
      case TRANSFER_ENCODING.length:
        return equalsIgnoreCase(bytes, from, TRANSFER_ENCODING)
          ? this.#recordTransferEncoding(fieldValue(bytes, colon, to).toLowerCase())
          : undefined;
      default:
        return undefined;
    }
  }

  #recordConnection(value: string): void {
    for (const option of value.split(',')) {
      const name = option.trim();
      if (name === 'close') this.#mustClose = true;
      else if (name === 'keep-alive') this.keepAlive = true;
    }
  }

  #recordLength(value: string): string | undefined {
    if (this.#hasLength) return 'it has two lengths';
    if (!/^\d+$/.test(value) || value.length > MAX_LENGTH_DIGITS) return 'its length is no number';
    this.#hasLength = true;
    this.length = Number(value);
    return undefined;
  }

  /**
   * All parsers agree about `chunked` alone in HTTP/1.1. After any other coding the connection is closed, so that no reading of
   * it can reach another answer.
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

function fieldValue(bytes: Buffer, colon: number, to: number): string {
  return bytes.toString('latin1', colon + 1, to).trim();
}
