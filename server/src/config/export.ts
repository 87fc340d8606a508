import { createHash } from 'node:crypto';
import { defined, isObject, type Json, type JsonObject } from '../model/json.ts';
import { hasMaskedValue, mapUrlValues } from '../model/secrets.ts';
import { visible, visibleJson } from '../model/visible-text.ts';
import { pathText } from './yaml-source.ts';

/** A secret that needs a variable name: its destination or alert, and its place there. */
export interface SecretLocation {
  readonly destination: string;
  /** Absent for a destination. */
  readonly kind?: 'alert';
  /**
   * In a destination `settings.sharedSecret`, `settings.nextSharedSecret`, `settings.signingSecrets[0]` or
   * `settings.endpoints[0].headers.Authorization`; in an alert `settings.password` or
   * `settings.headers.Authorization`. For a value in a query string, the path of the URL is followed by the
   * name of the value and its number among the values of that name; for one in the path of the URL by the
   * number of its segment.
   */
  readonly path: readonly (string | number)[];
}

/** Length of the digest that makes a name unique; longer where that is not enough. */
const MIN_DIGEST = 8;

/**
 * The names of environment variables for secrets, in the order given: `CRM_SECRET`, `CRM_SIGNING_SECRET_1`,
 * `CRM_HEADER_1_AUTHORIZATION`, `CRM_QUERY_1_TOKEN`, `CRM_PATH_1_3`. Names are unique. Each depends on its
 * own place alone, except that places with equal names all get a digest at the end. A number would be
 * shorter, but a destination added later could then take over the variable of another, and its secret with
 * it.
 */
function variableNames(places: readonly SecretLocation[]): string[] {
  const plain = places.map(plainName);
  const isShared = (name: string) => plain.indexOf(name) !== plain.lastIndexOf(name);
  const taken = new Set(plain.filter((name) => !isShared(name)));
  return plain.map((name, nth) => {
    if (!isShared(name)) return name;
    const digest = createHash('sha256').update(JSON.stringify(places[nth])).digest('hex').toUpperCase();
    let length = MIN_DIGEST;
    while (taken.has(`${name}_${digest.slice(0, length)}`)) length++;
    const unique = `${name}_${digest.slice(0, length)}`;
    taken.add(unique);
    return unique;
  });
}

function plainName({ destination, kind, path }: SecretLocation): string {
  const prefix = kind === 'alert' ? `ALERT_${wordOf(destination)}` : wordOf(destination) || 'DESTINATION';
  const name = `${prefix}_${partName(path)}`;
  return /^[0-9]/.test(name) ? `_${name}` : name;
}

function partName([, part, nth, field, name]: SecretLocation['path']): string {
  if (part === 'sharedSecret') return 'SECRET';
  if (part === 'nextSharedSecret') return 'NEXT_SECRET';
  if (part === 'password') return 'PASSWORD';
  if (part === 'headers') return `HEADER_${wordOf(String(nth)) || 'VALUE'}`;
  if (part === 'url')
    return typeof nth === 'number' ? `PATH_${nth + 1}` : `QUERY_${wordOf(String(nth)) || 'VALUE'}`;
  if (part === 'signingSecrets') return `SIGNING_SECRET_${Number(nth) + 1}`;
  if (part !== 'endpoints')
    return (
      wordOf(
        [part, nth, field, name]
          .filter((one) => one !== undefined)
          .map(String)
          .join('_'),
      ) || 'VALUE'
    );
  if (typeof name === 'number') return `PATH_${Number(nth) + 1}_${name + 1}`;
  return `${field === 'url' ? 'QUERY' : 'HEADER'}_${Number(nth) + 1}_${wordOf(String(name)) || 'VALUE'}`;
}

/** `ünd-so weiter` → `UND_SO_WEITER`; empty where no letter and no digit is left. */
function wordOf(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
    .replace(/^_|_$/g, '');
}

/** Records as the control API shows them (`GET config`): a mask stands for every secret. */
export interface ExportedRecords {
  readonly sources: readonly JsonObject[];
  readonly destinations: readonly JsonObject[];
  /** Absent from servers that have none. */
  readonly audiences?: readonly JsonObject[];
  readonly traits?: readonly JsonObject[];
  readonly alerts?: readonly JsonObject[];
}

/** A list of short texts is written on one line up to this length. */
const WIDTH = 100;

/** Matches texts that need no quotes anywhere in YAML, not even in a list on one line. */
const PLAIN = /^(https?:\/\/[\w./?=&%+:-]*[\w/]|[A-Za-z_][\w./@+-]*( [\w./@+-]+)*)$/;

/** Matches texts that some version of YAML reads as something other than text. */
const SPECIAL = /^(y|yes|n|no|on|off|true|false|null|nan|inf)$/i;

/** Matches characters that an editor may change, and invisible ones. */
const NONCHARACTERS = /[\ufdd0-\ufdef\ufffe\uffff]/g;

/** A secret or write key that is not in a file yet: `variable` of the environment stands in its place. */
export interface MissingValue {
  readonly set: true;
  readonly variable: string;
}

/** Comments of a file that is no export of a server: lines without `#`. */
export interface FileRemarks {
  readonly heading: readonly string[];
  /** Lines in front of a record, by its list and name: `destinations crm`. */
  readonly before: ReadonlyMap<string, readonly string[]>;
  /** Lines behind the last record. */
  readonly end: readonly string[];
}

/**
 * Writes a configuration file with these records, the same bytes for the same records: `readConfigFile` finds
 * exactly them in it when the variables that its beginning lists hold the secrets. spec/contract.md,
 * "Configuration file".
 */
export function formatConfig(
  { sources, destinations, audiences = [], traits = [], alerts = [] }: ExportedRecords,
  remarks?: FileRemarks,
): string {
  // In this copy no two masks are the same object: each can be told from the others.
  const own = JSON.parse(JSON.stringify({ sources, destinations, alerts })) as Required<ExportedRecords>;
  const sorted = {
    sources: byName(own.sources),
    destinations: byName(own.destinations),
    ...defined({
      audiences: audiences.length === 0 ? undefined : byName(audiences),
      traits: traits.length === 0 ? undefined : byName(traits),
      alerts: alerts.length === 0 ? undefined : byName(own.alerts),
    }),
  };
  const { variables, references } = secretVariables(sorted.destinations, sorted.alerts);
  const known = new Map([...missingValues(sorted), ...references]);
  const body = Object.entries(sorted).flatMap(([key, records]) => {
    if (remarks === undefined) return yamlEntry(`${key}:`, records, '', known);
    if (records.length === 0) return [];
    const items = records.flatMap((record: JsonObject) => [
      ...comment(remarks.before.get(`${key} ${String(record['name'])}`) ?? [], '  '),
      ...yamlListItem(record, '  ', known),
    ]);
    return [`${key}:`, ...items];
  });
  const heading = remarks === undefined ? headerComment(variables) : comment(remarks.heading, '');
  return `${[...heading, '', ...body, ...comment(remarks?.end ?? [], '')].join('\n')}\n`;
}

/** A line end of any kind would end the comment. Tabs stay, because texts of programs have them. */
function comment(lines: readonly string[], indent: string): string[] {
  const shown = (text: string) => visible(text).replace(NONCHARACTERS, '\ufffd');
  return lines.map((line) => `${indent}# ${line.split('\t').map(shown).join('\t')}`.trimEnd());
}

/** The reference in place of each missing value. */
function* missingValues(value: Json): Generator<readonly [Json, string]> {
  if (isMissing(value)) yield [value, reference(value.variable)];
  else if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(value)) yield* missingValues(inner);
}

function isMissing(value: Json): value is JsonObject & MissingValue {
  return isMask(value) && typeof value['variable'] === 'string';
}

interface SecretVariable extends SecretLocation {
  readonly name: string;
}

/** The text written in place of each mask, with the names of its variables. */
type SecretReferences = ReadonlyMap<Json, string>;

/** A mask, and the places of the secrets behind it: one, or as many as a URL has values in its query. */
interface HiddenSecret {
  readonly mask: Json;
  readonly paths: readonly SecretLocation['path'][];
  readonly written: (names: readonly string[]) => string;
}

function byName(records: readonly JsonObject[]): JsonObject[] {
  const nameOf = ({ name }: JsonObject) => String(name);
  return [...records].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
}

function secretVariables(
  destinations: readonly JsonObject[],
  alerts: readonly JsonObject[] = [],
): {
  readonly variables: readonly SecretVariable[];
  readonly references: SecretReferences;
} {
  const hiddenOf = (records: readonly JsonObject[], kind: Pick<SecretLocation, 'kind'>) =>
    records.flatMap((record) =>
      findHiddenSecrets(record, []).map((one) => ({
        ...one,
        whose: { destination: String(record['name']), ...kind },
      })),
    );
  const hidden = [...hiddenOf(destinations, {}), ...hiddenOf(alerts, { kind: 'alert' })];
  const places = hidden.flatMap(({ whose, paths }) => paths.map((path) => ({ ...whose, path })));
  const names = variableNames(places);
  const left = [...names];
  return {
    variables: places.map((place, nth) => ({ ...place, name: names[nth]! })),
    references: new Map(
      hidden.map(({ mask, paths, written }) => [mask, written(left.splice(0, paths.length))] as const),
    ),
  };
}

/** Replaces a URL that has masked values by a mask, which can be recognized later. */
function findHiddenSecrets(value: Json, path: SecretLocation['path']): HiddenSecret[] {
  if (isMissing(value)) return [];
  if (isMask(value)) return [{ mask: value, paths: [path], written: ([name = '']) => reference(name) }];
  if (Array.isArray(value))
    return value.flatMap((item: Json, nth) => findHiddenSecrets(item, [...path, nth]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (key !== 'url' || typeof inner !== 'string' || !hasMaskedValue(inner))
      return findHiddenSecrets(inner, [...path, key]);
    const mask = { set: true };
    (value as Record<string, Json>)[key] = mask;
    return [hiddenUrlSecrets(inner, mask, [...path, key])];
  });
}

function hiddenUrlSecrets(url: string, mask: Json, path: SecretLocation['path']): HiddenSecret {
  const paths: SecretLocation['path'][] = [];
  mapUrlValues(url, (value, place) => {
    paths.push('segment' in place ? [...path, place.segment] : [...path, place.name, place.nth]);
    return value;
  });
  const escaped = mapUrlValues(url, () => '\0').replaceAll('${', () => '$${');
  const written = (names: readonly string[]) => {
    const left = [...names];
    return quoted(escaped.replaceAll('\0', () => reference(left.shift() ?? '')));
  };
  return { mask, paths, written };
}

function reference(name: string): string {
  return `\${${name}}`;
}

/** Whether a value comes from `maskSecret`: nothing else in a record has such a key. */
function isMask(value: Json): value is JsonObject {
  return isObject(value) && value['set'] === true;
}

function headerComment(listed: readonly SecretVariable[]): string[] {
  const width = Math.max(...listed.map(({ name }) => name.length));
  const lines = ['# Written by `millrace export`; `millrace plan -f` shows what it would change.'];
  if (listed.length === 0) return lines;
  return [
    ...lines,
    '# Secrets are not in it. They are read from these variables of the environment:',
    ...listed.map(
      ({ name, destination, kind, path }) =>
        `#   ${name.padEnd(width)}  ${describeLocation(path.slice(1))} of ${kind === 'alert' ? 'the alert ' : ''}${quoted(destination)}`,
    ),
  ];
}

/** `endpoints[0].headers.Authorization`; of a value in a query `token in endpoints[0].url`. */
function describeLocation(path: SecretLocation['path']): string {
  if (path[0] === 'url') return `${describeValue(path[1])} in url`;
  const [endpoints = '', place = 0, field, name] = path;
  if (field !== 'url') return pathText(path);
  return `${describeValue(name)} in ${pathText([endpoints, place, field])}`;
}

function describeValue(place: string | number | undefined): string {
  if (typeof place === 'number') return `part ${place + 1} of the path`;
  return place === '' ? 'a value' : quoted(String(place));
}

/** `head`: a key with its colon, or the dash of a list; the value follows on the same line where it fits. */
function yamlEntry(head: string, value: Json, indent: string, references: SecretReferences): string[] {
  const short = yamlInline(value, references);
  if (short !== undefined && (!Array.isArray(value) || head.length + short.length < WIDTH))
    return [`${head} ${short}`];
  if (Array.isArray(value))
    return [head, ...value.flatMap((item: Json) => yamlListItem(item, `${indent}  `, references))];
  return [head, ...yamlMapping(value as JsonObject, `${indent}  `, references)];
}

function yamlListItem(value: Json, indent: string, references: SecretReferences): string[] {
  if (!isObject(value) || isMask(value)) return yamlEntry(`${indent}-`, value, indent, references);
  const [first = '', ...rest] = yamlMapping(value, `${indent}  `, references);
  return [`${indent}- ${first.trimStart()}`, ...rest];
}

function yamlMapping(object: JsonObject, indent: string, references: SecretReferences): string[] {
  return Object.entries(object).flatMap(([key, value]) =>
    yamlEntry(`${indent}${yamlKey(key)}:`, value, indent, references),
  );
}

/** Whether a value contains no mapping other than an empty one. */
function yamlInline(value: Json, references: SecretReferences): string | undefined {
  const written = references.get(value);
  if (written !== undefined) return written;
  if (typeof value === 'string') return yamlText(value);
  if (Array.isArray(value)) {
    const items = value.map((item: Json) => yamlInline(item, references));
    return items.includes(undefined) ? undefined : `[${items.join(', ')}]`;
  }
  if (isObject(value)) return Object.keys(value).length === 0 ? '{}' : undefined;
  return String(value);
}

/** Keys are not escaped, because references are not read in keys. */
function yamlKey(key: string): string {
  return isPlain(key) ? key : quoted(key);
}

function yamlText(text: string): string {
  const escaped = text.replaceAll('${', () => '$${');
  return isPlain(escaped) ? escaped : quoted(escaped);
}

function isPlain(text: string): boolean {
  return PLAIN.test(text) && !SPECIAL.test(text);
}

/** YAML 1.2 reads every text of JSON. */
function quoted(text: string): string {
  return visibleJson(JSON.stringify(text)).replace(
    NONCHARACTERS,
    (character) => `\\u${character.charCodeAt(0).toString(16)}`,
  );
}
