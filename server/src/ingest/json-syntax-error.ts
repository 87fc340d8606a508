import { BACKSLASH, LINE_FEED, QUOTE } from '../model/json.ts';

/** The first fault of a body that is no JSON. */
export interface JsonSyntaxError {
  /** A sentence for the client, with position, token and field and nothing else of the body. */
  readonly sentence: string;
  /**
   * The write key of the body, or of the first call that has one. Also found behind the fault when that can
   * be read.
   */
  readonly writeKey: string | undefined;
}

/**
 * Finds the first fault of a body that `JSON.parse` refuses; undefined when there is none. `JSON.parse`
 * itself often gives no position, and quotes the body, which may hold a write key.
 *
 * One pass over the bytes, without recursion. It goes on behind faults that leave the structure readable
 * (`NaN`, single quotes, a comma too many), because most libraries put their write key behind the calls.
 */
export function findSyntaxError(body: Buffer): JsonSyntaxError | undefined {
  return new SyntaxErrorFinder(body).run();
}

const APOSTROPHE = 0x27;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const WRITE_KEY = 'writeKey';

/** The tokens that may come next. */
type ExpectedToken = 'value' | 'first value' | 'key' | 'first key' | 'colon' | 'comma or end';

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Levels for which there is room at first. */
const INITIAL_LEVELS = 32;

class SyntaxErrorFinder {
  readonly #bytes: Buffer;
  #at = 0;
  #expected: ExpectedToken = 'value';
  /** For each open level: its index in a list, or −1 with the begin and end of its field's name. */
  #indexes = new Int32Array(INITIAL_LEVELS);
  #namesFrom = new Int32Array(INITIAL_LEVELS);
  #namesTo = new Int32Array(INITIAL_LEVELS);
  #depth = 0;
  #sentence: string | undefined;
  /** Stops looking for write keys. */
  #isOver = false;
  #sharedKey: string | undefined;
  #firstKey: string | undefined;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    // A byte order mark is no fault.
    if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) this.#at = 3;
  }

  run(): JsonSyntaxError | undefined {
    let goesOn = true;
    while (goesOn && !this.#isOver && this.#skipBlanks()) goesOn = this.#step(this.#bytes[this.#at]!);
    const isEmpty = this.#depth === 0 && this.#expected === 'value';
    if (goesOn && !this.#isWhole) this.#fault(this.#at, '', isEmpty);
    const writeKey = this.#sharedKey ?? this.#firstKey;
    return this.#sentence === undefined ? undefined : { sentence: this.#sentence, writeKey };
  }

  get #isWhole(): boolean {
    return this.#depth === 0 && this.#expected === 'comma or end';
  }

  /** False at the end of the body. */
  #skipBlanks(): boolean {
    for (; this.#at < this.#bytes.length; this.#at++) {
      const byte = this.#bytes[this.#at]!;
      if (byte !== 0x20 && byte !== LINE_FEED && byte !== 0x0d && byte !== 0x09) return true;
    }
    return false;
  }

  /** Reads one token. False when the rest of the body cannot be read. */
  #step(byte: number): boolean {
    switch (this.#expected) {
      case 'value':
      case 'first value':
        return this.#readValue(byte);
      case 'key':
      case 'first key':
        return this.#readKey(byte);
      case 'colon':
        return byte === COLON ? this.#pass('value') : this.#stop();
      case 'comma or end':
        return this.#readEnd(byte);
    }
  }

  #readValue(byte: number): boolean {
    if (byte === OPEN_OBJECT) return this.#open(-1, 'first key');
    if (byte === OPEN_LIST) return this.#open(0, 'first value');
    if (byte === CLOSE_LIST && this.#isIn('list')) {
      // A comma before a closing bracket is one too many.
      if (this.#expected === 'value') this.#fault(this.#at, ']');
      return this.#close();
    }
    if (byte === QUOTE || byte === APOSTROPHE) {
      const from = this.#at;
      if (byte === APOSTROPHE) this.#fault(from, "'");
      const isEnded = this.#readText(byte);
      if (isEnded) this.#keep(from, this.#at);
      this.#expected = 'comma or end';
      return isEnded;
    }
    const word = this.#wordAt(this.#at);
    if (word === '') return this.#stop();
    if (
      this.#sentence === undefined &&
      word !== 'true' &&
      word !== 'false' &&
      word !== 'null' &&
      !NUMBER.test(word)
    ) {
      this.#fault(this.#at, word);
    }
    this.#at += word.length;
    this.#expected = 'comma or end';
    return true;
  }

  #readKey(byte: number): boolean {
    if (byte === CLOSE_OBJECT) {
      if (this.#expected === 'key') this.#fault(this.#at, '}');
      return this.#close();
    }
    this.#name(0, 0);
    const from = this.#at;
    if (byte === QUOTE || byte === APOSTROPHE) {
      if (byte === APOSTROPHE) this.#fault(from, "'");
      if (!this.#readText(byte)) return false;
      this.#name(from + 1, this.#at - 1);
    } else {
      const word = this.#wordAt(from);
      if (word === '') return this.#stop();
      this.#fault(from, word);
      this.#at += word.length;
      this.#name(from, this.#at);
    }
    this.#expected = 'colon';
    return true;
  }

  #readEnd(byte: number): boolean {
    if (this.#depth === 0) return this.#stop();
    const isList = this.#isIn('list');
    if (byte === (isList ? CLOSE_LIST : CLOSE_OBJECT)) return this.#close();
    if (byte !== COMMA) return this.#stop();
    if (!isList) return this.#pass('key');
    this.#indexes[this.#depth - 1]!++;
    return this.#pass('value');
  }

  #isIn(kind: 'list' | 'object'): boolean {
    return this.#depth > 0 && this.#indexes[this.#depth - 1]! >= 0 === (kind === 'list');
  }

  #open(index: number, expected: ExpectedToken): boolean {
    if (this.#depth === this.#indexes.length) {
      this.#indexes = doubleSize(this.#indexes);
      this.#namesFrom = doubleSize(this.#namesFrom);
      this.#namesTo = doubleSize(this.#namesTo);
    }
    this.#indexes[this.#depth++] = index;
    this.#name(0, 0);
    return this.#pass(expected);
  }

  #close(): boolean {
    this.#depth--;
    return this.#pass('comma or end');
  }

  /** Notes where the name of the innermost object's field stands. */
  #name(from: number, to: number): void {
    this.#namesFrom[this.#depth - 1] = from;
    this.#namesTo[this.#depth - 1] = to;
  }

  #pass(expected: ExpectedToken): boolean {
    this.#at++;
    this.#expected = expected;
    return true;
  }

  /** Reports a fault behind which the body cannot be read. */
  #stop(): boolean {
    this.#fault(this.#at, this.#wordAt(this.#at) || characterAt(this.#bytes, this.#at));
    return false;
  }

  /** Moves behind the closing quote; false when there is none. */
  #readText(quote: number): boolean {
    const bytes = this.#bytes;
    for (let at = this.#at + 1; at < bytes.length; at++) {
      const byte = bytes[at]!;
      if (byte === quote) {
        this.#at = at + 1;
        return true;
      }
      if (byte < 0x20) this.#fault(at, String.fromCharCode(byte));
      if (byte !== BACKSLASH) continue;
      if (this.#sentence === undefined && !isEscape(bytes, at + 1)) {
        this.#fault(at, `\\${characterAt(bytes, at + 1)}`);
      }
      at++;
    }
    this.#at = bytes.length;
    this.#fault(this.#at, '');
    return false;
  }

  /** Moves behind letters, digits and the other characters of numbers. */
  #wordAt(from: number): string {
    let to = from;
    while (to < this.#bytes.length && IN_WORDS[this.#bytes[to]!] === 1) to++;
    return this.#bytes.toString('latin1', from, to);
  }

  /** Keeps a text if it is the write key of the body, or of the first call of a batch that has one. */
  #keep(from: number, to: number): void {
    const depth = this.#depth;
    if ((depth !== 1 && depth !== 3) || !this.#isIn('object') || !this.#isWriteKey(depth - 1)) return;
    if (depth === 3 && (this.#firstKey !== undefined || this.#nameOf(0) !== 'batch')) return;
    const key = textIn(this.#bytes, from, to);
    if (depth === 1) this.#sharedKey = key;
    else this.#firstKey = key;
  }

  #isWriteKey(level: number): boolean {
    const length = this.#namesTo[level]! - this.#namesFrom[level]!;
    return length === WRITE_KEY.length && this.#nameOf(level) === WRITE_KEY;
  }

  #nameOf(level: number): string {
    const from = this.#namesFrom[level]!;
    return this.#bytes.toString('utf8', from, Math.min(this.#namesTo[level]!, from + 4 * MAX_NAME_LENGTH));
  }

  /** Keeps the first fault. An empty token is the end of the body. */
  #fault(at: number, token: string, isEmpty = false): void {
    if (this.#sentence !== undefined) return;
    this.#sentence = describeSyntaxError({ bytes: this.#bytes, at, token, path: this.#path(), isEmpty });
    this.#isOver = this.#bytes.indexOf(WRITE_KEY, at) < 0;
  }

  /** The path as a program would write it, `batch[3].properties.price`; only the end of a long one. */
  #path(): string {
    let path = '';
    for (let level = this.#depth - 1; level >= 0; level--) {
      if (path.length > MAX_PATH_LENGTH) return `…${path}`;
      const index = this.#indexes[level]!;
      if (index >= 0) path = `[${index}]${path}`;
      else if (this.#namesTo[level]! > 0) path = `${pathPart(this.#nameOf(level))}${path}`;
    }
    return path.startsWith('.') ? path.slice(1) : path;
  }
}

const IN_WORDS = new Uint8Array(256);
for (const byte of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$+-.')) {
  IN_WORDS[byte] = 1;
}

function doubleSize(places: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const more = new Int32Array(places.length * 2);
  more.set(places);
  return more;
}

function textIn(bytes: Buffer, from: number, to: number): string | undefined {
  const text = bytes.toString('utf8', from, to);
  if (text.startsWith("'")) return /^'([^'"\\]+)'$/.exec(text)?.[1];
  try {
    return (JSON.parse(text) as string) || undefined;
  } catch {
    return undefined;
  }
}

/** The facts about a fault. */
interface SyntaxErrorFacts {
  /** The whole body. */
  readonly bytes: Buffer;
  /** Offset of the fault in bytes. */
  readonly at: number;
  /** The token there; empty at the end of the body. */
  readonly token: string;
  /** Path of the field with the fault, as `#path` writes it. */
  readonly path: string;
  /** Whether the body has nothing but blanks. */
  readonly isEmpty: boolean;
}

/** Corrections for words of other languages. */
const HINTS: ReadonlyMap<string, string> = new Map([
  ...hintsFor(
    ['NaN', 'nan', 'Infinity', '-Infinity', 'inf', '-inf'],
    'JSON has no such number: send null, or leave the field out.',
  ),
  ...hintsFor(['undefined', 'None', 'nil', 'NULL'], 'Send null, or leave the field out.'),
  ...hintsFor(['True', 'TRUE'], 'Send true.'),
  ...hintsFor(['False', 'FALSE'], 'Send false.'),
  ...hintsFor(["'"], 'Texts stand in double quotes.'),
]);

function hintsFor(words: readonly string[], hint: string): [string, string][] {
  return words.map((word) => [word, hint]);
}

/** Characters shown of the offending token, and of a field's name. */
const MAX_TOKEN_LENGTH = 20;
const MAX_NAME_LENGTH = 40;
/** Characters shown of the path, counted from its end. */
const MAX_PATH_LENGTH = 120;

/** Fields whose values are never shown. */
const SECRET_NAME = /key|token|secret|passw|auth/i;

/** The sentence for the client. It quotes no more of the body than a short token and names of fields. */
function describeSyntaxError({ bytes, at, token, path, isEmpty }: SyntaxErrorFacts): string {
  if (isEmpty) return 'It is empty.';
  const place = `byte ${at} (line ${lineOf(bytes, at)})${path === '' ? '' : `, in ${path}`}`;
  if (token === '') return `It breaks off at ${place}.`;
  const instead = HINTS.get(token);
  const isSecret = instead === undefined && SECRET_NAME.test(path.slice(path.lastIndexOf('.') + 1));
  const shown = isSecret ? 'value without quotes' : printable(token, MAX_TOKEN_LENGTH);
  return `Unexpected ${shown} at ${place}.${instead === undefined ? '' : ` ${instead}`}`;
}

/** The name of a field as a part of a path, `.price` or `["unit price"]`. */
function pathPart(name: string): string {
  const text = printable(name, MAX_NAME_LENGTH);
  return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(text) ? `.${text}` : `["${text}"]`;
}

/** Keeps letters of any language, and escapes characters that could disturb a screen or a log. */
function printable(text: string, most: number): string {
  const characters = [...text];
  const shown = characters
    .slice(0, most)
    .map((one) => (/[\p{L}\p{N}\x20-\x7e]/u.test(one) ? one : `\\u{${one.codePointAt(0)!.toString(16)}}`))
    .join('');
  return characters.length > most ? `${shown}…` : shown;
}

/** The line number, from 1. */
function lineOf(bytes: Buffer, to: number): number {
  let line = 1;
  for (let at = bytes.indexOf(LINE_FEED); at >= 0 && at < to; at = bytes.indexOf(LINE_FEED, at + 1)) line++;
  return line;
}

/** One character of UTF-8, or the part of it that there is. */
function characterAt(bytes: Buffer, at: number): string {
  const [character = ''] = bytes.toString('utf8', at, at + 4);
  return character;
}

const ESCAPES = Buffer.from('"\\/bfnrt');

/** Whether JSON allows the characters behind a backslash, which begin at `at`. */
function isEscape(bytes: Buffer, at: number): boolean {
  const byte = bytes[at];
  if (byte === undefined) return true; // The body breaks off: reported elsewhere.
  if (byte !== 0x75) return ESCAPES.includes(byte);
  for (let digit = at + 1; digit < at + 5; digit++) if (!isHex(bytes[digit] ?? 0)) return false;
  return true;
}

function isHex(byte: number): boolean {
  const letter = byte | 0x20;
  return (byte >= 0x30 && byte <= 0x39) || (letter >= 0x61 && letter <= 0x66);
}
