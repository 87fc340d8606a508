import type * as z from 'zod';
import { configDocument, destination, source } from './config-schema.ts';
import { excessIn } from './destinations/webhooks/settings.ts';
import { firstExcess, MOST_PROBLEMS } from './model/excess.ts';
import { isObject } from './model/json.ts';
import type { DestinationRecord, SourceRecord } from './ports/settings.ts';
import { closest } from './spelling.ts';

type Issue = z.core.$ZodIssue;

/** Records that a server has already, beside those of a document that is checked. */
export interface KnownRecords {
  readonly sources: readonly Pick<SourceRecord, 'name' | 'writeKeys'>[];
  readonly destinations: readonly Pick<DestinationRecord, 'name' | 'sources'>[];
}

export interface Accepted {
  readonly data: z.output<typeof configDocument>;
}

/** More than `MOST_PROBLEMS` where there are so many, but only those of the record where that was found out. */
export interface Refused {
  readonly issues: readonly Issue[];
}

/**
 * Validates what a configuration file says. The work is bounded whatever the document holds: collections are counted before
 * anything looks at their entries, and records are looked at one after the other until enough is wrong.
 *
 * @param known What the document is applied to, without the records that it removes; names of sources are looked for there
 *   too. Absent where that is not known yet: then any name of a source will do.
 */
export function checkDocument(value: unknown, known?: KnownRecords): Accepted | Refused {
  const excess = firstExcess(value);
  if (excess !== undefined) return { issues: [issue(excess.path, excess.message)] };
  if (!isObject(value)) return parsed(configDocument.safeParse(value), []);
  const issues: Issue[] = [];
  const rest = collect(configDocument.safeParse({ ...value, sources: [], destinations: [] }), [], issues);
  const sources = records('sources', source, value, issues);
  const destinations = records('destinations', destination, value, issues);
  for (const double of doublesIn(value, known)) {
    if (issues.length > MOST_PROBLEMS) break;
    issues.push(double);
  }
  if (known !== undefined) {
    for (const unknown of unknownSources(value, known)) {
      if (issues.length > MOST_PROBLEMS) break;
      issues.push(unknown);
    }
  }
  return issues.length > 0 ? { issues } : { data: { ...rest!, sources, destinations } };
}

type Result<Of> = z.ZodSafeParseResult<Of>;

function parsed(result: Result<Accepted['data']>, path: readonly PropertyKey[]): Accepted | Refused {
  const issues: Issue[] = [];
  const data = collect(result, path, issues);
  return data === undefined ? { issues } : { data };
}

/** The value, or its issues with their path from the top of the document. */
function collect<Of>(
  { data, error }: Result<Of>,
  path: readonly PropertyKey[],
  issues: Issue[],
): Of | undefined {
  for (const one of error?.issues ?? []) issues.push({ ...one, path: [...path, ...one.path] });
  return data;
}

const LISTS: Readonly<Record<'sources' | 'destinations', z.ZodType<object>>> = configDocument.shape;

function records<Of>(
  key: 'sources' | 'destinations',
  schema: z.ZodType<Of>,
  document: { readonly [key: string]: unknown },
  issues: Issue[],
): Of[] {
  const list = document[key];
  if (!Array.isArray(list)) {
    collect<object>(LISTS[key].safeParse(list), [key], issues);
    return [];
  }
  const found: Of[] = [];
  for (const [place, record] of list.entries()) {
    if (issues.length > MOST_PROBLEMS) break;
    const excess = key === 'destinations' && isObject(record) ? excessIn(record['settings']) : undefined;
    if (excess !== undefined) {
      issues.push(issue([key, place, 'settings', ...excess.path], excess.message, { found: true }));
      continue;
    }
    const one = collect(schema.safeParse(record), [key, place], issues);
    if (one !== undefined) found.push(one);
  }
  return found;
}

/** `params`: see `problemsOf`. */
function issue(
  path: readonly PropertyKey[],
  message: string,
  params: { readonly found?: boolean } = {},
): Issue {
  return { code: 'custom', path: [...path], message, params, input: undefined };
}

/** Names and write keys that occur twice. Values of the wrong type are left to the schema. */
function* doublesIn(document: { readonly [key: string]: unknown }, known?: KnownRecords): Generator<Issue> {
  const sources = listOf(document['sources']);
  const destinations = listOf(document['destinations']);
  yield* twice(occurrences(sources, ['sources'], 'name'), new Map(), (at) => `is also the name of ${at}`);
  const names = occurrences(destinations, ['destinations'], 'name');
  yield* twice(names, new Map(), (at) => `is also the name of ${at}`);
  const taken = new Map<string, string>();
  const named = new Set(sources.map((one) => (isObject(one) ? one['name'] : undefined)));
  for (const { name, writeKeys } of known?.sources ?? []) {
    if (named.has(name)) continue;
    for (const key of writeKeys) taken.set(key, `the source ${JSON.stringify(name)}`);
  }
  // The key itself is not printed: messages end up in logs.
  for (const [index, item] of sources.entries()) {
    if (!isObject(item)) continue;
    const keys = occurrences(listOf(item['writeKeys']), ['sources', index, 'writeKeys']);
    yield* twice(keys, taken, (at) => `is also a write key of ${at}`);
  }
  for (const [index, item] of destinations.entries()) {
    if (!isObject(item)) continue;
    const path = ['destinations', index, 'sources'];
    yield* twice(occurrences(listOf(item['sources']), path), new Map(), () => 'is named twice in this list');
  }
}

interface Occurrence {
  readonly text: string;
  readonly path: readonly PropertyKey[];
}

/** `taken`: texts that were seen before, each with the record that has it. Gets those that are seen here. */
function* twice(
  found: readonly Occurrence[],
  taken: Map<string, string>,
  messageOf: (holder: string) => string,
): Generator<Issue> {
  for (const { text, path } of found) {
    const holder = taken.get(text);
    if (holder === undefined) taken.set(text, `${String(path[0])}[${String(path[1])}]`);
    else yield issue(path, messageOf(holder));
  }
}

/**
 * Sources that a destination names and nobody has: nothing would ever arrive from them. A name that the stored destination
 * has already is none: its source may have been removed since.
 */
export function* unknownSources(
  document: { readonly sources?: unknown; readonly destinations?: unknown },
  known: KnownRecords,
): Generator<Issue> {
  const names = new Set(known.sources.map(({ name }) => name));
  for (const { text } of occurrences(listOf(document.sources), [], 'name')) names.add(text);
  const stored = new Map(known.destinations.map((one) => [one.name, new Set(one.sources)]));
  for (const [index, item] of listOf(document.destinations).entries()) {
    if (!isObject(item)) continue;
    const before = stored.get(String(item['name']));
    for (const { text, path } of occurrences(listOf(item['sources']), ['destinations', index, 'sources'])) {
      if (names.has(text) || before?.has(text) === true) continue;
      const similar = closest(text, names);
      const hint = similar === undefined ? '' : `; did you mean ${JSON.stringify(similar)}?`;
      yield issue(path, `names the source ${JSON.stringify(text)}, which does not exist${hint}`);
    }
  }
}

/** The texts of a list, or of one key of its items. */
function occurrences(list: readonly unknown[], path: readonly PropertyKey[], key?: string): Occurrence[] {
  return list.flatMap((item, index) => {
    const value = key === undefined ? item : isObject(item) ? item[key] : undefined;
    if (typeof value !== 'string') return [];
    return [{ text: value, path: [...path, index, ...(key === undefined ? [] : [key])] }];
  });
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
