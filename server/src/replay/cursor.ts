import type { Position } from '../model/event.ts';
import type { Time } from '../model/time.ts';
import type { EventLog, EventPrefilter, StoredEvent } from '../ports/event-log.ts';

/** The cursor at the end of a range. The store keeps it as a number like any other. */
export const CURSOR_END = Number.MAX_SAFE_INTEGER;

/** Events read at once: enough to be worth a commit, few enough not to hold up other readers. */
const READ_AT_ONCE = 500;

/** Some of the events of a range. */
export interface EventSlice {
  /** The wanted events, in the order of the log. */
  readonly events: readonly { readonly position: Position; readonly stored: StoredEvent }[];
  /** Cursor of the next slice; `CURSOR_END` after the last one. */
  readonly to: number;
}

/** A range of arrival times. */
export interface CursorRange {
  /** Inclusive. */
  readonly from: Time;
  /** Exclusive. */
  readonly to: Time;
  /** Lets the log skip events that cannot be wanted; see ports/event-log.ts. */
  readonly like?: EventPrefilter;
}

/** Whether an event is to be replayed. */
export type ReplayFilter = (stored: StoredEvent) => boolean;

/**
 * Reads the events that arrived in a range of time, the oldest first, because the destination must get the events of a
 * user in their order. It can go on from every cursor it ever gave, also in another process. In memory it holds the
 * positions of one slice of the log and no more.
 */
export class LogCursor {
  readonly #log: Pick<EventLog, 'find' | 'read'>;
  readonly #range: CursorRange & { readonly oldestFirst: true };
  /** Cursor at which the positions in memory go on. */
  #cursor = CURSOR_END;
  #positions: readonly Position[] = [];
  /** How many of `#positions` have been read. */
  #taken = 0;
  /** Where the next search of the log begins. */
  #nextSearch = CURSOR_END;

  constructor(log: Pick<EventLog, 'find' | 'read'>, { from, to, like }: CursorRange) {
    this.#log = log;
    this.#range = { from, to, oldestFirst: true, ...(like === undefined ? {} : { like }) };
  }

  /**
   * Reads the slice at a cursor: at most `max` wanted events.
   *
   * @param cursor 0 for the first slice, then `to` of the slice before
   */
  async next(cursor: number, max: number, isWanted: ReplayFilter): Promise<EventSlice> {
    if (cursor === CURSOR_END) return { events: [], to: CURSOR_END };
    if (cursor !== this.#cursor) {
      this.#positions = [];
      this.#taken = 0;
      this.#nextSearch = cursor;
    }
    while (this.#taken === this.#positions.length && this.#nextSearch !== CURSOR_END) {
      const { positions, next = CURSOR_END } = await this.#log.find(this.#range, this.#nextSearch);
      this.#positions = positions;
      this.#taken = 0;
      this.#nextSearch = next;
    }
    const batch = this.#positions.slice(this.#taken, this.#taken + READ_AT_ONCE);
    const stored = await this.#log.read(batch);
    const events: { position: Position; stored: StoredEvent }[] = [];
    let scanned = 0;
    for (; scanned < batch.length && events.length < max; scanned++) {
      const event = stored[scanned];
      if (event !== undefined && isWanted(event)) events.push({ position: batch[scanned]!, stored: event });
    }
    this.#taken += scanned;
    this.#cursor = this.#positions[this.#taken] ?? this.#nextSearch;
    return { events, to: this.#cursor };
  }
}
