import { createHash } from 'node:crypto';
import { Problem } from './problem.ts';

/**
 * The cursor of a list that was asked for with parameters. It is opaque and bears a check: what another list gave, or this
 * one with other parameters, would lead to some other place without a word.
 */
export function cursorOf(place: string, asked: object): string {
  return Buffer.from(`${checkOf(place, asked)}${place}`).toString('base64url');
}

/** What the cursor was made of; a `Problem` when it was not made for this. */
export function placeIn(cursor: string | undefined, asked: object): string | undefined {
  if (cursor === undefined) return undefined;
  const text = Buffer.from(cursor, 'base64url').toString();
  const place = text.slice(CHECK);
  if (text.slice(0, CHECK) === checkOf(place, asked)) return place;
  const message = 'must be the `next` of the page before, and the other parameters as they were then';
  throw new Problem('invalid_parameters', { errors: [{ path: 'query.cursor', message }] });
}

/** Characters of the check: against mistakes, not against malice. A wrong place shows nothing that a right one does not. */
const CHECK = 8;

function checkOf(place: string, asked: object): string {
  return createHash('sha256')
    .update(JSON.stringify([asked, place]))
    .digest('hex')
    .slice(0, CHECK);
}

/** A place in a log. */
export interface Place {
  readonly below: number;
  readonly after?: number;
}

export function textOf({ below, after }: Place): string {
  return after === undefined ? String(below) : `${below}-${after}`;
}

/** Of a text that was checked. */
export function logPlaceIn(text: string | undefined): { readonly from?: Place } {
  if (text === undefined) return {};
  const [below, after] = text.split('-').map(Number);
  return { from: after === undefined ? { below: below! } : { below: below!, after } };
}
