import type { Failure, FailureCode } from './failure.ts';

/** Called once, with the end of a call: without a failure, the server has stored it. */
export type Callback = (failure?: Failure) => void;

/** One accepted call that has not been answered for. */
export interface Entry {
  readonly json: string;
  readonly bytes: number;
  callback?: Callback | undefined;
  /** Its place among all calls that left the backlog, from 1; set by the sender. */
  number?: number;
  /** Set once it has been answered for; a call may be in two requests when a page is left. */
  settled?: boolean;
  /** Where the backlog keeps it; only the backlog reads this. */
  readonly place?: unknown;
}

/** Messages of a backlog to the client that owns it. */
export interface BacklogEvents {
  /** This many calls of an earlier process were found; `take` will return them. */
  found(count: number): void;
  /** These will not come out of `take` and are lost; those that came out already need not be settled. */
  lost(entries: readonly Entry[], code: FailureCode): void;
}

/**
 * Where accepted calls wait. Three keep this promise: memory, the storage of a browser, and a folder on a
 * disk.
 *
 * - Calls come out in the order they went in, those of an earlier life first.
 * - `add` keeps a call or says why not; it never blocks and never throws.
 * - Memory is bounded, and calls in requests count until they are settled.
 * - Calls that `take` gave out are kept (on the disk, in the storage) until `settle`.
 */
export interface Backlog {
  /**
   * Survives the process or the page: calls are tried until they are answered, and closing leaves the rest in
   * it.
   */
  readonly durable: boolean;
  /** Whether another call of usual size finds room in memory. */
  readonly roomy: boolean;
  start(events: BacklogEvents): void;
  add(entry: Entry): FailureCode | undefined;
  /**
   * The first that fit into a request of so many calls and bytes, separators included: at least one if any
   * waits, unless the first has been reported as lost meanwhile.
   */
  take(count: number, bytes: number): Entry[];
  settle(entries: readonly Entry[]): void;
  /** Call nothing after it. */
  close(): Promise<void>;
}

/** Policy for a call that finds no room. */
export type WhenFull = 'refuse' | 'drop-oldest';

/** Limits of calls that wait and of calls in requests, together. */
export interface Limits {
  readonly maxCalls: number;
  /** Of JSON. */
  readonly maxBytes: number;
  readonly whenFull: WhenFull;
}

/** Calls in memory; they die with the process. */
export class MemoryBacklog implements Backlog {
  readonly durable = false;
  readonly #limits: Limits;
  #events: BacklogEvents | undefined;
  #waiting: Entry[] = [];
  /**
   * Index of the next call. Calls before it have been taken; they are cut off in pieces, because `shift` on a
   * long array costs its length.
   */
  #head = 0;
  #calls = 0;
  #bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get roomy(): boolean {
    return this.#calls < this.#limits.maxCalls / 2 && this.#bytes < this.#limits.maxBytes / 2;
  }

  start(events: BacklogEvents): void {
    this.#events = events;
  }

  add(entry: Entry): FailureCode | undefined {
    if (!this.#fits(entry.bytes) && !this.#makeRoom(entry.bytes)) return 'full';
    this.#calls++;
    this.#bytes += entry.bytes;
    this.#waiting.push(entry);
    return undefined;
  }

  take(count: number, bytes: number): Entry[] {
    const taken: Entry[] = [];
    let size = 0;
    while (taken.length < count && this.#head < this.#waiting.length) {
      const entry = this.#waiting[this.#head]!;
      size += entry.bytes + 1;
      if (size > bytes && taken.length > 0) break;
      taken.push(entry);
      this.#head++;
    }
    this.#cut();
    return taken;
  }

  settle(entries: readonly Entry[]): void {
    for (const entry of entries) this.#forget(entry);
  }

  async close(): Promise<void> {}

  #fits(bytes: number): boolean {
    return this.#calls < this.#limits.maxCalls && this.#bytes + bytes <= this.#limits.maxBytes;
  }

  #forget(entry: Entry): void {
    this.#calls--;
    this.#bytes -= entry.bytes;
  }

  /** Calls in requests cannot be dropped, so this may fail. */
  #makeRoom(bytes: number): boolean {
    if (this.#limits.whenFull === 'refuse') return false;
    const dropped: Entry[] = [];
    while (!this.#fits(bytes) && this.#head < this.#waiting.length) {
      const oldest = this.#waiting[this.#head++]!;
      this.#forget(oldest);
      dropped.push(oldest);
    }
    this.#cut();
    if (dropped.length > 0) this.#events?.lost(dropped, 'dropped');
    return this.#fits(bytes);
  }

  #cut(): void {
    if (this.#head < 1_000 && this.#head < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#head);
    this.#head = 0;
  }
}
