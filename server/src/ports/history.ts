import type { Attempt } from '../model/delivery.ts';
import type { Position } from '../model/event.ts';
import type { Time } from '../model/time.ts';

/** What became of single events: exact, for every event that is stored, and not a sample. */
export interface History {
  /**
   * What is known of the events at these positions, in the order asked; `undefined` for one that is no longer there.
   * Meant for a page of events that somebody looks at, not for delivering.
   */
  of(positions: readonly Position[]): Promise<(EventHistory | undefined)[]>;
}

export interface EventHistory {
  /** To every destination that was to get it, by id. */
  readonly deliveries: readonly DeliveryHistory[];
  /** Destinations of its source that were not, by id, and why. */
  readonly skipped: readonly { readonly destination: number; readonly reason: string }[];
}

export interface DeliveryHistory {
  /** As it was owed: with `success: each` one for each endpoint (model/destination.ts, `lanesOf`). */
  readonly destination: number;
  /** `pending`: not tried yet. `retrying`: tried, and it will be again. */
  readonly state: 'pending' | 'retrying' | 'delivered' | 'dead';
  /** Why it is dead. */
  readonly reason?: string;
  /** When it is due, while it waits on disk; may be in the past. Absent when it is in the hands of a process. */
  readonly nextAttemptAt?: Time;
  /** In the order they were begun. Of those that were accepted the latency is kept to a tenth of a millisecond. */
  readonly attempts: readonly Attempt[];
}
