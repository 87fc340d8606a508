import type { Position } from '../model/event.ts';
import type { Time } from '../model/time.ts';
import type { EventLog, EventPrefilter, StoredEvent } from '../ports/event-log.ts';

/** Where a walk stands when nothing is left of its range. The store keeps it as a number like any other. */
export const CURSOR_END = Number.MAX_SAFE_INTEGER;

/** Events read at once: enough for a commit to be worth it, few enough that nobody waits for them. */
const READ_AT_ONCE = 500;

/** Some of the events of a range. */
export interface EventSlice {
  /** Those that are wanted, in the order of the log. */
  readonly events: readonly { readonly position: Position; readonly stored: StoredEvent }[];
  /** Where the walk goes on. */
  readonly to: number;
  /** When the last event arrived that was looked at; absent when there was none. */
  readonly reachedAt?: Time;
}

/** What is walked through. */
export interface CursorRange {
  readonly from: Time;
  readonly to: Time;
  /** What need not be looked at: see ports/event-log.ts. */
  readonly like?: EventPrefilter;
}

/** Whether an event is to be replayed. */
export type ReplayFilter = (stored: StoredEvent) => boolean;

/**
 * Walks through the events that arrived in a range of time, the oldest first: what comes later in the life of a user must
 * come later to the destination too. It can go on from every cursor it ever gave, also in another process, and holds no
 * more in memory than the positions of one slice of the log.
 */
export class LogCursor {
  readonly #log: Pick<EventLog, 'find' | 'read'>;
  readonly #range: CursorRange & { readonly oldestFirst: true };
  /** Where the positions in hand begin. */
  #cursor = CURSOR_END;
  #found: readonly Position[] = [];
  #taken = 0;
  /** Where the log is to be looked at next. */
  #next = CURSOR_END;

  constructor(log: Pick<EventLog, 'find' | 'read'>, { from, to, like }: CursorRange) {
    this.#log = log;
    this.#range = { from, to, oldestFirst: true, ...(like === undefined ? {} : { like }) };
  }

  /** Goes on from a cursor, 0 at first, and ends at `most` wanted events or earlier. */
  async next(cursor: number, most: number, wanted: ReplayFilter): Promise<EventSlice> {
    if (cursor === CURSOR_END) return { events: [], to: CURSOR_END };
    if (cursor !== this.#cursor) {
      this.#found = [];
      this.#taken = 0;
      this.#next = cursor;
    }
    while (this.#taken === this.#found.length && this.#next !== CURSOR_END) {
      const { positions, next = CURSOR_END } = await this.#log.find(this.#range, this.#next);
      this.#found = positions;
      this.#taken = 0;
      this.#next = next;
    }
    const read = this.#found.slice(this.#taken, this.#taken + READ_AT_ONCE);
    const stored = await this.#log.read(read);
    const events: { position: Position; stored: StoredEvent }[] = [];
    let looked = 0;
    for (; looked < read.length && events.length < most; looked++) {
      const one = stored[looked];
      if (one !== undefined && wanted(one)) events.push({ position: read[looked]!, stored: one });
    }
    this.#taken += looked;
    this.#cursor = this.#found[this.#taken] ?? this.#next;
    const last = stored.slice(0, looked).findLast((one) => one !== undefined);
    return {
      ...{ events, to: this.#cursor },
      ...(last === undefined ? {} : { reachedAt: Date.parse(last.event.receivedAt) }),
    };
  }
}
