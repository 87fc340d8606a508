import { isDeepStrictEqual } from 'node:util';
import type { JsonObject } from '../model/json.ts';
import type { Time } from '../model/time.ts';
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
  readonly destinations?: readonly DestinationRecord[];
  readonly tokens?: readonly TokenRecord[];
  readonly removed?: readonly RecordName[];
}

export interface Author {
  /** See `AuditEntry`. */
  readonly by: string;
  readonly at: Time;
}

/** Of a wish what is not so already, with an entry of the audit trail for each change. */
export function changesOf(wish: Wish, now: SettingsSnapshot, author: Author): SettingsChanges {
  const sources = compared(SOURCE, now.sources, wish.sources);
  const destinations = compared(DESTINATION, now.destinations, wish.destinations);
  const tokens = compared(TOKEN, now.tokens, wish.tokens);
  const removed = (wish.removed ?? []).flatMap(({ kind, name }): Pick<Difference<object>, 'entry'>[] => {
    if (kind === 'source') return removals(SOURCE, now.sources, name);
    if (kind === 'destination') return removals(DESTINATION, now.destinations, name);
    return removals(TOKEN, now.tokens, name);
  });
  const differences = [...sources, ...destinations, ...tokens, ...removed];
  return {
    sources: sources.map(({ record }) => record),
    destinations: destinations.map(({ record }) => record),
    tokens: tokens.map(({ record }) => record),
    removed: removed.map(({ entry: { kind, name } }) => ({ kind, name })),
    audit: differences.map(({ entry }) => ({ ...entry, ...author })),
  };
}

interface Difference<Of> {
  readonly record: Of;
  readonly entry: Omit<AuditEntry, keyof Author>;
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
  return wanted.flatMap((record): Difference<Of>[] => {
    const { name } = record;
    const before = known.find((one) => one.name === name);
    const after = shown(record);
    if (before === undefined) return [{ record, entry: { action: 'created', kind, name, after } }];
    if (isDeepStrictEqual(whole(before), whole(record))) return [];
    return [{ record, entry: { action: 'changed', kind, name, before: shown(before), after } }];
  });
}

function removals<Of extends { readonly name: string }>(
  { kind, shown }: Kind<Of>,
  known: readonly Of[],
  name: string,
): Difference<Of>[] {
  return known
    .filter((record) => record.name === name)
    .map((record) => ({ record, entry: { action: 'removed', kind, name, before: shown(record) } }));
}
