/**
 * The part of HCL in which a workspace is written into a Git repository: blocks with labels, attributes with
 * texts, numbers, `true`, `false`, `null`, lists and objects, `jsonencode(…)`, and references to other
 * blocks. Anything else is an `HclError`: half of a file would be a wrong workspace.
 */
export interface HclBlock {
  readonly type: string;
  readonly labels: readonly string[];
  readonly attributes: Readonly<Record<string, HclValue>>;
}

export type HclValue =
  | string
  | number
  | boolean
  | null
  | HclReference
  | readonly HclValue[]
  | { readonly [key: string]: HclValue };

/** The address of another block, such as `segment_source.id-src_web`. */
export class HclReference {
  readonly address: string;

  constructor(address: string) {
    this.address = address;
  }
}

export class HclError extends Error {}

/** Levels of lists and objects; deeper ones would fill the stack. */
const MAX_DEPTH = 100;

/** One run of blanks, or one comment: a pattern that repeats would fill the stack for a long file. */
const BLANK = /[ \t\r\n]+|#[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?\*\//y;
const WORD = /[A-Za-z_][A-Za-z0-9_-]*/y;
const ADDRESS = /[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*/y;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** Up to the next character of a text that means something. */
const PLAIN_TEXT = /[^"\\$%\n]*/y;

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' };

/** Reads a file. Throws an `HclError` with the line of the first character that is not understood. */
export function parseHcl(text: string): HclBlock[] {
  const reader = new HclReader(text);
  const blocks: HclBlock[] = [];
  while (!reader.isAtEnd()) blocks.push(reader.block());
  return blocks;
}

class HclReader {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text.replace(/^\ufeff/, '');
  }

  isAtEnd(): boolean {
    this.#skip();
    return this.#at >= this.#text.length;
  }

  block(): HclBlock {
    const type = this.#need(WORD, 'a block');
    const labels: string[] = [];
    while (!this.#takes('{'))
      labels.push(this.#next() === '"' ? this.#string() : this.#need(WORD, 'a label'));
    return { type, labels, attributes: this.#attributes() };
  }

  #attributes(): Record<string, HclValue> {
    const found: Record<string, HclValue> = Object.create(null);
    while (!this.#takes('}')) {
      const name = this.#need(WORD, 'an attribute');
      if (this.#takes('=')) this.#put(found, name, this.#value());
      else throw this.#error(`a block ${name} within a block is not understood`);
    }
    return found;
  }

  #put(object: Record<string, HclValue>, key: string, value: HclValue): void {
    if (key in object) throw this.#error(`${key} is given twice`);
    object[key] = value;
  }

  #value(): HclValue {
    if (++this.#depth > MAX_DEPTH) throw this.#error(`is nested more than ${MAX_DEPTH} levels deep`);
    const value = this.#anyValue();
    this.#depth--;
    return value;
  }

  #anyValue(): HclValue {
    const next = this.#next();
    if (next === '"') return this.#string();
    if (next === '[') return this.#list();
    if (next === '{') return this.#object();
    const number = this.#match(NUMBER);
    if (number !== undefined) return Number(number);
    const word = this.#need(ADDRESS, 'a value');
    if (word === 'null') return null;
    if (word === 'true' || word === 'false') return word === 'true';
    if (word !== 'jsonencode') return new HclReference(word);
    if (!this.#takes('(')) throw this.#error('expected ( behind jsonencode');
    const value = this.#value();
    if (!this.#takes(')')) throw this.#error('expected ) behind the value of jsonencode');
    return value;
  }

  #list(): HclValue[] {
    this.#takes('[');
    const items: HclValue[] = [];
    while (!this.#takes(']')) {
      items.push(this.#value());
      if (!this.#takes(',') && this.#next() !== ']') throw this.#error('expected , or ] in a list');
    }
    return items;
  }

  #object(): Record<string, HclValue> {
    this.#takes('{');
    const found: Record<string, HclValue> = Object.create(null);
    while (!this.#takes('}')) {
      const key = this.#next() === '"' ? this.#string() : this.#need(WORD, 'a key');
      if (!this.#takes('=') && !this.#takes(':')) throw this.#error(`expected = behind ${key}`);
      this.#put(found, key, this.#value());
      this.#takes(',');
    }
    return found;
  }

  #string(): string {
    this.#takes('"');
    const parts: string[] = [];
    for (;;) {
      parts.push(this.#plain());
      const character = this.#text[this.#at];
      if (character === '"') break;
      if (character === '\\') parts.push(this.#escape());
      else if (character === '$' || character === '%') parts.push(this.#marker(character));
      else throw this.#error('this text has no end');
    }
    this.#at++;
    return parts.join('');
  }

  #plain(): string {
    PLAIN_TEXT.lastIndex = this.#at;
    const [plain = ''] = PLAIN_TEXT.exec(this.#text) ?? [];
    this.#at += plain.length;
    return plain;
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1] ?? '';
    const known = ESCAPES[letter];
    if (known !== undefined) {
      this.#at += 2;
      return known;
    }
    const digits = letter === 'u' ? 4 : letter === 'U' ? 8 : 0;
    const hex = this.#text.slice(this.#at + 2, this.#at + 2 + digits);
    const code = Number.parseInt(hex, 16);
    if (digits === 0 || hex.length < digits || !/^[0-9A-Fa-f]+$/.test(hex) || code > 0x10ffff)
      throw this.#error(`\\${letter} is not understood`);
    this.#at += 2 + digits;
    return String.fromCodePoint(code);
  }

  /** `$${` and `%%{` are the characters themselves; with one sign, a template begins. */
  #marker(sign: string): string {
    if (this.#text.startsWith(`${sign}${sign}{`, this.#at)) {
      this.#at += 3;
      return `${sign}{`;
    }
    if (this.#text[this.#at + 1] === '{') throw this.#error(`${sign}{…} in a text is not understood`);
    this.#at++;
    return sign;
  }

  #next(): string {
    this.#skip();
    return this.#text[this.#at] ?? '';
  }

  #takes(symbol: string): boolean {
    if (this.#next() !== symbol) return false;
    this.#at++;
    return true;
  }

  #need(pattern: RegExp, what: string): string {
    this.#skip();
    const found = this.#match(pattern);
    if (found === undefined) throw this.#error(`expected ${what}`);
    return found;
  }

  #skip(): void {
    while (this.#match(BLANK) !== undefined);
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  #error(message: string): HclError {
    const line = this.#text.slice(0, this.#at).split('\n').length;
    return new HclError(`line ${line}: ${message}`);
  }
}
