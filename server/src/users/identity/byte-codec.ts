import type { Json } from '../../model/json.ts';
import type { Time } from '../../model/time.ts';

/**
 * The bytes of a profile: all its texts one behind the other, then its numbers, then zeros up to a multiple.
 * One native call reads the texts and one writes them, which is most of the work. Texts stand as UTF-8, so a
 * file can be searched for them.
 *
 *     version (1) · texts in bytes × 2 + (1 if not ASCII), a varint · texts · numbers · zeros
 */
const VERSION = 1;

/** First bytes of a JSON value. */
const NULL = 0;
const FALSE = 1;
const TRUE = 2;
/** `WHOLE`: a whole number from 0 to 2^53 − 1 follows as a varint. `NEGATIVE`: the negation of one. */
const WHOLE = 3;
const NEGATIVE = 4;
const FLOAT = 5;
const TEXT = 6;
/**
 * A list, an object, or a text with half of a surrogate pair follows as JSON text, in which such a half is
 * escaped.
 */
const NESTED = 7;

/**
 * Added to times, so that they are never negative. Times from the year −2489 to the year 6429 fit; others
 * become the nearest.
 */
const TIME_OFFSET = 2 ** 47;
const TIME_END = 2 ** 48 - 1;

const floats = new Float64Array(1);
const floatBytes = new Uint8Array(floats.buffer);

/** Writes values in an order that its reader knows. It can be used again after `finish`. */
export class ByteWriter {
  #numbers: Uint8Array = new Uint8Array(1024);
  #end = 0;
  #texts = '';

  /** A whole number from 0 to 2^53 − 1. */
  varint(value: number): void {
    if (this.#end + 8 > this.#numbers.length) this.#grow(8);
    while (value >= 0x80) {
      this.#numbers[this.#end++] = (value % 0x80) | 0x80;
      value = Math.floor(value / 0x80);
    }
    this.#numbers[this.#end++] = value;
  }

  float64(value: number): void {
    if (this.#end + 8 > this.#numbers.length) this.#grow(8);
    floats[0] = value;
    this.#numbers.set(floatBytes, this.#end);
    this.#end += 8;
  }

  /** A time, also one before 1970, in 6 bytes. */
  time(value: Time): void {
    if (this.#end + 6 > this.#numbers.length) this.#grow(6);
    const shifted = Math.min(Math.max(value + TIME_OFFSET, 0), TIME_END);
    const high = Math.floor(shifted / 2 ** 32);
    const bytes = this.#numbers;
    bytes[this.#end++] = high;
    bytes[this.#end++] = high >>> 8;
    const low = shifted >>> 0;
    bytes[this.#end++] = low;
    bytes[this.#end++] = low >>> 8;
    bytes[this.#end++] = low >>> 16;
    bytes[this.#end++] = low >>> 24;
  }

  /**
   * A text without half of a surrogate pair, which UTF-8 cannot carry and which would come back as U+FFFD.
   */
  text(value: string): void {
    this.varint(value.length);
    this.#texts += value;
  }

  json(value: Json): void {
    if (typeof value === 'string' && value.isWellFormed()) {
      this.varint(TEXT);
      this.text(value);
    } else if (typeof value === 'number') this.#number(value);
    else if (value === null) this.varint(NULL);
    else if (typeof value === 'boolean') this.varint(value ? TRUE : FALSE);
    else {
      this.varint(NESTED);
      this.text(JSON.stringify(value));
    }
  }

  bytes(value: Uint8Array): void {
    this.varint(value.length);
    this.#grow(value.length);
    this.#numbers.set(value, this.#end);
    this.#end += value.length;
  }

  /**
   * Returns the bytes written so far in a new array, whose length is a multiple of `multiple`, and empties
   * the writer.
   */
  finish(multiple: number): Uint8Array {
    const texts = this.#texts;
    const textBytes = Buffer.byteLength(texts);
    const isAscii = textBytes === texts.length;
    const head = textBytes * 2 + (isAscii ? 0 : 1);
    let headBytes = 2;
    for (let rest = head; rest >= 0x80; rest = Math.floor(rest / 0x80)) headBytes++;
    const length = headBytes + textBytes + this.#end;
    const out = Buffer.alloc(Math.ceil(length / multiple) * multiple);
    out[0] = VERSION;
    let at = 1;
    for (let rest = head; ; rest = Math.floor(rest / 0x80)) {
      if (rest < 0x80) {
        out[at++] = rest;
        break;
      }
      out[at++] = (rest % 0x80) | 0x80;
    }
    out.write(texts, at, isAscii ? 'latin1' : 'utf8');
    at += textBytes;
    out.set(this.#numbers.subarray(0, this.#end), at);
    this.#end = 0;
    this.#texts = '';
    return out;
  }

  /** Makes room for so many more bytes. */
  #grow(bytes: number): void {
    const needed = this.#end + bytes;
    if (needed <= this.#numbers.length) return;
    const larger = new Uint8Array(Math.max(needed, this.#numbers.length * 2));
    larger.set(this.#numbers.subarray(0, this.#end));
    this.#numbers = larger;
  }

  #number(value: number): void {
    if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
      this.varint(value < 0 ? NEGATIVE : WHOLE);
      this.varint(Math.abs(value));
    } else {
      this.varint(FLOAT);
      this.float64(value);
    }
  }
}

/**
 * Reads what a `ByteWriter` wrote, in the same order. Throws a `RangeError` beyond the end: then the bytes
 * are not of this kind.
 */
export class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #texts: string;
  #at: number;
  #textAt = 0;

  constructor(bytes: Uint8Array) {
    if (bytes[0] !== VERSION) throw new RangeError(`unknown version ${bytes[0]} of a profile`);
    this.#bytes = bytes;
    this.#at = 1;
    const head = this.varint();
    const end = this.#at + Math.floor(head / 2);
    if (end > bytes.length) throw new RangeError('the texts of a profile end behind its bytes');
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#texts = buffer.toString(head % 2 === 0 ? 'latin1' : 'utf8', this.#at, end);
    this.#at = end;
  }

  varint(): number {
    let byte = this.#bytes[this.#at++];
    if (byte === undefined) throw new RangeError('the bytes of a profile end early');
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    for (let factor = 0x80; ; factor *= 0x80) {
      byte = this.#bytes[this.#at++];
      if (byte === undefined) throw new RangeError('the bytes of a profile end early');
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
  }

  float64(): number {
    const end = this.#skip(8);
    floatBytes.set(this.#bytes.subarray(end - 8, end));
    return floats[0]!;
  }

  time(): Time {
    const from = this.#skip(6) - 6;
    const bytes = this.#bytes;
    const high = bytes[from]! + bytes[from + 1]! * 0x100;
    const low =
      bytes[from + 2]! | (bytes[from + 3]! << 8) | (bytes[from + 4]! << 16) | (bytes[from + 5]! << 24);
    return high * 2 ** 32 + (low >>> 0) - TIME_OFFSET;
  }

  /** Characters of texts that were read so far. */
  get textsRead(): number {
    return this.#textAt;
  }

  text(): string {
    const from = this.#textAt;
    this.#textAt += this.varint();
    if (this.#textAt > this.#texts.length) throw new RangeError('the texts of a profile end early');
    return this.#texts.slice(from, this.#textAt);
  }

  json(): Json {
    const kind = this.varint();
    switch (kind) {
      case NULL:
        return null;
      case FALSE:
        return false;
      case TRUE:
        return true;
      case WHOLE:
        return this.varint();
      case NEGATIVE:
        return -this.varint();
      case FLOAT:
        return this.float64();
      case TEXT:
        return this.text();
      case NESTED:
        return JSON.parse(this.text()) as Json;
      default:
        throw new RangeError(`unknown kind ${kind} of a JSON value`);
    }
  }

  bytes(): Uint8Array {
    const length = this.varint();
    const end = this.#skip(length);
    return new Uint8Array(this.#bytes.subarray(end - length, end));
  }

  /** Moves on and returns where the reader then stands. */
  #skip(bytes: number): number {
    this.#at += bytes;
    if (this.#at > this.#bytes.length) throw new RangeError('the bytes of a profile end early');
    return this.#at;
  }
}
