/** A token of a definition's text. `from` and `to` are offsets into the text. */
export type Token =
  | { readonly kind: 'word' | 'symbol'; readonly value: string; readonly from: number; readonly to: number }
  | { readonly kind: 'text'; readonly value: string; readonly from: number; readonly to: number }
  | { readonly kind: 'number'; readonly value: number; readonly from: number; readonly to: number }
  | { readonly kind: 'end'; readonly value: ''; readonly from: number; readonly to: number };

/** A mistake at an offset of the text. */
export interface TextMistake {
  readonly message: string;
  readonly at: number;
}

export interface Tokens {
  /** The last token is of the kind `end`. */
  readonly tokens: readonly Token[];
  readonly mistakes: readonly TextMistake[];
}

/**
 * Matches white space, a number, a text, a word, a symbol, or any other character. No branch can match a text
 * in two ways, so it takes linear time.
 */
const TOKEN =
  /\s+|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|'((?:[^']|'')*)'|([A-Za-z_][A-Za-z0-9_]*)|(==|!=|<=|>=|&&|\|\||<>|[()[\],.=<>])|(.)/gsy;

const QUOTES_RULE = "texts stand in single quotes, such as 'pro'";

/** Hints for characters and symbols of other languages: what to write instead. */
const INSTEAD: Readonly<Record<string, string>> = {
  "'": "this text has no closing quote; a quote inside a text is written twice: 'it''s'",
  '"': QUOTES_RULE,
  '`': QUOTES_RULE,
  '“': QUOTES_RULE,
  '”': QUOTES_RULE,
  '‘': QUOTES_RULE,
  '’': QUOTES_RULE,
  '&&': 'write and',
  '&': 'write and',
  '||': 'write or',
  '|': 'write or',
  '!': 'write not, or != for a comparison',
  '<>': 'write !=',
  '~': 'write contains, starts_with or ends_with',
  '-': 'a minus stands directly before the digits of a number; there is no subtraction',
  '+': 'there is no addition',
  '*': 'there is no multiplication',
  '/': 'there is no division',
  '[': 'a list stands in parentheses: in (1, 2)',
  ']': 'a list stands in parentheses: in (1, 2)',
};

/**
 * Splits a text into tokens. Characters that begin none are left out, each with a mistake, at most `max` of
 * them.
 */
export function tokenize(text: string, max: number): Tokens {
  const tokens: Token[] = [];
  const mistakes: TextMistake[] = [];
  for (const match of text.matchAll(TOKEN)) {
    const [whole, number, quoted, word, symbol, other] = match;
    const range = { from: match.index, to: match.index + whole.length };
    const stray = other ?? (symbol !== undefined && INSTEAD[symbol] !== undefined ? symbol : undefined);
    const message =
      number === undefined
        ? stray !== undefined
          ? strayMessage(stray)
          : quoted !== undefined && !quoted.isWellFormed()
            ? 'this text must be whole Unicode characters'
            : undefined
        : numberMistake(number);
    if (message !== undefined) {
      if (mistakes.push({ message, at: range.from }) >= max) break;
      // The rest of an open text would only be a row of further mistakes.
      if (stray === "'") break;
      continue;
    }
    // A negative zero equals zero, and has no text form of its own.
    if (number !== undefined) tokens.push({ kind: 'number', value: Number(number) + 0, ...range });
    else if (quoted !== undefined)
      tokens.push({ kind: 'text', value: quoted.replaceAll("''", "'"), ...range });
    else if (word !== undefined) tokens.push({ kind: 'word', value: word, ...range });
    else if (symbol !== undefined) tokens.push({ kind: 'symbol', value: symbol, ...range });
  }
  tokens.push({ kind: 'end', value: '', from: text.length, to: text.length });
  return { tokens, mistakes };
}

/**
 * The mistake of an integer beyond 2^53. Events keep it as the text of its digits: as a number it would be
 * taken for its neighbours.
 */
function numberMistake(literal: string): string | undefined {
  const value = Number(literal);
  if (!Number.isFinite(value)) return 'this number is too large';
  if (!/^-?\d+$/.test(literal) || Number.isSafeInteger(value)) return undefined;
  return `a whole number of so many digits is kept as text: write it in quotes, '${literal}'`;
}

function strayMessage(stray: string): string {
  const instead = INSTEAD[stray];
  if (stray === "'") return instead!;
  const shown = /^[!-~]/.test(stray) ? stray : JSON.stringify(stray);
  return instead === undefined
    ? `${shown} is not part of the language`
    : `${shown} is not part of the language: ${instead}`;
}
