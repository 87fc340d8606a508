import type { ValuePath } from '../model/hidden-values.ts';
import type { DestinationRecord } from '../model/settings.ts';
import { type DestinationTypes, integrationNamesOf } from '../ports/destination-type.ts';

/** Settings that are allowed, and probably not meant so beside those of other destinations. */
export interface DestinationWarning {
  readonly destination: string;
  /** Below the record: `['settings', 'integrationNames', 0]`. */
  readonly path: ValuePath;
  readonly message: string;
}

/**
 * Names in integrations objects that mean something else than they look like. A name that is the own name of
 * a destination is that one's alone. spec/specification.md, "Integrations object".
 */
export function nameWarnings(
  destinations: readonly DestinationRecord[],
  types: DestinationTypes,
): DestinationWarning[] {
  const asked = destinations.filter((one) => integrationNamesOf(one, types) !== undefined);
  const ownNames = new Set(asked.map(({ name }) => name));
  const common = new Set([...types.values()].flatMap(({ integrationNames }) => integrationNames));
  return asked.flatMap(({ name: destination, integrationNames = [] }) => {
    const own = common.has(destination) ? [{ destination, path: ['name'], message: COMMON_NAME }] : [];
    const others = integrationNames.flatMap((name, nth) => {
      if (name === destination || !ownNames.has(name)) return [];
      const message =
        'is the name of another destination, and in an integrations object switches that one alone';
      return [{ destination, path: ['settings', 'integrationNames', nth], message }];
    });
    return [...own, ...others];
  });
}

/**
 * Enabled destinations that ask for no consent beside others of the same source that do: they get the events
 * of visitors who have refused. spec/specification.md, "Consent".
 */
export function consentWarnings(
  destinations: readonly DestinationRecord[],
  types: DestinationTypes,
): DestinationWarning[] {
  const asked = destinations.filter(({ enabled, type }) => enabled && types.get(type)?.planning.consent);
  const mapped = asked.filter(({ consent }) => consent !== undefined);
  const sourcesOfMapped = new Set(mapped.flatMap(({ sources }) => sources));
  return asked.flatMap(({ name: destination, consent, sources }) => {
    const source = sources.find((one) => sourcesOfMapped.has(one));
    if (consent !== undefined || source === undefined) return [];
    const message = `asks for no consent, as others of the source ${JSON.stringify(source)} do: it gets events of visitors who have refused, and their browsers keep cookies`;
    return [{ destination, path: ['settings'], message }];
  });
}

const COMMON_NAME =
  'is also a name by which calls switch other destinations: in an integrations object it switches this one alone';
