import { ApiError } from '../../api/client.ts';
import type { Place } from './definition.ts';

/** A mistake in a definition; without a place when it is not in the text. */
export interface Mistake {
  readonly message: string;
  readonly place?: Place;
}

/**
 * The mistake in the definition that a refusal names; undefined where the refusal is about something else.
 */
export function mistakeOf(error: unknown): Mistake | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const fault = error.fields.find(({ path }) => path.startsWith('body.definition'));
  if (fault === undefined) return undefined;
  const { message, line, column } = fault;
  return line === undefined || column === undefined ? { message } : { message, place: { line, column } };
}
