import type { TokenLimits } from '../model/settings.ts';
import type { Caller } from './auth.ts';
import type { ApiOperation, Reach, ScopedInput } from './operation.ts';
import { Problem } from './problem.ts';

/** The operation itself leaves out, or refuses, what is not of the token. */
export const FILTERED: Reach = () => true;

/** Of the source in the path. */
export const NAMED_SOURCE: Reach = ({ sources }, { names }) => sources.includes(names['name'] ?? '');

/** Of the destination in the path. */
export const NAMED_DESTINATION: Reach = ({ destinations }, { names }) =>
  destinations.includes(names['name'] ?? '');

/** Of the source in the query. */
export const ASKED_SOURCE: Reach = ({ sources }, { query }) => sources.includes(textAt(query, 'source'));

/** Of the destination in the query. */
export const ASKED_DESTINATION: Reach = ({ destinations }, { query }) =>
  destinations.includes(textAt(query, 'destination'));

function textAt(part: unknown, key: string): string {
  return String((Object(part) as Record<string, unknown>)[key] ?? '');
}

/**
 * Refuses a call that the limits of a token do not allow. What no operation has thought of is refused. Throws
 * a `Problem`. spec/contract.md, "Roles".
 */
export function refuseOutside(
  { isWithin, showsBodies }: Pick<ApiOperation, 'isWithin' | 'showsBodies'>,
  { limits, bodies }: Pick<Caller, 'limits' | 'bodies'>,
  input: ScopedInput,
): void {
  if (limits !== undefined && isWithin?.(limits, input) !== true) throw outsideToken(limits);
  if (bodies === false && showsBodies === true) throw new Problem('bodies_not_shown');
}

export function outsideToken({ sources, destinations }: TokenLimits): Problem {
  const own = [
    ...sources.map((name) => `source ${name}`),
    ...destinations.map((name) => `destination ${name}`),
  ];
  const shown = own.slice(0, 10).join(', ');
  const hint = `It is for ${shown}${own.length > 10 ? ' and more' : ''}; an admin can make another one.`;
  return new Problem('outside_token', { hint });
}
