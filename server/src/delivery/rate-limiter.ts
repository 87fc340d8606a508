import type { WebhookSettings } from '../model/destination.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { OpenRequests } from './attempt.ts';
import { MAX_CONCURRENCY } from './health.ts';

/**
 * An endpoint with so many open requests is left out of rounds while a sibling can take the event. The transport has as
 * many connections to one origin: more requests would wait for a connection, and most would never be sent.
 */
const MAX_OPEN_PER_ENDPOINT = 512;

/** Bounds the requests that stay open after a sibling's acceptance has ended their rounds. */
const MAX_OPEN_REQUESTS = 16 * MAX_CONCURRENCY;

/**
 * Enforces the limits of the settings, and bounds the open requests of rounds that have ended. With a limit of
 * `concurrency`, a round counts until its last request has ended, also after a sibling has accepted: no URL ever has more
 * than `concurrency` requests at once.
 */
export class DestinationRateLimiter implements OpenRequests {
  readonly #clock: Clock;
  readonly #onAvailable: () => void;
  #settings: Pick<WebhookSettings, 'rateLimit' | 'concurrency'> = {};
  /** By the place of the endpoint. */
  readonly #openByPlace: number[] = [];
  #openRequests = 0;
  #openRounds = 0;
  /** When the rate limit allows the next round. */
  #nextRoundAt = 0;
  /** A round waits for a request to end. */
  #isWaiting = false;
  #cancelTimer: (() => void) | undefined;

  /** `onAvailable` is called when a round that had to wait may begin. */
  constructor(clock: Clock, onAvailable: () => void) {
    this.#clock = clock;
    this.#onAvailable = onAvailable;
  }

  configure(settings: WebhookSettings): void {
    this.#settings = settings;
    // The old rate must not delay the first round at the new one.
    this.#nextRoundAt = Math.min(this.#nextRoundAt, this.#clock.monotonic());
  }

  /** Whether another round may begin now. If not, `onAvailable` is called once it may. Runs for every delivery. */
  canBeginRound(): boolean {
    // Without a limit of the settings the worker's own concurrency counts. That does not wait for late answers.
    const { rateLimit, concurrency = Number.POSITIVE_INFINITY } = this.#settings;
    if (this.#openRequests >= MAX_OPEN_REQUESTS || this.#openRounds >= concurrency) {
      this.#isWaiting = true;
      return false;
    }
    if (rateLimit === undefined) return true;
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
    if (!isFirst) return;
    this.#openRounds++;
    const { rateLimit } = this.#settings;
    if (rateLimit !== undefined)
      this.#nextRoundAt = nextRequestAt(this.#nextRoundAt, this.#clock.monotonic(), rateLimit);
  }

  requestEnded(place: number, isLast: boolean, isLate: boolean): void {
    this.#openRequests--;
    this.#openByPlace[place]!--;
    if (isLast) this.#openRounds--;
    // A request that is not late ends its round or is followed by one that does; the worker sends again at that end.
    if (!this.#isWaiting || !isLate) return;
    this.#isWaiting = false;
    this.#onAvailable();
  }
}

/**
 * How far a rate that has fallen behind may catch up: a timer wakes a little late, and at a high rate several requests are
 * due at once. It also keeps the burst after a rest small: three requests at 100 a second.
 */
const BURST_TOLERANCE: Duration = 25;

/**
 * When the next request may go, at a rate of `perSecond`. Fractions of a millisecond count: rates above 1,000 need them.
 *
 * @param at when this request was allowed; not after `now`
 */
export function nextRequestAt(at: number, now: Monotonic, perSecond: number): number {
  return Math.max(at, now - BURST_TOLERANCE) + SECOND / perSecond;
}
