import { pathText } from './config-file.ts';
import { type SecretPlace, variableNames } from './config-variables.ts';
import { isObject, type Json, type JsonObject } from './model/json.ts';

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

/** What a terminal would obey, what an editor may change, and what no pair of surrogates holds. */
const UNSEEN = /[\u007f-\u009f\p{Cf}\u2028\u2029\ufdd0-\ufdef\ufffe\uffff]/gu;

/**
 * Writes a configuration file with these records, the same bytes for the same records: `readConfigFile` finds exactly
 * them in it when the variables that its beginning lists hold the secrets. contract.md section 3.
 */
export function configText({ sources, destinations }: ShownRecords): string {
  // A copy in which no two masks are one object: each is known by itself.
  const own = JSON.parse(JSON.stringify({ sources, destinations })) as ShownRecords;
  const sorted = { sources: byName(own.sources), destinations: byName(own.destinations) };
  const variables = variablesOf(sorted.destinations);
  const body = Object.entries(sorted).flatMap(([key, records]) => entry(`${key}:`, records, '', variables));
  return `${[...preface(variables), '', ...body].join('\n')}\n`;
}

interface Variable extends SecretPlace {
  readonly name: string;
}

/** By the mask that it stands for. */
type Variables = ReadonlyMap<Json, Variable>;

function byName(records: readonly JsonObject[]): JsonObject[] {
  const nameOf = ({ name }: JsonObject) => String(name);
  return [...records].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
}

function variablesOf(destinations: readonly JsonObject[]): Variables {
  const masks = destinations.flatMap((record) =>
    masksIn(record, []).map(({ mask, path }) => ({ mask, path, destination: String(record['name']) })),
  );
  const names = variableNames(masks.map(({ destination, path }) => ({ destination, path })));
  return new Map(
    masks.map(({ mask, ...place }, nth) => [mask, { ...place, name: names[nth]! }] as [Json, Variable]),
  );
}

function masksIn(
  value: Json,
  path: readonly (string | number)[],
): { mask: Json; path: readonly (string | number)[] }[] {
  if (isMask(value)) return [{ mask: value, path }];
  if (Array.isArray(value)) return value.flatMap((item: Json, nth) => masksIn(item, [...path, nth]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => masksIn(inner, [...path, key]));
}

/** What `maskOf` makes: nothing else in a record has such a key. */
function isMask(value: Json): value is JsonObject {
  return isObject(value) && value['set'] === true;
}

function preface(variables: Variables): string[] {
  const listed = [...variables.values()];
  const width = Math.max(...listed.map(({ name }) => name.length));
  const lines = ['# Written by `millrace export`; `millrace plan -f` shows what it would change.'];
  if (listed.length === 0) return lines;
  return [
    ...lines,
    '# Secrets are not in it. They are read from these variables of the environment:',
    ...listed.map(
      ({ name, destination, path }) =>
        `#   ${name.padEnd(width)}  ${pathText(path.slice(1))} of ${quoted(destination)}`,
    ),
  ];
}

/** `head` is a key with its colon, or the dash of a list; the value follows on its line where it can. */
function entry(head: string, value: Json, indent: string, variables: Variables): string[] {
  const short = onOneLine(value, variables);
  if (short !== undefined && (!Array.isArray(value) || head.length + short.length < WIDTH))
    return [`${head} ${short}`];
  if (Array.isArray(value))
    return [head, ...value.flatMap((item: Json) => listItem(item, `${indent}  `, variables))];
  return [head, ...mapping(value as JsonObject, `${indent}  `, variables)];
}

function listItem(value: Json, indent: string, variables: Variables): string[] {
  if (!isObject(value) || isMask(value)) return entry(`${indent}-`, value, indent, variables);
  const [first = '', ...rest] = mapping(value, `${indent}  `, variables);
  return [`${indent}- ${first.trimStart()}`, ...rest];
}

function mapping(object: JsonObject, indent: string, variables: Variables): string[] {
  return Object.entries(object).flatMap(([key, value]) =>
    entry(`${indent}${keyText(key)}:`, value, indent, variables),
  );
}

/** What holds no mapping but an empty one. */
function onOneLine(value: Json, variables: Variables): string | undefined {
  const variable = variables.get(value);
  if (variable !== undefined) return `\${${variable.name}}`;
  if (typeof value === 'string') return valueText(value);
  if (Array.isArray(value)) {
    const items = value.map((item: Json) => onOneLine(item, variables));
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
  return JSON.stringify(text).replace(UNSEEN, (character) =>
    Array.from(
      { length: character.length },
      (_, nth) => `\\u${character.charCodeAt(nth).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}
