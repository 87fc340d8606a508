import type { Time } from './time.ts';

/** The kinds of regulations. spec/specification.md, "Regulations". */
export const REGULATION_TYPES = [
  'SUPPRESS_WITH_DELETE',
  'DELETE_ONLY',
  'SUPPRESS_ONLY',
  'UNSUPPRESS',
] as const;

export type RegulationType = (typeof REGULATION_TYPES)[number];

export type RegulationStatus = 'INITIALIZED' | 'RUNNING' | 'FINISHED' | 'PARTIAL_SUCCESS' | 'FAILED';

/** A request to delete or to suppress users, and its receipt. It never contains the ids of deleted users. */
export interface Regulation {
  readonly id: string;
  readonly type: RegulationType;
  readonly overallStatus: RegulationStatus;
  readonly createdAt: Time;
  readonly finishedAt?: Time;
  /** The name of the token that asked for it. */
  readonly by: string;
  /** Number of user ids. */
  readonly subjects: number;
  readonly erased: ErasedCounts;
  /** One entry per source, destination and endpoint that is notified. */
  readonly streamStatus: readonly NotificationStatus[];
}

/** How much was erased. */
export interface ErasedCounts {
  readonly events: number;
  readonly deliveries: number;
  readonly deadLetters: number;
}

/** What became of the delete notifications of one source at one endpoint. */
export interface NotificationStatus {
  readonly source: string;
  readonly destination: string;
  readonly endpoint: string;
  readonly status: RegulationStatus;
  /** Numbers of notifications. */
  readonly sent: number;
  readonly confirmed: number;
  /** When the last of them was confirmed. */
  readonly confirmedAt?: Time;
  /** Status and body of the last answer, without user ids. */
  readonly answer?: { readonly status?: number; readonly body?: string };
}
