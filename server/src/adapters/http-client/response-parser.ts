import { COLON, CR, isFieldValueByte, isTokenByte, LF } from '../../model/http-syntax.ts';
import { INCOMPLETE, MALFORMED, ResponseHead } from './response-head.ts';

/** Longer heads are refused; Node's own limit. */
const MAX_HEAD_BYTES = 16 * 1024;

/** Interim answers to one request, and bytes of them: an endpoint could send nothing else, as fast as they are read. */
export const MAX_INTERIM_RESPONSES = 10;
const MAX_INTERIM_BYTES = 64 * 1024;

const EMPTY = Buffer.alloc(0);

/** Hears an answer as it is read. */
export interface ResponseHandler {
  /** Once, and not for interim answers. */
  head(status: number, retryAfter: string | undefined): void;
  body: BodyCallback;
}

/** How far an answer has come: there is more of it to come, it is complete, or it is not HTTP. */
export type ParseProgress = 'more' | 'complete' | 'malformed';

/**
 * Reads the answers of one connection, one after the other, from whatever pieces the network makes of them.
 *
 * ```
 *   head ──▶ counted ──▶ complete          interim answers (100, 103 …) are passed over: head ──▶ head
 *     ├────▶ chunked ──▶ complete
 *     ├────▶ rest, which ends with the connection
 *     └────▶ complete                      without a body
 * ```
 */
export class ResponseParser {
  readonly #head = new ResponseHead();
  #state: 'head' | 'counted' | 'chunked' | 'rest' | 'complete' = 'head';
  /** The beginning of a head whose end is not here yet, in its first `#heldLength` bytes. */
  #partialHead: Buffer = EMPTY;
  #partialLength = 0;
  #interim = 0;
  #interimBytes = 0;
  #remaining = 0;
  #chunks: ChunkedBodyParser | undefined;
  #keeps = false;
  #problem = '';

  /** The next answer is that to a request which is sent now. */
  reset(): void {
    this.#state = 'head';
    this.#keeps = false;
    this.#interim = 0;
    this.#interimBytes = 0;
    this.#head.reset();
  }

  /** Whether the connection may carry another request; true only when the answer is complete, and nothing came behind it. */
  get keepAlive(): boolean {
    return this.#keeps;
  }

  /** How long the receiver says it keeps the idle connection, in seconds; `NaN` when it says nothing. */
  get keepAliveSeconds(): number {
    return this.#head.keepAliveSeconds;
  }

  /** Whether the end of the connection is the end of the answer. */
  get endsWithConnection(): boolean {
    return this.#state === 'rest';
  }

  /** What is wrong with a malformed answer, as the end of a sentence. */
  get problem(): string {
    return this.#problem;
  }

  /** Reads the first `length` bytes of a buffer, which belongs to somebody else again when this returns. */
  parse(bytes: Buffer, length: number, hearer: ResponseHandler): ParseProgress {
    if (this.#state !== 'head') return this.#readBody(bytes, 0, length, hearer);
    if (this.#partialLength === 0) return this.#readHead(bytes, length, hearer);
    this.#appendPartial(bytes, length);
    return this.#readHead(this.#partialHead, this.#partialLength, hearer);
  }

  #readHead(bytes: Buffer, length: number, hearer: ResponseHandler): ParseProgress {
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
    hearer.head(head.status, head.retryAfter);
    return this.#readBody(bytes, at, length, hearer);
  }

  /** A copy of the beginning of a head, from `at` to `length`: the buffer is read into again. */
  #savePartial(bytes: Buffer, at: number, length: number): void {
    if (at === length) this.#dropPartial();
    else if (bytes !== this.#partialHead) this.#partialHead = Buffer.from(bytes.subarray(at, length));
    else if (at > 0) this.#partialHead.copyWithin(0, at, length);
    this.#partialLength = length - at;
  }

  /** Twice the room whenever it runs out, so that no byte is copied more than a few times, however small the pieces are. */
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

  #bodyKind(): 'counted' | 'chunked' | 'rest' {
    const { isChunked, length } = this.#head;
    if (isChunked) {
      this.#chunks ??= new ChunkedBodyParser();
      this.#chunks.reset();
      return 'chunked';
    }
    if (Number.isNaN(length)) return 'rest';
    this.#remaining = length;
    return 'counted';
  }

  #readBody(bytes: Buffer, from: number, end: number, hearer: ResponseHandler): ParseProgress {
    let at = from;
    switch (this.#state) {
      case 'counted':
        at = Math.min(from + this.#remaining, end);
        this.#remaining -= at - from;
        if (at > from) hearer.body(bytes, from, at);
        return this.#remaining > 0 ? 'more' : this.#complete(at === end);
      case 'chunked': {
        const chunks = this.#chunks!;
        at = chunks.parse(bytes, from, end, (...piece) => hearer.body(...piece));
        if (at === MALFORMED) return this.#malformed('its body is not in chunks as its head says');
        return chunks.isComplete ? this.#complete(at === end) : 'more';
      }
      default:
        if (end > from) hearer.body(bytes, from, end);
        return 'more';
    }
  }

  /** Bytes behind an answer are none that anybody asked for: they must not become the answer to the next request. */
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

/** Digits of a chunk's size: more than any body has bytes. */
const MAX_SIZE_DIGITS = 12;

/** Bytes of chunk extensions and trailers, which nobody here reads. */
const MAX_EXTENSION_BYTES = 16 * 1024;

/** Takes the bytes from `from` to `to` of a body; they are gone when this returns. */
export type BodyCallback = (bytes: Buffer, from: number, to: number) => void;

/**
 * A body that comes in chunks, read over as many pieces as it takes. RFC 9112 section 7.1.
 *
 * ```
 *   size ──▶ extension ──▶ size-lf ──▶ data ──▶ data-cr ──▶ data-lf ──▶ size …
 *    └────────────────────────▲ └─(size 0)─▶ trailer ──▶ last-lf ──▶ over
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
    | 'over' = 'size';
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
    return this.#state === 'over';
  }

  /** The place behind what was read, which is `end` unless the body is over; or `MALFORMED`. */
  parse(bytes: Buffer, from: number, end: number, take: BodyCallback): number {
    let at = from;
    while (at < end && this.#state !== 'over') {
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

  /** False when the byte has no place here. */
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
        this.#state = 'over';
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
