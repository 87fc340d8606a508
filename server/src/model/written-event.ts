import type { Event } from './event.ts';
import type { Monotonic } from './time.ts';

/**
 * An event with the bytes it is stored as. Parsing costs more than anything else that is done for an event but sending it:
 * whoever can do with the bytes does not ask for the event.
 */
export interface WrittenEvent {
  /** Made when it is asked for. */
  readonly event: Event;
  /** Absent where nothing is kept but the event. */
  readonly line?: Line | undefined;
  /** When it arrived. */
  readonly arrivedAt: Monotonic;
}

/**
 * `JSON.stringify(event)` in UTF-8, somewhere in a larger buffer. A fixed point: parsing and writing it again, or any value
 * in it, gives the same bytes.
 */
export interface Line {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}
