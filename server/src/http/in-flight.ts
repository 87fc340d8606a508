import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';

/** How much may be under way at once, over all connections. decisions.md section 1, "overload". */
export interface Bounds {
  /** Requests from their head to their answer. */
  readonly requests: number;
  /** Bytes of their bodies, as they arrived or inflated, whichever is more. */
  readonly bytes: number;
}

/** Bounds of the listener as a whole; `connections` more are closed as they come. */
export interface ListenerBounds extends Bounds {
  readonly connections: number;
}

/** What one process on a small machine bears. */
export const DEFAULT_BOUNDS: ListenerBounds = { connections: 16_000, requests: 10_000, bytes: 64 * 2 ** 20 };

/** What one request takes of the bounds, and its place in the queue of those that are arriving. `InFlight` keeps it. */
export interface Place {
  bytes: number;
  isArriving: boolean;
  older: Place | undefined;
  younger: Place | undefined;
  readonly since: Monotonic;
  /** Its place is needed: answers the client that it may come again, and closes the connection. */
  cutOff(): void;
}

/**
 * A body that takes longer may lose its place to another request. A phone on a bad network takes longer too, so this
 * happens only when everything is full; until then the time limit of the listener counts.
 */
const SLOW: Duration = 5 * SECOND;

/**
 * Counts what is under way, so that memory is bounded whatever clients do. When everything is taken, bodies that have
 * been arriving for a long time make room, the oldest first: a thousand connections that send a byte now and then cannot
 * keep others out.
 */
export class InFlight {
  readonly #bounds: Bounds;
  readonly #clock: Clock;
  /** Bodies that are arriving are linked by age: entering and leaving cost nothing then, and both happen for every call. */
  #oldest: Place | undefined;
  #youngest: Place | undefined;
  #requests = 0;
  #bytes = 0;

  constructor(bounds: Bounds, clock: Clock) {
    this.#bounds = bounds;
    this.#clock = clock;
  }

  get requests(): number {
    return this.#requests;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False when there is no place. With true, `leave` must follow. */
  enter(place: Place): boolean {
    if (this.#requests >= this.#bounds.requests && !this.#makeRoom(place)) return false;
    this.#requests++;
    place.isArriving = true;
    place.older = this.#youngest;
    if (this.#youngest === undefined) this.#oldest = place;
    else this.#youngest.younger = place;
    this.#youngest = place;
    return true;
  }

  /** More of its body is here. False when there is no room for it: nothing was added. */
  grow(place: Place, bytes: number): boolean {
    while (this.#bytes + bytes > this.#bounds.bytes) if (!this.#makeRoom(place)) return false;
    this.#bytes += bytes;
    place.bytes += bytes;
    return true;
  }

  /** Its body is complete: from now on it waits for us and not for its client, and keeps its place. */
  arrived(place: Place): void {
    if (!place.isArriving) return;
    place.isArriving = false;
    const { older, younger } = place;
    if (older === undefined) this.#oldest = younger;
    else older.younger = younger;
    if (younger === undefined) this.#youngest = older;
    else younger.older = older;
    place.older = undefined;
    place.younger = undefined;
  }

  /** To be called exactly once for every `enter`. */
  leave(place: Place): void {
    this.arrived(place);
    this.#requests--;
    this.#bytes -= place.bytes;
    place.bytes = 0;
  }

  /** `cutOff` ends in `leave`, so each round frees something. */
  #makeRoom(wanting: Place): boolean {
    const oldest = this.#oldest;
    if (oldest === undefined || oldest === wanting) return false;
    if (this.#clock.monotonic() - oldest.since < SLOW) return false;
    oldest.cutOff();
    return true;
  }
}
