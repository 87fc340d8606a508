import { COLON, CR, isText, isToken, LF } from '../../model/http-characters.ts';
import { MALFORMED } from './answer-head.ts';

const SEMICOLON = 0x3b;

/** Digits of a chunk's size: more than any body has bytes. */
const MOST_DIGITS = 12;

/** Bytes of chunk extensions and trailers, which nobody here reads. */
const MOST_ASIDE = 16 * 1024;

/** Takes the bytes from `from` to `to` of a body; they are gone when this returns. */
export type TakeBody = (bytes: Buffer, from: number, to: number) => void;

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
export class Chunks {
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
  #aside = 0;

  begin(): void {
    this.#state = 'size';
    this.#size = 0;
    this.#digits = 0;
    this.#aside = 0;
  }

  get isOver(): boolean {
    return this.#state === 'over';
  }

  /** The place behind what was read, which is `end` unless the body is over; or `MALFORMED`. */
  read(bytes: Buffer, from: number, end: number, take: TakeBody): number {
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
        return byte === CR || isToken(byte);
      case 'trailer-name':
        if (byte === COLON) this.#state = 'trailer-value';
        return (byte === COLON || isToken(byte)) && ++this.#aside <= MOST_ASIDE;
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
    return (byte === CR || isText(byte)) && ++this.#aside <= MOST_ASIDE;
  }

  #stepInSize(byte: number): boolean {
    const digit = hexadecimal(byte);
    if (digit >= 0) {
      this.#size = this.#size * 16 + digit;
      return ++this.#digits <= MOST_DIGITS;
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
