import type { Attempt } from '../model/delivery.ts';
import type { Position } from '../model/event.ts';
import type { Monotonic } from '../model/time.ts';
import type { Owing } from './backlog.ts';

/** What became of single events: exact, for every event that is stored, and not a sample. */
export interface History {
  /**
   * What is known of the events at these positions, in the order asked; `undefined` for one that is no longer there.
   * Meant for a page of events that somebody looks at, not for delivering.
   */
  of(positions: readonly Position[]): Promise<(EventHistory | undefined)[]>;

  /**
   * Where deliveries are pending that the query asks for, the highest positions first, at most `max`; go on with `below: next`
   * until it is absent. The cost goes by what is pending, and not by what is stored.
   */
  pending(query: PendingQuery, max: number, below?: Position): Promise<PendingPage>;

  /** How far what an origin owes once more has come; from its beginning when nothing was owed yet. See `Backlog.owe`. */
  owing(origin: string): Promise<Owing>;
}

export interface PendingQuery {
  /** Ids of destinations, as they are owed. */
  readonly destinations: readonly number[];
  /** Only those tried before (true) or never (false). */
  readonly tried?: boolean;
}

export interface PendingPage {
  /** Descending, each once, whatever number of deliveries is pending there. */
  readonly positions: readonly Position[];
  readonly next?: Position;
}

export interface EventHistory {
  /**
   * To every destination that was to get it, or that it was owed to once more, by id. One that is owed it several times is
   * here once: pending as long as any of its deliveries is, otherwise dead when one of them is, with the requests of all.
   */
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
  readonly nextAttemptAt?: Monotonic;
  /** In the order they were begun. Of those that were accepted the latency is kept to a tenth of a millisecond. */
  readonly attempts: readonly Attempt[];
}
