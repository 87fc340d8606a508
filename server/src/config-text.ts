import { pathText } from './config-file.ts';
import { type SecretPlace, variableNames } from './config-variables.ts';
import { isObject, type Json, type JsonObject } from './model/json.ts';
import { hasMaskedValue, withQuery } from './model/shown-url.ts';
import { visibleJson } from './visible-text.ts';

/** Sources and destinations as the control API shows them (`GET config`): a mask stands for every secret. */
export interface ShownRecords {
  readonly sources: readonly JsonObject[];
  readonly destinations: readonly JsonObject[];
}

/** A list of short texts that fits in here stands on one line. */
const WIDTH = 100;

/** Texts that need no quotes anywhere in YAML, not even in a list on one line. */
const PLAIN = /^(https?:\/\/[\w./?=&%+:-]*[\w/]|[A-Za-z_][\w./@+-]*( [\w./@+-]+)*)$/;

/** These YAML takes, or once took, for something else than text. */
const SPECIAL = /^(y|yes|n|no|on|off|true|false|null|nan|inf)$/i;

/** What an editor may change, beside what cannot be seen. */
const NO_CHARACTER = /[\ufdd0-\ufdef\ufffe\uffff]/g;

/**
 * Writes a configuration file with these records, the same bytes for the same records: `readConfigFile` finds exactly
 * them in it when the variables that its beginning lists hold the secrets. contract.md section 3.
 */
export function configText({ sources, destinations }: ShownRecords): string {
  // A copy in which no two masks are one object: each is known by itself.
  const own = JSON.parse(JSON.stringify({ sources, destinations })) as ShownRecords;
  const sorted = { sources: byName(own.sources), destinations: byName(own.destinations) };
  const { variables, references } = variablesOf(sorted.destinations);
  const body = Object.entries(sorted).flatMap(([key, records]) => entry(`${key}:`, records, '', references));
  return `${[...preface(variables), '', ...body].join('\n')}\n`;
}

interface Variable extends SecretPlace {
  readonly name: string;
}

/** What is written in the place of each mask: a text with the names of its variables. */
type References = ReadonlyMap<Json, string>;

/** A mask, and the places of the secrets behind it: one, or as many as a URL has values in its query. */
interface Hidden {
  readonly mask: Json;
  readonly paths: readonly SecretPlace['path'][];
  readonly written: (names: readonly string[]) => string;
}

function byName(records: readonly JsonObject[]): JsonObject[] {
  const nameOf = ({ name }: JsonObject) => String(name);
  return [...records].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
}

function variablesOf(destinations: readonly JsonObject[]): {
  readonly variables: readonly Variable[];
  readonly references: References;
} {
  const hidden = destinations.flatMap((record) =>
    hiddenIn(record, []).map((one) => ({ ...one, destination: String(record['name']) })),
  );
  const places = hidden.flatMap(({ destination, paths }) => paths.map((path) => ({ destination, path })));
  const names = variableNames(places);
  const left = [...names];
  return {
    variables: places.map((place, nth) => ({ ...place, name: names[nth]! })),
    references: new Map(
      hidden.map(({ mask, paths, written }) => [mask, written(left.splice(0, paths.length))] as const),
    ),
  };
}

/** A URL with masked values is replaced by a mask, so that it can be known again. */
function hiddenIn(value: Json, path: SecretPlace['path']): Hidden[] {
  if (isMask(value)) return [{ mask: value, paths: [path], written: ([name = '']) => reference(name) }];
  if (Array.isArray(value)) return value.flatMap((item: Json, nth) => hiddenIn(item, [...path, nth]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (key !== 'url' || typeof inner !== 'string' || !hasMaskedValue(inner))
      return hiddenIn(inner, [...path, key]);
    const mask = { set: true };
    (value as Record<string, Json>)[key] = mask;
    return [hiddenUrl(inner, mask, [...path, key])];
  });
}

function hiddenUrl(url: string, mask: Json, path: SecretPlace['path']): Hidden {
  const paths: SecretPlace['path'][] = [];
  withQuery(url, (value, { name, nth }) => {
    paths.push([...path, name, nth]);
    return value;
  });
  const escaped = url.replaceAll('${', () => '$${');
  const written = (names: readonly string[]) => {
    const left = [...names];
    return quoted(withQuery(escaped, () => reference(left.shift() ?? '')));
  };
  return { mask, paths, written };
}

function reference(name: string): string {
  return `\${${name}}`;
}

/** What `maskOf` makes: nothing else in a record has such a key. */
function isMask(value: Json): value is JsonObject {
  return isObject(value) && value['set'] === true;
}

function preface(listed: readonly Variable[]): string[] {
  const width = Math.max(...listed.map(({ name }) => name.length));
  const lines = ['# Written by `millrace export`; `millrace plan -f` shows what it would change.'];
  if (listed.length === 0) return lines;
  return [
    ...lines,
    '# Secrets are not in it. They are read from these variables of the environment:',
    ...listed.map(
      ({ name, destination, path }) =>
        `#   ${name.padEnd(width)}  ${placeText(path.slice(1))} of ${quoted(destination)}`,
    ),
  ];
}

/** `endpoints[0].headers.Authorization`; of a value in a query `token in endpoints[0].url`. */
function placeText(path: SecretPlace['path']): string {
  const [endpoints = '', place = 0, field, name] = path;
  if (field !== 'url') return pathText(path);
  return `${name === '' ? 'a value' : quoted(String(name))} in ${pathText([endpoints, place, field])}`;
}

/** `head` is a key with its colon, or the dash of a list; the value follows on its line where it can. */
function entry(head: string, value: Json, indent: string, references: References): string[] {
  const short = onOneLine(value, references);
  if (short !== undefined && (!Array.isArray(value) || head.length + short.length < WIDTH))
    return [`${head} ${short}`];
  if (Array.isArray(value))
    return [head, ...value.flatMap((item: Json) => listItem(item, `${indent}  `, references))];
  return [head, ...mapping(value as JsonObject, `${indent}  `, references)];
}

function listItem(value: Json, indent: string, references: References): string[] {
  if (!isObject(value) || isMask(value)) return entry(`${indent}-`, value, indent, references);
  const [first = '', ...rest] = mapping(value, `${indent}  `, references);
  return [`${indent}- ${first.trimStart()}`, ...rest];
}

function mapping(object: JsonObject, indent: string, references: References): string[] {
  return Object.entries(object).flatMap(([key, value]) =>
    entry(`${indent}${keyText(key)}:`, value, indent, references),
  );
}

/** What holds no mapping but an empty one. */
function onOneLine(value: Json, references: References): string | undefined {
  const written = references.get(value);
  if (written !== undefined) return written;
  if (typeof value === 'string') return valueText(value);
  if (Array.isArray(value)) {
    const items = value.map((item: Json) => onOneLine(item, references));
    return items.includes(undefined) ? undefined : `[${items.join(', ')}]`;
  }
  if (isObject(value)) return Object.keys(value).length === 0 ? '{}' : undefined;
  return String(value);
}

/** References are not read in keys, so that nothing is escaped there. */
function keyText(key: string): string {
  return isPlain(key) ? key : quoted(key);
}

function valueText(text: string): string {
  const escaped = text.replaceAll('${', () => '$${');
  return isPlain(escaped) ? escaped : quoted(escaped);
}

function isPlain(text: string): boolean {
  return PLAIN.test(text) && !SPECIAL.test(text);
}

/** YAML 1.2 reads every text of JSON. */
function quoted(text: string): string {
  return visibleJson(JSON.stringify(text)).replace(
    NO_CHARACTER,
    (character) => `\\u${character.charCodeAt(0).toString(16)}`,
  );
}
