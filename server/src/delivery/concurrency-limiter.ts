import { type Duration, type Monotonic, SECOND } from '../model/time.ts';

/**
 * How many deliveries of a lane may be in flight. After each whole limit's worth of successes it grows: it doubles up to
 * `doublesUntil`, then goes up by one unless that would only make requests wait. After a failure it is halved. A fast endpoint is soon served with many connections,
 * a struggling one is left alone quickly, and one that comes back meets one request first and never a flood.
 */
export interface ConcurrencyState {
  readonly limit: number;
  /** Successes since the limit last changed. */
  readonly successes: number;
  readonly doublesUntil: number;
}

export const MAX_CONCURRENCY = 256;

export const INITIAL_CONCURRENCY: ConcurrencyState = { limit: 16, successes: 0, doublesUntil: 16 };

/** After an outage: from one at a time to where a new lane starts in 15 successes, with care from there on. */
export const SLOW_START: ConcurrencyState = {
  limit: 1,
  successes: 0,
  doublesUntil: INITIAL_CONCURRENCY.limit,
};

/** `isCongested`: requests wait for each other at the endpoint, so that more of them would only wait longer. */
export function afterSuccess(
  { limit, successes, doublesUntil }: ConcurrencyState,
  isCongested: boolean,
): ConcurrencyState {
  if (successes + 1 < limit) return { limit, successes: successes + 1, doublesUntil };
  if (isCongested && limit >= doublesUntil) return { limit, successes: 0, doublesUntil };
  const grown = limit < doublesUntil ? Math.min(2 * limit, doublesUntil) : limit + 1;
  return { limit: Math.min(grown, MAX_CONCURRENCY), successes: 0, doublesUntil };
}

/**
 * `limitWhenSent` is the limit when the failed request was sent: of the many requests that fail together only the first
 * halves the limit, since the others were sent under a limit that is gone.
 */
export function afterFailure(now: ConcurrencyState, limitWhenSent: number): ConcurrencyState {
  if (limitWhenSent > now.limit) return now;
  const limit = Math.max(1, now.limit >> 1);
  return { limit, successes: 0, doublesUntil: limit };
}

/** How long it is remembered how quick an endpoint can be: it may become slower for good, by more data or a move. */
const BASELINE_WINDOW: Duration = 30 * SECOND;

/** Answers are that much slower than the quickest, and half of the requests are waiting for the others. */
const CONGESTION_FACTOR = 2;

/** Milliseconds. Below it differences are those of the clock and of this program. */
const CLOCK_NOISE = 0.5;

/**
 * Whether an endpoint lets requests wait for each other. Then more of them at once are not answered sooner: they wait
 * longer, and cost both sides memory and time. Told by the quickest of many answers, because how the others are spread
 * says nothing: where nothing queues, one of them is as quick as it ever was.
 */
export class CongestionDetector {
  /** Since the last turn. */
  #sampleMinimum = Number.POSITIVE_INFINITY;
  /** Of this window and of the one before. */
  #baseline = Number.POSITIVE_INFINITY;
  #previousBaseline = Number.POSITIVE_INFINITY;
  #baselineSince: Monotonic = 0;

  /** Runs for every answer. */
  record(latencyMs: number): void {
    if (latencyMs < this.#sampleMinimum) this.#sampleMinimum = latencyMs;
  }

  /** Of the answers since the last turn. */
  get isCongested(): boolean {
    return (
      this.#sampleMinimum > CONGESTION_FACTOR * Math.min(this.#baseline, this.#previousBaseline) + CLOCK_NOISE
    );
  }

  /** Looks at the next answers by themselves. */
  startSample(now: Monotonic): void {
    if (now - this.#baselineSince >= BASELINE_WINDOW) {
      this.#previousBaseline = this.#baseline;
      this.#baseline = Number.POSITIVE_INFINITY;
      this.#baselineSince = now;
    }
    this.#baseline = Math.min(this.#baseline, this.#sampleMinimum);
    this.#sampleMinimum = Number.POSITIVE_INFINITY;
  }
}
