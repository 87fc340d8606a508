import * as z from 'zod';
import { ID_FAULTS, InvalidId, readId } from '../model/ids.ts';

/** Longer ones fit in no call: their body is 32 KB at most. */
const MAX_STORED_LENGTH = 32_768;

const EMPTY = 'must have at least one character';

/**
 * An id in a body, as JSON carries it: a text, taken as it is, or an integer, which is its digits. Ids that
 * receiving refuses today are let through: earlier versions have stored such ones, and what is stored can be
 * found and erased.
 */
export const idInBody = z
  .union([z.string().max(MAX_STORED_LENGTH), z.number()])
  .transform((value, context): string => {
    const id = typeof value === 'string' ? value : readId(value);
    if (typeof id === 'string' && id !== '') return id;
    context.addIssue({ code: 'custom', message: id instanceof InvalidId ? ID_FAULTS[id.fault] : EMPTY });
    return z.NEVER;
  });

/** An id in a query, as it is: any characters but halves of surrogate pairs, which a URL cannot carry. */
export const idInQuery = z.string().min(1, EMPTY);

/**
 * Any other text in a query: a name, a reason, a cursor. One with a control in it is a mistake, and
 * PostgreSQL compares no text with U+0000.
 */
export const textInQuery = z.string().superRefine((text, context) => {
  const control = CONTROL.exec(text)?.[0];
  if (control === undefined) return;
  const code = control.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0');
  const message = `must not have the control character U+00${code} (%${code}) in it`;
  context.addIssue({ code: 'custom', message });
});

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const CONTROL = /[\u0000-\u001f\u007f]/;

/** An id in a query as JSON text, for those that a URL cannot carry otherwise. */
export const idAsJson = z.string().transform((text, context): string => {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'string' && value !== '') return value;
  } catch {
    // The issue below says what is wanted.
  }
  context.addIssue({
    code: 'custom',
    message: 'must be a text of JSON in its quotes, such as "mia-\\ud83d"',
  });
  return z.NEVER;
});

/** Why an id stands for nobody: undefined for one that receiving takes. */
export function faultOf(id: string): string | undefined {
  const read = readId(id);
  return read instanceof InvalidId ? ID_FAULTS[read.fault] : undefined;
}
