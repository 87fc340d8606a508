import { isObject, type JsonObject, ownValue } from './json.ts';

/**
 * The consent of a visitor, by ids of categories: only `true` consents. Where it is undefined nothing was
 * said, and nothing is withheld. spec/specification.md, "Consent".
 */
export type Preferences = JsonObject | undefined;

const NOTHING: JsonObject = {};

/**
 * The preferences that a call has in its context. An empty consent object beside an integrations object
 * consents to nothing, as does one that cannot be read.
 */
export function preferencesIn(context: JsonObject, hasIntegrations: boolean): Preferences {
  const consent = ownValue(context, 'consent');
  if (consent === undefined || consent === null) return undefined;
  if (!isObject(consent) && !isEmptyList(consent)) return NOTHING;
  return writtenPreferences(context) ?? (hasIntegrations ? NOTHING : undefined);
}

/** The preferences that a context names itself, whatever stands beside it; undefined where it names none. */
export function writtenPreferences(context: JsonObject): Preferences {
  const consent = ownValue(context, 'consent');
  const written = isObject(consent) ? ownValue(consent, 'categoryPreferences') : undefined;
  if (written === undefined || written === null) return undefined;
  return isObject(written) ? written : NOTHING;
}

/** Whether a visitor has consented to every one of these categories. */
export function isConsented(preferences: Preferences, categories: readonly string[]): boolean {
  return (
    preferences === undefined || categories.every((category) => ownValue(preferences, category) === true)
  );
}

/** PHP writes an empty object as a list. */
function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
