import type { Position } from '../model/event.ts';
import type { Json } from '../model/json.ts';
import type { JoinRule } from '../model/regulation.ts';
import type { Time } from '../model/time.ts';

/** Number of a profile; never reused. */
export type ProfileId = number;

/** The keyed hash of an identity (its kind and value) as an integer of 53 bits. */
export type IdentityKey = number;

/**
 * Keeps profiles together with the position up to which the log was applied to them. Everything that one
 * slice of the log changes is one commit, so each event takes effect exactly once, whatever crashes.
 *
 * The store knows nothing of the content of a profile: `state` is made and read by
 * users/identity/profile-state.ts. What cannot be read, because its bytes have changed, counts as unknown or
 * gone, and is counted in `size`. A backup of the whole store (ports/store.ts) copies the profiles too.
 */
export interface ProfileStore {
  /** Resolves to the position and the counters of the last commit. */
  cursor(): Promise<UsersCursor>;

  /**
   * Resolves to the profiles of these identities, in their order; undefined for an identity that is not
   * known.
   */
  resolve(keys: readonly IdentityKey[]): Promise<(ProfileId | undefined)[]>;

  /** Resolves to the states of these profiles, in their order; undefined for a profile that is gone. */
  get(profiles: readonly ProfileId[]): Promise<(Uint8Array | undefined)[]>;

  /** Stores a slice, all or nothing. Rejects with a `StorageError` when nothing was stored. */
  commit(changes: ProfileChanges): Promise<void>;

  /**
   * Resolves to timers that are due at `now`, the earliest first, at most `max`. They stay until a commit
   * removes them.
   */
  due(now: Time, max: number): Promise<readonly Timer[]>;

  /** Resolves to profiles in the order of their ids, from the one behind `after`, at most `max`. */
  scan(
    after: ProfileId,
    max: number,
  ): Promise<readonly { readonly id: ProfileId; readonly state: Uint8Array }[]>;

  /** Resolves to the oldest changes that are not in the log yet, behind `after`, at most `max`. */
  outbox(after: number, max: number): Promise<readonly OutboxEntry[]>;

  /**
   * Resolves to the merges of a profile and of those that were merged into it, the newest first, at most
   * `max`.
   */
  merges(profile: ProfileId, max: number): Promise<readonly MergeRecord[]>;

  /**
   * Resolves to the value of a small document, such as the progress of a backfill; undefined when there is
   * none.
   */
  document(name: string): Promise<Json | undefined>;

  /**
   * Erases profiles with their identities, timers, outbox entries and merges, and with those of the profiles
   * that were merged into them. Resolves when no file holds a byte of them, nor one of these texts outside of
   * other profiles. These documents are stored in the same step; null removes one.
   */
  erase(
    profiles: readonly ProfileId[],
    texts: readonly string[],
    documents?: Readonly<Record<string, Json>>,
  ): Promise<void>;

  /**
   * Removes everything but the outbox, so that the log can be applied again from its beginning. Numbers are
   * not given again. These documents are stored in the same step.
   */
  clear(documents?: Readonly<Record<string, Json>>): Promise<void>;

  /**
   * `bytes`: of the files, also where rows have gone from them. `damaged`: rows that could not be read since
   * the store was opened, because their bytes have changed.
   */
  size(): Promise<{ readonly profiles: number; readonly bytes: number; readonly damaged: number }>;

  /**
   * Resolves to the number of bytes that rows take, about. Room that further rows will take is left out. May
   * look at every row.
   */
  usedBytes(): Promise<number>;

  /**
   * Gives a part of the room that rows have left back to the disk. Resolves to whether there is more to give
   * back; false where the engine does it by itself.
   */
  giveBack(): Promise<boolean>;

  stop(): Promise<void>;
}

export interface UsersCursor {
  /** The next position to be applied. */
  readonly position: Position;
  /** The clock of the last commit, for timers. */
  readonly clock: Time;
  readonly nextProfile: ProfileId;
  readonly nextOutbox: number;
}

export interface ProfileChanges {
  readonly cursor: UsersCursor;
  /** New and changed profiles. */
  readonly put: readonly { readonly id: ProfileId; readonly state: Uint8Array }[];
  /** Profiles that were merged into others, or taken apart. */
  readonly removed: readonly ProfileId[];
  /** The profiles among them that were taken apart: their merges go too. */
  readonly dissolved?: readonly ProfileId[];
  /** Identities that now belong to a profile. */
  readonly bind: readonly { readonly key: IdentityKey; readonly profile: ProfileId }[];
  readonly unbind: readonly IdentityKey[];
  /** Profiles that are let go with everything that is known of them, but for what is in the outbox. */
  readonly forgotten?: readonly ForgottenProfile[];
  readonly timers: readonly Timer[];
  readonly firedTimers: readonly Timer[];
  readonly outbox: readonly OutboxEntry[];
  /** Entries up to this sequence number are in the log and are removed. */
  readonly sentTo?: number | undefined;
  readonly merges: readonly MergeRecord[];
  /** Small documents by name; null removes one. */
  readonly documents?: Readonly<Record<string, Json>>;
}

export interface ForgottenProfile {
  readonly profile: ProfileId;
  /** Of its identities. A key that belongs to another profile by now is left alone. */
  readonly keys: readonly IdentityKey[];
}

/**
 * A profile is to be looked at in this minute. It is a hint: what is due is decided by the profile itself.
 */
export interface Timer {
  /** Whole minutes since 1970. */
  readonly minute: number;
  readonly profile: ProfileId;
}

/** An event that the stage gives to the log. */
export interface OutboxEntry {
  /** Rises by one from entry to entry. */
  readonly sequence: number;
  readonly profile: ProfileId;
  /** The canonical event as compact JSON. */
  readonly json: string;
}

/** Why two profiles became one. */
export interface MergeRecord {
  readonly winner: ProfileId;
  readonly loser: ProfileId;
  /** `identify`: an anonymous profile of this user; `alias`; `external`: a shared external id. */
  readonly rule: JoinRule;
  /** Kind and value of the identity that joined them. */
  readonly identity: { readonly kind: string; readonly value: string };
  readonly messageId: string;
  readonly at: Time;
  readonly position: Position;
  /** The source of the event; absent in records of earlier versions. */
  readonly source?: number;
  /** The userId that then stood for both; absent where there was none, and in records of earlier versions. */
  readonly userId?: string | undefined;
}
