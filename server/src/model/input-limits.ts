import { isObject } from './json.ts';

/** Limits of an operator's input: a configuration file, or the body of a request to the control API. */

/** Entries of one list, keys of one mapping, and records of one kind in a file. */
export const MAX_ENTRIES = 1000;

/** Levels of nested collections. The deepest setting is on level seven. */
export const MAX_DEPTH = 100;

/** Problems that one answer or message lists. It says when there are more. */
export const MAX_PROBLEMS = 20;

export interface LimitViolation {
  /** Path of the collection that is too large or too deep. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

export interface LimitOptions {
  /** Where the value stands. */
  readonly path?: readonly (string | number)[];
  /** Replaces `MAX_ENTRIES` for an input with a longer list. */
  readonly maxEntries?: number | undefined;
}

/**
 * Finds the first collection with more entries than `MAX_ENTRIES`, or nested deeper than `MAX_DEPTH`. Called
 * before anything else reads a value: validation costs far more for each entry, and recursive functions would
 * run out of stack.
 */
export function findLimitViolation(
  value: unknown,
  { path = [], maxEntries = MAX_ENTRIES }: LimitOptions = {},
): LimitViolation | undefined {
  const isList = Array.isArray(value);
  if (!isList && !isObject(value)) return undefined;
  if (path.length > MAX_DEPTH) return { path: [], message: TOO_DEEP };
  const keys = isList ? value : Object.keys(value);
  if (keys.length > maxEntries) {
    const message = `has ${keys.length} ${isList ? 'entries' : 'keys'}, and at most ${maxEntries} are allowed`;
    return { path, message };
  }
  const entries: Iterable<[string | number, unknown]> = isList ? value.entries() : Object.entries(value);
  for (const [place, entry] of entries) {
    // Texts and numbers cost nothing.
    if (typeof entry !== 'object') continue;
    const excess = findLimitViolation(entry, { path: [...path, place], maxEntries });
    if (excess !== undefined) return excess;
  }
  return undefined;
}

/**
 * Whether a JSON text is nested deeper than `findLimitViolation` allows. A parser would make an object for
 * each level first: half a million take it 80 ms, and this none. Of a text that is no JSON it may say either.
 */
export function isTextTooDeep(text: string): boolean {
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isInString) {
      if (code === BACKSLASH) at++;
      else if (code === QUOTE) isInString = false;
    } else if (code === QUOTE) isInString = true;
    else if (code === OPEN_BRACKET || code === OPEN_BRACE) {
      if (++depth > MAX_DEPTH + 1) return true;
    } else if (code === CLOSE_BRACKET || code === CLOSE_BRACE) depth--;
  }
  return false;
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** The message for a value nested deeper than `MAX_DEPTH`. */
export const TOO_DEEP = `is nested more than ${MAX_DEPTH} levels deep`;
