import {
  type Condition,
  type EventAggregate,
  formatDefinition,
  type Scalar,
  type Value,
} from '@millrace/server/config';

/** The computations of the same export by their keys, under which a query there finds them as traits. */
export interface KnownKeys {
  readonly audiences: ReadonlyMap<string, string>;
  readonly traits: ReadonlyMap<string, string>;
}

export type Translated =
  | {
      /** In the language of audiences. */
      readonly text: string;
      /** Texts that were equal to numbers or to true and false there, and are not here. */
      readonly looseTexts: readonly string[];
      /** Keys of the audiences and computed traits that it names. */
      readonly uses: readonly string[];
    }
  | { readonly cannot: string };

/** Longest query that is looked at, and levels of its parentheses. */
const MAX_LENGTH = 50_000;
const MAX_DEPTH = 50;

const SECOND = 1000;
const DAY = 86_400 * SECOND;
const UNITS: Readonly<Record<string, number>> = {
  second: SECOND,
  minute: 60 * SECOND,
  hour: 3600 * SECOND,
  day: DAY,
  week: 7 * DAY,
};

type Token = { readonly kind: 'text' | 'number' | 'word' | 'symbol' | 'end'; readonly value: string };

const TOKEN =
  /\s+|('(?:[^'\\]|\\[\s\S]|'')*'|"(?:[^"\\]|\\[\s\S])*")|(-?\d+(?:\.\d+)?)|([A-Za-z_][A-Za-z0-9_]*)|(==|!=|<=|>=|[().,:=<>])|([\s\S])/gy;

/** Comparisons as functions there, each with its operator here. */
const COMPARISONS: Readonly<Record<string, string>> = {
  equals: '=',
  differs: '!=',
  greater_than: '>',
  at_least: '>=',
  less_than: '<',
  at_most: '<=',
  starts_with: 'starts_with',
  ends_with: 'ends_with',
};
const SYMBOLS: readonly string[] = ['=', '==', '!=', '<', '<=', '>', '>='];
const OTHER_TESTS = ['absent', 'exists', 'present', 'contains', 'omits', 'one_of', 'none_of'];
const REDUCERS = ['sum', 'avg', 'min', 'max', 'mode', 'first', 'last', 'unique', 'unique_count'];

/** Words of the language there that have no counterpart, each with the reason in the report. */
const WITHOUT_COUNTERPART: Readonly<Record<string, string>> = {
  between: 'between has no counterpart',
  context: 'context of an event',
  entity: 'entities',
  sources: 'sources of events',
  source: 'sources of events',
  any: 'accounts',
  all: 'accounts',
  as: 'a change of type',
};
const DATES = /^(before|after|on|within)_(date|last|next|today)$|^(today|date|now)$/;

class Untranslatable extends Error {}

/** Translates the condition of an audience, or the value of a computed trait. */
export function translateQuery(kind: 'audience' | 'trait', query: string, known: KnownKeys): Translated {
  if (query.length > MAX_LENGTH) return { cannot: `has more than ${MAX_LENGTH} characters` };
  try {
    const parser = new QueryParser(tokensOf(query), known);
    const definition = kind === 'audience' ? parser.wholeCondition() : parser.wholeAggregate();
    return {
      text: formatDefinition(definition),
      looseTexts: [...parser.looseTexts],
      uses: [...parser.uses],
    };
  } catch (error) {
    if (error instanceof Untranslatable) return { cannot: error.message };
    throw error;
  }
}

function tokensOf(query: string): Token[] {
  const tokens: Token[] = [];
  for (const [, text, number, word, symbol, other] of query.matchAll(TOKEN)) {
    if (other !== undefined) throw new Untranslatable(`${other} is not known`);
    if (text !== undefined) tokens.push({ kind: 'text', value: textIn(text) });
    else if (number !== undefined) tokens.push({ kind: 'number', value: number });
    else if (word !== undefined) tokens.push({ kind: 'word', value: word });
    else if (symbol !== undefined) tokens.push({ kind: 'symbol', value: symbol });
  }
  tokens.push({ kind: 'end', value: '' });
  return tokens;
}

function textIn(quoted: string): string {
  const inner = quoted.slice(1, -1).replace(/\\(['"\\])/g, '$1');
  return quoted.startsWith("'") ? inner.replaceAll("''", "'") : inner;
}

class QueryParser {
  readonly looseTexts = new Set<string>();
  readonly uses = new Set<string>();
  readonly #tokens: readonly Token[];
  readonly #known: KnownKeys;
  #next = 0;
  #depth = 0;
  #isWhere = false;

  constructor(tokens: readonly Token[], known: KnownKeys) {
    this.#tokens = tokens;
    this.#known = known;
  }

  wholeCondition(): Condition {
    const condition = this.#or();
    this.#end();
    return condition;
  }

  wholeAggregate(): EventAggregate {
    this.#refuseWords();
    if (!this.#isEvents()) throw new Untranslatable('is not a value of events');
    const { aggregate, isReduced } = this.#aggregate();
    if (!isReduced) throw new Untranslatable('is a condition, and not a value of events');
    this.#end();
    return aggregate;
  }

  #end(): void {
    if (this.#token.kind === 'end') return;
    this.#refuseWords();
    throw new Untranslatable(`${this.#token.value} was not expected`);
  }

  #or(): Condition {
    return this.#joined('or', () => this.#joined('and', () => this.#not()));
  }

  #joined(op: 'and' | 'or', part: () => Condition): Condition {
    const conditions = [part()];
    while (this.#takesWord(op)) conditions.push(part());
    return conditions.length === 1 ? conditions[0]! : { op, conditions };
  }

  #not(): Condition {
    if (!this.#takesWord('not')) return this.#primary();
    return { op: 'not', condition: this.#deeper(() => this.#not()) };
  }

  #primary(): Condition {
    if (this.#takes('(')) {
      const condition = this.#deeper(() => this.#or());
      this.#need(')');
      return condition;
    }
    this.#refuseWords();
    if (this.#isEvents()) return this.#conditionOnEvents();
    const word = this.#token.value;
    if (word === 'trait') return this.#conditionOnTrait();
    if (word !== 'property') throw new Untranslatable(`${word === '' ? 'the end' : word} is not known`);
    this.#take();
    return this.#test({ op: 'property', name: this.#name() });
  }

  #conditionOnTrait(): Condition {
    this.#take();
    const key = this.#name();
    const audience = this.#known.audiences.get(key);
    if (audience !== undefined) return this.#membership(key, audience);
    const computed = this.#known.traits.get(key);
    if (computed === undefined) return this.#test({ op: 'trait', name: key });
    this.uses.add(key);
    return this.#test({ op: 'computed', name: computed });
  }

  /** `trait('vip') = true`: only members were told, so that any other comparison means something else. */
  #membership(key: string, name: string): Condition {
    const isMethod = this.#takesMethod('equals');
    const isEqual = isMethod || this.#takes('=') || this.#takes('==');
    if (!isEqual || !this.#takesWord('true'))
      throw new Untranslatable(
        `${key} is the key of an audience in the same export: write audience(...) by name`,
      );
    if (isMethod) this.#need(')');
    this.uses.add(key);
    return { op: 'audience', name };
  }

  #conditionOnEvents(): Condition {
    if (this.#isWhere) throw new Untranslatable('a second event that depends on the first');
    const { aggregate, isReduced } = this.#aggregate();
    if (isReduced) return this.#test(aggregate);
    if (this.#takesMethod('exists')) this.#need(')');
    return { op: '>=', value: aggregate, to: 1 };
  }

  #isEvents(): boolean {
    return this.#token.kind === 'word' && ['event', 'page', 'screen'].includes(this.#token.value);
  }

  #aggregate(): { aggregate: EventAggregate; isReduced: boolean } {
    const word = this.#take().value;
    const type = word === 'event' ? 'track' : (word as 'page' | 'screen');
    const chain: { where?: Condition; within?: number } = {};
    const base = { op: 'event', type, name: this.#name() } as const;
    for (;;) {
      const method = this.#peekMethod();
      if (method === 'where') {
        if (chain.where !== undefined) throw new Untranslatable('where is given twice');
        chain.where = this.#where();
      } else if (method === 'within') chain.within = this.#within();
      else if (method === 'count' || (method !== undefined && REDUCERS.includes(method)))
        return { aggregate: { ...base, ...chain, reduce: this.#reduce(method) }, isReduced: true };
      else {
        if (method !== undefined && method !== 'exists' && !this.#isTest(method)) this.#refuse(method);
        return { aggregate: { ...base, ...chain, reduce: { op: 'count' } }, isReduced: false };
      }
    }
  }

  #where(): Condition {
    this.#method();
    this.#isWhere = true;
    const condition = this.#deeper(() => this.#or());
    this.#isWhere = false;
    this.#need(')');
    return condition;
  }

  #within(): number {
    this.#method();
    const first = this.#take();
    if (first.kind === 'word') throw new Untranslatable('a second event that depends on the first');
    const unit = UNITS[this.#take().value.toLowerCase().replace(/s$/, '')];
    if (unit === undefined || first.kind !== 'number') throw new Untranslatable('a time of another unit');
    this.#need(')');
    return Number(first.value) * unit;
  }

  #reduce(method: string): EventAggregate['reduce'] {
    this.#method();
    if (method === 'count') {
      this.#need(')');
      return { op: 'count' };
    }
    if (!this.#takesWord('property')) {
      this.#refuseWords();
      throw new Untranslatable(`${method} of something else than a property`);
    }
    const property = this.#name();
    if (this.#token.value === ',') throw new Untranslatable(`${method} with a least frequency`);
    this.#refuseWords();
    this.#need(')');
    if (method === 'unique' && this.#takesMethod('count')) {
      this.#need(')');
      return { op: 'unique_count', property };
    }
    return { op: method as 'sum', property };
  }

  /** A comparison of a value, as an operator or as a function. */
  #test(value: Value): Condition {
    const token = this.#token;
    if (token.kind === 'symbol' && SYMBOLS.includes(token.value)) {
      this.#take();
      const op = token.value === '==' ? '=' : (token.value as '=');
      return { op, value, to: this.#scalar(op) };
    }
    const method = this.#peekMethod();
    if (method === undefined) {
      this.#refuseWords();
      throw new Untranslatable(
        `expected a comparison, found ${token.value === '' ? 'the end' : token.value}`,
      );
    }
    if (!this.#isTest(method)) this.#refuse(method);
    this.#method();
    return this.#testOf(method, value);
  }

  #testOf(method: string, value: Value): Condition {
    const exists: Condition = { op: 'exists', value };
    if (method === 'absent' || method === 'exists' || method === 'present') {
      this.#need(')');
      return method === 'absent' ? { op: 'not', condition: exists } : exists;
    }
    const choices = this.#choices(method);
    if (method === 'one_of') return { op: 'in', value, to: choices };
    if (method === 'none_of') return { op: 'not', condition: { op: 'in', value, to: choices } };
    if (method === 'contains' || method === 'omits') {
      const each = choices.map((to): Condition => ({ op: 'contains', value, to }));
      const any: Condition = each.length === 1 ? each[0]! : { op: 'or', conditions: each };
      return method === 'omits' ? { op: 'not', condition: any } : any;
    }
    if (choices.length > 1) throw new Untranslatable(`${method} with several values`);
    return { op: COMPARISONS[method] as '=', value, to: choices[0]! };
  }

  #choices(method: string): Scalar[] {
    const choices = [this.#scalar(COMPARISONS[method] ?? method)];
    while (this.#takes(',')) choices.push(this.#scalar(COMPARISONS[method] ?? method));
    this.#need(')');
    return choices;
  }

  /** Where `op` asks for equality, a text that looks like a number was equal to that number there. */
  #scalar(op: string): Scalar {
    this.#refuseWords();
    const token = this.#take();
    if (token.kind === 'number') return Number(token.value);
    if (token.kind === 'word' && /^(true|false)$/i.test(token.value))
      return token.value.toLowerCase() === 'true';
    if (token.kind !== 'text') throw new Untranslatable('a comparison of two values');
    const isEquality = ['=', '!=', 'one_of', 'none_of', 'contains', 'omits'].includes(op);
    if (isEquality && /^(true|false|-?\d+(\.\d+)?)$/.test(token.value)) this.looseTexts.add(token.value);
    return token.value;
  }

  #name(): string {
    this.#need('(');
    const token = this.#take();
    if (token.kind !== 'text') throw new Untranslatable('a name that is not a text');
    this.#need(')');
    return token.value;
  }

  #isTest(method: string): boolean {
    return Object.hasOwn(COMPARISONS, method) || OTHER_TESTS.includes(method);
  }

  /** Throws for a word that has no counterpart here. */
  #refuseWords(): void {
    const { kind, value } = this.#token;
    if (kind === 'word' && !['true', 'false', 'and', 'or', 'not'].includes(value.toLowerCase())) {
      const word = value.toLowerCase();
      if (Object.hasOwn(WITHOUT_COUNTERPART, word) || DATES.test(word)) this.#refuse(word);
    }
  }

  #refuse(word: string): never {
    const known = Object.hasOwn(WITHOUT_COUNTERPART, word) ? WITHOUT_COUNTERPART[word] : undefined;
    throw new Untranslatable(known ?? (DATES.test(word) ? 'dates' : `${word} is not known`));
  }

  #deeper<Of>(read: () => Of): Of {
    if (++this.#depth > MAX_DEPTH) throw new Untranslatable(`is nested more than ${MAX_DEPTH} levels deep`);
    const found = read();
    this.#depth--;
    return found;
  }

  get #token(): Token {
    return this.#tokens[this.#next]!;
  }

  #take(): Token {
    const token = this.#token;
    if (token.kind !== 'end') this.#next++;
    return token;
  }

  #takes(symbol: string): boolean {
    if (this.#token.kind !== 'symbol' || this.#token.value !== symbol) return false;
    this.#next++;
    return true;
  }

  #takesWord(word: string): boolean {
    if (this.#token.kind !== 'word' || this.#token.value.toLowerCase() !== word) return false;
    this.#next++;
    return true;
  }

  /** The name of the function behind a dot. */
  #peekMethod(): string | undefined {
    if (this.#token.value !== '.' || this.#token.kind !== 'symbol') return undefined;
    const name = this.#tokens[this.#next + 1];
    return name?.kind === 'word' ? name.value.toLowerCase() : undefined;
  }

  #takesMethod(name: string): boolean {
    if (this.#peekMethod() !== name) return false;
    this.#method();
    return true;
  }

  /** Reads a dot, a name and `(`. */
  #method(): void {
    this.#take();
    this.#take();
    this.#need('(');
  }

  #need(symbol: string): void {
    if (!this.#takes(symbol))
      throw new Untranslatable(`expected ${symbol}, found ${this.#token.value || 'the end'}`);
  }
}
