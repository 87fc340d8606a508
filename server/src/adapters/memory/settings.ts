import { isDeepStrictEqual } from 'node:util';
import type {
  AuditPage,
  AuditQuery,
  DestinationRecord,
  RecordName,
  Settings,
  SettingsChanges,
  SettingsSnapshot,
  SourceRecord,
} from '../../ports/settings.ts';
import type { Holder, Kept, MemoryContents } from './contents.ts';
import { assertOpen } from './contents.ts';

/** The operator's records in memory. */
export function openSettings(contents: MemoryContents, holder: Holder): Settings {
  return {
    async load() {
      return snapshotOf(contents);
    },
    async apply(changes) {
      assertOpen(contents, holder);
      change(contents, asStored(changes));
      return snapshotOf(contents);
    },
    async audit(query, limit, from = contents.audit.length) {
      return asStored(pageOf(contents, query, { limit, from }));
    },
  };
}

function change(
  contents: MemoryContents,
  { sources, destinations, tokens = [], replays = [], removed = [], audit = [] }: SettingsChanges,
): void {
  for (const record of removed) remove(contents, record);
  for (const record of sources) putSource(contents, record);
  for (const record of destinations) putDestination(contents, record);
  for (const token of tokens) contents.tokenRecords.set(token.name, token);
  for (const replay of replays) contents.replayRecords.set(replay.id, replay);
  contents.audit.push(...audit);
}

function snapshotOf(contents: MemoryContents): SettingsSnapshot {
  const { sourceRecords, destinationRecords, tokenRecords, replayRecords } = contents;
  return asStored({
    sources: those(sourceRecords, false),
    destinations: those(destinationRecords, false),
    tokens: [...tokenRecords.values()],
    replays: [...replayRecords.values()],
    gone: { sources: those(sourceRecords, true), destinations: those(destinationRecords, true) },
  });
}

function those<Of>(records: ReadonlyMap<string, Kept<Of>>, areGone: boolean): Of[] {
  return [...records.values()].filter(({ isGone }) => isGone === areGone).map(({ record }) => record);
}

/** A copy as a disk would give it back: the records are data, and nobody else may change what is stored. */
function asStored<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

function remove(
  { sourceRecords, destinationRecords, tokenRecords, replayRecords }: MemoryContents,
  { kind, name }: RecordName,
): void {
  const source = sourceRecords.get(name);
  const destination = destinationRecords.get(name);
  if (kind === 'token') tokenRecords.delete(name);
  else if (kind === 'replay') replayRecords.delete(name);
  else if (kind === 'source' && source !== undefined) sourceRecords.set(name, { ...source, isGone: true });
  else if (kind === 'destination' && destination?.isGone === false) {
    const record = { ...destination.record, version: destination.record.version + 1 };
    destinationRecords.set(name, { record, isGone: true });
  }
}

/** Names are never forgotten, so their number is also the newest id. */
function putSource({ sourceRecords }: MemoryContents, record: SourceRecord): void {
  const id = sourceRecords.get(record.name)?.record.id ?? sourceRecords.size + 1;
  sourceRecords.set(record.name, { record: { ...record, id }, isGone: false });
}

/** Compared as values: the order of keys is no change, the order of endpoints is (deliveries know them by place). */
function putDestination({ destinationRecords }: MemoryContents, record: DestinationRecord): void {
  const known = destinationRecords.get(record.name);
  const { id = destinationRecords.size + 1, version = 0 } = known?.record ?? {};
  const isSame = known !== undefined && isDeepStrictEqual({ ...record, id, version }, known.record);
  if (isSame && !known.isGone) return;
  destinationRecords.set(record.name, { record: { ...record, id, version: version + 1 }, isGone: false });
}

function pageOf(
  { audit }: MemoryContents,
  { kind, name }: AuditQuery,
  { limit, from }: { limit: number; from: number },
): AuditPage {
  const places = audit
    .map((_, place) => place)
    .filter((place) => place < from)
    .filter((place) => kind === undefined || audit[place]!.kind === kind)
    .filter((place) => name === undefined || audit[place]!.name === name)
    .reverse();
  const shown = places.slice(0, limit);
  return {
    entries: shown.map((place) => audit[place]!),
    ...(places.length > limit ? { next: shown.at(-1)! } : {}),
  };
}
