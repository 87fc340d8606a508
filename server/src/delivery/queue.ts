import type { ReadyDelivery } from '../ports/delivery-queue.ts';

/** Deliveries a lane keeps in memory; the rest waits on disk. Enough for a fast endpoint between two claims. */
const PREFETCH_LIMIT = 2000;

/** New deliveries all lanes together take into memory. A window is a tenth of it, so no lane can take it all. */
const TOTAL_PREFETCH_LIMIT = 20_000;

/**
 * When all lanes together have taken everything, each may still claim so many: ten lanes that hang must not leave the
 * others without.
 */
const GUARANTEED_CLAIM = 200;

const MAX_CLAIM = 500;

/**
 * A lane that catches up has in memory what it sends in about so many round trips, and never less than a commit is worth.
 * With many requests at once, two round trips and a claim are enough: what waits longer in memory only costs more.
 */
const ROUNDS_AHEAD = 16;
const MIN_ROUNDS_AHEAD = 2;
const MIN_PREFETCH = 32;

/** Deliveries in the memory of all lanes together: reserved, ready or in flight. */
export interface TotalInMemory {
  held: number;
}

/** How many new deliveries fit into memory. */
export function roomForNew(held: number, total: TotalInMemory): number {
  return Math.max(0, Math.min(PREFETCH_LIMIT - held, TOTAL_PREFETCH_LIMIT - total.held));
}

export interface PrefetchState {
  readonly held: number;
  /** Something due waits on disk, and nothing new is taken until it is claimed. */
  readonly isBehind: boolean;
  /** The lane's concurrency. */
  readonly limit: number;
}

/**
 * How many deliveries may be claimed from disk; 0 when so little of the window is free that it is not worth a commit.
 * A lane that is behind has a window as large as its concurrency can use: after an outage, or at an endpoint that
 * hangs, it claims a few and not hundreds that it could only hand back.
 */
export function roomToClaim({ held, isBehind, limit }: PrefetchState, total: TotalInMemory): number {
  const ahead = Math.min(ROUNDS_AHEAD * limit, MIN_ROUNDS_AHEAD * limit + MAX_CLAIM);
  const useful = isBehind ? Math.max(MIN_PREFETCH, ahead) : PREFETCH_LIMIT;
  const window = Math.min(useful, total.held < TOTAL_PREFETCH_LIMIT ? PREFETCH_LIMIT : GUARANTEED_CLAIM);
  const room = window - held;
  return room >= window / 4 ? Math.min(room, MAX_CLAIM) : 0;
}

/** Gone entries are given back to memory when there are so many, and at least as many as those left. */
const MAX_GONE = 1024;

/** Deliveries of one lane that can be sent at once, in order. */
export class ReadyQueue {
  #items: ReadyDelivery[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  enqueue(works: readonly ReadyDelivery[]): void {
    for (const work of works) this.#items.push(work);
  }

  dequeue(): ReadyDelivery | undefined {
    const work = this.#items[this.#head];
    if (work === undefined) return undefined;
    this.#head++;
    // A lane under load is never empty: without this everything it ever sent would stay in memory.
    if (this.#head === this.#items.length || (this.#head >= MAX_GONE && this.#head >= this.size)) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return work;
  }

  drain(): ReadyDelivery[] {
    const works = this.#items.splice(this.#head);
    this.#items = [];
    this.#head = 0;
    return works;
  }
}
