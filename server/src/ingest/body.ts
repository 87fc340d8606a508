import { isUtf8 } from 'node:buffer';
import type { Json } from '../model/json.ts';
import { firstInvalid } from '../model/utf8.ts';

/** A body read as JSON. */
export interface ReadBody {
  readonly value: Json;
  /** Numbers that became text of their digits. */
  readonly numbersAsText: number;
  /** The first byte that belongs to no character of UTF-8; undefined when all do. */
  readonly invalidAt: number | undefined;
  /** Whether such bytes stand in a part of `value`. */
  readonly hasInvalid: (part: Json) => boolean;
  /** A part of `value` as a person may see it. */
  readonly shown: (part: Json) => Json;
}

/**
 * Parses a body. Throws a `SyntaxError` where it is no JSON, and a `RangeError` where it is nested too deep.
 */
export function readBody(body: Buffer): ReadBody {
  if (isUtf8(body)) {
    const parsed = parseJson(withoutMark(body.toString()));
    return { ...parsed, invalidAt: undefined, hasInvalid: () => false, shown: (part) => part };
  }
  const stand = standIn(body.toString());
  const { text, invalidAt } = decodeWith(body, stand);
  const hasInvalid = (part: Json) => written(part)?.includes(stand) ?? true;
  const shown = (part: Json) => {
    const json = written(part);
    return json === undefined ? part : (JSON.parse(json.replaceAll(stand, '\ufffd')) as Json);
  };
  return { ...parseJson(withoutMark(text)), invalidAt, hasInvalid, shown };
}

/** Undefined for what is nested too deep to be written, which no call may be. */
function written(part: Json): string | undefined {
  try {
    return JSON.stringify(part);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Some clients on Windows begin every text with a byte order mark. */
function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

const PRIVATE_USE = /[\ue000-\uf8ff]|\\u([ef][0-9a-f]{3})/gi;

/**
 * A character for private use that does not occur in a text, nor escaped as `\u…`, which would mean the same.
 */
function standIn(text: string): string {
  const used = new Set<number>();
  for (const [character, escaped] of text.matchAll(PRIVATE_USE))
    used.add(escaped === undefined ? character.charCodeAt(0) : Number.parseInt(escaped, 16));
  let code = 0xe000;
  // A body has no room for all of them in both ways.
  while (used.has(code) && code < 0xf8ff) code++;
  return String.fromCharCode(code);
}

/** Decodes bytes, with a character of one's own for those that are no UTF-8. */
function decodeWith(
  bytes: Buffer,
  stand: string,
): { readonly text: string; readonly invalidAt: number | undefined } {
  const parts: string[] = [];
  let invalidAt: number | undefined;
  for (let from = 0; from < bytes.length; ) {
    const at = firstInvalid(bytes, from);
    parts.push(bytes.toString('utf8', from, at));
    if (at < bytes.length) {
      invalidAt ??= at;
      parts.push(stand);
    }
    from = at + 1;
  }
  return { text: parts.join(''), invalidAt };
}

/** Only a text with such a part can have a number that a double does not hold. */
const MAY_BE_LARGE = /\d{16}|[eE]\+?\d{2}/;

/** A text of JSON, so that nothing in it is taken for a number, or a number. */
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Parses JSON without rounding what must not be rounded: an integer beyond ±(2^53 − 1) is most often an id,
 * whose last digits tell two people apart, and a number that overflows would be null. Both become texts as
 * they are written; every other number is its double. spec/specification.md, "Values".
 */
export function parseJson(text: string): { readonly value: Json; readonly numbersAsText: number } {
  // First as it is: in a text that is no JSON the pattern below could begin again at each quote, and read to
  // the end each time.
  const value: Json = JSON.parse(text);
  if (!MAY_BE_LARGE.test(text)) return { value, numbersAsText: 0 };
  let numbersAsText = 0;
  const quoted = text.replace(TEXT_OR_NUMBER, (literal) => {
    if (literal.startsWith('"') || isHeldByDouble(literal)) return literal;
    numbersAsText++;
    return `"${literal}"`;
  });
  return numbersAsText === 0 ? { value, numbersAsText } : { value: JSON.parse(quoted), numbersAsText };
}

/**
 * Whether a number survives as a double, as it is meant: with a point or an exponent its size, without them
 * each digit.
 */
export function isHeldByDouble(literal: string): boolean {
  const number = Number(literal);
  return /^-?\d+$/.test(literal) ? Number.isSafeInteger(number) : Number.isFinite(number);
}
