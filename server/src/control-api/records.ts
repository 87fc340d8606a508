import { createHash } from 'node:crypto';
import * as z from 'zod';
import { type AlertRecord, addressOfAlert } from '../model/alert.ts';
import type { Destination } from '../model/destination.ts';
import type { ValuePath } from '../model/hidden-values.ts';
import { MAX_PROBLEMS } from '../model/input-limits.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import type {
  AudienceRecord,
  DestinationRecord,
  RecordKind,
  SourceRecord,
  TraitRecord,
} from '../model/settings.ts';
import type { Clock } from '../ports/clock.ts';
import { addressesOf, type DestinationTypes } from '../ports/destination-type.ts';
import type { EgressVerdict } from '../ports/http-client.ts';
import type {
  AuditEntry,
  SettingsChanges,
  SettingsSnapshot,
  SettingsStore,
} from '../ports/settings-store.ts';
import { consentWarnings, type DestinationWarning, nameWarnings } from './destination-warnings.ts';
import { type Fault, Problem } from './problem.ts';
import { unknownName } from './unknown-name.ts';

export function destinationByName(name: string, { destinations }: SettingsSnapshot): Destination {
  const destination = destinations.find((one) => one.name === name);
  if (destination !== undefined) return destination;
  throw unknownName(name, 'destination', destinations);
}

/** RFC 7396: keys of the patch replace, `null` removes, objects are merged, lists are replaced whole. */
export function mergePatch(target: JsonObject, patch: JsonObject): JsonObject {
  const merged = new Map(Object.entries(target));
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, isObject(value) ? mergePatch(asObject(merged.get(key)), value) : value);
  }
  return Object.fromEntries(merged);
}

function asObject(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

/** The dependencies of every operation on records. */
export interface RecordDependencies {
  readonly settings: {
    now(): SettingsSnapshot;
    change(
      decide: (now: SettingsSnapshot) => SettingsChanges | Promise<SettingsChanges>,
    ): Promise<SettingsSnapshot>;
    audit: SettingsStore['audit'];
  };
  /**
   * Checks records together, written as in the configuration file, beside those that the server has: no write
   * key is of two sources, and what a destination, an audience or a computed trait names exists.
   */
  readonly check: (document: RecordDocument, known: KnownRecords) => RecordCheck;
  /** The schemas of single records, for the description. */
  readonly schemas: {
    readonly source: z.ZodType;
    readonly destination: z.ZodType;
    readonly audience: z.ZodType;
    readonly trait: z.ZodType;
    readonly alert: z.ZodType;
  };
  readonly clock: Clock;
  readonly types: DestinationTypes;
}

/** The records beside which others are checked. */
type KnownRecords = Pick<SettingsSnapshot, 'sources' | 'destinations' | 'audiences' | 'traits'>;

/** The records of a configuration file. */
export interface RecordDocument {
  readonly sources: readonly object[];
  readonly destinations: readonly object[];
  readonly audiences?: readonly object[];
  readonly traits?: readonly object[];
  readonly alerts?: readonly object[];
}

interface CheckedRecords {
  readonly sources: readonly SourceRecord[];
  readonly destinations: readonly DestinationRecord[];
  readonly audiences: readonly AudienceRecord[];
  readonly traits: readonly TraitRecord[];
  readonly alerts: readonly AlertRecord[];
}

export type RecordCheck =
  | CheckedRecords
  /** Paths as in the file: `destinations[0].settings.endpoints[0].url`. `isCut`: there are more. */
  | { readonly faults: readonly Fault[]; readonly isCut: boolean };

/**
 * Checks one record like a configuration file, together with all others. Call it inside a change: a rule such
 * as "no write key belongs to two sources" holds only for the records that are being changed.
 */
export function checkRecord<Kind extends keyof CheckedRecords>(
  kind: Kind,
  record: JsonObject,
  { now, check }: { readonly now: SettingsSnapshot } & Pick<RecordDependencies, 'check'>,
): CheckedRecords[Kind][number] {
  const checked = check({ sources: [], destinations: [], [kind]: [record] }, now);
  if (!('faults' in checked)) return checked[kind][0]!;
  const start = `${kind}[0]`;
  const errors = checked.faults.map(({ path, ...fault }) => ({
    ...fault,
    // A problem of all records together has the path of the list.
    path: path.startsWith(start) ? `body${path.slice(start.length)}` : 'body',
  }));
  throw new Problem('invalid_parameters', { errors, isCut: checked.isCut });
}

/**
 * The ETag of a view. `version` tells records apart whose views are equal, such as after a change of a
 * secret.
 */
export function etagOf(shown: object, version = 0): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([version, shown]))
    .digest('base64url');
  return `"${digest.slice(0, 22)}"`;
}

/** RFC 9110: `*`, or a list of tags. Weak ones never match. */
export function matchesEtag(ifMatch: string, tag: string): boolean {
  return ifMatch.trim() === '*' || ifMatch.split(',').some((one) => one.trim() === tag);
}

/**
 * Refuses a change of a record that has changed since it was read. The problem names the keys, the time and
 * the author.
 */
export async function refuseStale(
  { ifMatch, tag }: { readonly ifMatch: string | undefined; readonly tag: string },
  { kind, name }: { readonly kind: RecordKind; readonly name: string },
  { settings }: Pick<RecordDependencies, 'settings'>,
): Promise<void> {
  if (ifMatch === undefined || matchesEtag(ifMatch, tag)) return;
  const [last] = (await settings.audit({ kind, name }, 1)).entries;
  if (last === undefined) throw new Problem('changed_meanwhile');
  const changed = `changed by ${last.by} at ${new Date(last.at).toISOString()}`;
  const errors = differingPaths(last.before, last.after).map((path) => ({ path, message: `was ${changed}` }));
  // Two secrets may look the same.
  if (errors.length === 0) errors.push({ path: 'settings', message: `has a secret that was ${changed}` });
  throw new Problem('changed_meanwhile', { errors });
}

/** The paths at which two values differ; `path` itself where one of them is no object. */
export function differingPaths(
  before: AuditEntry['before'],
  after: AuditEntry['after'],
  path = '',
): string[] {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (!isContainer(before) || !isContainer(after)) return [path];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => {
    const below = Array.isArray(before) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`;
    return differingPaths(before[key], after[key], below);
  });
}

function isContainer(value: AuditEntry['before']): value is JsonObject {
  return typeof value === 'object' && value !== null;
}

/** A record in a body. The schema of the configuration file describes and checks its keys. */
export const recordInput = z
  .record(z.string(), z.unknown())
  // A body is JSON, and so are its values.
  .transform((value) => value as JsonObject);

/** The mask of a secret in an answer. */
export const maskSchema = z
  .object({ set: z.literal(true), hint: z.string().exactOptional() })
  .meta({ description: 'A secret: that there is one, and its last characters where it is long enough.' });

export interface EndpointCheckDependencies {
  readonly types: DestinationTypes;
  /** Looks names up, which takes some seconds at most. */
  readonly judgeEndpoints: (urls: readonly string[]) => Promise<ReadonlyMap<string, EgressVerdict>>;
}

/** An alert from a request, with its path in the body. */
export interface AlertAtPath {
  readonly path: string;
  readonly record: AlertRecord;
}

/** A destination from a request, with its path in the body. */
export interface DestinationAtPath {
  readonly path: string;
  readonly record: DestinationRecord;
}

/** Warnings in an answer, about records that were saved all the same. */
export const warningsSchema = z.array(z.object({ path: z.string(), message: z.string() })).meta({
  description: 'What was done all the same, such as a name of an endpoint that does not resolve yet.',
});

/** More about records that are checked together. */
interface WholeCheck {
  readonly alerts?: readonly AlertAtPath[];
  /** Whether these are all that an operator wrote: warnings that are true of the stored ones come again. */
  readonly isWhole?: boolean;
}

/**
 * Asks the egress rules about every new URL of a destination before it is saved. A refused URL is a
 * `Problem`, and a name that does not resolve is a warning. Stored URLs are not checked again, so that a
 * destination can be paused or repaired under any rules.
 */
export async function checkEndpoints(
  wanted: readonly DestinationAtPath[],
  now: Pick<SettingsSnapshot, 'destinations' | 'alerts'>,
  { judgeEndpoints, types, alerts = [], isWhole = false }: EndpointCheckDependencies & WholeCheck,
): Promise<Fault[]> {
  const stored = new Map(now.destinations.map((one) => [one.name, one]));
  const ofDestinations = wanted.flatMap(({ path, record }) => {
    const before = stored.get(record.name);
    const known = new Set(before === undefined ? [] : addressesOf(before, types).map(({ url }) => url));
    return addressesOf(record, types).flatMap(({ path: place, url }) =>
      known.has(url) ? [] : [{ path: pathBelow(`${path}.settings`, place), url }],
    );
  });
  const added = [...ofDestinations, ...newAddresses(alerts, now)];
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
  found.push(...settingsWarnings(wanted, stored, types));
  found.push(...warningsBetween(wanted, now.destinations, { types, isWhole }));
  if (found.length <= MAX_PROBLEMS) return found;
  const message = `has ${found.length - MAX_PROBLEMS} more warnings`;
  return [...found.slice(0, MAX_PROBLEMS), { path: 'body', message }];
}

function newAddresses(wanted: readonly AlertAtPath[], now: Pick<SettingsSnapshot, 'alerts'>) {
  const known = new Set(now.alerts.map(addressOfAlert));
  return wanted.flatMap(({ path, record }) => {
    const url = addressOfAlert(record);
    const key = record.type === 'webhook' ? 'url' : 'server';
    return known.has(url) ? [] : [{ path: `${path}.settings.${key}`, url }];
  });
}

/** Warnings about settings that are unwise, and were not stored before. */
function settingsWarnings(
  wanted: readonly DestinationAtPath[],
  stored: ReadonlyMap<string, DestinationRecord>,
  types: DestinationTypes,
): Fault[] {
  return wanted.flatMap(({ path, record: { name, type, settings } }) => {
    const before = stored.get(name);
    const known = before?.type === type ? before.settings : undefined;
    const found = types.get(type)?.settings.warnings?.(settings, known) ?? [];
    return found.map(({ path: place, message }) => ({ path: pathBelow(`${path}.settings`, place), message }));
  });
}

function warningsOf(
  destinations: readonly DestinationRecord[],
  types: DestinationTypes,
): DestinationWarning[] {
  return [...nameWarnings(destinations, types), ...consentWarnings(destinations, types)];
}

/** Warnings about records beside all others. */
function warningsBetween(
  wanted: readonly DestinationAtPath[],
  stored: readonly DestinationRecord[],
  { types, isWhole }: { readonly types: DestinationTypes; readonly isWhole: boolean },
): Fault[] {
  const paths = new Map(wanted.map(({ path, record }) => [record.name, path]));
  const others = stored.filter(({ name }) => !paths.has(name));
  const known = new Set((isWhole ? [] : warningsOf(stored, types)).map((one) => JSON.stringify(one)));
  const all = [...others, ...wanted.map(({ record }) => record)];
  return warningsOf(all, types).flatMap((one) => {
    const path = paths.get(one.destination);
    if (path === undefined || known.has(JSON.stringify(one))) return [];
    return [{ path: pathBelow(path, one.path), message: one.message }];
  });
}

/** `body.settings.endpoints[0].url` */
function pathBelow(path: string, place: ValuePath): string {
  return place.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${key}`),
    path,
  );
}
