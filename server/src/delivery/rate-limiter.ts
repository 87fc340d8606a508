import type { DeliveryPolicy } from '../model/delivery-policy.ts';
import { invariant } from '../model/invariant.ts';
import { defined } from '../model/json.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import { MAX_CONCURRENCY } from './health.ts';
import type { OpenRequests } from './round.ts';

/**
 * An endpoint with so many open requests is left out of rounds while a sibling can take the event. The
 * transport has as many connections to one origin: more requests would wait for a connection, and most would
 * never be sent.
 */
const MAX_OPEN_PER_ENDPOINT = 512;

/** Bounds the requests that stay open after a sibling's acceptance has ended their rounds. */
const MAX_OPEN_REQUESTS = 16 * MAX_CONCURRENCY;

/** The part of this node in what several nodes deliver together. */
export interface NodeShare {
  /** Number of nodes that deliver, this one included. */
  readonly nodes: number;
  /** The place of this node among them, from 0. */
  readonly place: number;
}

export const WHOLE_SHARE: NodeShare = { nodes: 1, place: 0 };

/**
 * The share of this node in one destination: what cannot be divided falls to another node for each
 * destination.
 */
export function shareOf({ id }: { readonly id: number }, { nodes, place }: NodeShare): NodeShare {
  invariant(nodes >= 1, 'this node is one of those that deliver');
  invariant(place >= 0 && place < nodes, 'a node has a place among those that deliver');
  return { nodes, place: (place + id) % nodes };
}

type RequestLimits = Pick<DeliveryPolicy, 'rateLimit' | 'concurrency'>;

/**
 * The limits of one node, so that those of all nodes together are the limits of the settings. A concurrency
 * below the number of nodes leaves some without any: these have 0.
 */
export function limitsOfShare(
  { rateLimit, concurrency }: RequestLimits,
  { nodes, place }: NodeShare,
): RequestLimits {
  invariant(rateLimit === undefined || rateLimit > 0, 'a rate limit lets something through');
  invariant(concurrency === undefined || concurrency >= 1, 'a concurrency is of one request at least');
  const rest = concurrency === undefined ? 0 : concurrency % nodes;
  return defined({
    rateLimit: rateLimit === undefined ? undefined : rateLimit / nodes,
    concurrency:
      concurrency === undefined ? undefined : Math.floor(concurrency / nodes) + (place < rest ? 1 : 0),
  });
}

/**
 * Enforces the limits of the settings, and bounds the open requests of rounds that have ended. With a limit
 * of `concurrency`, a round counts until its last request has ended, also after a sibling has accepted: no
 * URL ever has more than `concurrency` requests at once.
 */
export class DestinationRateLimiter implements OpenRequests {
  readonly #clock: Clock;
  readonly #onAvailable: () => void;
  #settings: RequestLimits = {};
  /** By the place of the endpoint. */
  readonly #openByPlace: number[] = [];
  #openRequests = 0;
  #openRounds = 0;
  /** When the rate limit allows the next round. */
  #nextRoundAt = 0;
  /** When the endpoints came back from a rest, while their rate still grows. */
  #restedAt: Monotonic | undefined;
  /** A round waits for a request to end. */
  #isWaiting = false;
  #cancelTimer: (() => void) | undefined;

  /** `onAvailable` is called when a round that had to wait may begin. */
  constructor(clock: Clock, onAvailable: () => void) {
    this.#clock = clock;
    this.#onAvailable = onAvailable;
  }

  /** `share`: the part of this node in the limits. */
  configure(settings: RequestLimits, share: NodeShare): void {
    this.#settings = limitsOfShare(settings, share);
    // The old rate must not delay the first rounds at the new one.
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#nextRoundAt = Math.min(this.#nextRoundAt, this.#clock.monotonic());
  }

  /** Whether this node has any part of the limits. The others deliver when it has none. */
  get hasShare(): boolean {
    return this.#settings.concurrency !== 0;
  }

  /** The endpoints have asked for a rest, and it is over: what waited comes back at a rate that grows. */
  restEnded(): void {
    this.#restedAt = this.#clock.monotonic();
  }

  /**
   * Whether another round may begin now. If not, `onAvailable` is called once it may. Runs for every
   * delivery.
   */
  canBeginRound(): boolean {
    // Without a limit of the settings the worker's own concurrency counts. That does not wait for late
    // answers.
    const { concurrency = Number.POSITIVE_INFINITY } = this.#settings;
    if (this.#openRequests >= MAX_OPEN_REQUESTS || this.#openRounds >= concurrency) {
      this.#isWaiting = true;
      return false;
    }
    if (this.#rate() === undefined) return true;
    const now = this.#clock.monotonic();
    if (this.#nextRoundAt <= now) return true;
    this.#cancelTimer ??= this.#clock.after(Math.ceil(this.#nextRoundAt - now), () => {
      this.#cancelTimer = undefined;
      this.#onAvailable();
    });
    return false;
  }

  isBusy(place: number): boolean {
    return (this.#openByPlace[place] ?? 0) >= MAX_OPEN_PER_ENDPOINT;
  }

  requestBegan(place: number, isFirst: boolean): void {
    this.#openRequests++;
    this.#openByPlace[place] = (this.#openByPlace[place] ?? 0) + 1;
    if (!isFirst) {
      invariant(this.#openRounds > 0, 'a request follows the first of its round');
      return;
    }
    this.#openRounds++;
    const rate = this.#rate();
    if (rate !== undefined)
      this.#nextRoundAt = nextRequestAt(this.#nextRoundAt, this.#clock.monotonic(), rate);
  }

  /** Rounds a second; undefined without a limit. */
  #rate(): number | undefined {
    const { rateLimit } = this.#settings;
    if (this.#restedAt === undefined) return rateLimit;
    const rate = rateAfterRest(this.#clock.monotonic() - this.#restedAt);
    if (rate === undefined) this.#restedAt = undefined;
    return rate === undefined ? rateLimit : Math.min(rate, rateLimit ?? rate);
  }

  requestEnded(place: number, isLast: boolean, isLate: boolean): void {
    invariant(this.#openRequests > 0, 'no more requests end than have begun');
    invariant((this.#openByPlace[place] ?? 0) > 0, 'no more requests of an endpoint end than have begun');
    this.#openRequests--;
    this.#openByPlace[place]!--;
    if (isLast) {
      invariant(this.#openRounds > 0, 'no more rounds lose their last request than had a first');
      this.#openRounds--;
    }
    invariant(this.#openRounds <= this.#openRequests, 'an open round has an open request');
    // A request that is not late ends its round or is followed by one that does; the worker sends again at
    // that end.
    if (!this.#isWaiting || !isLate) return;
    this.#isWaiting = false;
    this.#onAvailable();
  }
}

/** Rounds a second at the end of a rest. It doubles every second until it would bound nothing any more. */
const RATE_AFTER_REST = 10;
const UNBOUNDED_RATE = 10_000;

/** The rate so long after a rest, in rounds a second; undefined when it is bounded no more. */
function rateAfterRest(sinceEnd: Duration): number | undefined {
  const rate = RATE_AFTER_REST * 2 ** (sinceEnd / SECOND);
  return rate < UNBOUNDED_RATE ? rate : undefined;
}

/**
 * How far a rate that has fallen behind may catch up: a timer wakes a little late, and at a high rate several
 * requests are due at once. It also keeps the burst after a rest small: three requests at 100 a second.
 */
const BURST_TOLERANCE: Duration = 25;

/**
 * When the next request may go, at a rate of `perSecond`. Fractions of a millisecond count: rates above 1,000
 * need them.
 *
 * @param at when this request was allowed; not after `now`
 */
export function nextRequestAt(at: number, now: Monotonic, perSecond: number): number {
  invariant(perSecond > 0, 'a rate is of more than nothing');
  invariant(!Number.isNaN(at), 'the next request is allowed at a time');
  return Math.max(at, now - BURST_TOLERANCE) + SECOND / perSecond;
}
