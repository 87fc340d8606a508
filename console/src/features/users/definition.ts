/** The place of a mistake in the text of a definition, as the API gives it; both from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** A line of a definition, and a line with a pointer to put under it. */
export interface Pointed {
  readonly line: string;
  readonly pointer: string;
}

/**
 * The line with a mistake, and a pointer below it. Tabs are kept in both, so that they have the same width.
 */
export function pointAt(text: string, { line, column }: Place): Pointed {
  const shown = text.split('\n')[line - 1] ?? '';
  const before = shown.slice(0, column - 1);
  return { line: shown, pointer: `${before.replaceAll(/[^\t]/g, ' ')}^` };
}

/** Offset of a place in the text, in UTF-16 units from 0; at most the end of its line. */
export function offsetOf(text: string, { line, column }: Place): number {
  const lines = text.split('\n');
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return Math.min(before + Math.min(column - 1, lines[line - 1]?.length ?? 0), text.length);
}

/** A part of a definition with the kind it is coloured by. */
export interface DefinitionToken {
  readonly kind: 'text' | 'number' | 'word' | 'other';
  readonly text: string;
}

const TOKEN = /'(?:[^']|'')*'?|\d+(?:\.\d+)?|\b(?:and|or|not|in|contains|starts_with|ends_with|exists)\b/g;

/** The tokens of a definition. Joined they are the definition. */
export function tokensOf(definition: string): DefinitionToken[] {
  const tokens: DefinitionToken[] = [];
  let end = 0;
  for (const { index, 0: text } of definition.matchAll(TOKEN)) {
    if (index > end) tokens.push({ kind: 'other', text: definition.slice(end, index) });
    tokens.push({ kind: kindOf(text), text });
    end = index + text.length;
  }
  if (end < definition.length) tokens.push({ kind: 'other', text: definition.slice(end) });
  return tokens;
}

function kindOf(token: string): DefinitionToken['kind'] {
  if (token.startsWith("'")) return 'text';
  return /^\d/.test(token) ? 'number' : 'word';
}
