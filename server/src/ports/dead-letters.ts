import type { Position } from '../model/event.ts';
import type { Monotonic } from '../model/time.ts';

/** Deliveries that were given up: kept with their reason until their retention passes, to be read and to be sent again. */
export interface DeadLetters {
  /**
   * The newest first, at most `limit`; go on with `next` until it is absent. May look at a part only, and so give fewer, or
   * none, and a `next`.
   */
  list(query: DeadQuery, limit: number, from?: string): Promise<DeadPage>;

  /** How many the query finds. Works in slices, so that nothing else waits for it: go on with `next` until it is absent. */
  count(query: DeadQuery, from?: string): Promise<DeadCount>;

  /**
   * Owes what the query finds once more, due at `now`, as if it had never been tried: with a new retry window, and with the
   * requests made before still in its history. In the ledger it is pending again and no longer dead. Works in slices: go on
   * with `next` until it is absent. What has been given up since `now` is left out, so that nothing is revived twice.
   */
  revive(slice: RevivedSlice): Promise<DeadCount>;
}

export interface RevivedSlice {
  readonly query: DeadQuery;
  readonly now: Monotonic;
  /** Only what was given up before this; `now` when absent. */
  readonly before?: Monotonic;
  /** `next` of the slice before. */
  readonly from?: string;
  /** On whose behalf; what is revived is counted there (`History.owing`, events) by the same commit. Deliveries keep their own. */
  readonly origin?: string;
}

export interface DeadCount {
  readonly count: number;
  /** Where the next slice begins; opaque. */
  readonly next?: string;
}

export interface DeadQuery {
  /** Ids of destinations, as they are owed. */
  readonly destinations: readonly number[];
  /** Only those with this reason. */
  readonly reason?: string;
  /** Given up from (inclusive) to (exclusive). */
  readonly from?: Monotonic;
  readonly to?: Monotonic;
  /** Only these. */
  readonly only?: readonly { readonly destination: number; readonly position: Position }[];
}

export interface DeadLetter {
  readonly destination: number;
  readonly position: Position;
  readonly reason: string;
  /** When it was given up. */
  readonly at: Monotonic;
}

export interface DeadPage {
  readonly letters: readonly DeadLetter[];
  /** Where the next page begins; opaque. */
  readonly next?: string;
}
