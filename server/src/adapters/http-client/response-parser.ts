import { COLON, CR, isFieldValueByte, isTokenByte, LF } from '../../model/http-syntax.ts';
import { INCOMPLETE, MALFORMED, ResponseHead } from './response-head.ts';

/** Longer heads are refused. Node has the same limit. */
const MAX_HEAD_BYTES = 16 * 1024;

/** Bounds on the interim answers to one request: an endpoint could send nothing else, as fast as they are read. */
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
  /** The beginning of a head whose end is not here yet, in its first `#partialLength` bytes. */
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

  /** The time that the receiver announces to keep the idle connection, in seconds; `NaN` without an announcement. */
  get keepAliveSeconds(): number {
    return this.#head.keepAliveSeconds;
  }

  /** Whether the end of the connection is the end of the answer. */
  get endsWithConnection(): boolean {
    return this.#state === 'until_close';
  }

  /** What is wrong with a malformed answer, as the end of a sentence. */
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

  /** Copies the beginning of a head, from `at` to `length`, because the buffer is reused for the next read. */
  #savePartial(bytes: Buffer, at: number, length: number): void {
    if (at === length) this.#dropPartial();
    else if (bytes !== this.#partialHead) this.#partialHead = Buffer.from(bytes.subarray(at, length));
    else if (at > 0) this.#partialHead.copyWithin(0, at, length);
    this.#partialLength = length - at;
  }

  /** Doubles the buffer when it is full, so that no byte is copied more than a few times, however small the pieces are. */
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

  /** Returns the place behind the bytes it has read, which is `end` unless the body ends before; or `MALFORMED`. */
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
