import type { Computation } from '../model/definition.ts';
import type { ComputationForm } from '../model/delivery-policy.ts';
import type { Duration, Time } from '../model/time.ts';
import type { IdentityKey, OutboxEntry } from '../ports/profile-store.ts';
import type { ComputationStatus, DoubtfulMerges, Preview, PreviewRequest, Users } from '../ports/users.ts';
import { type LeftOutTraits, NONE_LEFT_OUT } from './identity/traits.ts';

/** The name under which the log numbers the events of audiences and computed traits. */
export const PRODUCER = 'users';

/** How ids are joined. spec/specification.md, "Identities". */
export interface IdentitySettings {
  /** Names of traits that identify a user beside the userId, such as `email`. */
  readonly externalIds: readonly string[];
  /**
   * Ids that identify no one, such as `unknown`. The empty text and texts of zeros identify no one in any
   * case.
   */
  readonly blocked: readonly string[];
  /** Most ids of one profile, by kind. UserIds do not count. */
  readonly limits: IdentityLimits;
  /** `join`: an alias of a server source makes two users one. `refuse`: it does not. */
  readonly alias: 'join' | 'refuse';
}

export interface IdentityLimits {
  readonly anonymousIds: number;
  readonly externalIds: number;
}

export const DEFAULT_IDENTITY_SETTINGS: IdentitySettings = {
  externalIds: [],
  blocked: ['null', 'undefined', 'anonymous', '-1', '0'],
  limits: { anonymousIds: 900, externalIds: 100 },
  alias: 'join',
};

/** Makes the key of an identity: a keyed hash of its kind and value as an integer of 53 bits. */
export type IdentityHash = (kind: string, value: string) => IdentityKey;

/** Where the users thread finds log and profiles. The store must be open in this process. */
export interface ProfilesPlace {
  /** The data folder of the embedded engine. */
  readonly folder?: string;
  /** The database that nodes share, and the process whose lease guards what is written. */
  readonly database?: { readonly url: string; readonly process: number; readonly installation: string };
}

/** Settings of operators that concern profiles. */
export interface UsersSettings {
  readonly computations: readonly Computation[];
  readonly identities: IdentitySettings;
  /**
   * Ids of the sources whose events are no part of profiles, also of removed ones. Absent: there are none.
   */
  readonly shadows?: readonly number[];
  /**
   * Ids of the sources whose calls may join users. Calls of all other sources, also of removed ones, only
   * join anonymous ids to a user.
   */
  readonly serverSources: readonly number[];
  /**
   * The highest id of a source so far. Another node may have stored events of a newer one, whose trust is not
   * known here yet. Absent: all are known.
   */
  readonly newestSource?: number;
  /**
   * Names of the destinations that hear of computations: enabled, and with a filter that lets their events
   * through.
   */
  readonly hearing: readonly string[];
  /** Consent that destinations ask for. Absent: none does. */
  readonly consent?: UsersConsent | undefined;
  /** Forms other than the usual one in which destinations hear of computations, by name. Absent: none. */
  readonly forms?: readonly (readonly [name: string, form: ComputationForm])[] | undefined;
  /** Names of all destinations. Absent: every destination that a computation has ever named still exists. */
  readonly destinations?: readonly string[];
  readonly retention: ProfileRetention;
  /** Keys of ids that are never ids of one profile. */
  readonly apart?: readonly (readonly [IdentityKey, IdentityKey])[];
  /**
   * The id of the source `audiences`, whose events come from profiles and do not change them; absent while
   * there is none.
   */
  readonly ownSource?: number;
}

/** Consent as far as it decides who hears of a user. */
export interface UsersConsent {
  /** Destinations that ask for consent, each with its categories. */
  readonly asking: readonly (readonly [name: string, categories: readonly string[]])[];
  /** Ids of the sources that take silence for a refusal, also of removed ones. */
  readonly requiredSources: readonly number[];
}

/** How long profiles stay, and how much they may take. */
export interface ProfileRetention {
  /**
   * Time after the newest event of a profile without a userId (`anonymous`) or with one (`known`); absent:
   * for ever.
   */
  readonly anonymous?: Duration;
  readonly known?: Duration;
  /**
   * Default periods for an operator who has not chosen any: profiles that would go by them are counted and
   * reported once.
   */
  readonly advised?: { readonly anonymous?: Duration };
  /** Bytes that profiles may take; absent: no limit. */
  readonly bytes?: number;
  /**
   * Ids of the sources with a secret key, also removed ones. Their profiles stay although the disk is too
   * full.
   */
  readonly protectedSources: readonly number[];
}

/** Keeps all profiles. */
export const KEEP_PROFILES: ProfileRetention = { protectedSources: [] };

/**
 * The work of the users thread, a slice at a time. Calls come one after the other, never while another is
 * under way, except for `stop`, `cancelPreview` and what `preview` has begun. Every method rejects with a
 * `StorageError` when a file cannot be read or written; it may be called again then.
 */
export interface UsersProcessor extends Omit<Users, 'status' | 'preview' | 'doubtfulMerges'> {
  /**
   * Begins `Users.preview`. Profiles go on while it is computed, each for half of the time. Events that
   * arrive meanwhile may count or not. At most one preview runs at a time.
   */
  preview(request: PreviewRequest): Promise<RunningPreview>;

  /** Ends the preview under way, which rejects. */
  cancelPreview(): void;

  /** Begins `Users.doubtfulMerges`, which runs beside the slices like a preview. */
  doubtfulMerges(after?: number): Promise<RunningList>;

  /** Ends all lists and previews under way; they reject. */
  cancelAll(): void;

  /** Called before the first slice, and whenever the settings have changed. */
  configure(settings: UsersSettings): Promise<void>;

  /**
   * Tells that a call of `configure` waits: the slice under way takes no further events, which may be newer
   * than the settings.
   */
  settingsWait(): void;

  /** Does the next work, one commit's worth of it: new events, due timers, or a piece of other work. */
  slice(): Promise<SliceOutcome>;

  /** As `ProfileStore.outbox`. */
  outbox(after: number, max: number): Promise<readonly OutboxEntry[]>;

  /** Entries up to this sequence number are in the log; the next commit removes them. */
  sent(to: number): Promise<void>;

  /** The state of each computation, as far as it is known without looking at profiles. */
  computations(): Promise<readonly ComputationStatus[]>;
}

export interface RunningPreview {
  readonly result: Promise<Preview>;
}

export interface RunningList {
  readonly result: Promise<DoubtfulMerges>;
}

/** The result of a slice. */
export interface SliceOutcome {
  /**
   * Number of events applied, and of timers and pieces of other work done; 0 when there was nothing to do.
   */
  readonly done: number;
  /** True when there is more to do now. */
  readonly hasMore: boolean;
  /** Time of the next slice if the log gets nothing new. Absent: there is no need for one. */
  readonly nextAt?: Time;
  /** Sequence number of the newest entry for the log; 0 when there has been none. */
  readonly lastOutbox: number;
  readonly counts: ProcessorCounts;
  /** Names of audiences and computed traits that cannot be computed. */
  readonly failed: readonly string[];
}

/** Numbers since the start of the thread. */
export interface ProcessorCounts {
  readonly events: number;
  /** Lines and states that could not be read. */
  readonly unreadable: number;
  /** Events that failed again and again and were left out. */
  readonly skipped: number;
  /** Events without an id that counts. */
  readonly unattributed: number;
  /** Ids that were not joined because the profile has too many, and ids that were removed to make room. */
  readonly overLimit: number;
  /** Ids that were not joined, because they belong to another user. */
  readonly conflicts: number;
  /** Aliases that joined nothing, because only a client source vouched for them. */
  readonly unproven: number;
  /** Ids that were not joined, because an operator keeps them apart. */
  readonly apart: number;
  /** Ids with the same hash as another id. */
  readonly collisions: number;
  /** External ids that are no ids: too long, half a character, or neither text nor number. */
  readonly invalid: number;
  readonly merges: number;
  readonly forgotten: ForgottenCounts;
  /** Traits and groups that profiles do not keep. */
  readonly leftOut: LeftOutTraits;
}

/** Profiles that were let go. */
export interface ForgottenCounts {
  /** Profiles whose retention was over. */
  readonly retention: number;
  /** Profiles that were removed to free disk space. */
  readonly space: number;
}

export const NO_COUNTS: ProcessorCounts = {
  ...{ events: 0, unreadable: 0, skipped: 0, unattributed: 0 },
  ...{ overLimit: 0, conflicts: 0, unproven: 0, apart: 0, collisions: 0, invalid: 0, merges: 0 },
  forgotten: { retention: 0, space: 0 },
  leftOut: NONE_LEFT_OUT,
};

/** Progress of the users thread, as numbers for status and metrics. */
export interface UsersProgress {
  /** Reason why nothing is applied now, with what to do; absent while all is well. */
  readonly failure?: string;
  readonly profiles: number;
  /** Size of the file. */
  readonly bytes: number;
  /** Rows that cannot be read, because their bytes have changed. */
  readonly damaged: number;
  /** Events in the log that are not applied yet. */
  readonly behind: number;
  /** How long the oldest of these events has waited. */
  readonly lag: Duration;
  /** Since the start of the thread. */
  readonly slices: number;
  readonly applied: number;
  /** Sequence number of the newest entry for the log. */
  readonly lastOutbox: number;
  readonly counts: ProcessorCounts;
  /** Names of audiences and computed traits that cannot be computed. */
  readonly failed: readonly string[];
}

/** The users thread as metrics and status show it. */
export interface UsersHealth {
  /** As the thread reported last; absent while none runs. */
  readonly progress?: UsersProgress | undefined;
  /** Profiles stand still because of a failure. */
  readonly isFailed: boolean;
  /** The failure, with what to do about it. */
  readonly reason?: string | undefined;
  /** Profiles are more than a second behind the log. */
  readonly isLate: boolean;
  /** How often the thread had to be started again. */
  readonly restarts: number;
}
