import type { WebhookSettings } from '../model/destination.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { OpenRequests } from './attempt.ts';
import { MAX_CONCURRENCY } from './concurrency-limiter.ts';

/**
 * An endpoint that owes so many answers is left out of further rounds while a sibling can take the event. As many as the
 * transport has connections to one origin: beyond it requests wait for a connection and most are never sent.
 */
const MAX_OPEN_PER_ENDPOINT = 512;

/** Requests of rounds that ended at a sibling's acceptance may still be open; this bounds how many in any case. */
const MAX_OPEN_REQUESTS = 16 * MAX_CONCURRENCY;

/**
 * What a lane may send whatever its endpoints could take: the limits of the settings, and bounds on the requests that
 * nobody waits for any more. With a cap, a round counts until the last of its requests has ended, also after a sibling has
 * accepted, so that no URL ever has more than `concurrency` requests at once.
 */
export class DestinationRateLimiter implements OpenRequests {
  readonly #clock: Clock;
  readonly #onAvailable: () => void;
  #settings: Pick<WebhookSettings, 'rateLimit' | 'concurrency'> = {};
  /** By the place of the endpoint. */
  readonly #openByPlace: number[] = [];
  #openRequests = 0;
  #openRounds = 0;
  /** When the next round may begin, as far as the rate goes. */
  #nextRoundAt = 0;
  /** A round was wanted and had to wait for a request to end. */
  #isWaiting = false;
  #cancelTimer: (() => void) | undefined;

  /** `again` is called when a round may begin that had to wait. */
  constructor(clock: Clock, again: () => void) {
    this.#clock = clock;
    this.#onAvailable = again;
  }

  configure(settings: WebhookSettings): void {
    this.#settings = settings;
    // A pace of before must not hold up the first request of a new one.
    this.#nextRoundAt = Math.min(this.#nextRoundAt, this.#clock.monotonic());
  }

  /** Whether another round may begin now; when not, `again` is called once it may. Runs for every delivery. */
  canBeginRound(): boolean {
    // Without a cap the lane's own limit counts, which does not wait for requests that nobody waits for.
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
    // Whoever ends in time ends a round, or waits for one that will: then the lane looks by itself.
    if (!this.#isWaiting || !isLate) return;
    this.#isWaiting = false;
    this.#onAvailable();
  }
}

/**
 * A pace that has fallen behind may catch up so much: a timer wakes a little late, and at a high rate several requests are
 * due at once. It keeps a burst after a rest small, at 100 a second three requests.
 */
const BURST_TOLERANCE: Duration = 25;

/**
 * When the request after this one may go, at so many a second. `at` is when this one may go, so no later than `now`.
 * Fractions of a millisecond count: they are what rates above 1,000 are made of.
 */
export function nextRequestAt(at: number, now: Monotonic, perSecond: number): number {
  return Math.max(at, now - BURST_TOLERANCE) + SECOND / perSecond;
}
