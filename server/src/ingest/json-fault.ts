import { isEscape } from './json-escape.ts';
import { characterAt, LONGEST_NAME, LONGEST_PATH, sentenceOf, written } from './json-fault-sentence.ts';

/** Where a body stops being JSON. */
export interface JsonFault {
  /** A sentence for the client: position, token and field; nothing else of the body. */
  readonly sentence: string;
  /** The write key of the body, or of the first call that has one; found behind the fault too where that can be read. */
  readonly writeKey: string | undefined;
}

/**
 * Finds the first fault of a body that `JSON.parse` refuses; undefined where there is none. `JSON.parse` itself often gives no
 * position, and quotes the body, which may hold a write key.
 *
 * One pass over the bytes, without recursion. It goes on behind faults that leave the structure readable (`NaN`, single
 * quotes, a comma too many), because most libraries write their write key behind the calls.
 */
export function faultOf(body: Buffer): JsonFault | undefined {
  return new FaultSearch(body).run();
}

const QUOTE = 0x22;
const APOSTROPHE = 0x27;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const LINE_FEED = 0x0a;

const WRITE_KEY = 'writeKey';

/** What may stand next. */
type Expected = 'value' | 'first value' | 'key' | 'first key' | 'colon' | 'comma or end';

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Levels there is room for at first. */
const LEVELS = 32;

class FaultSearch {
  readonly #bytes: Buffer;
  #at = 0;
  #expected: Expected = 'value';
  /** For each level that is open: its index in a list, or −1 and where the name of its field begins and ends. */
  #indexes = new Int32Array(LEVELS);
  #namesFrom = new Int32Array(LEVELS);
  #namesTo = new Int32Array(LEVELS);
  #depth = 0;
  #sentence: string | undefined;
  /** No write key follows. */
  #isOver = false;
  #sharedKey: string | undefined;
  #firstKey: string | undefined;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    // A byte order mark is no fault.
    if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) this.#at = 3;
  }

  run(): JsonFault | undefined {
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

  /** Reads one token. False when it is not known how to go on. */
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
      // A comma before it is one too many.
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

  #open(index: number, expected: Expected): boolean {
    if (this.#depth === this.#indexes.length) {
      this.#indexes = doubled(this.#indexes);
      this.#namesFrom = doubled(this.#namesFrom);
      this.#namesTo = doubled(this.#namesTo);
    }
    this.#indexes[this.#depth++] = index;
    this.#name(0, 0);
    return this.#pass(expected);
  }

  #close(): boolean {
    this.#depth--;
    return this.#pass('comma or end');
  }

  /** Says where the name of the field of the innermost object stands. */
  #name(from: number, to: number): void {
    this.#namesFrom[this.#depth - 1] = from;
    this.#namesTo[this.#depth - 1] = to;
  }

  #pass(expected: Expected): boolean {
    this.#at++;
    this.#expected = expected;
    return true;
  }

  /** A fault behind which the rest may mean anything. */
  #stop(): boolean {
    this.#fault(this.#at, this.#wordAt(this.#at) || characterAt(this.#bytes, this.#at));
    return false;
  }

  /** To behind the closing quote; false when there is none. */
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

  /** Letters, digits and what numbers are made of. */
  #wordAt(from: number): string {
    let to = from;
    while (to < this.#bytes.length && IN_WORDS[this.#bytes[to]!] === 1) to++;
    return this.#bytes.toString('latin1', from, to);
  }

  /** Keeps a text if it is a write key: of the body, or of the first call of a batch that has one. */
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
    return this.#bytes.toString('utf8', from, Math.min(this.#namesTo[level]!, from + 4 * LONGEST_NAME));
  }

  /** Only the first one counts. An empty token is the end of the body. */
  #fault(at: number, token: string, isEmpty = false): void {
    if (this.#sentence !== undefined) return;
    this.#sentence = sentenceOf({ bytes: this.#bytes, at, token, path: this.#path(), isEmpty });
    this.#isOver = this.#bytes.indexOf(WRITE_KEY, at) < 0;
  }

  /** As a program would write it, `batch[3].properties.price`; of a long one its end. */
  #path(): string {
    let path = '';
    for (let level = this.#depth - 1; level >= 0; level--) {
      if (path.length > LONGEST_PATH) return `…${path}`;
      const index = this.#indexes[level]!;
      if (index >= 0) path = `[${index}]${path}`;
      else if (this.#namesTo[level]! > 0) path = `${written(this.#nameOf(level))}${path}`;
    }
    return path.startsWith('.') ? path.slice(1) : path;
  }
}

const IN_WORDS = new Uint8Array(256);
for (const byte of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$+-.')) {
  IN_WORDS[byte] = 1;
}

function doubled(places: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
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
