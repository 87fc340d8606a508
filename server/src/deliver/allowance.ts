import type { WebhookSettings } from '../model/destination.ts';
import type { Clock } from '../ports/clock.ts';
import { MAX_CONCURRENCY } from './concurrency.ts';
import { afterRequest } from './pace.ts';
import type { OpenRequests } from './round.ts';

/**
 * An endpoint that owes so many answers is left out of further rounds while a sibling can take the event. As many as the
 * transport has connections to one origin: beyond it requests wait for a connection and most are never sent.
 */
const BUSY = 512;

/** Requests of rounds that ended at a sibling's acceptance may still be open; this bounds how many in any case. */
const MAX_OPEN_REQUESTS = 16 * MAX_CONCURRENCY;

/**
 * What a lane may send whatever its endpoints could take: the limits of the settings, and bounds on the requests that
 * nobody waits for any more. With a cap, a round counts until the last of its requests has ended, also after a sibling has
 * accepted, so that no URL ever has more than `concurrency` requests at once.
 */
export class Allowance implements OpenRequests {
  readonly #clock: Clock;
  readonly #again: () => void;
  #settings: Pick<WebhookSettings, 'rateLimit' | 'concurrency'> = {};
  /** By the place of the endpoint. */
  readonly #openAt: number[] = [];
  #openRequests = 0;
  #openRounds = 0;
  /** When the next round may begin, as far as the rate goes. */
  #nextAt = 0;
  /** A round was wanted and had to wait for a request to end. */
  #isWanted = false;
  #cancelTimer: (() => void) | undefined;

  /** `again` is called when a round may begin that had to wait. */
  constructor(clock: Clock, again: () => void) {
    this.#clock = clock;
    this.#again = again;
  }

  configure(settings: WebhookSettings): void {
    this.#settings = settings;
    // A pace of before must not hold up the first request of a new one.
    this.#nextAt = Math.min(this.#nextAt, this.#clock.monotonic());
  }

  /** Whether another round may begin now; when not, `again` is called once it may. Runs for every delivery. */
  grants(): boolean {
    // Without a cap the lane's own limit counts, which does not wait for requests that nobody waits for.
    const { rateLimit, concurrency = Number.POSITIVE_INFINITY } = this.#settings;
    if (this.#openRequests >= MAX_OPEN_REQUESTS || this.#openRounds >= concurrency) {
      this.#isWanted = true;
      return false;
    }
    if (rateLimit === undefined) return true;
    const now = this.#clock.monotonic();
    if (this.#nextAt <= now) return true;
    this.#cancelTimer ??= this.#clock.after(Math.ceil(this.#nextAt - now), () => {
      this.#cancelTimer = undefined;
      this.#again();
    });
    return false;
  }

  isBusy(place: number): boolean {
    return (this.#openAt[place] ?? 0) >= BUSY;
  }

  begun(place: number, isFirst: boolean): void {
    this.#openRequests++;
    this.#openAt[place] = (this.#openAt[place] ?? 0) + 1;
    if (!isFirst) return;
    this.#openRounds++;
    const { rateLimit } = this.#settings;
    if (rateLimit !== undefined)
      this.#nextAt = afterRequest(this.#nextAt, this.#clock.monotonic(), rateLimit);
  }

  ended(place: number, isLast: boolean, isLate: boolean): void {
    this.#openRequests--;
    this.#openAt[place]!--;
    if (isLast) this.#openRounds--;
    // Whoever ends in time ends a round, or waits for one that will: then the lane looks by itself.
    if (!this.#isWanted || !isLate) return;
    this.#isWanted = false;
    this.#again();
  }
}
