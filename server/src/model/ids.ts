import type { Json } from './json.ts';

/** UTF-16 code units that an id may have. Longer ones would make profiles that take too long to read. */
export const MAX_ID_LENGTH = 1024;

/** Reasons why a value is no id. */
export type IdFault = 'id_not_string' | 'id_too_long' | 'id_not_unicode';

/** A value that is no id, with the reason. */
export class InvalidId {
  readonly fault: IdFault;

  constructor(fault: IdFault) {
    this.fault = fault;
  }
}

const NOT_STRING = new InvalidId('id_not_string');
const TOO_LONG = new InvalidId('id_too_long');
const NOT_UNICODE = new InvalidId('id_not_unicode');

/**
 * Reads an id. Everybody who takes one calls this: receiving, regulations, profiles, search, redelivery, the
 * command line and the console.
 *
 * A text is taken as it is: nothing is trimmed, and two ids are the same when their code units are. An
 * integer that JavaScript knows exactly, and a number with a fraction, is its decimal digits. `null` and an
 * empty text are absent. Half of a surrogate pair is refused, because neither a URL nor a shell can carry it.
 * spec/specification.md, "Ids".
 */
export function readId(value: Json | undefined): string | undefined | InvalidId {
  if (typeof value === 'string') {
    if (value === '') return undefined;
    if (value.length > MAX_ID_LENGTH) return TOO_LONG;
    return value.isWellFormed() ? value : NOT_UNICODE;
  }
  if (value === undefined || value === null) return undefined;
  return typeof value === 'number' && isExact(value) ? String(value) : NOT_STRING;
}

/**
 * Whether the digits of a number are those that were written. An integer beyond 2^53 may be another one,
 * rounded.
 */
function isExact(value: number): boolean {
  return Number.isSafeInteger(value) || (Number.isFinite(value) && !Number.isInteger(value));
}

/** Messages for values that are no ids. */
export const ID_FAULTS: Readonly<Record<IdFault, string>> = {
  id_not_string: 'must be a text, or an integer of at most 2^53 - 1',
  id_too_long: `must have at most ${MAX_ID_LENGTH} UTF-16 code units`,
  id_not_unicode: 'must have no half of a surrogate pair',
};

/** Zeros with or without dashes, such as the nil UUID. */
const ZEROS = /^[0-]*0[0-]*$/;

/** No value longer than this stands for no one, so that long ids are not looked through. */
const LONGEST_BLOCKED = 36;

/**
 * Ids that stand for no one, such as `null`: they join nothing, and belong to nobody. In any case and with
 * blanks around them, and always the empty text and texts of zeros. spec/specification.md, "Identities".
 */
export class BlockedIds {
  readonly #blocked: ReadonlySet<string>;

  constructor(blocked: readonly string[]) {
    this.#blocked = new Set(blocked.map((value) => value.trim().toLowerCase()));
  }

  has(id: string): boolean {
    if (id.length > LONGEST_BLOCKED) return false;
    const text = id.trim().toLowerCase();
    return text === '' || this.#blocked.has(text) || ZEROS.test(text);
  }
}
