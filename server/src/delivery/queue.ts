import type { ReadyDelivery } from '../ports/delivery-queue.ts';

/** Deliveries that a worker holds in memory: enough for a fast endpoint between two claims. The rest waits on disk. */
const PREFETCH_LIMIT = 2000;

/** New deliveries that all workers hold in memory. A worker's own limit is a tenth of it. */
const TOTAL_PREFETCH_LIMIT = 20_000;

/** Each worker may claim this many even when the total is used up: ten workers that hang must not starve the others. */
const GUARANTEED_CLAIM = 200;

const MAX_CLAIM = 500;

/**
 * A worker that is behind prefetches what it sends in 16 round trips. At a high concurrency two round trips and one claim
 * are enough. It never prefetches fewer than 32, because a claim costs a commit.
 */
const ROUNDS_AHEAD = 16;
const MIN_ROUNDS_AHEAD = 2;
const MIN_PREFETCH = 32;

/** Deliveries in the memory of all workers: reserved, ready or in flight. */
export interface TotalInMemory {
  held: number;
}

/** How many new deliveries fit into memory. */
export function roomForNew(held: number, total: TotalInMemory): number {
  return Math.max(0, Math.min(PREFETCH_LIMIT - held, TOTAL_PREFETCH_LIMIT - total.held));
}

export interface PrefetchState {
  readonly held: number;
  /** Something due waits on disk, and new deliveries are parked behind it. */
  readonly isBehind: boolean;
  /** The concurrency of the worker. */
  readonly limit: number;
}

/**
 * How many deliveries may be claimed from disk; 0 when so few would fit that a claim is not worth its commit. The limit of
 * a worker that is behind goes by its concurrency: after an outage, or at an endpoint that hangs, it claims a few, not
 * hundreds that it could only return.
 */
export function roomToClaim({ held, isBehind, limit }: PrefetchState, total: TotalInMemory): number {
  const ahead = Math.min(ROUNDS_AHEAD * limit, MIN_ROUNDS_AHEAD * limit + MAX_CLAIM);
  const useful = isBehind ? Math.max(MIN_PREFETCH, ahead) : PREFETCH_LIMIT;
  const limitNow = Math.min(useful, total.held < TOTAL_PREFETCH_LIMIT ? PREFETCH_LIMIT : GUARANTEED_CLAIM);
  const room = limitNow - held;
  return room >= limitNow / 4 ? Math.min(room, MAX_CLAIM) : 0;
}

/** Sent entries are removed when there are this many, and at least as many as those left. */
const MAX_SENT = 1024;

/** The deliveries of one worker that can be sent now, first in, first out. */
export class ReadyQueue {
  #items: ReadyDelivery[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  enqueue(deliveries: readonly ReadyDelivery[]): void {
    for (const delivery of deliveries) this.#items.push(delivery);
  }

  dequeue(): ReadyDelivery | undefined {
    const delivery = this.#items[this.#head];
    if (delivery === undefined) return undefined;
    this.#head++;
    // Under load the queue is never empty, and sent entries would otherwise stay in memory.
    if (this.#head === this.#items.length || (this.#head >= MAX_SENT && this.#head >= this.size)) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return delivery;
  }

  /** Removes and returns everything. */
  drain(): ReadyDelivery[] {
    const deliveries = this.#items.splice(this.#head);
    this.#items = [];
    this.#head = 0;
    return deliveries;
  }
}
