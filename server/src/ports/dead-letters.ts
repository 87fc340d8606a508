import type { Position } from '../model/event.ts';
import type { Time } from '../model/time.ts';

/** Deliveries that were given up: kept with their reason until their retention passes, to be read and to be sent again. */
export interface DeadLetters {
  /** The newest first, at most `limit`; go on with `next` until it is absent. */
  list(query: DeadQuery, limit: number, from?: string): Promise<DeadPage>;

  /**
   * Owes what the query finds once more, due at `now`, as if it had never been tried: with a new retry window, and with the
   * requests made before still in its history. In the ledger it is pending again and no longer dead. Works in slices:
   * resolves to how many this slice revived; call again until it says 0. What has been given up since `now` is left out.
   */
  revive(query: DeadQuery, now: Time): Promise<number>;
}

export interface DeadQuery {
  /** Ids of destinations, as they are owed. */
  readonly destinations: readonly number[];
  /** Only those with this reason. */
  readonly reason?: string;
  /** Given up from (inclusive) to (exclusive). */
  readonly from?: Time;
  readonly to?: Time;
  /** Only these. */
  readonly only?: readonly { readonly destination: number; readonly position: Position }[];
}

export interface DeadLetter {
  readonly destination: number;
  readonly position: Position;
  readonly reason: string;
  /** When it was given up. */
  readonly at: Time;
}

export interface DeadPage {
  readonly letters: readonly DeadLetter[];
  /** Where the next page begins; opaque. */
  readonly next?: string;
}
