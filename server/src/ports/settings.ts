import type { Destination } from '../model/destination.ts';
import type { Source } from '../model/source.ts';

/** The records an operator writes: sources and destinations. They survive restarts and carry the ids others refer to. */
export interface Settings {
  load(): Promise<SettingsSnapshot>;

  /**
   * Creates or overwrites the records named, leaves every other record as it is, and resolves to the whole.
   * A name keeps its id for ever. A destination that really changed gets a higher version; one that did not keeps it.
   */
  apply(changes: SettingsChanges): Promise<SettingsSnapshot>;
}

export type SourceRecord = Omit<Source, 'id'>;
export type DestinationRecord = Omit<Destination, 'id' | 'version'>;

export interface SettingsChanges {
  readonly sources: readonly SourceRecord[];
  readonly destinations: readonly DestinationRecord[];
}

export interface SettingsSnapshot {
  readonly sources: readonly Source[];
  readonly destinations: readonly Destination[];
}
