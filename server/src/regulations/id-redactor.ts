/**
 * Ids shorter than this are found only where they stand alone, with neither a letter nor a digit beside them:
 * `5` is not the user in "status 500". Longer ones are found inside of words too.
 */
const SHORT_ID = 8;

/** Most layers of encoding that are decoded: JSON may be a text in JSON, or in a query string. */
const MAX_LAYERS = 3;

/** Replacement of an id. */
const ELLIPSIS = '…';

/**
 * Finds ids in texts that others wrote: as they are, with the escapes of JSON, and percent-encoded, one in
 * the other too. The case of letters does not count, nor whether accents are letters of their own. The time
 * depends on the length of the text and on how many different lengths the ids have, not on their number.
 */
export class IdRedactor {
  readonly #byLength = new Map<number, Needles>();

  constructor(ids: readonly string[]) {
    for (const { text } of ids.map((id) => folded({ text: id }))) {
      if (text === '') continue;
      const needles = this.#byLength.get(text.length) ?? new Needles(text.length);
      this.#byLength.set(text.length, needles);
      needles.add(text);
    }
  }

  readonly mentions = (text: string): boolean => !this.#spansIn(text).next().done;

  /** The text with an ellipsis in the place of every id; the same text when it has none. */
  readonly redact = (text: string): string => {
    const spans = [...this.#spansIn(text)].sort((a, b) => a.start - b.start || b.end - a.end);
    if (spans.length === 0) return text;
    const parts: string[] = [];
    let [from, isFirst] = [0, true];
    for (const { start, end } of spans) {
      if (start >= from || isFirst) parts.push(text.slice(from, start), ELLIPSIS);
      from = Math.max(from, end);
      isFirst = false;
    }
    return parts.join('') + text.slice(from);
  };

  *#spansIn(original: string): Generator<Span> {
    let layer: Layer | undefined = { text: original };
    for (let depth = 0; layer !== undefined && depth <= MAX_LAYERS; depth++) {
      const searched = folded(layer);
      for (const needles of this.#byLength.values()) {
        for (const at of needles.placesIn(searched.text))
          yield { start: startOf(searched, at), end: endOf(searched, at + needles.length - 1) };
      }
      layer = unescaped(layer);
    }
  }
}

/** A part of the original text. `end` is behind its last character. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * A text, and where each of its characters comes from in the original; without `spans` they stand at the same
 * places.
 */
interface Layer {
  readonly text: string;
  readonly spans?: readonly Span[];
}

function startOf({ spans }: Layer, at: number): number {
  return spans === undefined ? at : spans[at]!.start;
}

function endOf({ spans }: Layer, at: number): number {
  return spans === undefined ? at + 1 : spans[at]!.end;
}

/** Replaces parts of a layer. Characters of a replaced part all come from the whole part. */
function replaceIn(layer: Layer, parts: RegExp, replacement: (part: string) => string): Layer {
  const texts: string[] = [];
  const spans: Span[] = [];
  const keep = (from: number, to: number) => {
    texts.push(layer.text.slice(from, to));
    for (let at = from; at < to; at++) spans.push({ start: startOf(layer, at), end: endOf(layer, at) });
  };
  let from = 0;
  for (const { 0: part, index } of layer.text.matchAll(parts)) {
    keep(from, index);
    from = index + part.length;
    const text = replacement(part);
    const span = { start: startOf(layer, index), end: endOf(layer, from - 1) };
    texts.push(text);
    for (let n = 0; n < text.length; n++) spans.push(span);
  }
  keep(from, layer.text.length);
  return { text: texts.join(''), spans };
}

const ASCII = /^[\0-\x7f]*$/;
/**
 * Matches a letter with its accents. Texts differ in their order, and in whether a letter includes its
 * accent.
 */
const LETTERS = /[^\0-\x7f\p{M}]\p{M}*|[\0-\x7f]?\p{M}+/gu;

/** The form in which texts are compared. */
function folded(layer: Layer): Layer {
  const lower = { ...layer, text: layer.text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()) };
  if (ASCII.test(layer.text)) return lower;
  // By way of capitals, because some letters have two small forms.
  return replaceIn(lower, LETTERS, (letter) => letter.normalize('NFD').toUpperCase().toLowerCase());
}

/** One escape of JSON, or one character in the percent-encoding of UTF-8. */
const ESCAPES =
  /\\u[0-9a-f]{4}|\\["\\/bfnrt]|%[0-7][0-9a-f]|%[cd][0-9a-f]%[89ab][0-9a-f]|%e[0-9a-f](?:%[89ab][0-9a-f]){2}|%f[0-7](?:%[89ab][0-9a-f]){3}/gi;

/** Undefined when nothing in it is escaped. */
function unescaped(layer: Layer): Layer | undefined {
  if (layer.text.search(ESCAPES) < 0) return undefined;
  return replaceIn(layer, ESCAPES, charactersOf);
}

function charactersOf(escaped: string): string {
  try {
    if (escaped.startsWith('%')) return decodeURIComponent(escaped);
    return JSON.parse(`"${escaped.toLowerCase()}"`) as string;
  } catch {
    // The bytes are no UTF-8.
    return escaped;
  }
}

const BASE = 31;

/** Texts of one length, found by a rolling hash (Rabin and Karp). */
class Needles {
  readonly length: number;
  readonly #byHash = new Map<number, Set<string>>();
  /** The weight of the character that leaves the window. */
  #weight = 1;

  constructor(length: number) {
    this.length = length;
    for (let n = 1; n < length; n++) this.#weight = Math.imul(this.#weight, BASE);
  }

  add(text: string): void {
    const hash = hashOf(text, text.length);
    const same = this.#byHash.get(hash);
    if (same === undefined) this.#byHash.set(hash, new Set([text]));
    else same.add(text);
  }

  *placesIn(text: string): Generator<number> {
    const { length } = this;
    if (text.length < length) return;
    const isShort = length < SHORT_ID;
    let hash = hashOf(text, length);
    for (let at = 0; ; at++) {
      const candidates = this.#byHash.get(hash);
      if (candidates?.has(text.slice(at, at + length)) && !(isShort && isInWord(text, at, at + length)))
        yield at;
      if (at + length >= text.length) return;
      const rest = (hash - Math.imul(text.charCodeAt(at), this.#weight)) | 0;
      hash = (Math.imul(rest, BASE) + text.charCodeAt(at + length)) | 0;
    }
  }
}

function hashOf(text: string, length: number): number {
  let hash = 0;
  for (let at = 0; at < length; at++) hash = (Math.imul(hash, BASE) + text.charCodeAt(at)) | 0;
  return hash;
}

const BEFORE = /[\p{L}\p{N}\p{M}]$/u;
const AFTER = /^[\p{L}\p{N}\p{M}]/u;

/** Whether a letter or a digit stands beside a part of the text. Two units, because a letter may have two. */
function isInWord(text: string, start: number, end: number): boolean {
  return BEFORE.test(text.slice(Math.max(0, start - 2), start)) || AFTER.test(text.slice(end, end + 2));
}
