import * as z from 'zod';

/** Control characters, for a character class. Ranges, because the JSON Schema must work where `\p{Cc}` does not. */
export const CONTROL = '\\u0000-\\u001f\\u007f-\\u009f';

/** A text that one pattern describes, so that the JSON Schema says all of it. */
export function textMatching(pattern: RegExp, rule: string) {
  return z.string(rule).regex(pattern, rule);
}

const NAME_RULE =
  'must be text of 1 to 100 characters, without control characters, not starting or ending with a space';
const NAME = new RegExp(`^[^\\s${CONTROL}]([^${CONTROL}]{0,98}[^\\s${CONTROL}])?$`, 'u');

/** The name of a record. */
export const recordName = () =>
  textMatching(NAME, NAME_RULE)
    .refine((value) => !/^\.{1,2}$/.test(value), {
      error: 'must not be . or .., which mean another folder in the path of a request',
    })
    // The store would replace half a surrogate pair, and the record could not be found by its name.
    .refine((value) => value.isWellFormed(), { error: 'must be whole Unicode characters' });
