import type { Socket } from 'node:net';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { LogFields, Logger } from '../ports/logger.ts';

/** How much may be under way at once, over all connections. spec/specification.md, "Overload". */
export interface AdmissionBounds {
  /** Requests from their head to their answer. */
  readonly requests: number;
  /** Bytes of their bodies, as they arrived or inflated, whichever is more. */
  readonly bytes: number;
}

/** Bounds of the listener as a whole; `connections` more are closed as they come. */
export interface ServerBounds extends AdmissionBounds {
  readonly connections: number;
}

/** What one process on a small machine bears. */
export const DEFAULT_SERVER_BOUNDS: ServerBounds = {
  connections: 16_000,
  requests: 10_000,
  bytes: 64 * 2 ** 20,
};

/** What one request takes of the bounds, and its place in the queue of those that are arriving. `AdmissionController` keeps it. */
export interface InFlightRequest {
  bytes: number;
  isUploading: boolean;
  older: InFlightRequest | undefined;
  younger: InFlightRequest | undefined;
  readonly startedAt: Monotonic;
  /** Its place is needed: answers the client that it may come again, and closes the connection. */
  evict(): void;
}

/**
 * A body that takes longer may lose its place to another request. A phone on a bad network takes longer too, so this
 * happens only when everything is full; until then the time limit of the listener counts.
 */
const SLOW_UPLOAD: Duration = 5 * SECOND;

/**
 * Counts what is under way, so that memory is bounded whatever clients do. When everything is taken, bodies that have
 * been arriving for a long time make room, the oldest first: a thousand connections that send a byte now and then cannot
 * keep others out.
 */
export class AdmissionController {
  readonly #bounds: AdmissionBounds;
  readonly #clock: Clock;
  /** Bodies that are arriving are linked by age: entering and leaving cost nothing then, and both happen for every call. */
  #oldest: InFlightRequest | undefined;
  #youngest: InFlightRequest | undefined;
  #requests = 0;
  #bytes = 0;

  constructor(bounds: AdmissionBounds, clock: Clock) {
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
  admit(place: InFlightRequest): boolean {
    if (this.#requests >= this.#bounds.requests && !this.#evictOldest(place)) return false;
    this.#requests++;
    place.isUploading = true;
    place.older = this.#youngest;
    if (this.#youngest === undefined) this.#oldest = place;
    else this.#youngest.younger = place;
    this.#youngest = place;
    return true;
  }

  /** More of its body is here. False when there is no room for it: nothing was added. */
  reserve(place: InFlightRequest, bytes: number): boolean {
    while (this.#bytes + bytes > this.#bounds.bytes) if (!this.#evictOldest(place)) return false;
    this.#bytes += bytes;
    place.bytes += bytes;
    return true;
  }

  /** Its body is complete: from now on it waits for us and not for its client, and keeps its place. */
  bodyReceived(place: InFlightRequest): void {
    if (!place.isUploading) return;
    place.isUploading = false;
    const { older, younger } = place;
    if (older === undefined) this.#oldest = younger;
    else older.younger = younger;
    if (younger === undefined) this.#youngest = older;
    else younger.older = older;
    place.older = undefined;
    place.younger = undefined;
  }

  /** To be called exactly once for every `enter`. */
  release(place: InFlightRequest): void {
    this.bodyReceived(place);
    this.#requests--;
    this.#bytes -= place.bytes;
    place.bytes = 0;
  }

  /** `cutOff` ends in `leave`, so each round frees something. */
  #evictOldest(wanting: InFlightRequest): boolean {
    const oldest = this.#oldest;
    if (oldest === undefined || oldest === wanting) return false;
    if (this.#clock.monotonic() - oldest.startedAt < SLOW_UPLOAD) return false;
    oldest.evict();
    return true;
  }
}

/** Whoever turns away ten thousand calls a second must not write ten thousand lines. */
const LOG_INTERVAL: Duration = 10 * SECOND;

export interface OverloadLogOptions {
  /** What is under way now, for the log. */
  readonly load: () => LogFields;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Says in the log that calls are turned away, in one line for all of the last seconds. */
export class OverloadLog {
  readonly #options: OverloadLogOptions;
  #turnedAway = 0;
  #nextLineAt: Monotonic = Number.NEGATIVE_INFINITY;

  constructor(tools: OverloadLogOptions) {
    this.#options = tools;
  }

  rejected(): void {
    this.#turnedAway++;
    const { clock, logger, load: measured } = this.#options;
    const now = clock.monotonic();
    if (now < this.#nextLineAt) return;
    this.#nextLineAt = now + LOG_INTERVAL;
    logger.warn({ turnedAway: this.#turnedAway, ...measured() }, 'listener.overloaded');
    this.#turnedAway = 0;
  }
}

/**
 * Requests that one connection may have in one turn of the event loop. Clients wait for an answer before they send the
 * next request; whoever sends hundreds behind each other would have them all handled before anybody else's.
 */
const MAX_PIPELINED = 150;

/** So many of one connection in a row, and it is looked whether they come in one turn: asking at each would cost. */
const CHECK_AFTER = 50;

/** Notices connections whose requests come without end. Those of one turn come behind each other, nobody's in between. */
export class PipeliningGuard {
  #last: Socket | undefined;
  #consecutive = 0;
  readonly #endTurn = () => {
    this.#consecutive = 0;
    this.#last = undefined;
  };

  /** `flood`: this one is too many, `rest`: what comes behind it. At least a hundred at once are ordinary. */
  observe(socket: Socket): 'ordinary' | 'flood' | 'rest' {
    if (socket !== this.#last) {
      this.#last = socket;
      this.#consecutive = 1;
      return 'ordinary';
    }
    this.#consecutive++;
    if (this.#consecutive === CHECK_AFTER) setImmediate(this.#endTurn);
    if (this.#consecutive <= MAX_PIPELINED) return 'ordinary';
    return this.#consecutive === MAX_PIPELINED + 1 ? 'flood' : 'rest';
  }
}
