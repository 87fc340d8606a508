import * as z from 'zod';
import { MOST_PROBLEMS } from '../model/excess.ts';
import { secretWarning } from '../model/secrets.ts';
import type { DestinationRecord, SettingsSnapshot } from '../ports/settings.ts';
import { type Fault, Problem } from './problem.ts';

/** What the egress rules say of a URL now, in the words of `millrace egress explain`. */
export interface EgressVerdict {
  readonly verdict: 'allowed' | 'refused' | 'unresolved' | 'invalid';
  readonly message: string;
}

export interface EndpointTools {
  /** Looks names up, so it may take seconds; not longer, whatever it is asked. */
  readonly judgeEndpoints: (urls: readonly string[]) => Promise<ReadonlyMap<string, EgressVerdict>>;
}

/** A destination that somebody wants, and its path in the body. */
export interface WantedDestination {
  readonly path: string;
  readonly record: DestinationRecord;
}

/** In an answer: what was saved all the same. */
export const warnings = z.array(z.object({ path: z.string(), message: z.string() })).meta({
  description: 'What was done all the same, such as a name of an endpoint that does not resolve yet.',
});

/**
 * Asks the egress rules about every URL that a destination does not have yet, before it is saved: a refused one is a `Problem`,
 * a name that does not resolve now is a warning. URLs that are stored already are left alone, so that a destination can be
 * paused or repaired whatever the rules say of it today.
 */
export async function checkEndpoints(
  wanted: readonly WantedDestination[],
  now: Pick<SettingsSnapshot, 'destinations'>,
  { judgeEndpoints }: EndpointTools,
): Promise<Fault[]> {
  const stored = new Map(now.destinations.map((one) => [one.name, one]));
  const added = wanted.flatMap(({ path, record: { name, settings } }) => {
    const known = new Set(stored.get(name)?.settings.endpoints.map(({ url }) => url));
    return settings.endpoints.flatMap(({ url }, place) =>
      known.has(url) ? [] : [{ path: `${path}.settings.endpoints[${place}].url`, url }],
    );
  });
  const verdicts = added.length === 0 ? new Map() : await judgeEndpoints(added.map(({ url }) => url));
  const errors: Fault[] = [];
  const found: Fault[] = [];
  for (const { path, url } of added) {
    const { verdict, message } = verdicts.get(url) as EgressVerdict;
    if (verdict === 'refused') errors.push({ path, message });
    else if (verdict !== 'allowed')
      found.push({ path, message: `${message}: nothing is sent until it does` });
  }
  if (errors.length > 0) throw new Problem('invalid_parameters', { errors });
  found.push(...weakSecrets(wanted, stored));
  if (found.length <= MOST_PROBLEMS) return found;
  const message = `has ${found.length - MOST_PROBLEMS} more warnings`;
  return [...found.slice(0, MOST_PROBLEMS), { path: 'body', message }];
}

function weakSecrets(
  wanted: readonly WantedDestination[],
  stored: ReadonlyMap<string, DestinationRecord>,
): Fault[] {
  return wanted.flatMap(({ path, record: { name, settings } }) => {
    if (settings.sharedSecret === stored.get(name)?.settings.sharedSecret) return [];
    const message = secretWarning(settings.sharedSecret);
    return message === undefined ? [] : [{ path: `${path}.settings.sharedSecret`, message }];
  });
}
