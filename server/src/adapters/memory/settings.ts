import { isDeepStrictEqual } from 'node:util';
import type { Destination } from '../../model/destination.ts';
import type { Source } from '../../model/source.ts';
import type { DestinationRecord, Settings, SettingsSnapshot, SourceRecord } from '../../ports/settings.ts';
import type { Holder, MemoryContents } from './contents.ts';
import { assertOpen } from './contents.ts';

/** The operator's records in memory. */
export function openSettings(contents: MemoryContents, holder: Holder): Settings {
  return {
    async load() {
      return snapshotOf(contents);
    },
    async apply(changes) {
      assertOpen(contents, holder);
      for (const record of changes.sources) putSource(contents, asStored(record));
      for (const record of changes.destinations) putDestination(contents, asStored(record));
      return snapshotOf(contents);
    },
  };
}

function snapshotOf(contents: MemoryContents): SettingsSnapshot {
  return asStored({
    sources: [...contents.sourceRecords.values()],
    destinations: [...contents.destinationRecords.values()],
  });
}

/** A copy as a disk would give it back: the records are data, and nobody else may change what is stored. */
function asStored<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Records are never removed, so the number of names is also the newest id. */
function putSource(contents: MemoryContents, record: SourceRecord): void {
  const known = contents.sourceRecords.get(record.name);
  const source: Source = { ...record, id: known?.id ?? contents.sourceRecords.size + 1 };
  contents.sourceRecords.set(record.name, source);
}

/** Compared as values: the order of keys is no change, the order of endpoints is (deliveries know them by place). */
function putDestination(contents: MemoryContents, record: DestinationRecord): void {
  const known = contents.destinationRecords.get(record.name);
  if (known === undefined) {
    const id = contents.destinationRecords.size + 1;
    contents.destinationRecords.set(record.name, { ...record, id, version: 1 });
    return;
  }
  const same: Destination = { ...record, id: known.id, version: known.version };
  const isChanged = !isDeepStrictEqual(same, known);
  contents.destinationRecords.set(record.name, isChanged ? { ...same, version: known.version + 1 } : known);
}
