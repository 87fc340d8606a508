import type { Socket } from 'node:net';
import { Fifo, LinkedList, type ListEntry } from '../model/containers.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { LogFields, Logger } from '../ports/logger.ts';

/** Bounds on the requests in flight, over all connections. spec/specification.md, "Overload". */
export interface AdmissionBounds {
  /** Requests from their head to their answer. */
  readonly requests: number;
  /** Bytes of their bodies, as received or inflated, whichever is more. */
  readonly bytes: number;
}

/** Bounds of a server. Connections beyond `connections` are closed as they come. */
export interface ServerBounds extends AdmissionBounds {
  readonly connections: number;
}

/** Bounds that one process on a small machine can bear. */
export const DEFAULT_SERVER_BOUNDS: ServerBounds = {
  connections: 16_000,
  requests: 10_000,
  bytes: 64 * 2 ** 20,
};

/** One admitted request. It is an entry in the list of uploads until its body is complete. */
export interface InFlightRequest extends ListEntry<InFlightRequest> {
  /** Bytes reserved for its body. Only `AdmissionController` changes this. */
  bytes: number;
  readonly startedAt: Monotonic;
  /** Frees its slot for another request: tells the client to try again later, and closes the connection. */
  evict(): void;
}

/**
 * An upload older than this may lose its slot to another request, but only when a bound is reached: a phone
 * on a bad network takes longer too. Until then the server's own time limit applies.
 */
const SLOW_UPLOAD: Duration = 5 * SECOND;

/**
 * Bounds the requests in flight and the bytes of their bodies, and with them memory. When a bound is reached,
 * slow uploads are evicted, the oldest first. A thousand connections that send a byte now and then cannot
 * keep others out.
 */
export class AdmissionController {
  readonly #bounds: AdmissionBounds;
  readonly #clock: Clock;
  /** The oldest first. */
  readonly #uploads = new LinkedList<InFlightRequest>();
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

  /** Takes a slot. False when there is none. After true, `release` must be called once. */
  admit(request: InFlightRequest): boolean {
    if (this.#requests >= this.#bounds.requests && !this.#evictOldest(request)) return false;
    this.#requests++;
    this.#uploads.push(request);
    return true;
  }

  /** Adds bytes to the request's body. False, and nothing is added, when there is no room for them. */
  reserve(request: InFlightRequest, bytes: number): boolean {
    while (this.#bytes + bytes > this.#bounds.bytes) if (!this.#evictOldest(request)) return false;
    this.#bytes += bytes;
    request.bytes += bytes;
    return true;
  }

  /**
   * The request's body is complete. From now on it waits for us, not for its client, and is never evicted.
   */
  bodyReceived(request: InFlightRequest): void {
    this.#uploads.remove(request);
  }

  /** Gives the slot and the bytes back. Must be called exactly once for every `admit` that returned true. */
  release(request: InFlightRequest): void {
    this.#uploads.remove(request);
    this.#requests--;
    this.#bytes -= request.bytes;
    request.bytes = 0;
  }

  /**
   * False when no upload is slow enough. `evict` ends in `release`, so each call that returns true frees
   * something.
   */
  #evictOldest(newcomer: InFlightRequest): boolean {
    const oldest = this.#uploads.first;
    if (oldest === undefined || oldest === newcomer) return false;
    if (this.#clock.monotonic() - oldest.startedAt < SLOW_UPLOAD) return false;
    oldest.evict();
    return true;
  }
}

/**
 * Acceptance may use this part of the time that deliveries have just used, and has its least slice in any
 * case.
 */
const ACCEPTANCE_SHARE = 0.15;
const LEAST_SLICE: Duration = 0.2;

/**
 * Divides the main thread between calls and deliveries. In one turn of the event loop calls are handled and
 * answered for a slice of time; the rest waits, in its order, for the next turn, after the sockets of
 * deliveries have been read. Without it a turn lasts as long as there are calls, and each delivery waits for
 * a turn: with thousands of clients deliveries starve.
 *
 * ```
 *   sockets are read ─▶ calls, as far as the slice goes ─▶ results of deliveries, next requests ─▶ end of turn: waiting calls ─┐
 *          ▲                                                                                                                   │
 *          └───────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
 * ```
 * Nobody waits while there is time: a call alone runs at once, and without deliveries a slice has no end.
 * Clients that wait for answers send less by themselves; those that do not are turned away at the bounds of
 * `AdmissionController`.
 */
export class TurnScheduler {
  readonly #clock: Pick<Clock, 'turn' | 'elapsed'>;
  /** The tasks that wait for a later turn. */
  readonly #tasks = new Fifo<() => void>();
  #slice: Duration = Number.POSITIVE_INFINITY;
  #used: Duration = 0;
  #delivering: Duration = 0;
  #isScheduled = false;

  constructor(clock: Pick<Clock, 'turn' | 'elapsed'>) {
    this.#clock = clock;
  }

  /** Runs a task now, or in a later turn when this turn's slice is used up. A task must not throw. */
  run(task: () => void): void {
    if (this.#tasks.size === 0 && this.#used < this.#slice) this.#perform(task);
    else this.#tasks.push(task);
    this.#schedule();
  }

  /** Work for calls that is not a task, such as the commit of a group, has used the thread for so long. */
  readonly accepted = (duration: Duration): void => {
    this.#used += duration;
  };

  /** Deliveries have used the thread for so long. */
  readonly delivered = (duration: Duration): void => {
    this.#delivering += duration;
  };

  #perform(task: () => void): void {
    const startedAt = this.#clock.elapsed();
    task();
    this.#used += this.#clock.elapsed() - startedAt;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.turn(this.#endTurn);
  }

  readonly #endTurn = (): void => {
    this.#isScheduled = false;
    const isShared = this.#delivering > 0;
    // What a long task took beyond its slice comes off the next one, unless nobody else needed the thread.
    this.#used = isShared ? Math.max(0, this.#used - this.#slice) : 0;
    this.#slice = isShared
      ? Math.max(LEAST_SLICE, ACCEPTANCE_SHARE * this.#delivering)
      : Number.POSITIVE_INFINITY;
    this.#delivering = 0;
    while (this.#tasks.size > 0 && this.#used < this.#slice) this.#perform(this.#tasks.shift()!);
    if (this.#tasks.size > 0) this.#schedule();
  };
}

/** A server that turns away ten thousand calls a second must not write ten thousand lines. */
const LOG_INTERVAL: Duration = 10 * SECOND;

export interface OverloadLogOptions {
  /** The load now, as fields of the log line. */
  readonly load: () => LogFields;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Logs that calls are turned away, one line for all of the last ten seconds. */
export class OverloadLog {
  readonly #options: OverloadLogOptions;
  #turnedAway = 0;
  #nextLineAt: Monotonic = Number.NEGATIVE_INFINITY;

  constructor(options: OverloadLogOptions) {
    this.#options = options;
  }

  rejected(): void {
    this.#turnedAway++;
    const { clock, logger, load } = this.#options;
    const now = clock.monotonic();
    if (now < this.#nextLineAt) return;
    this.#nextLineAt = now + LOG_INTERVAL;
    logger.warn({ turnedAway: this.#turnedAway, ...load() }, 'listener.overloaded');
    this.#turnedAway = 0;
  }
}

/**
 * Requests of one connection that are handled in one turn of the event loop. Ordinary clients wait for an
 * answer before the next request. Hundreds of pipelined requests would all be handled before those of any
 * other connection.
 */
const MAX_PIPELINED = 150;

/**
 * Requests in a row after which the guard asks for the end of the turn. Asking at each request would cost too
 * much.
 */
const CHECK_AFTER = 50;

/**
 * Finds connections that pipeline too many requests. Requests of one turn follow each other, with no other in
 * between.
 */
export class PipeliningGuard {
  #last: Socket | undefined;
  #consecutive = 0;
  readonly #endTurn = () => {
    this.#consecutive = 0;
    this.#last = undefined;
  };

  /**
   * `exceeded`: this request is the first too many. `ignored`: it comes behind that one. At least a hundred
   * are ordinary.
   */
  observe(socket: Socket): 'ordinary' | 'exceeded' | 'ignored' {
    if (socket !== this.#last) {
      this.#last = socket;
      this.#consecutive = 1;
      return 'ordinary';
    }
    this.#consecutive++;
    if (this.#consecutive === CHECK_AFTER) setImmediate(this.#endTurn);
    if (this.#consecutive <= MAX_PIPELINED) return 'ordinary';
    return this.#consecutive === MAX_PIPELINED + 1 ? 'exceeded' : 'ignored';
  }
}
