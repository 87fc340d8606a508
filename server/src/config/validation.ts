import type * as z from 'zod';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import { closestWord } from '../model/closest-word.ts';
import { findLimitViolation, MAX_PROBLEMS } from '../model/input-limits.ts';
import { isObject } from '../model/json.ts';
import { AUDIENCES_SOURCE, type DestinationRecord, type SourceRecord } from '../model/settings.ts';
import type { SettingsRemark } from '../ports/destination-type.ts';
import { alertSchema } from './alert-schema.ts';
import { audienceSchema, traitSchema } from './computation-schema.ts';
import { type ComputationContext, type ComputationIssue, computationIssues } from './computations.ts';
import { destinationSchema } from './destination-schema.ts';
import { configFileSchema, sourceSchema } from './schema.ts';

type Issue = z.core.$ZodIssue;

/** Records that a server already has, beside those of the document being checked. */
export interface KnownRecords extends ComputationContext {
  readonly sources: readonly Pick<SourceRecord, 'name' | 'writeKeys' | 'scriptPath' | 'system' | 'shadow'>[];
  readonly destinations: readonly Pick<DestinationRecord, 'name' | 'type' | 'sources'>[];
}

export interface ValidDocument {
  readonly data: z.output<typeof configFileSchema>;
}

/** May exceed `MAX_PROBLEMS`, but only by the issues of the record that passed the limit. */
export interface InvalidDocument {
  readonly issues: readonly Issue[];
}

/**
 * Validates the content of a configuration file. The work is bounded for any document: collections are
 * counted before their entries are read, and records are checked one by one until there are problems enough.
 *
 * @param known The records that the document is applied to, without those it removes; source names are looked
 *   up there too. Absent where they are not known yet: any source name is then accepted.
 */
export function validateDocument(value: unknown, known?: KnownRecords): ValidDocument | InvalidDocument {
  const excess = findLimitViolation(value);
  if (excess !== undefined) return { issues: [customIssue(excess.path, excess.message)] };
  if (!isObject(value)) return validateWhole(configFileSchema.safeParse(value), []);
  const issues: Issue[] = [];
  const rest = collectIssues(
    configFileSchema.safeParse({
      ...value,
      sources: [],
      destinations: [],
      audiences: [],
      traits: [],
      alerts: [],
    }),
    [],
    issues,
  );
  const sources = validateRecords('sources', sourceSchema, value, issues);
  const destinations = validateRecords('destinations', destinationSchema, value, issues);
  const alerts = validateRecords('alerts', alertSchema, value, issues);
  const before = issues.length;
  const audiences = validateRecords('audiences', audienceSchema, value, issues);
  const traits = validateRecords('traits', traitSchema, value, issues);
  // Names of entries that could not be read would look as if they did not exist.
  const areRead = issues.length === before;
  for (const double of duplicateIssues(value, known)) {
    if (issues.length > MAX_PROBLEMS) break;
    issues.push(double);
  }
  const others = known === undefined ? [] : unknownSources(value, known);
  for (const list of [others, shadowIssues(value, known)]) {
    for (const other of list) {
      if (issues.length > MAX_PROBLEMS) break;
      issues.push(other);
    }
  }
  if (areRead) {
    const named = asList(value['destinations']).flatMap((one) =>
      isObject(one) && typeof one['name'] === 'string'
        ? [{ name: one['name'], type: String(one['type']) }]
        : [],
    );
    for (const one of computationIssues({ audiences, traits, destinations: named }, known)) {
      if (issues.length > MAX_PROBLEMS) break;
      issues.push(issueOfComputation(one));
    }
  }
  return issues.length > 0
    ? { issues }
    : { data: { ...rest!, sources, destinations, audiences, traits, alerts } };
}

/** The place in a definition's text goes with it: see `problemsOfIssues`. */
function issueOfComputation({ path, message, line, column }: ComputationIssue): Issue {
  return customIssue(path, message, line === undefined ? {} : { line, column });
}

type Result<Of> = z.ZodSafeParseResult<Of>;

type RecordList = 'sources' | 'destinations' | 'audiences' | 'traits' | 'alerts';

function validateWhole(
  result: Result<ValidDocument['data']>,
  path: readonly PropertyKey[],
): ValidDocument | InvalidDocument {
  const issues: Issue[] = [];
  const data = collectIssues(result, path, issues);
  return data === undefined ? { issues } : { data };
}

/** The value, or its issues with their path from the top of the document. */
function collectIssues<Of>(
  { data, error }: Result<Of>,
  path: readonly PropertyKey[],
  issues: Issue[],
): Of | undefined {
  for (const one of error?.issues ?? []) issues.push({ ...one, path: [...path, ...one.path] });
  return data;
}

const LISTS: Readonly<Record<RecordList, z.ZodType<object>>> = configFileSchema.shape;

function validateRecords<Of>(
  key: RecordList,
  schema: z.ZodType<Of>,
  document: { readonly [key: string]: unknown },
  issues: Issue[],
): Of[] {
  const list = document[key];
  if (!Array.isArray(list)) {
    collectIssues<object>(LISTS[key].safeParse(list), [key], issues);
    return [];
  }
  const found: Of[] = [];
  for (const [place, record] of list.entries()) {
    if (issues.length > MAX_PROBLEMS) break;
    const excess = key === 'destinations' && isObject(record) ? oversizedPart(record) : undefined;
    if (excess !== undefined) {
      issues.push(customIssue([key, place, 'settings', ...excess.path], excess.message, { found: true }));
      continue;
    }
    const one = collectIssues(schema.safeParse(record), [key, place], issues);
    if (one !== undefined) found.push(one);
  }
  return found;
}

function oversizedPart({ type, settings }: { readonly [key: string]: unknown }): SettingsRemark | undefined {
  const known = DESTINATION_TYPES.get(String(type)) ?? [...DESTINATION_TYPES.values()][0];
  return known?.settings.oversized?.(settings);
}

/** `params`: see `problemsOfIssues`. */
function customIssue(
  path: readonly PropertyKey[],
  message: string,
  params: Readonly<Record<string, unknown>> = {},
): Issue {
  return { code: 'custom', path: [...path], message, params, input: undefined };
}

/**
 * Finds names and write keys that occur twice, also those of stored sources that the document does not name:
 * one that names both may move a key. Values of the wrong type are left to the schema. `advice`: what to do
 * about a key of a stored source.
 */
export function* duplicateIssues(
  document: { readonly [key: string]: unknown },
  known?: Pick<KnownRecords, 'sources'>,
  advice = '',
): Generator<Issue> {
  const sources = asList(document['sources']);
  const destinations = asList(document['destinations']);
  yield* repeatedTexts(
    occurrences(sources, ['sources'], 'name'),
    new Map(),
    (at) => `is also the name of ${at}`,
  );
  const alerts = occurrences(asList(document['alerts']), ['alerts'], 'name');
  yield* repeatedTexts(alerts, new Map(), (at) => `is also the name of ${at}`);
  const names = occurrences(destinations, ['destinations'], 'name');
  yield* repeatedTexts(names, new Map(), (at) => `is also the name of ${at}`);
  const taken = new Map<string, string>();
  const paths = new Map<string, string>();
  const named = new Set(sources.map((one) => (isObject(one) ? one['name'] : undefined)));
  for (const { name, writeKeys, scriptPath } of known?.sources ?? []) {
    if (named.has(name)) continue;
    const holder = `the source ${JSON.stringify(name)}${advice}`;
    for (const key of writeKeys) taken.set(key, holder);
    if (scriptPath !== undefined) paths.set(scriptPath, holder);
  }
  const scripts = occurrences(sources, ['sources'], 'scriptPath');
  yield* repeatedTexts(scripts, paths, (at) => `is also the path of ${at}`);
  // The key itself is not printed: messages end up in logs.
  for (const [index, item] of sources.entries()) {
    if (!isObject(item)) continue;
    const keys = occurrences(asList(item['writeKeys']), ['sources', index, 'writeKeys']);
    yield* repeatedTexts(keys, taken, (at) => `is also a write key of ${at}`);
  }
  for (const [index, item] of destinations.entries()) {
    if (!isObject(item)) continue;
    const path = ['destinations', index, 'sources'];
    yield* repeatedTexts(
      occurrences(asList(item['sources']), path),
      new Map(),
      () => 'is named twice in this list',
    );
  }
}

interface Occurrence {
  readonly text: string;
  readonly path: readonly PropertyKey[];
}

/** `taken`: the texts seen before, each with its record. The texts seen here are added. */
function* repeatedTexts(
  found: readonly Occurrence[],
  taken: Map<string, string>,
  messageOf: (holder: string) => string,
): Generator<Issue> {
  for (const { text, path } of found) {
    const holder = taken.get(text);
    if (holder === undefined) taken.set(text, `${String(path[0])}[${String(path[1])}]`);
    else yield customIssue(path, messageOf(holder));
  }
}

/**
 * Finds sources that a destination names and that do not exist: no event would ever arrive from them. A name
 * that the stored destination already has is accepted: its source may have been removed since.
 */
export function* unknownSources(
  document: { readonly sources?: unknown; readonly destinations?: unknown },
  known: KnownRecords,
): Generator<Issue> {
  const names = new Set(known.sources.map(({ name }) => name));
  for (const { text } of occurrences(asList(document.sources), [], 'name')) names.add(text);
  const stored = new Map(known.destinations.map((one) => [one.name, new Set(one.sources)]));
  for (const [index, item] of asList(document.destinations).entries()) {
    if (!isObject(item)) continue;
    const before = stored.get(String(item['name']));
    for (const { text, path } of occurrences(asList(item['sources']), ['destinations', index, 'sources'])) {
      if (text === AUDIENCES_SOURCE.name) {
        const message = `must not have ${text}: an audience or computed trait names the destinations of its events itself`;
        yield customIssue(path, message);
        continue;
      }
      if (names.has(text) || before?.has(text) === true) continue;
      const similar = closestWord(text, names);
      const hint = similar === undefined ? '' : `; did you mean ${JSON.stringify(similar)}?`;
      yield customIssue(path, `names the source ${JSON.stringify(text)}, which does not exist${hint}`);
    }
  }
}

/**
 * Finds shadows that a destination names, and sources that would become a shadow or be one no more: their
 * events up to now were delivered and are part of profiles, or neither.
 */
export function* shadowIssues(
  document: { readonly sources?: unknown; readonly destinations?: unknown },
  known?: KnownRecords,
): Generator<Issue> {
  const stored = new Map(known?.sources.map(({ name, shadow }) => [name, shadow === true]));
  const shadows = new Map(stored);
  for (const [index, item] of asList(document.sources).entries()) {
    if (!isObject(item) || typeof item['name'] !== 'string') continue;
    const isShadow = item['shadow'] === true;
    shadows.set(item['name'], isShadow);
    if ((stored.get(item['name']) ?? isShadow) === isShadow) continue;
    const message = 'is decided when the source is made: make another source for what comes from now on';
    yield customIssue(['sources', index, 'shadow'], message);
  }
  for (const [index, item] of asList(document.destinations).entries()) {
    if (!isObject(item)) continue;
    for (const { text, path } of occurrences(asList(item['sources']), ['destinations', index, 'sources']))
      if (shadows.get(text) === true)
        yield customIssue(path, `must not have ${text}: it is a shadow, whose events are never delivered`);
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

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
