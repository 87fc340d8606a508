import * as z from 'zod';
import { Problem } from './problem.ts';

/** contract.md section 4: the most entries of one page. */
const MOST = 500;

/** The parameters of every list. */
export const paging = {
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(MOST)
    .default(100)
    .meta({ description: 'Entries of a page at most.' }),
  cursor: z.string().min(1).exactOptional().meta({ description: '`next` of the page before.' }),
};

/** A page of a list: `next` is the cursor of the page that follows, and null at the end. */
export function listOf<Entry extends z.ZodType>(entry: Entry) {
  return z.object({ data: z.array(entry), next: z.string().nullable() });
}

/** A time in a query or a body; as milliseconds when parsed. */
export const time = z.iso
  .datetime({ offset: true, message: 'must be a time such as 2026-03-04T05:06:07Z' })
  .transform((text) => Date.parse(text));

/**
 * Of a list that is in memory as a whole. The cursor is the name of the last entry shown, so that it bears changes, in a
 * form that needs no escaping in a query.
 */
export function pageByName<Entry extends { readonly name: string }>(
  entries: readonly Entry[],
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): { data: Entry[]; next: string | null } {
  const last = cursor === undefined ? '' : nameIn(cursor);
  const sorted = [...entries].sort((one, other) => (one.name < other.name ? -1 : 1));
  const rest = sorted.filter(({ name }) => name > last);
  const data = rest.slice(0, limit);
  return { data, next: rest.length > limit ? Buffer.from(data.at(-1)!.name).toString('base64url') : null };
}

function nameIn(cursor: string): string {
  const name = Buffer.from(cursor, 'base64url');
  // Whatever is not of the alphabet is skipped when it is decoded.
  if (name.toString('base64url') !== cursor) throw noCursor();
  return name.toString();
}

/** A cursor that is a number. */
export function numberIn(cursor: string | undefined): number | undefined {
  if (cursor === undefined) return undefined;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw noCursor();
}

function noCursor(): Problem {
  const message = 'must be the `next` of the page before';
  return new Problem('invalid_parameters', { errors: [{ path: 'query.cursor', message }] });
}
