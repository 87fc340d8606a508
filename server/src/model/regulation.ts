import type { Position } from './event.ts';
import { invariant } from './invariant.ts';
import type { Time } from './time.ts';

/** The kinds of regulations. spec/specification.md, "Regulations". */
export const REGULATION_TYPES = [
  'SUPPRESS_WITH_DELETE',
  'DELETE_ONLY',
  'SUPPRESS_ONLY',
  'UNSUPPRESS',
] as const;

export type RegulationType = (typeof REGULATION_TYPES)[number];

export const REGULATION_STATUSES = [
  'INITIALIZED',
  'RUNNING',
  'FINISHED',
  'PARTIAL_SUCCESS',
  'FAILED',
] as const;

export type RegulationStatus = (typeof REGULATION_STATUSES)[number];

/** A request to delete or to suppress users, and its receipt. It never contains the ids of deleted users. */
export interface Regulation {
  readonly id: string;
  readonly type: RegulationType;
  readonly overallStatus: RegulationStatus;
  readonly createdAt: Time;
  /**
   * When everything that was stored of the users was gone, from the files too. The notifications, which name
   * them, are made afterwards and erased before `finishedAt`. Absent until then, where nothing is erased, and
   * in regulations of earlier versions.
   */
  readonly erasedAt?: Time;
  readonly finishedAt?: Time;
  /** The name of the token that asked for it. */
  readonly by: string;
  /** Number of user ids, and of anonymous ids of visitors. */
  readonly subjects: number;
  readonly erased: ErasedCounts;
  /**
   * Ids among them that name nobody: nothing is stored of them, or, to end a suppression, they are not
   * suppressed. Absent until it is known.
   */
  readonly unknown?: number;
  /**
   * Anonymous ids among them that belong to users, of whom nothing is erased. Absent until it is known, and
   * where there are none.
   */
  readonly belongToUsers?: number;
  /**
   * Further ids that were found joined to those that it names, by what joined them. Absent until they are
   * known, and in those of earlier versions.
   */
  readonly joined?: readonly JoinedCount[];
  /**
   * Further userIds that were left out, because client sources alone have joined them. Absent until that is
   * known, and where there are none.
   */
  readonly leftOut?: number;
  /**
   * Names of destinations that events of its users may have gone to and that hear nothing of it: they pass
   * calls on, and the service behind them has its own way to delete. Absent where there are none.
   */
  readonly untold?: readonly string[];
  /** Takes along userIds that client sources alone have joined. */
  readonly confirm?: true;
  /** Tells no destination. */
  readonly silent?: true;
  /**
   * Tells a request that is sent again, by keyed hashes of its `Idempotency-Key` and of its body. Absent
   * where it had none.
   */
  readonly repeat?: RequestHashes;
  /** Number of profiles that are erased; absent until they are counted. */
  readonly profiles?: number;
  /** One entry per source, destination and endpoint that is notified. */
  readonly streamStatus: readonly NotificationStatus[];
  /** The reason for the failure, with what to do. */
  readonly reason?: string;
}

export interface RequestHashes {
  readonly key: string;
  readonly body: string;
}

/** A number of joined ids with the same reason. */
export interface JoinedCount {
  /** Null where nothing that is stored says it. */
  readonly rule: JoinRule | null;
  /** The name of the source whose event joined them. */
  readonly source: string | null;
  readonly ids: number;
}

/** How much was erased. */
export interface ErasedCounts {
  readonly events: number;
  readonly deliveries: number;
  readonly deadLetters: number;
}

/** Status of the delete notifications of one source at one endpoint. */
export interface NotificationStatus {
  readonly source: string;
  readonly destination: string;
  /** The URL, masked. */
  readonly endpoint: string;
  readonly status: RegulationStatus;
  /** Numbers of notifications. */
  readonly sent: number;
  readonly confirmed: number;
  /** When the last of them was confirmed. */
  readonly confirmedAt?: Time;
  /**
   * Status and body of the last answer, without user ids, or why there was none. The body of an accepted
   * request is not kept.
   */
  readonly answer?: { readonly status?: number; readonly reason?: string; readonly body?: string };
}

export function isDeleting(type: RegulationType): boolean {
  return type === 'SUPPRESS_WITH_DELETE' || type === 'DELETE_ONLY';
}

export function isSuppressing(type: RegulationType): boolean {
  return type === 'SUPPRESS_WITH_DELETE' || type === 'SUPPRESS_ONLY';
}

/**
 * The steps of a regulation, each durable and repeatable.
 *
 * ```
 *   survey ─▶ erase ─▶ notify ─▶ await ─▶ finish ─▶ clean ─▶ done
 *      └──────────────────────────────────────────────▲
 *        a suppression alone; an UNSUPPRESS is done at once
 * ```
 */
export type RegulationStep = 'survey' | 'erase' | 'notify' | 'await' | 'finish' | 'clean' | 'done';

const NEXT_STEPS: Readonly<Record<RegulationStep, readonly RegulationStep[]>> = {
  survey: ['erase', 'clean'],
  erase: ['notify', 'clean'],
  // Straight to `await` where its ids are lost and nobody can be notified any more.
  notify: ['await'],
  await: ['await', 'finish'],
  finish: ['finish', 'clean'],
  clean: ['clean', 'done'],
  done: [],
};

/** Call before a step is stored. */
export function checkStep(from: RegulationStep, to: RegulationStep): void {
  invariant(from !== 'done', 'a regulation that is done goes nowhere');
  invariant(NEXT_STEPS[from].includes(to), 'a regulation goes on to a step that follows its own');
}

/**
 * One user of a regulation, or a visitor without a userId, with everything that the survey has found. Kept
 * until the regulation is done. It has either a `userId` or an `anonymousId`.
 */
export interface RegulationSubject {
  readonly userId?: string;
  /** The anonymous id of a visitor, who was named by it. */
  readonly anonymousId?: string;
  /** Further userIds of the same user, which were merged into this one. */
  readonly formerUserIds: readonly string[];
  /** Anonymous ids that belong to this user or visitor alone. */
  readonly anonymousIds: readonly string[];
  /**
   * Values of the external ids of its profile, such as e-mail addresses. Absent where there are none, and in
   * those of earlier versions.
   */
  readonly externalIds?: readonly string[];
  /** Ids of the sources that saw any of these ids. */
  readonly sources: readonly number[];
  /**
   * Evidence for each of `formerUserIds` and `anonymousIds`. Absent before the survey, and in regulations of
   * earlier versions.
   */
  readonly joins?: readonly IdJoin[];
  /**
   * Further userIds of the same profile that client sources alone have joined: nothing is done of them.
   * Absent where there are none.
   */
  readonly leftOut?: readonly IdJoin[];
  /** True when nothing has this id. Absent before the survey. */
  readonly isUnknown?: boolean;
  /**
   * The id of a visitor has become that of a user, whom the regulation is not about: nothing of it is erased
   * or suppressed.
   */
  readonly belongsToUser?: boolean;
}

/**
 * Rules that join an id to a user. `identify`: an event has both. `alias`: an alias names the id as
 * previousId. `external`: they share an external id. spec/specification.md, "Identities".
 */
export type JoinRule = 'identify' | 'alias' | 'external';

/** An id that is joined to somebody, with the event that joined it, as far as that is known. */
export interface IdJoin {
  readonly kind: 'user' | 'anonymous';
  readonly value: string;
  readonly rule?: JoinRule;
  /** The id of the source of the event. */
  readonly source?: number;
  readonly messageId?: string;
  /** Time of the event. */
  readonly at?: Time;
  /** Where the event is in the log. */
  readonly position?: Position;
}

/** A subject of which nothing is known but its id: before the survey, and where no profile is kept. */
export function newSubject(userId: string): RegulationSubject & { readonly userId: string } {
  return { userId, formerUserIds: [], anonymousIds: [], sources: [] };
}

/** As `newSubject`, of a visitor without a userId. */
export function newVisitor(anonymousId: string): RegulationSubject {
  return { anonymousId, formerUserIds: [], anonymousIds: [], sources: [] };
}

/** The userIds of a subject, the one that stands for it first; none of a visitor. */
export function userIdsOf({
  userId,
  formerUserIds,
}: Pick<RegulationSubject, 'userId' | 'formerUserIds'>): string[] {
  return userId === undefined ? [] : [userId, ...formerUserIds];
}

/** A suppressed user. */
export interface Suppression {
  /** Absent where only the keyed hash is kept. */
  readonly userId?: string;
  readonly since: Time;
  /** The regulation that did it. */
  readonly regulation: string;
}
