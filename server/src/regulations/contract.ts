import type { Regulation, RegulationSubject, RegulationType, Suppression } from '../model/regulation.ts';
import type { Time } from '../model/time.ts';

/** What an operator asks for. */
export interface RegulationRequest {
  readonly type: RegulationType;
  /** Each once. */
  readonly userIds: readonly string[];
  /** Of visitors without a userId, each once. With `userIds` at least one. */
  readonly anonymousIds: readonly string[];
  /** Takes along userIds that client sources alone have joined. */
  readonly confirm?: boolean;
  /** Of a request with an `Idempotency-Key`: it may be sent again. */
  readonly repeat?: RepeatableRequest;
  /** The name of the token. */
  readonly by: string;
}

/** Texts that are the same for the same request. */
export interface RepeatableRequest {
  /** Who asks for what with which key. */
  readonly key: string;
  readonly body: string;
}

/** Regulations as the control API makes and shows them. Every method rejects with a `StorageError`. */
export interface RegulationRequests {
  /** Makes a regulation. Suppressions are in force when this resolves. */
  create(request: RegulationRequest): Promise<Regulation>;
  /** The regulation that the same request has made within a day, also before a restart; `other_body` where its key came with another body. */
  repeated(request: RepeatableRequest): Promise<Regulation | 'other_body' | undefined>;
  get(id: string): Promise<Regulation | undefined>;
  /** The newest first, below a number, at most `max`. */
  list(max: number, below?: number): Promise<readonly (Regulation & { readonly number: number })[]>;
  /** Those of the ids that name nobody. */
  unknown(request: Omit<RegulationRequest, 'by'>): Promise<readonly string[]>;
  /** What a regulation would find. */
  foresee(request: Omit<RegulationRequest, 'by'>): Promise<Foreseen>;
  /** Whom a regulation is about, until it ends; then empty. */
  subjects(id: string): Promise<readonly RegulationSubject[]>;
  suppression(id: string, kind: 'user' | 'anonymous'): Promise<Suppression | undefined>;
  /** Those whose ids are kept, in the order of the ids, behind `after`, at most `max`. */
  suppressions(max: number, after?: string): Promise<readonly Suppression[]>;
}

/** What is known of the ids of a regulation before it is made. */
export interface Foreseen {
  /** Ids that name nobody: nothing is stored of them, or, to end a suppression, they are not suppressed. */
  readonly unknown: readonly string[];
  /** Anonymous ids that belong to users: nothing of them would be erased. */
  readonly belongToUsers: readonly string[];
  /** Everybody with the ids that are joined to them, and with what joined each; empty where a suppression is to end. */
  readonly found: readonly RegulationSubject[];
  /** Stored events that it would erase. */
  readonly events: number;
  /** Profiles that it would erase. */
  readonly profiles: number;
  /** Names of the destinations that would be told. */
  readonly destinations: readonly string[];
}

/** How regulations do, for metrics. */
export interface RegulationHealth {
  /** Those that are not done. */
  readonly open: number;
  /** When the oldest of them was made; absent when none is open. */
  readonly oldestOpenAt?: Time;
  /** A step fails again and again. */
  readonly isFailing: boolean;
  /** Suppressed ids, joined ones included. */
  readonly suppressed: number;
}
