import type { AlertRecord } from '../model/alert.ts';
import type { AudienceDefinition, TraitDefinition } from '../model/definition.ts';
import type { Destination } from '../model/destination.ts';
import type { Json } from '../model/json.ts';
import type { Replay } from '../model/replay.ts';
import type {
  AudienceRecord,
  DestinationRecord,
  RecordKind,
  RecordName,
  Source,
  SourceRecord,
  SplitRecord,
  TokenRecord,
  TraitRecord,
} from '../model/settings.ts';
import type { Time } from '../model/time.ts';
import { StorageError } from './event-log.ts';

/**
 * Stores the records that operators write, and the audit trail. Records survive restarts and have the ids to
 * which everything else refers.
 */
export interface SettingsStore {
  load(): Promise<SettingsSnapshot>;

  /**
   * Creates, overwrites and removes records, in one commit with the entries of the audit trail; resolves to
   * all records. A name keeps its id for ever, even when its record is removed and created again. No audience
   * has the id of a trait. A destination, audience or trait that really changes or is removed gets a higher
   * version; one that does not change keeps its version.
   *
   * `basis`: the snapshot by which the changes were decided. Rejects with a `SettingsMovedError` when another
   * node has changed records since it was loaded.
   */
  apply(changes: SettingsChanges, basis?: SettingsSnapshot): Promise<SettingsSnapshot>;

  /**
   * Resolves to the audit trail, the newest first, at most `limit` entries and about `MAX_AUDIT_PAGE`
   * characters; go on with `next` until it is absent. `EventLog.maintain` drops what is old.
   */
  audit(query: AuditQuery, limit: number, from?: number): Promise<AuditPage>;

  /** Resolves to the number of entries of the audit trail from before a time. */
  auditedBefore(time: Time): Promise<number>;
}

/** Characters of records after which a page of the audit trail ends. It has one entry at least. */
export const MAX_AUDIT_PAGE = 1_000_000;

/** Another node has changed the settings meanwhile, and nothing was changed: load them and decide again. */
export class SettingsMovedError extends StorageError {
  constructor() {
    super('the settings were changed by another node at the same time: try again');
  }
}

export interface SettingsChanges {
  readonly sources: readonly SourceRecord[];
  readonly destinations: readonly DestinationRecord[];
  readonly audiences?: readonly AudienceRecord[];
  readonly traits?: readonly TraitRecord[];
  readonly alerts?: readonly AlertRecord[];
  readonly tokens?: readonly TokenRecord[];
  /** Replays, whose names are their ids. */
  readonly replays?: readonly Replay[];
  /** Ids that are kept apart. Their names are their ids. */
  readonly splits?: readonly SplitRecord[];
  /** A record that does not exist is no error. */
  readonly removed?: readonly RecordName[];
  readonly audit?: readonly AuditEntry[];
}

export interface SettingsSnapshot {
  readonly sources: readonly Source[];
  readonly destinations: readonly Destination[];
  readonly audiences: readonly AudienceDefinition[];
  readonly traits: readonly TraitDefinition[];
  readonly alerts: readonly AlertRecord[];
  readonly tokens: readonly TokenRecord[];
  /** The running replays, and the last ones that have ended. */
  readonly replays: readonly Replay[];
  readonly splits: readonly SplitRecord[];
  /** The last state of removed records: events and deliveries still refer to their ids. */
  readonly gone: {
    readonly sources: readonly Source[];
    readonly destinations: readonly Destination[];
    readonly audiences: readonly AudienceDefinition[];
    readonly traits: readonly TraitDefinition[];
  };
}

export interface AuditEntry extends RecordName {
  readonly at: Time;
  /** The name of a token, `admin` for the token of the configuration, or `file`. */
  readonly by: string;
  readonly action: 'created' | 'changed' | 'removed';
  /** The record as shown, without its secrets; absent when there is none. */
  readonly before?: Json | undefined;
  readonly after?: Json | undefined;
}

export interface AuditQuery {
  readonly kind?: RecordKind;
  readonly name?: string;
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  readonly next?: number | undefined;
}
