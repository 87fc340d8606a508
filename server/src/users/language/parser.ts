import { closestWord } from '../../model/closest-word.ts';
import {
  COMPARISONS,
  type Comparison,
  type Condition,
  type EventAggregate,
  PROPERTY_REDUCERS,
  type PropertyReducer,
  type Reducer,
  type Scalar,
  type Value,
} from '../../model/definition.ts';
import { defined } from '../../model/json.ts';
import { DAY, type Duration, HOUR, MINUTE, SECOND } from '../../model/time.ts';
import { MAX_NESTING, MAX_WITHIN } from './checks.ts';
import type { TextMistake, Token } from './lexer.ts';

/** How tightly an operator between conditions binds; the higher one takes its neighbours first. */
const POWER = { or: 1, and: 2 } as const;

/** `not` binds more tightly than `and` and `or`: it negates one condition. */
const POWER_OF_NOT = 3;

const EVENT_TYPES = { event: 'track', page: 'page', screen: 'screen' } as const;
const NAMED_VALUES = ['trait', 'computed', 'property'] as const;
const FUNCTIONS = [...Object.keys(EVENT_TYPES), ...NAMED_VALUES, 'audience', 'group'];

const UNITS: Readonly<Record<string, Duration>> = {
  second: SECOND,
  seconds: SECOND,
  minute: MINUTE,
  minutes: MINUTE,
  hour: HOUR,
  hours: HOUR,
  day: DAY,
  days: DAY,
};

const WORD_OPERATORS = ['contains', 'starts_with', 'ends_with', 'in', 'exists'];
const METHODS = ['where', 'within', 'count', ...PROPERTY_REDUCERS];
const START_OF_CONDITION = "event('Name'), trait('name'), audience('name') or another condition";
const SCALAR = 'text in single quotes, a number, true or false';

/** An aggregate that is being parsed; its reducer may still follow. */
interface Chain {
  where?: Condition;
  within?: Duration;
  reduce?: Reducer;
}

/**
 * Reads conditions and values from tokens, as a Pratt parser: `and` and `or` bind by their power, everything
 * else begins with a word of its own. After a mistake it goes on behind the next `and` or `or`, so that one
 * pass finds several mistakes.
 */
export class DefinitionParser {
  readonly #tokens: readonly Token[];
  readonly #max: number;
  /** Mistakes in the order in which they were found, at most `max`. */
  readonly mistakes: TextMistake[] = [];
  /** The offset of each part of the result. */
  readonly places = new Map<object, number>();
  /** The number of parentheses around each token. */
  readonly #levels: readonly number[];
  #next = 0;
  #depth = 0;

  constructor(tokens: readonly Token[], max: number) {
    this.#tokens = tokens;
    this.#levels = levelsOf(tokens);
    this.#max = max;
  }

  /** The condition that all tokens make; undefined when there is a mistake. */
  wholeCondition(): Condition | undefined {
    const condition = this.#condition(0);
    while (!this.#isAtEnd() && this.mistakes.length < this.#max) {
      this.#mistake(
        this.#token,
        `expected and, or, or the end, found ${shown(this.#token)}${meant(this.#token, ['and', 'or'])}`,
      );
      this.#take();
      this.#skipToOperator(0);
      this.#take();
      if (!this.#isAtEnd()) this.#condition(0);
    }
    return condition;
  }

  /** The aggregate that all tokens make; undefined when there is a mistake. */
  wholeAggregate(): EventAggregate | undefined {
    const first = this.#token;
    const type = typeOfEvents(first);
    if (type === undefined) {
      this.#mistake(
        first,
        `a computed trait begins with event('Name'), page('Name') or screen('Name'), found ${shown(first)}`,
      );
      return undefined;
    }
    const aggregate = this.#aggregate(type);
    if (aggregate === undefined) return undefined;
    const after = this.#token;
    if (aggregate.isBare)
      this.#mistake(
        after,
        `expected a value of these events, such as .count() or .sum(property('total')), found ${shown(after)}`,
      );
    else if (after.kind !== 'end')
      this.#mistake(
        after,
        isOperator(after)
          ? `a computed trait is a value, not a condition: expected the end, found ${shown(after)}`
          : `expected the end, found ${shown(after)}`,
      );
    return aggregate.value;
  }

  #condition(least: number): Condition | undefined {
    if (this.#depth > MAX_NESTING) return this.#abandon();
    this.#depth++;
    const level = this.#levels[this.#next]!;
    let left = this.#prefix();
    if (left === undefined) this.#skipToOperator(level);
    for (;;) {
      const power = this.#powerOfNext();
      if (power === undefined || power <= least) break;
      left = this.#chain(left, power);
    }
    this.#depth--;
    return left;
  }

  /** Conditions with the same operator between them, the first of which was read. */
  #chain(first: Condition | undefined, power: number): Condition | undefined {
    const operator = this.#token;
    const op = operator.value as 'and' | 'or';
    const conditions = [first];
    while (this.#powerOfNext() === power && this.#token.value === op) {
      this.#take();
      conditions.push(this.#condition(power));
    }
    const known = conditions.filter((condition) => condition !== undefined);
    return known.length < conditions.length ? undefined : this.#put({ op, conditions: known }, operator);
  }

  #prefix(): Condition | undefined {
    const token = this.#token;
    if (isSymbol(token, '(')) {
      this.#take();
      const condition = this.#condition(0);
      return this.#expect(')') && condition;
    }
    if (isWord(token, 'not')) {
      this.#take();
      const condition = this.#condition(POWER_OF_NOT);
      return condition && this.#put({ op: 'not', condition }, token);
    }
    if (isWord(token, 'audience') || isWord(token, 'group')) {
      this.#take();
      const name = this.#nameInParentheses(String(token.value));
      if (name === undefined) return undefined;
      this.#refuseComparison(token);
      return this.#put(
        token.value === 'audience' ? { op: 'audience', name } : { op: 'group', id: name },
        token,
      );
    }
    const type = typeOfEvents(token);
    if (type !== undefined) {
      const aggregate = this.#aggregate(type);
      return aggregate && this.#conditionOnEvents(aggregate, token);
    }
    const op = NAMED_VALUES.find((name) => isWord(token, name));
    if (op === undefined) return this.#noCondition(token);
    this.#take();
    const name = this.#nameInParentheses(op);
    if (name === undefined) return undefined;
    return this.#comparison(this.#put({ op, name }, token), `${op}('${name}')`);
  }

  #noCondition(token: Token): undefined {
    const next = this.#tokens[this.#next + 1];
    if (token.kind === 'text' || token.kind === 'number' || isWord(token, 'true') || isWord(token, 'false')) {
      const swap = next !== undefined && isOperator(next) ? '; turn the comparison round' : '';
      return this.#mistake(
        token,
        `a comparison begins with a value such as trait('plan'), found ${shown(token)}${swap}`,
      );
    }
    if (isWord(token, 'exists'))
      return this.#mistake(token, "exists stands behind a value: trait('plan') exists");
    if (token.kind === 'word') {
      const hint = meant(token, [...FUNCTIONS, 'not']) || `; there are ${FUNCTIONS.join(', ')} and not`;
      return this.#mistake(token, `${shown(token)} is not known${hint}`);
    }
    return this.#mistake(token, `expected ${START_OF_CONDITION}, found ${shown(token)}`);
  }

  #conditionOnEvents(
    { value, isBare }: { value: EventAggregate; isBare: boolean },
    start: Token,
  ): Condition | undefined {
    if (isOperator(this.#token)) {
      if (!isBare) return this.#comparison(value, `a value of events`);
      return this.#mistake(
        this.#token,
        'expected .count() or another value of these events before the comparison',
      );
    }
    // Without a comparison it means that there is such an event.
    if (value.reduce.op === 'count') return this.#put({ op: '>=', value, to: 1 }, start);
    return this.#mistake(
      this.#token,
      `expected a comparison such as >= 100 behind ${value.reduce.op}(…), found ${shown(this.#token)}`,
    );
  }

  #comparison(value: Value, what: string): Condition | undefined {
    const token = this.#token;
    const op = token.value === '==' ? '=' : token.value;
    if (token.kind === 'symbol' || token.kind === 'word') {
      if (op === 'exists') {
        this.#take();
        return this.#put({ op, value }, token);
      }
      if (op === 'in') {
        this.#take();
        const to = this.#choices();
        return to && this.#put({ op, value, to }, token);
      }
      if (isComparison(op)) {
        this.#take();
        const to = this.#scalar(token);
        return to === undefined ? undefined : this.#put({ op, value, to }, token);
      }
    }
    const hint = meant(token, WORD_OPERATORS);
    return this.#mistake(
      token,
      `expected a comparison behind ${what}, such as = 'pro' or exists, found ${shown(token)}${hint}`,
    );
  }

  #refuseComparison({ value }: Token): void {
    if (!isOperator(this.#token)) return;
    const article = value === 'audience' ? 'an' : 'a';
    this.#mistake(
      this.#token,
      `${article} ${value} is true or false by itself: expected and, or, or the end, found ${shown(this.#token)}`,
    );
  }

  #scalar(operator: Token): Scalar | undefined {
    const token = this.#token;
    if (token.kind === 'text' || token.kind === 'number') {
      this.#take();
      return token.value;
    }
    if (isWord(token, 'true') || isWord(token, 'false')) {
      this.#take();
      return token.value === 'true';
    }
    if (isWord(token, 'null') || isWord(token, 'undefined'))
      return this.#mistake(token, `every comparison with ${token.value} is false; write not … exists`);
    if (token.kind === 'word' && FUNCTIONS.includes(token.value))
      return this.#mistake(
        token,
        `two values cannot be compared with each other: expected ${SCALAR} behind ${operator.value}`,
      );
    const hint = token.kind === 'word' ? `; write '${token.value}'` : '';
    return this.#mistake(token, `expected ${SCALAR} behind ${operator.value}, found ${shown(token)}${hint}`);
  }

  #choices(): Scalar[] | undefined {
    const operator = this.#tokens[this.#next - 1]!;
    if (!isSymbol(this.#token, '('))
      return this.#mistake(
        this.#token,
        `expected a list behind in, such as ('pro', 'team'), found ${shown(this.#token)}`,
      );
    this.#take();
    const choices: Scalar[] = [];
    for (;;) {
      const choice = this.#scalar(choices.length === 0 ? operator : this.#tokens[this.#next - 1]!);
      if (choice === undefined) return undefined;
      choices.push(choice);
      if (isSymbol(this.#token, ')')) break;
      if (!this.#expect(',')) return undefined;
    }
    this.#take();
    return choices;
  }

  /** Events with what is chained to them. `isBare`: no reducer was written, and the count stands for it. */
  #aggregate(type: EventAggregate['type']): { value: EventAggregate; isBare: boolean } | undefined {
    const start = this.#take();
    const name = this.#nameInParentheses(String(start.value), { mayBeEmpty: type !== 'track' });
    if (name === undefined) return undefined;
    const chain: Chain = {};
    while (isSymbol(this.#token, '.')) {
      this.#take();
      if (!this.#method(chain)) return undefined;
    }
    const { where, within, reduce } = chain;
    const value: EventAggregate = {
      op: 'event',
      type,
      name,
      ...defined({ where, within }),
      reduce: reduce ?? { op: 'count' },
    };
    return { value: this.#put(value, start), isBare: reduce === undefined };
  }

  #method(chain: Chain): boolean {
    const token = this.#take();
    const name = String(token.value);
    if (token.kind !== 'word' || !METHODS.includes(name)) {
      const hint = meant(token, METHODS) || `; there are ${METHODS.join(', ')}`;
      this.#mistake(
        token,
        `expected a word such as where, within or count behind the dot, found ${shown(token)}${hint}`,
      );
      return false;
    }
    if (chain.reduce !== undefined) {
      this.#mistake(token, `${name} must stand before ${chain.reduce.op}, which ends the events`);
      return false;
    }
    if (name === 'where' || name === 'within') {
      if (chain[name] !== undefined) {
        this.#mistake(
          token,
          `${name} is given twice${name === 'where' ? '; join both conditions by and' : ''}`,
        );
        return false;
      }
      if (!this.#expect('(')) return false;
      if (name === 'where') {
        const where = this.#condition(0);
        if (where === undefined || !this.#expect(')')) return false;
        chain.where = where;
        return true;
      }
      const within = this.#duration();
      if (within === undefined || !this.#expect(')')) return false;
      chain.within = within;
      return true;
    }
    const reduce = this.#reducer(name as 'count' | PropertyReducer);
    if (reduce === undefined) return false;
    chain.reduce = reduce;
    return true;
  }

  #reducer(op: 'count' | PropertyReducer): Reducer | undefined {
    if (!this.#expect('(')) return undefined;
    if (op === 'count') {
      if (isSymbol(this.#token, ')')) {
        this.#take();
        return { op };
      }
      const hint = isOperator(this.#token) ? '' : '; conditions on the events go into where(…) before it';
      return this.#mistake(this.#token, `expected ) behind count(, found ${shown(this.#token)}${hint}`);
    }
    const token = this.#token;
    if (!isWord(token, 'property')) {
      const example = token.kind === 'text' ? `property('${abbreviated(token.value)}')` : "property('total')";
      return this.#mistake(token, `expected a property: write ${op}(${example})`);
    }
    this.#take();
    const property = this.#nameInParentheses('property');
    return property === undefined || !this.#expect(')') ? undefined : { op, property };
  }

  #duration(): Duration | undefined {
    const [count, unit] = [this.#token, this.#tokens[this.#next + 1]];
    if (count.kind !== 'number' || !Number.isInteger(count.value) || count.value < 1)
      return this.#mistake(count, `expected a time such as 7 days, found ${shown(count)}`);
    const length = unit?.kind === 'word' ? UNITS[unit.value] : undefined;
    if (length === undefined || unit === undefined)
      return this.#mistake(
        unit ?? count,
        `expected seconds, minutes, hours or days, found ${shown(unit ?? count)}`,
      );
    if (count.value * length > MAX_WITHIN)
      return this.#mistake(count, `a time is at most ${MAX_WITHIN / DAY} days`);
    this.#take();
    this.#take();
    return count.value * length;
  }

  #nameInParentheses(what: string, { mayBeEmpty = false } = {}): string | undefined {
    if (!this.#expect('(')) return undefined;
    const token = this.#token;
    if (token.kind !== 'text')
      return this.#mistake(
        token,
        `expected a name in single quotes: write ${what}('${token.kind === 'word' ? token.value : 'name'}')`,
      );
    if (token.value === '' && !mayBeEmpty)
      return this.#mistake(token, `expected a name, found an empty text`);
    this.#take();
    return this.#expect(')') ? token.value : undefined;
  }

  #isAtEnd(): boolean {
    return this.#token.kind === 'end';
  }

  get #token(): Token {
    return this.#tokens[this.#next]!;
  }

  /** Takes the next token. The last one is never used up. */
  #take(): Token {
    const token = this.#token;
    if (token.kind !== 'end') this.#next++;
    return token;
  }

  #expect(symbol: string): true | undefined {
    const token = this.#token;
    if (!isSymbol(token, symbol)) return this.#mistake(token, `expected ${symbol}, found ${shown(token)}`);
    this.#take();
    return true;
  }

  #powerOfNext(): number | undefined {
    const token = this.#token;
    return isWord(token, 'and') || isWord(token, 'or') ? POWER[token.value as 'and' | 'or'] : undefined;
  }

  #put<const Part extends object>(part: Part, { from }: Token): Part {
    this.places.set(part, from);
    return part;
  }

  #mistake(token: Token, message: string): undefined {
    const last = this.mistakes.at(-1);
    if (this.mistakes.length < this.#max && last?.at !== token.from)
      this.mistakes.push({ message, at: token.from });
    return undefined;
  }

  /** Ends the parse: deeper levels would exhaust the stack. */
  #abandon(): undefined {
    this.#mistake(
      this.#token,
      `is nested more than ${MAX_NESTING} levels deep; make a part of it an audience of its own`,
    );
    this.#next = this.#tokens.length - 1;
    return undefined;
  }

  /** Skips to the next `and` or `or` within the same parentheses, or to the one that closes them. */
  #skipToOperator(level: number): void {
    for (; this.#token.kind !== 'end'; this.#next++) {
      const here = this.#levels[this.#next]!;
      if (here < level || (here === level && this.#powerOfNext() !== undefined)) return;
    }
  }
}

function levelsOf(tokens: readonly Token[]): number[] {
  let level = 0;
  return tokens.map((token) => {
    if (isSymbol(token, ')')) level = Math.max(0, level - 1);
    const here = level;
    if (isSymbol(token, '(')) level++;
    return here;
  });
}

function isWord(token: Token, word: string): boolean {
  return token.kind === 'word' && token.value === word;
}

function isSymbol(token: Token, symbol: string): boolean {
  return token.kind === 'symbol' && token.value === symbol;
}

function isComparison(op: unknown): op is Comparison {
  return COMPARISONS.includes(op as Comparison);
}

function isOperator({ kind, value }: Token): boolean {
  if (kind === 'symbol') return value === '==' || isComparison(value);
  return kind === 'word' && WORD_OPERATORS.includes(value);
}

function typeOfEvents({ kind, value }: Token): EventAggregate['type'] | undefined {
  if (kind !== 'word' || !Object.hasOwn(EVENT_TYPES, value)) return undefined;
  return EVENT_TYPES[value as keyof typeof EVENT_TYPES];
}

/** Characters of a text that a message quotes. */
const MAX_QUOTED = 40;

function abbreviated(text: string): string {
  return text.length <= MAX_QUOTED ? text : `${text.slice(0, MAX_QUOTED)}…`;
}

function shown(token: Token): string {
  if (token.kind === 'end') return 'the end';
  if (token.kind === 'text') return `the text '${abbreviated(token.value)}'`;
  return abbreviated(String(token.value));
}

/** The word that may be meant, as the end of a message; empty when there is none. */
function meant(token: Token, words: readonly string[]): string {
  const word = token.kind === 'word' ? closestWord(token.value, words) : undefined;
  return word === undefined ? '' : `; did you mean ${word}?`;
}
