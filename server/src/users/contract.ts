import type { Computation } from '../model/definition.ts';
import type { Time } from '../model/time.ts';
import type { IdentityKey, OutboxEntry } from '../ports/profile-store.ts';
import type { ComputationStatus, Users } from '../ports/users.ts';

/** The name under which the log numbers the events of audiences and computed traits. */
export const PRODUCER = 'users';

/** How ids are joined. spec/specification.md, "Identities". */
export interface IdentitySettings {
  /** Names of traits that identify a user beside the userId, such as `email`. */
  readonly externalIds: readonly string[];
  /** Values that stand for no one. The empty text and texts of zeros never do, whatever this says. */
  readonly blocked: readonly string[];
  /** Ids that one profile may have. */
  readonly limit: number;
}

export const DEFAULT_IDENTITY_SETTINGS: IdentitySettings = {
  externalIds: [],
  blocked: ['null', 'undefined', 'anonymous', '-1', '0'],
  limit: 1000,
};

/** Makes the key of an identity: a keyed hash of its kind and value as an integer of 53 bits. */
export type IdentityHash = (kind: string, value: string) => IdentityKey;

/** What operators have set, as far as it concerns profiles. */
export interface UsersSettings {
  readonly computations: readonly Computation[];
  readonly identities: IdentitySettings;
  /** The id of the source whose events are made of profiles and do not count for them; absent while it does not exist. */
  readonly ownSource?: number;
}

/**
 * The work of the users thread, a slice at a time. Calls come one after the other, never while another is under way, except for
 * `stop`. Every method rejects with a `StorageError` when a file cannot be read or written; it may be called again then.
 */
export interface UsersProcessor extends Omit<Users, 'status'> {
  /** Called before the first slice, and whenever the settings have changed. */
  configure(settings: UsersSettings): Promise<void>;

  /** Does what is at hand, one commit's worth of it: new events, due timers, a piece of other work. */
  slice(): Promise<SliceOutcome>;

  /** As `ProfileStore.outbox`. */
  outbox(after: number, max: number): Promise<readonly OutboxEntry[]>;

  /** Entries up to this sequence number are in the log; the next commit removes them. */
  sent(to: number): Promise<void>;

  /** The state of each computation, as far as it is known without looking at profiles. */
  computations(): Promise<readonly ComputationStatus[]>;
}

/** What came of a slice. */
export interface SliceOutcome {
  /** Events applied, and timers and pieces of other work done: 0 when nothing was at hand. */
  readonly done: number;
  /** More is at hand now. */
  readonly hasMore: boolean;
  /** When to look again although the log holds nothing new. Absent: only then. */
  readonly nextAt?: Time;
  /** Sequence number of the newest entry for the log; 0 when there has been none. */
  readonly lastOutbox: number;
}
