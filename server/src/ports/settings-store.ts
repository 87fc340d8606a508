import type { Destination } from '../model/destination.ts';
import type { Json } from '../model/json.ts';
import type { Replay } from '../model/replay.ts';
import type { Role } from '../model/settings.ts';
import type { Source } from '../model/source.ts';
import type { Time } from '../model/time.ts';

/**
 * The records an operator writes, and who wrote what. They survive restarts and carry the ids that everything else
 * refers to.
 */
export interface SettingsStore {
  load(): Promise<SettingsSnapshot>;

  /**
   * Creates or overwrites the records named, removes those that are to go, leaves every other record as it is, and
   * resolves to the whole. All in one commit with the entries of the audit trail.
   * A name keeps its id for ever, also when its record goes and comes again. A destination that really changed gets a
   * higher version, and so does one that goes; one that did not change keeps it.
   */
  apply(changes: SettingsChanges): Promise<SettingsSnapshot>;

  /** The audit trail, the newest first, at most `limit` entries; go on with `next` until it is absent. */
  audit(query: AuditQuery, limit: number, from?: number): Promise<AuditPage>;
}

export type SourceRecord = Omit<Source, 'id'>;
export type DestinationRecord = Omit<Destination, 'id' | 'version'>;

/** Who may use the control API. Its name is what the audit trail shows. */
export interface TokenRecord {
  readonly name: string;
  readonly role: Role;
  /** SHA-256 of the token in hexadecimal: the token itself is nowhere. */
  readonly digest: string;
  /** The last characters of the token, to tell it from others. */
  readonly hint: string;
  readonly createdAt: Time;
}

export interface SettingsChanges {
  readonly sources: readonly SourceRecord[];
  readonly destinations: readonly DestinationRecord[];
  readonly tokens?: readonly TokenRecord[];
  /** By their ids, which are their names. */
  readonly replays?: readonly Replay[];
  /** What is not there is no error: it is gone already. */
  readonly removed?: readonly RecordName[];
  readonly audit?: readonly AuditEntry[];
}

export type RecordKind = 'source' | 'destination' | 'token' | 'replay';

export interface RecordName {
  readonly kind: RecordKind;
  readonly name: string;
}

export interface SettingsSnapshot {
  readonly sources: readonly Source[];
  readonly destinations: readonly Destination[];
  readonly tokens: readonly TokenRecord[];
  /** Those that run, and the last of those that have ended. */
  readonly replays: readonly Replay[];
  /** Records that were removed, as they last were: events and deliveries still refer to their ids. */
  readonly gone: {
    readonly sources: readonly Source[];
    readonly destinations: readonly Destination[];
  };
}

export interface AuditEntry extends RecordName {
  readonly at: Time;
  /** The name of a token, `admin` for the one of the configuration, or `file`. */
  readonly by: string;
  readonly action: 'created' | 'changed' | 'removed';
  /** The record as people see it, without its secrets; absent where there was or is none. */
  readonly before?: Json;
  readonly after?: Json;
}

export interface AuditQuery {
  readonly kind?: RecordKind;
  readonly name?: string;
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  readonly next?: number;
}
