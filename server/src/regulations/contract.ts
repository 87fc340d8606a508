import type { Regulation, RegulationSubject, RegulationType, Suppression } from '../model/regulation.ts';
import type { Time } from '../model/time.ts';

/** What an operator asks for. */
export interface RegulationRequest {
  readonly type: RegulationType;
  /** Each once, at least one. */
  readonly userIds: readonly string[];
  /** The name of the token. */
  readonly by: string;
}

/** Regulations as the control API makes and shows them. Every method rejects with a `StorageError`. */
export interface RegulationRequests {
  /** Makes a regulation. Suppressions are in force when this resolves. */
  create(request: RegulationRequest): Promise<Regulation>;
  get(id: string): Promise<Regulation | undefined>;
  /** The newest first, below a number, at most `max`. */
  list(max: number, below?: number): Promise<readonly (Regulation & { readonly number: number })[]>;
  /** Those of these ids that name nobody: nothing is stored of them, or, to end a suppression, they are not suppressed. */
  unknown(userIds: readonly string[], type: RegulationType): Promise<readonly string[]>;
  /** Whom a regulation is about, until it ends; then empty. */
  subjects(id: string): Promise<readonly Pick<RegulationSubject, 'userId' | 'isUnknown'>[]>;
  suppression(userId: string): Promise<Suppression | undefined>;
  /** Those whose ids are kept, in the order of the ids, behind `after`, at most `max`. */
  suppressions(max: number, after?: string): Promise<readonly Suppression[]>;
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
