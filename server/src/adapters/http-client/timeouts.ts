import type { Duration } from '../../model/time.ts';

/** Something that must end in time. The fields belong to the list it stands in. */
export interface TimeoutEntry {
  /** On the clock of `performance.now`. */
  deadline: number;
  row: TimeoutList | undefined;
  before: TimeoutEntry | undefined;
  after: TimeoutEntry | undefined;
  /** Its time is over. It is in no list any more. */
  expire(): void;
}

/** Everything with one and the same time limit, in the order it began, and so in the order it ends. */
export interface TimeoutList {
  first: TimeoutEntry | undefined;
  last: TimeoutEntry | undefined;
}

/** How late a limit may strike, if nothing is said. A step costs a look at the first entry of each row. */
const STEP: Duration = 25;

/**
 * Time limits for very many short things: one timer for all of them, and entering and leaving are a few assignments.
 * A timer per request costs more than everything else this process does for it in JavaScript.
 */
export class TimeoutQueue {
  readonly #step: Duration;
  readonly #rows = new Map<Duration, TimeoutList>();
  #timer: NodeJS.Timeout | undefined;
  #running = false;

  constructor(step: Duration = STEP) {
    this.#step = step;
  }

  /** Ends `entry` at `startedAt + limit`, both in milliseconds on the clock of `performance.now`. */
  add(entry: TimeoutEntry, startedAt: number, limit: Duration): void {
    let row = this.#rows.get(limit);
    if (row === undefined) {
      row = { first: undefined, last: undefined };
      this.#rows.set(limit, row);
    }
    entry.deadline = startedAt + limit;
    entry.row = row;
    entry.before = row.last;
    if (row.last === undefined) row.first = entry;
    else row.last.after = entry;
    row.last = entry;
    if (!this.#running) this.#start();
  }

  /** The entry that ends first. */
  get first(): TimeoutEntry | undefined {
    let first: TimeoutEntry | undefined;
    for (const { first: entry } of this.#rows.values()) {
      if (entry !== undefined && (first === undefined || entry.deadline < first.deadline)) first = entry;
    }
    return first;
  }

  /** Does nothing when `entry` is in no row. */
  remove(entry: TimeoutEntry): void {
    const { row, before, after } = entry;
    if (row === undefined) return;
    if (before === undefined) row.first = after;
    else before.after = after;
    if (after === undefined) row.last = before;
    else after.before = before;
    entry.row = undefined;
    entry.before = undefined;
    entry.after = undefined;
  }

  #start(): void {
    this.#running = true;
    if (this.#timer === undefined) {
      // After a pause of this process every limit may seem over while the answers lie in the sockets, unread. An immediate
      // runs after they have been read.
      this.#timer = setTimeout(() => setImmediate(() => this.#sweep()), this.#step);
      this.#timer.unref();
    } else {
      this.#timer.refresh();
    }
  }

  #sweep(): void {
    // Read once: what enters a row while this runs is never before `now`, so that the loops come to an end.
    const now = performance.now();
    for (const [limit, row] of this.#rows) {
      while (row.first !== undefined && row.first.deadline < now) {
        const entry = row.first;
        this.remove(entry);
        entry.expire();
      }
      if (row.first === undefined) this.#rows.delete(limit);
    }
    this.#running = false;
    if (this.#rows.size > 0) this.#start();
  }
}
