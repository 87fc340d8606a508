import { COLON, CR, isFieldValueByte, isTokenByte, LF, SPACE } from '../../model/http-syntax.ts';

/** What `ResponseHead.read` gives instead of a place. */
export const INCOMPLETE = -1;
export const MALFORMED = -2;

const ZERO = 0x30;

const VERSION = Buffer.from('HTTP/1.');
const [CONNECTION, KEEP_ALIVE, RETRY_AFTER, CONTENT_LENGTH, TRANSFER_ENCODING] = [
  'connection',
  'keep-alive',
  'retry-after',
  'content-length',
  'transfer-encoding',
].map((name) => Buffer.from(name)) as [Buffer, Buffer, Buffer, Buffer, Buffer];

const CHUNKED = 'chunked';

/** Longer lengths are no lengths: nobody sends a petabyte. */
const MAX_LENGTH_DIGITS = 15;

/** Where the status ends in the first line, which is `HTTP/1.x nnn` up to there. */
const STATUS_END = VERSION.length + 5;

const SWITCHING_PROTOCOLS = 101;
const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

/**
 * The head of an answer, as far as a client that only posts needs it: RFC 9112 sections 4 to 6, read strictly, because two readings
 * of where an answer ends would give one request the answer of another. One object reads one head after the other. A head
 * may come in any number of pieces: `read` remembers how far it got and looks at no byte of the head again.
 */
export class ResponseHead {
  status = 0;
  /** Bytes of the body; `NaN` when it ends with the connection, and of no meaning when it comes in chunks. */
  length = 0;
  isChunked = false;
  /** Whether the connection may carry another request when the body is over. */
  keepAlive = false;
  /** How long the receiver says it keeps an idle connection, in seconds; `NaN` when it says nothing. */
  keepAliveSeconds = Number.NaN;
  /** The first there is, as it came. */
  retryAfter: string | undefined;
  /** What is wrong with a malformed head. */
  problem = '';
  #hasLength = false;
  #hasEncoding = false;
  /** Whether the answer is of HTTP/1.0. */
  #isHttp10 = false;
  /** Whether the connection ends with this answer, whatever else the head says of that. */
  #mustClose = false;
  /** Where the head begins in the bytes that are being read. The places below are counted from there. */
  #start = 0;
  /** The line that is being read; 0 is the first one. */
  #line = 0;
  /** How far that line has been looked at, when the bytes ended within it. */
  #scanned = 0;
  /** The end of the name in that line; 0 while it is not known. */
  #colon = 0;

  /** An interim answer: the one that counts follows. RFC 9110 section 15.2. */
  get isInterim(): boolean {
    return this.status < 200;
  }

  /** Must be called before the first `read` of each head. */
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
   * The place behind the head that begins at `from`; `INCOMPLETE` when it goes on behind `end`, or `MALFORMED`. After
   * `INCOMPLETE` it is called again with the same bytes and more behind them.
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

  /** The status line; what is not HTTP is seen at its first byte, as it may never have an end. */
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
    // An older receiver must say that it keeps the connection.
    this.keepAlive = !this.#isHttp10;
    this.status = (bytes[code]! - ZERO) * 100 + (bytes[code + 1]! - ZERO) * 10 + bytes[code + 2]! - ZERO;
    if (this.status < 100) return this.#malformed('its status is none');
    if (reason < end && bytes[reason] !== SPACE && bytes[reason] !== CR) {
      return this.#malformed('its first line is not that of an answer');
    }
    return this.#endOfLine(bytes, Math.max(reason, from + this.#scanned), end);
  }

  /** One header line: the place behind it. */
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

  /** The bytes end here; the next ones are looked at from this place on. */
  #suspendAt(at: number): number {
    this.#scanned = at - this.#start;
    return INCOMPLETE;
  }

  /** The place behind the line that goes on at `at`; nothing but visible characters, blanks and tabs may be in it. */
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

  /** Keeps what matters of the header from `from` to `colon` whose value ends at `to`; gives what is wrong with it. */
  #recordHeader(bytes: Buffer, from: number, colon: number, to: number): string | undefined {
    switch (colon - from) {
      case CONNECTION.length:
        if (equalsIgnoreCase(bytes, from, CONNECTION))
          this.#recordConnection(fieldValue(bytes, colon, to).toLowerCase());
        else if (equalsIgnoreCase(bytes, from, KEEP_ALIVE)) {
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
   * `chunked` alone, in HTTP/1.1, is what all readers read in one way. After any other coding the connection carries nothing
   * more, so that no reading of it can reach another answer.
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
      // A body that must not be there: whether it comes is anybody's guess, and it would be read as the next answer.
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

/** Whether the bytes at `at` are this name, which is in small letters; the length is known to be the same. */
function equalsIgnoreCase(bytes: Buffer, at: number, name: Buffer): boolean {
  for (let nth = 0; nth < name.length; nth++) if ((bytes[at + nth]! | 0x20) !== name[nth]) return false;
  return true;
}

function fieldValue(bytes: Buffer, colon: number, to: number): string {
  return bytes.toString('latin1', colon + 1, to).trim();
}
