import type { Time } from '../../model/time.ts';

/** A stored event. */
export interface StoredRecord {
  readonly source: number;
  readonly messageId: string;
  readonly userId: string | undefined;
  readonly receivedAt: Time;
  readonly json: string;
  /** Ids of the destinations that were to get it, and of those that were not. */
  readonly owed: readonly number[];
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}
