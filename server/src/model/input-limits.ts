import { isObject } from './json.ts';

/** Bounds of what an operator hands in: a configuration file, or the body of a request to the control API. */

/** Entries of one list, and keys of one mapping. Records of a kind in one file are counted by it too. */
export const MAX_ENTRIES = 1000;

/** Collections inside one another. The deepest setting lies in the seventh. */
export const MAX_DEPTH = 100;

/** Problems that one answer or message tells; beyond them it says that there are more. */
export const MAX_PROBLEMS = 20;

export interface LimitViolation {
  /** Of the collection that is too large or too deep. */
  readonly path: readonly (string | number)[];
  readonly message: string;
}

/**
 * The first collection with more entries than `MOST_ENTRIES`, or inside more others than `MOST_DEPTH`. Called before
 * anything else looks at a value: validation costs far more for each entry than this does, and functions that call
 * themselves would run out of stack.
 */
export function findLimitViolation(
  value: unknown,
  path: readonly (string | number)[] = [],
): LimitViolation | undefined {
  const isList = Array.isArray(value);
  if (!isList && !isObject(value)) return undefined;
  if (path.length > MAX_DEPTH) return { path: [], message: TOO_DEEP };
  const keys = isList ? value : Object.keys(value);
  if (keys.length > MAX_ENTRIES) {
    const message = `has ${keys.length} ${isList ? 'entries' : 'keys'}, and at most ${MAX_ENTRIES} are allowed`;
    return { path, message };
  }
  const entries: Iterable<[string | number, unknown]> = isList ? value.entries() : Object.entries(value);
  for (const [place, entry] of entries) {
    // A text or a number in it costs nothing.
    if (typeof entry !== 'object') continue;
    const excess = findLimitViolation(entry, [...path, place]);
    if (excess !== undefined) return excess;
  }
  return undefined;
}

/** Of a value with collections inside one another beyond `MOST_DEPTH`. */
export const TOO_DEEP = `is nested more than ${MAX_DEPTH} levels deep`;
