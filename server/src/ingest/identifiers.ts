import type { Json } from '../model/json.ts';
import { isObject } from '../model/json.ts';

/** The fields that name somebody or something. */
export type IdField = 'userId' | 'anonymousId' | 'previousId' | 'groupId' | 'messageId';

const ID_FIELDS: ReadonlySet<string> = new Set<IdField>([
  'userId',
  'anonymousId',
  'previousId',
  'groupId',
  'messageId',
]);

/** Longer message ids are replaced. spec/specification.md, "Message ids". */
export const MAX_MESSAGE_ID_LENGTH = 100;

/**
 * An id as it is stored: a string with at least one character is kept as it is, a number becomes its decimal digits,
 * `null` is absent. `false` when it is nothing of these. spec/specification.md, "Ids".
 */
export function readId(
  value: Json | undefined,
  field: IdField,
  written: NumberLiterals,
): string | undefined | false {
  if (typeof value === 'string') return value !== '' && value;
  if (value === undefined || value === null) return undefined;
  return typeof value === 'number' && digitsOf(value, field, written);
}

/** The client's id of the message, without blanks around it, or `undefined` when one must be assigned. */
export function readMessageId(value: Json | undefined, written: NumberLiterals): string | undefined {
  if (typeof value !== 'string' && typeof value !== 'number') return undefined;
  const id = typeof value === 'string' ? value.trim() : digitsOf(value, 'messageId', written) || '';
  return id.length > 0 && id.length <= MAX_MESSAGE_ID_LENGTH ? id : undefined;
}

function digitsOf(value: number, field: IdField, written: NumberLiterals): string | false {
  if (Number.isSafeInteger(value) || !Number.isInteger(value)) return Number.isFinite(value) && String(value);
  return written.digitsOf(field) ?? false;
}

/**
 * The numbers of a body as they were written. `JSON.parse` rounds integers beyond 2^53, and two users whose 64-bit ids
 * differ in the last digits would become one. Such ids are rare, so the body is parsed a second time only when one is met,
 * and only once per request.
 */
export class NumberLiterals {
  readonly #text: string;
  #ids: Map<unknown, Map<string, string>> | undefined;
  #root: Json = null;
  /** The place in `batch` of the call being read; −1 when the body itself is the call. */
  index = -1;

  constructor(text: string) {
    this.#text = text;
  }

  /** Decimal digits of an integer id of the call at `index`; `undefined` when it is written with a fraction or exponent. */
  digitsOf(field: IdField): string | undefined {
    this.#ids ??= this.#read();
    return this.#ids.get(this.#call())?.get(field);
  }

  #call(): Json | undefined {
    if (this.index < 0 || !isObject(this.#root)) return this.#root;
    const { batch } = this.#root;
    return Array.isArray(batch) ? batch[this.index] : undefined;
  }

  #read(): Map<unknown, Map<string, string>> {
    const ids = new Map<unknown, Map<string, string>>();
    try {
      this.#root = JSON.parse(
        this.#text,
        function (this: unknown, key, value, ...[context]: { source?: string }[]) {
          if (isIdField(key) && typeof value === 'number' && /^-?\d+$/.test(context?.source ?? '')) {
            ids.set(this, (ids.get(this) ?? new Map()).set(key, context?.source));
          }
          return value;
        },
      );
    } catch {
      // The body was parsed before, so this is a nesting too deep for a second look; its ids stay unread.
      ids.clear();
    }
    return ids;
  }
}

function isIdField(key: string): boolean {
  return ID_FIELDS.has(key);
}
