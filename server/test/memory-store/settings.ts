import { isDeepStrictEqual } from 'node:util';
import type { DestinationRecord, RecordName, SourceRecord } from '../../src/model/settings.ts';
import type { DestinationHealth, EndpointHealthStore } from '../../src/ports/delivery-queue.ts';
import {
  type AuditEntry,
  type AuditPage,
  type AuditQuery,
  MAX_AUDIT_PAGE,
  type SettingsChanges,
  SettingsMovedError,
  type SettingsSnapshot,
  type SettingsStore,
} from '../../src/ports/settings-store.ts';
import { assertOpen, type MemoryContents, type Opening, type RecordEntry } from './contents.ts';

/** How many changes of the settings each snapshot that was given out has in it. */
const CHANGES = new WeakMap<SettingsSnapshot, number>();

export function openSettings(contents: MemoryContents, holder: Opening): SettingsStore {
  return {
    async load() {
      return snapshotOf(contents);
    },
    async apply(changes, basis) {
      assertOpen(contents, holder);
      const expected = basis && CHANGES.get(basis);
      if (expected !== undefined && expected !== contents.shared.settings) throw new SettingsMovedError();
      change(contents, copyOf(changes));
      contents.shared.settings++;
      return snapshotOf(contents);
    },
    async audit(query, limit, from = contents.audit.length + contents.auditGone) {
      return copyOf(pageOf(contents, query, { limit, from }));
    },
    async auditedBefore(time) {
      return contents.audit.filter(({ at }) => at < time).length;
    },
  };
}

function change(
  contents: MemoryContents,
  {
    sources,
    destinations,
    audiences = [],
    traits = [],
    alerts = [],
    tokens = [],
    replays = [],
    splits = [],
    removed = [],
    audit = [],
  }: SettingsChanges,
): void {
  for (const record of removed) remove(contents, record);
  for (const record of sources) putSource(contents, record);
  for (const record of destinations) putDestination(contents, record);
  for (const record of audiences) putComputation(contents, contents.audienceRecords, record);
  for (const record of traits) putComputation(contents, contents.traitRecords, record);
  for (const alert of alerts) contents.alertRecords.set(alert.name, alert);
  for (const token of tokens) contents.tokenRecords.set(token.name, token);
  for (const replay of replays) contents.replayRecords.set(replay.id, replay);
  for (const split of splits) contents.splitRecords.set(split.id, split);
  contents.audit.push(...audit);
}

function snapshotOf(contents: MemoryContents): SettingsSnapshot {
  const { sourceRecords, destinationRecords, audienceRecords, traitRecords } = contents;
  const { alertRecords, tokenRecords, replayRecords, splitRecords } = contents;
  const snapshot = copyOf({
    sources: recordsOf(sourceRecords, false),
    destinations: recordsOf(destinationRecords, false),
    audiences: recordsOf(audienceRecords, false),
    traits: recordsOf(traitRecords, false),
    alerts: [...alertRecords.values()],
    tokens: [...tokenRecords.values()],
    replays: [...replayRecords.values()],
    splits: [...splitRecords.values()],
    gone: {
      sources: recordsOf(sourceRecords, true),
      destinations: recordsOf(destinationRecords, true),
      audiences: recordsOf(audienceRecords, true),
      traits: recordsOf(traitRecords, true),
    },
  });
  CHANGES.set(snapshot, contents.shared.settings);
  return snapshot;
}

function recordsOf<Of>(records: ReadonlyMap<string, RecordEntry<Of>>, areGone: boolean): Of[] {
  return [...records.values()].filter(({ isGone }) => isGone === areGone).map(({ record }) => record);
}

/** A copy, as a disk would give it back, so that no caller can change the contents. */
function copyOf<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

function remove(contents: MemoryContents, { kind, name }: RecordName): void {
  const { sourceRecords, alertRecords, tokenRecords, replayRecords, splitRecords } = contents;
  const source = sourceRecords.get(name);
  if (kind === 'alert') alertRecords.delete(name);
  else if (kind === 'token') tokenRecords.delete(name);
  else if (kind === 'replay') replayRecords.delete(name);
  else if (kind === 'split') splitRecords.delete(name);
  else if (kind === 'source' && source !== undefined) sourceRecords.set(name, { ...source, isGone: true });
  else if (kind === 'destination') removeVersioned(contents.destinationRecords, name);
  else if (kind === 'audience') removeVersioned(contents.audienceRecords, name);
  else if (kind === 'trait') removeVersioned(contents.traitRecords, name);
}

function removeVersioned<Of extends { readonly version: number }>(
  records: Map<string, RecordEntry<Of>>,
  name: string,
): void {
  const known = records.get(name);
  if (known?.isGone !== false) return;
  records.set(name, { record: { ...known.record, version: known.record.version + 1 }, isGone: true });
}

/** Names are never forgotten, so the number of names is also the newest id. */
function putSource({ sourceRecords }: MemoryContents, record: SourceRecord): void {
  const id = sourceRecords.get(record.name)?.record.id ?? sourceRecords.size + 1;
  sourceRecords.set(record.name, { record: { ...record, id }, isGone: false });
}

/** Audiences and traits share their ids. */
function putComputation<Of extends { readonly name: string; readonly id: number; readonly version: number }>(
  { audienceRecords, traitRecords }: MemoryContents,
  records: Map<string, RecordEntry<Of>>,
  wanted: Omit<Of, 'id' | 'version'> & { readonly name: string },
): void {
  const known = records.get(wanted.name);
  const { id = audienceRecords.size + traitRecords.size + 1, version = 0 } = known?.record ?? {};
  const isSame = known !== undefined && isDeepStrictEqual({ ...wanted, id, version }, known.record);
  if (isSame && !known.isGone) return;
  const record = { ...wanted, id, version: version + 1 } as unknown as Of;
  records.set(wanted.name, { record, isGone: false });
}

/**
 * The order of keys is no change; the order of endpoints is one, as deliveries refer to endpoints by index.
 */
function putDestination({ destinationRecords }: MemoryContents, record: DestinationRecord): void {
  const known = destinationRecords.get(record.name);
  const { id = destinationRecords.size + 1, version = 0 } = known?.record ?? {};
  const isSame = known !== undefined && isDeepStrictEqual({ ...record, id, version }, known.record);
  if (isSame && !known.isGone) return;
  destinationRecords.set(record.name, { record: { ...record, id, version: version + 1 }, isGone: false });
}

function pageOf(
  { audit, auditGone }: MemoryContents,
  { kind, name }: AuditQuery,
  { limit, from }: { limit: number; from: number },
): AuditPage {
  const numbered = audit
    .map((entry, place) => ({ entry, number: place + auditGone }))
    .filter(({ number }) => number < from)
    .filter(({ entry }) => kind === undefined || entry.kind === kind)
    .filter(({ entry }) => name === undefined || entry.name === name)
    .reverse();
  let size = 0;
  const end = numbered.findIndex(({ entry }, nth) => {
    const isFull = nth === limit || size >= MAX_AUDIT_PAGE;
    size += lengthOf(entry.before) + lengthOf(entry.after);
    return isFull;
  });
  const shown = end < 0 ? numbered : numbered.slice(0, end);
  return {
    entries: shown.map(({ entry }) => entry),
    ...(end < 0 ? {} : { next: shown.at(-1)!.number }),
  };
}

function lengthOf(record: AuditEntry['before']): number {
  return record === undefined ? 0 : JSON.stringify(record).length;
}

/** Kept as JSON, as a disk would give it back. */
export function openEndpointHealths(contents: MemoryContents, holder: Opening): EndpointHealthStore {
  const { endpointHealths } = contents;
  return {
    async load() {
      return Array.from(endpointHealths, ([destination, endpoints]) => ({
        destination,
        endpoints: JSON.parse(endpoints) as DestinationHealth['endpoints'],
      })).sort((a, b) => a.destination - b.destination);
    },
    async save(healths) {
      assertOpen(contents, holder);
      for (const { destination, endpoints } of healths) {
        if (endpoints.length === 0) endpointHealths.delete(destination);
        else endpointHealths.set(destination, JSON.stringify(endpoints));
      }
    },
  };
}
