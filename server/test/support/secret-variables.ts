import type { ExportedRecords } from '../../src/config/export.ts';
import { isObject } from '../../src/model/json.ts';
import { mapUrlValues } from '../../src/model/secrets.ts';

/**
 * The environment for an exported configuration file: each variable listed at its beginning, with its secret
 * from `document`, the content that the file must give. `shown` is the masked document that the file was
 * written from.
 */
export function secretVariables(
  text: string,
  shown: ExportedRecords,
  document: { readonly destinations: readonly { readonly name: string }[] },
): Record<string, string> {
  const names = [...text.matchAll(/^# {3}(\w+) /gm)].map(([, name]) => name!);
  const secrets = [...shown.destinations]
    .sort((one, other) => (String(one['name']) < String(other['name']) ? -1 : 1))
    .flatMap((record) =>
      secretsIn(
        record,
        document.destinations.find(({ name }) => name === record['name']),
      ),
    );
  if (names.length !== secrets.length || new Set(names).size !== names.length)
    throw new Error(`${names.length} variables for ${secrets.length} secrets`);
  return Object.fromEntries(names.map((name, nth) => [name, secrets[nth]!]));
}

/** The values of a URL that are not shown. */
function valuesIn(url: string): string[] {
  const values: string[] = [];
  mapUrlValues(url, (value) => {
    values.push(value);
    return value;
  });
  return values;
}

/** The values at the places where `shown` has masks. */
function secretsIn(shown: unknown, whole: unknown): string[] {
  if (isObject(shown) && shown['set'] === true) return [String(whole)];
  if (typeof shown === 'string') return shown === whole ? [] : valuesIn(String(whole));
  if (typeof shown !== 'object' || shown === null) return [];
  const parts = Object(whole) as Readonly<Record<string, unknown>>;
  return Object.entries(shown).flatMap(([key, value]) => secretsIn(value, parts[key]));
}
