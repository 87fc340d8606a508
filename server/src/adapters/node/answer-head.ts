import { COLON, CR, isText, isToken, LF, SPACE } from '../../model/http-characters.ts';

/** What `AnswerHead.read` gives instead of a place. */
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

/** Longer lengths are no lengths: nobody sends a petabyte. */
const MOST_DIGITS = 15;

const SWITCHING_PROTOCOLS = 101;
const NO_CONTENT = 204;
const NOT_MODIFIED = 304;

/**
 * The head of an answer, as far as a client that only posts needs it: RFC 9112 sections 4 to 6, read strictly, because two readings
 * of where an answer ends would give one request the answer of another. One object reads one head after the other.
 */
export class AnswerHead {
  status = 0;
  /** Bytes of the body; `NaN` when it ends with the connection, and of no meaning when it comes in chunks. */
  length = 0;
  isChunked = false;
  /** Whether the connection may carry another request when the body is over. */
  keeps = false;
  /** How long the receiver says it keeps an idle connection, in seconds; `NaN` when it says nothing. */
  keepsFor = Number.NaN;
  /** The first there is, as it came. */
  retryAfter: string | undefined;
  /** What is wrong with a malformed head. */
  problem = '';
  #hasLength = false;
  #hasEncoding = false;

  /** An interim answer: the one that counts follows. RFC 9110 section 15.2. */
  get isInterim(): boolean {
    return this.status < 200;
  }

  /** The place behind the head that begins at `from`; `INCOMPLETE` when it goes on behind `end`, or `MALFORMED`. */
  read(bytes: Buffer, from: number, end: number): number {
    this.#hasLength = false;
    this.#hasEncoding = false;
    this.length = Number.NaN;
    this.isChunked = false;
    this.keepsFor = Number.NaN;
    this.retryAfter = undefined;
    let at = this.#readStatus(bytes, from, end);
    while (at >= 0) {
      if (at >= end) return INCOMPLETE;
      if (bytes[at] === CR) return this.#finish(bytes, at, end);
      at = this.#readField(bytes, at, end);
    }
    return at;
  }

  /** The status line; what is not HTTP is seen at its first byte, as it may never have an end. */
  #readStatus(bytes: Buffer, from: number, end: number): number {
    for (let at = 0; at < VERSION.length; at++) {
      if (from + at >= end) return INCOMPLETE;
      if (bytes[from + at] !== VERSION[at]) return this.#malformed('it is not HTTP');
    }
    const minor = from + VERSION.length;
    const code = minor + 2;
    for (let at = minor; at < code + 3; at++) {
      if (at >= end) return INCOMPLETE;
      if (at === code - 1 ? bytes[at] !== SPACE : !isDigit(bytes[at]!)) {
        return this.#malformed('its first line is not that of an answer');
      }
    }
    if (bytes[minor]! > ZERO + 1) return this.#malformed('it is not HTTP/1.0 or HTTP/1.1');
    this.keeps = bytes[minor] === ZERO + 1;
    this.status = (bytes[code]! - ZERO) * 100 + (bytes[code + 1]! - ZERO) * 10 + bytes[code + 2]! - ZERO;
    if (this.status < 100) return this.#malformed('its status is none');
    const reason = code + 3;
    if (reason < end && bytes[reason] !== SPACE && bytes[reason] !== CR) {
      return this.#malformed('its first line is not that of an answer');
    }
    return this.#endOfLine(bytes, reason, end);
  }

  /** One header line: the place behind it. */
  #readField(bytes: Buffer, from: number, end: number): number {
    let colon = from;
    while (colon < end && isToken(bytes[colon]!)) colon++;
    if (colon >= end) return INCOMPLETE;
    if (bytes[colon] !== COLON || colon === from) return this.#malformed('a line of its head is no header');
    const next = this.#endOfLine(bytes, colon + 1, end);
    if (next < 0) return next;
    const problem = this.#note(bytes, from, colon, next - 2);
    return problem === undefined ? next : this.#malformed(problem);
  }

  /** The place behind the line that goes on at `at`; nothing but visible characters, blanks and tabs may be in it. */
  #endOfLine(bytes: Buffer, at: number, end: number): number {
    for (; at < end; at++) {
      const byte = bytes[at]!;
      if (byte === CR) {
        if (at + 1 >= end) return INCOMPLETE;
        return bytes[at + 1] === LF ? at + 2 : this.#malformed('a line of its head ends without a line feed');
      }
      if (!isText(byte)) {
        return this.#malformed('there is a control character in its head');
      }
    }
    return INCOMPLETE;
  }

  /** Keeps what matters of the header from `from` to `colon` whose value ends at `to`; gives what is wrong with it. */
  #note(bytes: Buffer, from: number, colon: number, to: number): string | undefined {
    switch (colon - from) {
      case CONNECTION.length:
        if (isNamed(bytes, from, CONNECTION)) this.#noteConnection(textOf(bytes, colon, to).toLowerCase());
        else if (isNamed(bytes, from, KEEP_ALIVE)) {
          const seconds = /(?:^|[,;\s])timeout\s*=\s*"?(\d{1,9})/i.exec(textOf(bytes, colon, to))?.[1];
          if (seconds !== undefined) this.keepsFor = Number(seconds);
        }
        return undefined;
      case RETRY_AFTER.length:
        if (isNamed(bytes, from, RETRY_AFTER)) this.retryAfter ??= textOf(bytes, colon, to);
        return undefined;
      case CONTENT_LENGTH.length:
        return isNamed(bytes, from, CONTENT_LENGTH) ? this.#noteLength(textOf(bytes, colon, to)) : undefined;
      case TRANSFER_ENCODING.length:
        return isNamed(bytes, from, TRANSFER_ENCODING)
          ? this.#noteEncoding(textOf(bytes, colon, to).toLowerCase())
          : undefined;
      default:
        return undefined;
    }
  }

  #noteConnection(value: string): void {
    for (const option of value.split(',')) {
      const name = option.trim();
      if (name === 'close') this.keeps = false;
      // An older receiver must say that it keeps the connection.
      else if (name === 'keep-alive') this.keeps = true;
    }
  }

  #noteLength(value: string): string | undefined {
    if (this.#hasLength) return 'it has two lengths';
    if (!/^\d+$/.test(value) || value.length > MOST_DIGITS) return 'its length is no number';
    this.#hasLength = true;
    this.length = Number(value);
    return undefined;
  }

  /** A body that is coded in any other way ends with the connection, and nobody here reads it. */
  #noteEncoding(value: string): string | undefined {
    if (this.#hasEncoding) return 'it has two transfer encodings';
    this.#hasEncoding = true;
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
    if (this.isInterim && !this.keeps)
      return this.#malformed('it is interim, and the last of its connection');
    if (this.isInterim || status === NO_CONTENT || status === NOT_MODIFIED) {
      this.length = 0;
      this.isChunked = false;
    }
    if (Number.isNaN(this.length) && !this.isChunked) this.keeps = false;
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
function isNamed(bytes: Buffer, at: number, name: Buffer): boolean {
  for (let nth = 0; nth < name.length; nth++) if ((bytes[at + nth]! | 0x20) !== name[nth]) return false;
  return true;
}

function textOf(bytes: Buffer, colon: number, to: number): string {
  return bytes.toString('latin1', colon + 1, to).trim();
}
