import { isDeepStrictEqual } from 'node:util';
import { RETRY_WINDOW } from '../model/delivery.ts';
import { isServed } from '../model/destination.ts';
import type { JsonObject } from '../model/json.ts';
import { afterSwitch } from '../model/pauses.ts';
import type { Monotonic } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  AuditEntry,
  DestinationRecord,
  RecordKind,
  RecordName,
  SettingsChanges,
  SettingsSnapshot,
  SourceRecord,
  TokenRecord,
} from '../ports/settings.ts';
import { asJson, shownDestination, shownSource, shownToken, wholeDestination } from './shown.ts';

/** What somebody wants the records to be. */
export interface Wish {
  readonly sources?: readonly SourceRecord[];
  /** One that says nothing of `paused` stays as it is; its `pauses` are kept here and nowhere else. */
  readonly destinations?: readonly DestinationRecord[];
  readonly tokens?: readonly TokenRecord[];
  readonly removed?: readonly RecordName[];
}

export interface Author {
  /** See `AuditEntry`. */
  readonly by: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** Of a wish what is not so already, with an entry of the audit trail for each change. */
export function changesOf(wish: Wish, now: SettingsSnapshot, { by, clock }: Author): SettingsChanges {
  const sources = compared(SOURCE, now.sources, wish.sources);
  const at = clock.now();
  const stored = new Map(now.destinations.map((one) => [one.name, one]));
  const wanted = wish.destinations?.map((record) =>
    switched(record, stored.get(record.name), clock.monotonic()),
  );
  const destinations = compared(DESTINATION, now.destinations, wanted);
  const tokens = compared(TOKEN, now.tokens, wish.tokens);
  const gone = (kind: RecordKind) =>
    new Set((wish.removed ?? []).flatMap((one) => (one.kind === kind ? [one.name] : [])));
  const removed: Pick<Difference<object>, 'entry'>[] = [
    ...removals(SOURCE, now.sources, gone('source')),
    ...removals(DESTINATION, now.destinations, gone('destination')),
    ...removals(TOKEN, now.tokens, gone('token')),
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
function switched(
  wanted: DestinationRecord,
  before: DestinationRecord | undefined,
  at: Monotonic,
): DestinationRecord {
  const { paused: wish, pauses: _, ...record } = wanted;
  const paused = wish ?? before?.paused ?? false;
  const after = paused ? { ...record, paused } : record;
  const known = before?.pauses ?? [];
  const wasServed = before === undefined || isServed(before);
  const pauses =
    isServed(after) === wasServed
      ? known
      : afterSwitch(known, { isServed: isServed(after), at, window: RETRY_WINDOW });
  return pauses.length === 0 ? after : { ...after, pauses };
}

interface Difference<Of> {
  readonly record: Of;
  readonly entry: Omit<AuditEntry, 'at' | 'by'>;
}

interface Kind<Of> {
  readonly kind: RecordKind;
  readonly shown: (record: Of) => JsonObject;
  /** All of it, its secrets too, which no entry of the trail shows. */
  readonly whole: (record: Of) => object;
}

const SOURCE: Kind<SourceRecord> = {
  kind: 'source',
  shown: (record) => asJson(shownSource(record)),
  whole: shownSource,
};
const DESTINATION: Kind<DestinationRecord> = {
  kind: 'destination',
  shown: (record) => asJson(shownDestination(record)),
  whole: wholeDestination,
};
const TOKEN: Kind<TokenRecord> = {
  kind: 'token',
  shown: (record) => asJson(shownToken(record)),
  whole: (record) => record,
};

function compared<Of extends { readonly name: string }>(
  { kind, shown, whole }: Kind<Of>,
  known: readonly Of[],
  wanted: readonly Of[] = [],
): Difference<Of>[] {
  const byName = new Map(known.map((one) => [one.name, one]));
  return wanted.flatMap((record): Difference<Of>[] => {
    const { name } = record;
    const before = byName.get(name);
    const after = shown(record);
    if (before === undefined) return [{ record, entry: { action: 'created', kind, name, after } }];
    if (isDeepStrictEqual(whole(before), whole(record))) return [];
    return [{ record, entry: { action: 'changed', kind, name, before: shown(before), after } }];
  });
}

function removals<Of extends { readonly name: string }>(
  { kind, shown }: Kind<Of>,
  known: readonly Of[],
  names: ReadonlySet<string>,
): Difference<Of>[] {
  return known
    .filter((record) => names.has(record.name))
    .map((record) => ({
      record,
      entry: { action: 'removed', kind, name: record.name, before: shown(record) },
    }));
}
