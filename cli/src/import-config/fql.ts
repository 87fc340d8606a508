/**
 * The language of conditions there, as far as it is needed to say whether a condition can be read, and which
 * events it takes where that is a matter of types and names alone.
 */

/** A filter of a destination here: only these types; of track calls only these events. */
export interface EventFilter {
  readonly types?: readonly string[];
  readonly events?: readonly string[];
}

type Token = { readonly kind: 'text' | 'number' | 'word' | 'symbol'; readonly value: string };

type Node =
  | { readonly op: 'and' | 'or'; readonly parts: readonly Node[] }
  | { readonly op: '='; readonly path: string; readonly text: string }
  | { readonly op: 'other' };

const TOKEN =
  /\s+|("[^"]*"|'[^']*')|([+-]?\d+(?:\.\d+)?(?![A-Za-z0-9_.-]))|((?:[A-Za-z0-9_-]|\\[\s\S])+(?:\.(?:[A-Za-z0-9_-]|\\[\s\S])+)*)|(!=|>=|<=|[=<>!(),[\]])|([\s\S])/gy;

const COMPARISONS: readonly string[] = ['=', '!=', '<', '<=', '>', '>='];

/** Longest condition there, in characters; a longer one is not looked at. */
const MAX_LENGTH = 20_000;
const MAX_DEPTH = 50;

const CALL_TYPES: readonly string[] = ['identify', 'track', 'page', 'screen', 'group', 'alias'];
const MAX_EVENTS = 100;

class Unreadable extends Error {}

/** Whether a condition of a filter or a transformation can be read there. */
export function isReadable(condition: unknown): boolean {
  return typeof condition === 'string' && parse(condition) !== undefined;
}

/**
 * The filter that takes the same events as a trigger. Undefined where there is none, because the trigger
 * looks at more than the type of a call and the name of an event, or because it cannot be read.
 */
export function filterOfTrigger(trigger: unknown): EventFilter | undefined {
  if (typeof trigger !== 'string') return undefined;
  const node = parse(trigger);
  return node === undefined ? undefined : filterOf(node);
}

function filterOf(node: Node): EventFilter | undefined {
  if (node.op === 'other') return undefined;
  if (node.op === '=') return filterOfComparison(node);
  const parts = node.parts.map(filterOf);
  if (parts.some((part) => part === undefined)) return undefined;
  return node.op === 'or' ? union(parts as EventFilter[]) : intersection(parts as EventFilter[]);
}

/** Only calls of `track` have an event. */
function filterOfComparison({ path, text }: Extract<Node, { op: '=' }>): EventFilter | undefined {
  if (path === 'type') return CALL_TYPES.includes(text) ? { types: [text] } : undefined;
  if (path !== 'event' || text === '' || text.includes('*')) return undefined;
  return { types: ['track'], events: [text] };
}

function union(parts: readonly EventFilter[]): EventFilter | undefined {
  const types = [...new Set(parts.flatMap((part) => part.types ?? []))];
  const tracks = parts.filter((part) => part.types?.includes('track'));
  // One part takes every track call: names of others add nothing.
  if (tracks.length === 0 || tracks.some(({ events }) => events === undefined)) return { types };
  const events = [...new Set(tracks.flatMap((part) => part.events ?? []))];
  return events.length > MAX_EVENTS ? undefined : { types, events };
}

/** Only `type = "track" and …` says something that no single part says. */
function intersection(parts: readonly EventFilter[]): EventFilter | undefined {
  const isTrack = ({ types, events }: EventFilter) =>
    types?.length === 1 && types[0] === 'track' && events === undefined;
  const rest = parts.filter((part) => !isTrack(part));
  if (rest.length === 0) return parts[0];
  const [only] = rest;
  const isNamed = rest.length === 1 && only!.events !== undefined && only!.types?.length === 1;
  return isNamed ? only : undefined;
}

function parse(text: string): Node | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  const tokens = tokensOf(text);
  if (tokens === undefined) return undefined;
  try {
    const parser = new Parser(tokens);
    return parser.whole();
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

function tokensOf(text: string): Token[] | undefined {
  const tokens: Token[] = [];
  for (const [, quoted, number, word, symbol, other] of text.matchAll(TOKEN)) {
    if (other !== undefined) return undefined;
    if (quoted !== undefined) tokens.push({ kind: 'text', value: quoted.slice(1, -1) });
    else if (number !== undefined) tokens.push({ kind: 'number', value: number });
    else if (word !== undefined) tokens.push({ kind: 'word', value: word });
    else if (symbol !== undefined) tokens.push({ kind: 'symbol', value: symbol });
  }
  return tokens;
}

const OTHER: Node = { op: 'other' };

class Parser {
  readonly #tokens: readonly Token[];
  #next = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  whole(): Node {
    const node = this.#level();
    if (this.#next < this.#tokens.length) throw new Unreadable();
    return node;
  }

  /** Words between conditions of one level: mixed ones have no meaning that both sides agree on. */
  #level(): Node {
    if (++this.#depth > MAX_DEPTH) throw new Unreadable();
    const parts = [this.#primary()];
    const words = new Set<string>();
    while (this.#isWord('and') || this.#isWord('or')) {
      words.add(this.#take().value);
      parts.push(this.#primary());
    }
    this.#depth--;
    if (words.size === 0) return parts[0]!;
    return words.size > 1 ? OTHER : { op: words.has('and') ? 'and' : 'or', parts };
  }

  #primary(): Node {
    let isNegated = false;
    while (this.#takes('!')) isNegated = true;
    if (this.#takes('(')) {
      const node = this.#level();
      if (!this.#takes(')')) throw new Unreadable();
      return isNegated ? OTHER : node;
    }
    const left = this.#operand();
    if (!this.#isComparison()) return OTHER;
    const op = this.#take().value;
    if (op === 'in' && this.#takes('[')) {
      this.#listOfOperands(']');
      return OTHER;
    }
    const right = this.#operand();
    if (isNegated || op !== '=' || left?.kind !== 'word' || right?.kind !== 'text') return OTHER;
    return { op: '=', path: left.value, text: right.value };
  }

  #isComparison(): boolean {
    const token = this.#tokens[this.#next];
    if (token?.kind === 'symbol') return COMPARISONS.includes(token.value);
    return token?.kind === 'word' && token.value === 'in';
  }

  /** A value; undefined for the call of a function, or for a value in parentheses. */
  #operand(): Token | undefined {
    const token = this.#take();
    if (token.kind === 'symbol') throw new Unreadable();
    if (token.kind !== 'word' || !this.#takes('(')) return token;
    if (++this.#depth > MAX_DEPTH) throw new Unreadable();
    this.#listOfOperands(')');
    this.#depth--;
    return undefined;
  }

  #listOfOperands(end: string): void {
    if (this.#takes(end)) return;
    do this.#operand();
    while (this.#takes(','));
    if (!this.#takes(end)) throw new Unreadable();
  }

  #take(): Token {
    const token = this.#tokens[this.#next++];
    if (token === undefined) throw new Unreadable();
    return token;
  }

  #takes(symbol: string): boolean {
    const token = this.#tokens[this.#next];
    if (token?.kind !== 'symbol' || token.value !== symbol) return false;
    this.#next++;
    return true;
  }

  #isWord(word: string): boolean {
    const token = this.#tokens[this.#next];
    return token?.kind === 'word' && token.value === word;
  }
}
