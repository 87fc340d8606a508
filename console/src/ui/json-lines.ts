import { visibleText } from './visible-text.ts';

export interface JsonToken {
  readonly kind: 'key' | 'text' | 'number' | 'word' | 'mark' | 'cut';
  readonly text: string;
}

export interface JsonLine {
  readonly depth: number;
  readonly tokens: readonly JsonToken[];
}

export interface JsonLimits {
  readonly lines: number;
  /** Characters of one text. */
  readonly text: number;
  readonly depth: number;
}

const USUAL: JsonLimits = { lines: 1500, text: 2000, depth: 40 };

/**
 * A JSON value as lines of coloured tokens. What is larger than the limits is cut, and the cut says how much
 * is missing: an event of 500 kB must not stop the page.
 */
export function jsonLines(value: unknown, limits: JsonLimits = USUAL): JsonLine[] {
  const lines: JsonLine[] = [];
  let isFull = false;
  const add = (depth: number, tokens: JsonToken[]): void => {
    if (lines.length < limits.lines) lines.push({ depth, tokens });
    else isFull = true;
  };
  const walk = (item: unknown, depth: number, [before, after]: [JsonToken[], string]): void => {
    if (isFull) return;
    const end: JsonToken[] = after === '' ? [] : [mark(after)];
    if (typeof item !== 'object' || item === null) {
      add(depth, [...before, scalar(item, limits.text), ...end]);
      return;
    }
    const isList = Array.isArray(item);
    const [open, close] = isList ? ['[', ']'] : ['{', '}'];
    const entries = Object.entries(item);
    if (entries.length === 0 || depth >= limits.depth) {
      const inside = entries.length === 0 ? [] : [cut(`… ${entries.length} more`)];
      add(depth, [...before, mark(open), ...inside, mark(close), ...end]);
      return;
    }
    add(depth, [...before, mark(open)]);
    for (const [index, [key, child]] of entries.entries()) {
      const name: JsonToken[] = isList ? [] : [quoted('key', key, limits.text), mark(': ')];
      walk(child, depth + 1, [name, index === entries.length - 1 ? '' : ',']);
      if (isFull) return;
    }
    add(depth, [mark(close), ...end]);
  };
  walk(value, 0, [[], '']);
  if (isFull) lines.push({ depth: 0, tokens: [cut('… the rest is not shown; Copy has all of it')] });
  return lines;
}

function scalar(value: unknown, most: number): JsonToken {
  if (typeof value === 'string') return quoted('text', value, most);
  return { kind: typeof value === 'number' ? 'number' : 'word', text: String(value) };
}

function quoted(kind: 'key' | 'text', text: string, most: number): JsonToken {
  if (text.length <= most) return { kind, text: visibleText(JSON.stringify(text)) };
  const start = visibleText(JSON.stringify(text.slice(0, most)).slice(0, -1));
  return { kind, text: `${start}… ${(text.length - most).toLocaleString('en-US')} more characters"` };
}

function mark(text: string): JsonToken {
  return { kind: 'mark', text };
}

function cut(text: string): JsonToken {
  return { kind: 'cut', text };
}
