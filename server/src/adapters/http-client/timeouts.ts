import { LinkedList, type ListEntry } from '../../model/linked-list.ts';
import type { Duration } from '../../model/time.ts';

/** Something with a time limit. */
export interface TimeoutEntry extends ListEntry<TimeoutEntry> {
  /** Time on the clock of `performance.now`. The queue sets it. */
  deadline: number;
  /** The time is over. The entry is in no list any more. */
  expire(): void;
}

/** The entries with one and the same time limit, in the order they were added, which is the order they expire in. */
export type TimeoutList = LinkedList<TimeoutEntry>;

/** How late an entry may expire unless the queue says otherwise. A step costs a look at the first entry of each list. */
const STEP: Duration = 25;

/**
 * Time limits of very many short operations. One timer serves all of them; adding and removing are a few assignments.
 * A timer per request would cost more than all the rest of a request in JavaScript.
 */
export class TimeoutQueue {
  readonly #step: Duration;
  readonly #lists = new Map<Duration, TimeoutList>();
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;

  constructor(step: Duration = STEP) {
    this.#step = step;
  }

  /** Lets `entry` expire at `startedAt + limit`, both in milliseconds on the clock of `performance.now`. */
  add(entry: TimeoutEntry, startedAt: number, limit: Duration): void {
    let list = this.#lists.get(limit);
    if (list === undefined) {
      list = new LinkedList();
      this.#lists.set(limit, list);
    }
    entry.deadline = startedAt + limit;
    list.push(entry);
    if (!this.#isRunning) this.#start();
  }

  /** The entry that expires first. */
  get first(): TimeoutEntry | undefined {
    let first: TimeoutEntry | undefined;
    for (const { first: entry } of this.#lists.values()) {
      if (entry !== undefined && (first === undefined || entry.deadline < first.deadline)) first = entry;
    }
    return first;
  }

  /** Does nothing when `entry` is in no list. */
  remove(entry: TimeoutEntry): void {
    entry.list?.remove(entry);
  }

  #start(): void {
    this.#isRunning = true;
    if (this.#timer === undefined) {
      // After a pause of this process every limit may seem over while the answers lie unread in the sockets. An immediate
      // runs after they have been read.
      this.#timer = setTimeout(() => setImmediate(() => this.#sweep()), this.#step);
      this.#timer.unref();
    } else {
      this.#timer.refresh();
    }
  }

  #sweep(): void {
    // Read once: entries that are added meanwhile have a deadline that is not before `now`, so the loops end.
    const now = performance.now();
    for (const [limit, list] of this.#lists) {
      for (let { first } = list; first !== undefined && first.deadline < now; { first } = list) {
        list.remove(first);
        first.expire();
      }
      if (list.first === undefined) this.#lists.delete(limit);
    }
    this.#isRunning = false;
    if (this.#lists.size > 0) this.#start();
  }
}
