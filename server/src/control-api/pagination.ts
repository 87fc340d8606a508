import { createHash } from 'node:crypto';
import * as z from 'zod';
import type { PageStart } from '../reporting/contract.ts';
import { textInQuery } from './ids.ts';
import { Problem } from './problem.ts';

/**
 * The cursor of a list with parameters. It is opaque and carries a checksum, because the cursor of another
 * list, or of this list with other parameters, would silently lead to a wrong place.
 */
export function encodeCursor(place: string, asked: object): string {
  return Buffer.from(`${checksumOf(place, asked)}${place}`).toString('base64url');
}

/** The place of a cursor in a request. */
const CURSOR = 'query.cursor';

/** The place in a cursor. Throws a `Problem` for a cursor of another list or of other parameters. */
export function decodeCursor(cursor: string | undefined, asked: object): string | undefined {
  if (cursor === undefined) return undefined;
  const text = Buffer.from(cursor, 'base64url').toString();
  const place = text.slice(CHECKSUM_LENGTH);
  if (text.slice(0, CHECKSUM_LENGTH) === checksumOf(place, asked)) return place;
  const message = 'must be the `next` of the page before, and the other parameters as they were then';
  throw new Problem('invalid_parameters', { errors: [{ path: CURSOR, message }] });
}

/** Characters of the checksum. It guards against mistakes, not malice: a wrong place shows nothing secret. */
const CHECKSUM_LENGTH = 8;

function checksumOf(place: string, asked: object): string {
  return createHash('sha256')
    .update(JSON.stringify([asked, place]))
    .digest('hex')
    .slice(0, CHECKSUM_LENGTH);
}

export function formatPageStart({ below, after }: PageStart): string {
  return after === undefined ? String(below) : `${below}-${after}`;
}

/** Expects a text that `decodeCursor` has checked. */
export function parsePageStart(text: string | undefined): { readonly from?: PageStart } {
  if (text === undefined) return {};
  const [below, after] = text.split('-').map(Number);
  return { from: after === undefined ? { below: below! } : { below: below!, after } };
}

/** Entries of one page at most. spec/contract.md, "Conventions". */
const MAX_PAGE = 500;

/** The parameters of every list. */
export const pageQuery = {
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(MAX_PAGE)
    .default(100)
    .meta({ description: 'Entries of a page at most.' }),
  cursor: textInQuery.min(1).exactOptional().meta({ description: '`next` of the page before.' }),
};

/** A page of a list: `next` is the cursor of the page that follows, and null at the end. */
export function pageSchema<Entry extends z.ZodType>(entry: Entry) {
  return z.object({ data: z.array(entry), next: z.string().nullable() });
}

/** A time in a query or a body; milliseconds once parsed. */
export const timeParameter = z.iso
  .datetime({ offset: true, message: 'must be a time such as 2026-03-04T05:06:07Z' })
  .transform((text) => Date.parse(text));

/**
 * A page of a list that is in memory as a whole. The cursor is the name of the last entry shown, in
 * base64url: it survives changes of the list and needs no escaping in a query.
 */
export function pageByName<Entry extends { readonly name: string }>(
  entries: readonly Entry[],
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
): { data: Entry[]; next: string | null } {
  const last = cursor === undefined ? '' : parseNameCursor(cursor);
  const sorted = [...entries].sort((one, other) => (one.name < other.name ? -1 : 1));
  const rest = sorted.filter(({ name }) => name > last);
  const data = rest.slice(0, limit);
  return { data, next: rest.length > limit ? Buffer.from(data.at(-1)!.name).toString('base64url') : null };
}

function parseNameCursor(cursor: string): string {
  const name = Buffer.from(cursor, 'base64url');
  // The decoder skips characters that are not in the alphabet.
  if (name.toString('base64url') !== cursor) throw invalidCursor();
  return name.toString();
}

/** A cursor that is a number. */
export function parseNumberCursor(cursor: string | undefined, path = CURSOR): number | undefined {
  if (cursor === undefined) return undefined;
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor);
  throw invalidCursor(path);
}

export function invalidCursor(path = CURSOR): Problem {
  const message = 'must be the `next` of the page before';
  return new Problem('invalid_parameters', { errors: [{ path, message }] });
}
