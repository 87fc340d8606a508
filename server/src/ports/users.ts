import type { Computation, Condition, EventAggregate } from '../model/definition.ts';
import type { Position } from '../model/event.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { IdJoin, JoinRule } from '../model/regulation.ts';
import type { Duration, Time } from '../model/time.ts';

/** Questions and requests of the rest of the program to the profiles, which live on a thread of their own. */
export interface Users {
  /** Resolves to the profile of a user or of an anonymous id; undefined when there is none. */
  profile(id: UserIdentity): Promise<Profile | undefined>;

  /** Resolves to all ids that are joined to these users, with the sources that saw them, in their order. */
  joinedIds(userIds: readonly string[]): Promise<readonly JoinedIds[]>;

  /**
   * Resolves to the user to whom each of these anonymous ids is joined, in their order; undefined where it is
   * nobody.
   */
  usersOf(anonymousIds: readonly string[]): Promise<readonly (string | undefined)[]>;

  /**
   * Resolves to what is known of each of these anonymous ids, in their order; undefined where there is no
   * profile.
   */
  visitors(anonymousIds: readonly string[]): Promise<readonly (Visitor | undefined)[]>;

  /**
   * Erases the profiles of these users, and profiles without a userId that have one of the anonymous ids:
   * profiles that lag may not know yet whose these are. Resolves when no file holds a byte of them, to the
   * number of profiles.
   */
  erase(userIds: readonly string[], anonymousIds: readonly string[]): Promise<number>;

  /** Resolves to members of an audience, or users with a value of a trait, by profile, at most `limit`. */
  members(computation: number, limit: number, from?: string): Promise<MembersPage>;

  /**
   * Computes a definition over what is stored, without sending or keeping anything, while profiles go on with
   * half of their time. What arrives meanwhile may count or not. Rejects after two minutes, and when `signal`
   * is aborted.
   */
  preview(request: PreviewRequest, signal?: AbortSignal): Promise<Preview>;

  /**
   * Has a destination, by its name, told every member of a computation again, and what differs from what it
   * was sent. Resolves when that is stored; false, and nothing is done, while the computation is not in
   * force, whose destinations are told every member anyway.
   */
  repeat(computation: number, destination: string): Promise<boolean>;

  /**
   * Resolves to userIds that are one profile and would not be joined by the rules of today, as far as stored
   * events tell; from the profile behind `after`. Reads all stored events, while profiles go on with half of
   * their time.
   */
  doubtfulMerges(after?: number): Promise<DoubtfulMerges>;

  /**
   * Tells what it would mean to keep these two ids apart, and changes nothing. Undefined where neither has a
   * profile. Reads all stored events where they are ids of one.
   */
  foreseeSplit(ids: readonly [SplitId, SplitId]): Promise<SplitReport | undefined>;

  /**
   * Resolves when no profile has ids that are kept apart by the settings as they are now; on a node that does
   * not keep profiles, at once.
   */
  applySplits(): Promise<void>;

  /** Applies the whole log again. With `dryRun` only tells what would be lost. */
  rebuild(options: { readonly dryRun: boolean }): Promise<RebuildReport>;

  status(): Promise<UsersStatus>;
}

export type UserIdentity = { readonly userId: string } | { readonly anonymousId: string };

/** A profile as operators see it. spec/contract.md, "Operations on profiles". */
export interface Profile {
  /** Absent when only anonymous ids are known. */
  readonly userId?: string;
  readonly formerUserIds: readonly string[];
  readonly anonymousIds: readonly string[];
  readonly externalIds: Readonly<Record<string, readonly string[]>>;
  readonly traits: JsonObject;
  /** By key. */
  readonly computedTraits: JsonObject;
  /** Names of the audiences that it is a member of. */
  readonly audiences: readonly string[];
  readonly groups: readonly string[];
  /** Consent by the newest event that has said anything of it; absent where none has. */
  readonly consent?: { readonly categories: readonly string[]; readonly at: Time };
  /** How many traits, groups and consent categories calls have named that are not kept, or not any more. */
  readonly leftOut: number;
  /** Ids of the sources that saw it. */
  readonly sources: readonly number[];
  readonly firstSeenAt: Time;
  readonly lastSeenAt: Time;
  readonly merges: readonly ProfileMerge[];
  readonly refusedMerges: RefusedMerges;
}

/** Merges of a profile that were refused. */
export interface RefusedMerges {
  readonly count: number;
  /** A few of them, the newest first. */
  readonly samples: readonly RefusedMerge[];
}

export interface RefusedMerge {
  readonly rule: JoinRule;
  readonly reason: RefusalReason;
  /** The id of the source. */
  readonly source: number;
  readonly at: Time;
  /** The id that would have joined, and the event; absent where that is not stored any more. */
  readonly identity?: { readonly kind: string; readonly value: string };
  readonly messageId?: string;
}

/**
 * Why a merge was refused. `belongs_to_another_user`: two users do not become one by this id. `alias_off`:
 * `identities.alias` is `refuse`. `too_many_ids`: the profile would have more than it may. `unproven`:
 * nothing but the word of a client source speaks for it. `split`: an operator keeps the two apart.
 */
export type RefusalReason = 'belongs_to_another_user' | 'alias_off' | 'too_many_ids' | 'unproven' | 'split';

export interface ProfileMerge {
  readonly rule: JoinRule;
  readonly identity: { readonly kind: string; readonly value: string };
  readonly messageId: string;
  readonly at: Time;
}

/** An id: its kind, `user`, `anonymous` or the name of an external id, and its value. */
export interface SplitId {
  readonly kind: string;
  readonly value: string;
}

/** The effect of keeping two ids apart. */
export interface SplitReport {
  /** By which profiles find the ids. */
  readonly keys: readonly [number, number];
  /** The profiles that come of theirs; empty where they are ids of two profiles already. */
  readonly profiles: readonly SplitProfile[];
  /** The notices that destinations will get. */
  readonly told: readonly SplitNotice[];
  /** Some of what the profile was made of is not stored any more, and lost. */
  readonly isPoorer: boolean;
}

export interface SplitProfile {
  readonly userId?: string;
  readonly formerUserIds: readonly string[];
  readonly anonymousIds: readonly string[];
  readonly externalIds: Readonly<Record<string, readonly string[]>>;
  /** Stored events that count for it. */
  readonly events: number;
}

/** A value of an audience or a computed trait that destinations are told of somebody. */
export type SplitNotice = Readonly<Partial<Record<'userId' | 'anonymousId', string>>> & {
  readonly key: string;
  readonly value: Json;
  /** Names of those that hear it; absent for all of the audience or trait. */
  readonly destinations?: readonly string[];
};

/** UserIds that are one profile and should perhaps not be. */
export interface DoubtfulMerges {
  readonly merges: readonly DoubtfulMerge[];
  /** UserIds that no stored event has as its userId, so that nobody can tell. */
  readonly undecided: number;
  /** The profile up to which this goes; absent when there are no more. */
  readonly next?: number;
}

export interface DoubtfulMerge {
  readonly userId: string;
  readonly formerUserId: string;
  /** The merge that joined them, as far as the profile remembers. */
  readonly merge?: ProfileMerge;
}

export interface JoinedIds {
  readonly userId: string;
  readonly formerUserIds: readonly string[];
  /** The anonymous ids that belong to this user alone. */
  readonly anonymousIds: readonly string[];
  /** Values of all kinds; absent where there are none. */
  readonly externalIds?: readonly string[];
  /** Ids of the sources that saw any of these ids. */
  readonly sources: readonly number[];
  /** The event that joined each of its ids, as far as the profile says; absent where there is no profile. */
  readonly joins?: readonly IdJoin[];
  /** Every alias that has merged profiles into this one; absent where there is none. */
  readonly aliases?: readonly AliasMerge[];
}

/** A merge of profiles by an alias. */
export interface AliasMerge {
  readonly previousId: string;
  /** The userId that then stood for both; absent in merges of earlier versions. */
  readonly userId?: string;
  /** The source of the alias; absent in merges of earlier versions. */
  readonly source?: number;
  readonly messageId: string;
  readonly position: Position;
}

/** The profile that has an anonymous id. */
export interface Visitor {
  /** Its number. */
  readonly profile: number;
  /** Absent while only other ids are known. */
  readonly userId?: string;
  readonly anonymousIds: readonly string[];
  /** As those of `JoinedIds`. */
  readonly externalIds?: readonly string[];
  readonly sources: readonly number[];
  /** As those of `JoinedIds`. */
  readonly joins?: readonly IdJoin[];
}

export interface MembersPage {
  readonly members: readonly (Readonly<Partial<Record<'userId' | 'anonymousId', string>>> & {
    readonly since: Time;
    readonly value: Json;
  })[];
  readonly next?: string;
}

export interface PreviewRequest {
  readonly definition: Condition | EventAggregate;
  readonly includeAnonymous: boolean;
  /** The computation that it would replace. */
  readonly replaces?: Computation;
}

export interface Preview {
  readonly members: number;
  /** A few userIds. */
  readonly sample: readonly string[];
  /** Users who would enter and leave, compared with what it would replace. */
  readonly enters: number;
  readonly leaves: number;
  /** When the oldest stored event arrived: earlier ones cannot count. Absent when there is none. */
  readonly eventsSince?: Time;
  /** Values that are text where the definition wants numbers, and so never fit. */
  readonly textForNumbers: readonly TextForNumber[];
  /**
   * Names that occur in no stored event and no profile. Not of events that a definition in force counts in
   * the same way already.
   */
  readonly unknownNames: readonly UnknownName[];
  /** Events that were stored when it was asked for, and are not counted yet because profiles are behind. */
  readonly eventsBehind: number;
}

/**
 * The name of an event, a page or a screen by its type, or of a trait. An empty one is that of pages or
 * screens without a name.
 */
export interface UnknownName {
  readonly kind: 'track' | 'page' | 'screen' | 'trait';
  readonly name: string;
  /** One that occurs, of which it may be a misspelling. */
  readonly closest?: string;
}

/** Values of one trait or property of which a definition wants numbers. */
export interface TextForNumber {
  readonly kind: 'trait' | 'property';
  readonly name: string;
  /** `reduced`: by a sum, an average, the least or the greatest. */
  readonly use: 'compared' | 'reduced';
  /** The number of texts among all values that were looked at. */
  readonly texts: number;
  readonly values: number;
}

export interface RebuildReport {
  readonly profiles: number;
  readonly events: number;
  readonly eventsSince?: Time;
  /** Profiles that are older than the oldest stored event: what they have from before would be lost. */
  readonly poorer: number;
}

export interface UsersStatus {
  /** `off`: nothing needs profiles. `catching_up`: more than a second behind the log. */
  readonly state: 'off' | 'live' | 'catching_up' | 'rebuilding' | 'failed';
  /** Why it failed, with what to do. */
  readonly reason?: string;
  readonly profiles: number;
  readonly bytes: number;
  /** Events that are not applied yet, and for how long the oldest has waited. */
  readonly behind: number;
  readonly lag: Duration;
  readonly computations: readonly ComputationStatus[];
}

export interface ComputationStatus {
  readonly id: number;
  readonly state: 'preparing' | 'computing' | 'live' | 'disabled' | 'failed';
  readonly reason?: string;
  readonly members: number;
  /** Share of the stored events, or of the members, that is done; 1 when live. */
  readonly progress: number;
  readonly eventsSince?: Time;
}
