import type { Delivery } from '../model/delivery.ts';
import type { Monotonic } from '../model/time.ts';
import type { WrittenEvent } from '../model/written-event.ts';
import type { SetId } from './backlog.ts';

/** Takes over what an append owes. Nothing here may fail or wait: the events are stored whatever happens next. */
export interface Deliverer {
  /**
   * Asks for room in memory before the append, and says for how many of the deliveries there is. So many the caller appends as
   * held and hands over with `deliver`, or gives their room back with `release`; the others it appends as parked and says
   * so with `parked`.
   */
  reserve(destination: number, deliveries: number): number;
  release(destination: number, deliveries: number): void;
  deliver(destination: number, deliveries: readonly InHand[]): void;
  /** Deliveries of this destination wait on disk, due at `at`. */
  parked(destination: number, at: Monotonic): void;
}

/** A delivery with its event, ready to be sent. */
export interface InHand {
  readonly set: SetId;
  readonly delivery: Delivery;
  readonly written: WrittenEvent;
  /** As in `Held`. */
  readonly origin?: string;
  /** Id of the source it came from. */
  readonly source: number;
}
