import type { State } from '../../ui/state-mark.tsx';

/** The identity of an event, as the live tail gives it. */
export interface TailEvent {
  readonly messageId: string;
  readonly type: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly groupId?: string;
  readonly event?: string;
  readonly name?: string;
}

/** State of an event at a destination, as last seen. */
export interface LiveDelivery {
  readonly destination: string;
  readonly state: State;
  readonly reason?: string;
}

/** A row of the live page. Rows are replaced instead of changed, so that React notices. */
export interface LiveRow {
  readonly id: string;
  /** ISO 8601. */
  readonly at: string;
  readonly source?: string;
  readonly verdict: 'accepted' | 'duplicate' | 'discarded' | 'settled';
  /** Reason of a discarded call. */
  readonly reason?: string;
  /** Absent where a call was discarded. */
  readonly event?: TailEvent;
  readonly deliveries: readonly LiveDelivery[];
}

interface TailMessage {
  readonly at: string;
  readonly source?: string;
  readonly event?: TailEvent;
  readonly destination?: string;
  readonly state?: 'delivered' | 'retrying' | 'dead' | 'dropped';
  readonly reason?: string;
  readonly count?: number;
}

/** Counts of the last second, for "50 of 9,812/s shown". */
export interface Flow {
  readonly shown: number;
  readonly passed: number;
}

/** Most rows that are kept. */
const ROOM = 500;

/**
 * The newest rows of the live tail, the newest first. A delivery settles in the row of its event; when that
 * row is gone, or the filter shows only deliveries, it gets a row of its own.
 */
export class LiveRing {
  /** Rows, the oldest first, up to twice `ROOM`: cutting at each event would copy all of them. */
  #rows: LiveRow[] = [];
  /**
   * Number of the accepted row of each event, counted from the beginning; minus `#cut` it is the index in
   * `#rows`.
   */
  #places = new Map<string, number>();
  #cut = 0;
  #count = 0;
  #window: { at: number; shown: number; passed: number }[] = [];

  rows(): LiveRow[] {
    return this.#rows.slice(-ROOM).reverse();
  }

  /** Number of rows since the beginning, including dropped ones. */
  get count(): number {
    return this.#count;
  }

  /** Takes one event of the stream: its name and its data. `now` in milliseconds. */
  take(name: string, data: TailMessage, now: number): void {
    if (name === 'settled') this.#settle(data);
    else if (name === 'accepted' || name === 'duplicate' || name === 'discarded') {
      this.#add({ ...rowOf(data), id: `${this.#count}`, verdict: name, deliveries: [] });
      this.#note(now, 1, 0);
    } else if (name === 'lost' || name === 'passed') this.#note(now, 0, data.count ?? 0);
  }

  /** Counts of the second before `now`. */
  flow(now: number): Flow {
    this.#window = this.#window.filter(({ at }) => now - at < 1000);
    const sum = { shown: 0, passed: 0 };
    for (const { shown, passed } of this.#window) {
      sum.shown += shown;
      sum.passed += passed;
    }
    return sum;
  }

  #note(at: number, shown: number, passed: number): void {
    const last = this.#window.at(-1);
    // One entry for each tenth of a second, whatever the rate.
    if (last !== undefined && at - last.at < 100) {
      last.shown += shown;
      last.passed += passed;
    } else this.#window.push({ at, shown, passed });
  }

  #settle(data: TailMessage): void {
    const { destination, state, reason, event } = data;
    if (destination === undefined || state === undefined || event === undefined) return;
    const delivery: LiveDelivery = { destination, state, ...(reason === undefined ? {} : { reason }) };
    const index = (this.#places.get(placeOf(data.source, event)) ?? -1) - this.#cut;
    const row = this.#rows[index];
    if (row === undefined) {
      const { reason: _, ...rest } = data;
      this.#add({ ...rowOf(rest), id: `${this.#count}`, verdict: 'settled', deliveries: [delivery] });
      return;
    }
    const others = row.deliveries.filter((one) => one.destination !== destination);
    this.#rows[index] = { ...row, deliveries: [...others, delivery] };
  }

  #add(row: LiveRow): void {
    if (row.event !== undefined && row.verdict !== 'duplicate') {
      this.#places.set(placeOf(row.source, row.event), this.#cut + this.#rows.length);
    }
    this.#count += 1;
    this.#rows.push(row);
    if (this.#rows.length >= ROOM * 2) this.#forget();
  }

  #forget(): void {
    this.#cut += this.#rows.length - ROOM;
    this.#rows = this.#rows.slice(-ROOM);
    for (const [key, place] of this.#places) if (place < this.#cut) this.#places.delete(key);
  }
}

function placeOf(source: string | undefined, { messageId }: TailEvent): string {
  return JSON.stringify([source, messageId]);
}

function rowOf({
  at,
  source,
  event,
  reason,
}: TailMessage): Pick<LiveRow, 'at' | 'source' | 'event' | 'reason'> {
  return {
    at,
    ...(source === undefined ? {} : { source }),
    ...(event === undefined ? {} : { event }),
    ...(reason === undefined ? {} : { reason }),
  };
}
