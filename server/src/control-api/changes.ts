import { isDeepStrictEqual } from 'node:util';
import type { AlertRecord } from '../model/alert.ts';
import { RETRY_WINDOW } from '../model/delivery.ts';
import { isDelivering } from '../model/destination.ts';
import { isObject, type Json, type JsonObject } from '../model/json.ts';
import { recordSwitch } from '../model/pause.ts';
import {
  AUDIENCES_SOURCE,
  type AudienceRecord,
  addressRuleOf,
  DEFAULT_ADDRESS_RULE,
  DEFAULT_TRUST,
  type DestinationRecord,
  type RecordKind,
  type RecordName,
  type Source,
  type SourceRecord,
  type TokenRecord,
  type TraitRecord,
  trustOf,
} from '../model/settings.ts';
import type { SigningKey } from '../model/signing-key.ts';
import type { Monotonic } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { DestinationTypes } from '../ports/destination-type.ts';
import type { AuditEntry, SettingsChanges, SettingsSnapshot } from '../ports/settings-store.ts';
import { makeSigningKey } from './signing-key.ts';
import {
  alertView,
  computationView,
  destinationView,
  sourceView,
  toJson,
  tokenView,
  unmaskedAlert,
  unmaskedDestination,
} from './views.ts';

/** The records as a request wants them. */
export interface DesiredRecords {
  /** A record without `ip` or `trust` keeps what it has; a new one has the defaults. */
  readonly sources?: readonly SourceRecord[];
  /**
   * A record without `paused` stays as it is. Its `pauses` and its `signingKey` come from the stored record
   * only.
   */
  readonly destinations?: readonly DestinationRecord[];
  readonly audiences?: readonly AudienceRecord[];
  readonly traits?: readonly TraitRecord[];
  /** The memory of an alert comes from the stored record only. */
  readonly alerts?: readonly AlertRecord[];
  readonly tokens?: readonly TokenRecord[];
  readonly removed?: readonly RecordName[];
}

export interface Author {
  /** See `AuditEntry`. */
  readonly by: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly types: DestinationTypes;
  /** Makes the key of a destination that has none and is to sign with one. Default: a random one. */
  readonly makeKey?: () => SigningKey;
}

/**
 * The differences between the desired and the stored records, with an entry of the audit trail for each: of a
 * changed record it has only the fields that differ. The first audience or computed trait brings the source
 * of their events with it.
 */
export function diffRecords(wish: DesiredRecords, now: SettingsSnapshot, author: Author): SettingsChanges {
  const { sources, destinations, audiences, traits, alerts, tokens, removed } = compare(wish, now, author);
  const written = [...sources, ...destinations, ...audiences, ...traits, ...alerts, ...tokens];
  const at = author.clock.now();
  return {
    sources: sources.map(({ record }) => record),
    destinations: destinations.map(({ record }) => record),
    audiences: audiences.map(({ record }) => record),
    traits: traits.map(({ record }) => record),
    alerts: alerts.map(({ record }) => record),
    tokens: tokens.map(({ record }) => record),
    removed: removed.map(({ entry: { kind, name } }) => ({ kind, name })),
    audit: [...written, ...removed].map(({ entry, changed }) => ({
      ...entry,
      ...changed,
      by: author.by,
      at,
    })),
  };
}

/** The same differences with the records as they were and would be, whole. */
export function planRecords(wish: DesiredRecords, now: SettingsSnapshot, author: Author): AuditEntry[] {
  const at = author.clock.now();
  const all: readonly (readonly Pick<RecordDifference<object>, 'entry'>[])[] = Object.values(
    compare(wish, now, author),
  );
  return all.flat().map(({ entry }) => ({ ...entry, by: author.by, at }));
}

function compare(
  wish: DesiredRecords,
  now: SettingsSnapshot,
  { clock, types, makeKey = makeSigningKey }: Author,
) {
  const destination = destinationsIn(types);
  const stored = new Map(now.destinations.map((one) => [one.name, one]));
  const wanted = wish.destinations?.map((record) =>
    withSigningKey(
      withPauses(record, stored.get(record.name), clock.monotonic()),
      stored.get(record.name)?.signingKey,
      { types, makeKey },
    ),
  );
  const gone = (kind: RecordKind) =>
    new Set((wish.removed ?? []).flatMap((one) => (one.kind === kind ? [one.name] : [])));
  return {
    sources: changedRecords(SOURCE, now.sources, [
      ...completeSources(wish.sources ?? [], now.sources),
      ...systemSources(wish),
    ]),
    destinations: changedRecords(destination, now.destinations, wanted),
    audiences: changedRecords(AUDIENCE, now.audiences, withKeys(wish.audiences, now.audiences)),
    traits: changedRecords(TRAIT, now.traits, withKeys(wish.traits, now.traits)),
    alerts: changedRecords(ALERT, now.alerts, withMemories(wish.alerts, now.alerts)),
    tokens: changedRecords(TOKEN, now.tokens, wish.tokens),
    removed: [
      ...removedRecords(SOURCE, now.sources, gone('source')),
      ...removedRecords(destination, now.destinations, gone('destination')),
      ...removedRecords(AUDIENCE, now.audiences, gone('audience')),
      ...removedRecords(TRAIT, now.traits, gone('trait')),
      ...removedRecords(ALERT, now.alerts, gone('alert')),
      ...removedRecords(TOKEN, now.tokens, gone('token')),
    ],
  };
}

function systemSources({ audiences = [], traits = [] }: DesiredRecords): SourceRecord[] {
  return audiences.length + traits.length === 0 ? [] : [AUDIENCES_SOURCE];
}

/** A record without `ip` or `trust` gets the stored value, and a new one the default. */
function completeSources(wanted: readonly SourceRecord[], stored: readonly Source[]): SourceRecord[] {
  const before = new Map(stored.map((source) => [source.name, source]));
  return wanted.map((record) => {
    const known = before.get(record.name);
    return {
      ...record,
      ip: record.ip ?? (known === undefined ? DEFAULT_ADDRESS_RULE : addressRuleOf(known)),
      trust: record.trust ?? (known === undefined ? DEFAULT_TRUST : trustOf(known)),
    };
  });
}

/** A stored key stays, whatever a later version makes of the name: destinations know the key. */
function withKeys<Of extends AudienceRecord | TraitRecord>(
  wanted: readonly Of[] | undefined,
  stored: readonly Of[],
): readonly Of[] | undefined {
  const keys = new Map(stored.map(({ name, key }) => [name, key]));
  return wanted?.map((record) => ({ ...record, key: keys.get(record.name) ?? record.key }));
}

function withMemories(
  wanted: readonly AlertRecord[] | undefined,
  stored: readonly AlertRecord[],
): readonly AlertRecord[] | undefined {
  const memories = new Map(stored.map(({ name, memory }) => [name, memory]));
  return wanted?.map(({ memory: _, ...record }): AlertRecord => {
    const memory = memories.get(record.name);
    return memory === undefined ? record : { ...record, memory };
  });
}

/** The record with its state of pausing, and with the time in which nothing is sent to it noted down. */
function withPauses(
  wanted: DestinationRecord,
  before: DestinationRecord | undefined,
  at: Monotonic,
): DestinationRecord {
  const { paused: wish, pauses: _, ...record } = wanted;
  const paused = wish ?? before?.paused ?? false;
  const after = paused ? { ...record, paused } : record;
  const known = before?.pauses ?? [];
  const wasServed = before === undefined || isDelivering(before);
  const pauses =
    isDelivering(after) === wasServed
      ? known
      : recordSwitch(known, { isServed: isDelivering(after), at, window: RETRY_WINDOW });
  return pauses.length === 0 ? after : { ...after, pauses };
}

/**
 * The key is made when the setting is switched on, stays as long as it is, and goes with it: switched on
 * again it is another one.
 */
function withSigningKey(
  { signingKey: _, ...record }: DestinationRecord,
  known: SigningKey | undefined,
  { types, makeKey }: { readonly types: DestinationTypes; readonly makeKey: () => SigningKey },
): DestinationRecord {
  const signs = types.get(record.type)?.signsPublicly?.(record.settings) === true;
  return signs ? { ...record, signingKey: known ?? makeKey() } : record;
}

interface RecordDifference<Of> {
  readonly record: Of;
  readonly entry: Omit<AuditEntry, 'at' | 'by'>;
  /** The fields that differ, in the place of the whole records. */
  readonly changed?: { readonly before: JsonObject; readonly after: JsonObject };
}

interface RecordComparison<Of> {
  readonly kind: RecordKind;
  readonly shown: (record: Of) => JsonObject;
  /** The whole record with its secrets, which no entry of the trail shows. */
  readonly whole: (record: Of) => object;
}

const SOURCE: RecordComparison<SourceRecord> = {
  kind: 'source',
  shown: (record) => toJson(sourceView(record)),
  whole: sourceView,
};

function destinationsIn(types: DestinationTypes): RecordComparison<DestinationRecord> {
  return {
    kind: 'destination',
    shown: (record) => toJson(destinationView(record, types)),
    whole: (record) => unmaskedDestination(record, types),
  };
}

/**
 * A definition that only its text tells from the stored one is none that changes anything, and the stored
 * text stays.
 */
function wholeComputation(record: AudienceRecord | TraitRecord): object {
  const { key, definition } = record;
  return { ...computationView(record), key, definition };
}

const AUDIENCE: RecordComparison<AudienceRecord> = {
  kind: 'audience',
  shown: (record) => toJson(computationView(record)),
  whole: wholeComputation,
};
const TRAIT: RecordComparison<TraitRecord> = {
  kind: 'trait',
  shown: (record) => toJson(computationView(record)),
  whole: wholeComputation,
};
const ALERT: RecordComparison<AlertRecord> = {
  kind: 'alert',
  shown: (record) => toJson(alertView(record)),
  whole: unmaskedAlert,
};
const TOKEN: RecordComparison<TokenRecord> = {
  kind: 'token',
  shown: (record) => toJson(tokenView(record)),
  whole: (record) => record,
};

function changedRecords<Of extends { readonly name: string }>(
  { kind, shown, whole }: RecordComparison<Of>,
  known: readonly Of[],
  wanted: readonly Of[] = [],
): RecordDifference<Of>[] {
  const byName = new Map(known.map((one) => [one.name, one]));
  return wanted.flatMap((record): RecordDifference<Of>[] => {
    const { name } = record;
    const known = byName.get(name);
    const after = shown(record);
    if (known === undefined) return [{ record, entry: { action: 'created', kind, name, after } }];
    const [one, other] = [whole(known), whole(record)];
    if (isDeepStrictEqual(one, other)) return [];
    const before = shown(known);
    const changed = changedFields([one, before], [other, after]);
    return [{ record, entry: { action: 'changed', kind, name, before, after }, changed }];
  });
}

/** An object with its secrets, and as it is shown. */
type Secret = readonly [whole: object, shown: JsonObject];

/**
 * The fields of two objects that differ, as they are shown: those too whose secrets differ, which look the
 * same. Lists are not taken apart.
 */
function changedFields(
  [wholeBefore, shownBefore]: Secret,
  [wholeAfter, shownAfter]: Secret,
): { readonly before: JsonObject; readonly after: JsonObject } {
  const [one, other] = [wholeBefore as JsonObject, wholeAfter as JsonObject];
  const before: Record<string, Json> = {};
  const after: Record<string, Json> = {};
  for (const name of new Set([...Object.keys(one), ...Object.keys(other)])) {
    if (isDeepStrictEqual(one[name], other[name])) continue;
    const [shown, shownThen] = [shownBefore[name], shownAfter[name]];
    if ([one[name], other[name], shown, shownThen].every((value) => isObject(value))) {
      const inner = changedFields(
        [one[name] as object, shown as JsonObject],
        [other[name] as object, shownThen as JsonObject],
      );
      before[name] = inner.before;
      after[name] = inner.after;
      continue;
    }
    if (shown !== undefined) before[name] = shown;
    if (shownThen !== undefined) after[name] = shownThen;
  }
  return { before, after };
}

function removedRecords<Of extends { readonly name: string }>(
  { kind, shown }: RecordComparison<Of>,
  known: readonly Of[],
  names: ReadonlySet<string>,
): RecordDifference<Of>[] {
  return known
    .filter((record) => names.has(record.name))
    .map((record) => ({
      record,
      entry: { action: 'removed', kind, name: record.name, before: shown(record) },
    }));
}
