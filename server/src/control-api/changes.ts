import { isDeepStrictEqual } from 'node:util';
import { RETRY_WINDOW } from '../model/delivery.ts';
import { isDelivering, recordSwitch } from '../model/destination.ts';
import type { JsonObject } from '../model/json.ts';
import type {
  DestinationRecord,
  RecordKind,
  RecordName,
  SourceRecord,
  TokenRecord,
} from '../model/settings.ts';
import type { Monotonic } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { AuditEntry, SettingsChanges, SettingsSnapshot } from '../ports/settings-store.ts';
import { destinationView, sourceView, toJson, tokenView, unmaskedDestination } from './views.ts';

/** The records as a request wants them. */
export interface DesiredRecords {
  readonly sources?: readonly SourceRecord[];
  /** A record without `paused` stays as it is. Its `pauses` come from the stored record only. */
  readonly destinations?: readonly DestinationRecord[];
  readonly tokens?: readonly TokenRecord[];
  readonly removed?: readonly RecordName[];
}

export interface Author {
  /** See `AuditEntry`. */
  readonly by: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** The differences between the desired and the stored records, with an entry of the audit trail for each. */
export function diffRecords(
  wish: DesiredRecords,
  now: SettingsSnapshot,
  { by, clock }: Author,
): SettingsChanges {
  const sources = changedRecords(SOURCE, now.sources, wish.sources);
  const at = clock.now();
  const stored = new Map(now.destinations.map((one) => [one.name, one]));
  const wanted = wish.destinations?.map((record) =>
    withPauses(record, stored.get(record.name), clock.monotonic()),
  );
  const destinations = changedRecords(DESTINATION, now.destinations, wanted);
  const tokens = changedRecords(TOKEN, now.tokens, wish.tokens);
  const gone = (kind: RecordKind) =>
    new Set((wish.removed ?? []).flatMap((one) => (one.kind === kind ? [one.name] : [])));
  const removed: Pick<RecordDifference<object>, 'entry'>[] = [
    ...removedRecords(SOURCE, now.sources, gone('source')),
    ...removedRecords(DESTINATION, now.destinations, gone('destination')),
    ...removedRecords(TOKEN, now.tokens, gone('token')),
  ];
  const differences = [...sources, ...destinations, ...tokens, ...removed];
  return {
    sources: sources.map(({ record }) => record),
    destinations: destinations.map(({ record }) => record),
    tokens: tokens.map(({ record }) => record),
    removed: removed.map(({ entry: { kind, name } }) => ({ kind, name })),
    audit: differences.map(({ entry }) => ({ ...entry, by, at })),
  };
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

interface RecordDifference<Of> {
  readonly record: Of;
  readonly entry: Omit<AuditEntry, 'at' | 'by'>;
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
const DESTINATION: RecordComparison<DestinationRecord> = {
  kind: 'destination',
  shown: (record) => toJson(destinationView(record)),
  whole: unmaskedDestination,
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
    const before = byName.get(name);
    const after = shown(record);
    if (before === undefined) return [{ record, entry: { action: 'created', kind, name, after } }];
    if (isDeepStrictEqual(whole(before), whole(record))) return [];
    return [{ record, entry: { action: 'changed', kind, name, before: shown(before), after } }];
  });
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
