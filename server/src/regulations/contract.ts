import type { Regulation, RegulationSubject, RegulationType, Suppression } from '../model/regulation.ts';
import type { Time } from '../model/time.ts';

/** The request of an operator for a regulation. */
export interface RegulationRequest {
  readonly type: RegulationType;
  /** UserIds, each once. */
  readonly userIds: readonly string[];
  /** Anonymous ids of visitors without a userId, each once. Together with `userIds` at least one. */
  readonly anonymousIds: readonly string[];
  /** True to include userIds that client sources alone have joined. */
  readonly confirm?: boolean;
  /** True to tell no destination. */
  readonly silent?: boolean;
  /** Texts that recognise a repeated request with an `Idempotency-Key`; absent without one. */
  readonly repeat?: RepeatableRequest;
  /** The name of the token. */
  readonly by: string;
}

/** Texts that are equal for equal requests. */
export interface RepeatableRequest {
  /** The token, the operation and the key, as one text. */
  readonly key: string;
  readonly body: string;
}

/** Regulations as the control API makes and shows them. Every method rejects with a `StorageError`. */
export interface RegulationRequests {
  /** Makes a regulation. Suppressions are in force when this resolves. */
  create(request: RegulationRequest): Promise<Regulation>;
  /**
   * The regulation that the same request has made within a day, also before a restart; `other_body` where its
   * key came with another body.
   */
  repeated(request: RepeatableRequest): Promise<Regulation | 'other_body' | undefined>;
  get(id: string): Promise<Regulation | undefined>;
  /** Regulations, the newest first, below a number, at most `max`. */
  list(max: number, below?: number): Promise<readonly (Regulation & { readonly number: number })[]>;
  /** The ids of a request that name nobody. */
  unknown(request: Omit<RegulationRequest, 'by'>): Promise<readonly string[]>;
  /** The result that a regulation would have; changes nothing. */
  foresee(request: Omit<RegulationRequest, 'by'>): Promise<Foreseen>;
  /** The users and visitors of a regulation; empty once it has ended. */
  subjects(id: string): Promise<readonly RegulationSubject[]>;
  suppression(id: string, kind: 'user' | 'anonymous'): Promise<Suppression | undefined>;
  /** Suppressions whose ids are kept, in the order of the ids, behind `after`, at most `max`. */
  suppressions(max: number, after?: string): Promise<readonly Suppression[]>;
}

/** Facts about the ids of a regulation before it is made. */
export interface Foreseen {
  /** Ids that name nobody: nothing is stored of them, or, to end a suppression, they are not suppressed. */
  readonly unknown: readonly string[];
  /** Anonymous ids that belong to users: nothing of them would be erased. */
  readonly belongToUsers: readonly string[];
  /** Each user and visitor with the joined ids and what joined each; empty when a suppression is to end. */
  readonly found: readonly RegulationSubject[];
  /** Stored events that it would erase. */
  readonly events: number;
  /** Profiles that it would erase. */
  readonly profiles: number;
  /** Names of the destinations that would be told. */
  readonly destinations: readonly string[];
}

/** State of regulations, for metrics. */
export interface RegulationHealth {
  /** Number of regulations that are not done. */
  readonly open: number;
  /** Time at which the oldest of them was made; absent when none is open. */
  readonly oldestOpenAt?: Time;
  /** True when a step fails repeatedly. */
  readonly isFailing: boolean;
  /** Suppressed ids, joined ones included. */
  readonly suppressed: number;
}
