import { type Duration, type Monotonic, SECOND } from '../model/time.ts';

/**
 * How many deliveries of a worker may be in flight. After as many successes as the limit it grows: it doubles up to
 * `doublesUntil`, then grows by one unless requests already wait for each other. A failure halves it. A fast endpoint soon
 * gets many connections, a struggling one is relieved quickly, and one that comes back gets one request first.
 */
export interface ConcurrencyState {
  readonly limit: number;
  /** Successes since the limit last changed. */
  readonly successes: number;
  readonly doublesUntil: number;
}

export const MAX_CONCURRENCY = 256;

export const INITIAL_CONCURRENCY: ConcurrencyState = { limit: 16, successes: 0, doublesUntil: 16 };

/** After an outage: from one request at a time to the initial limit in 15 successes, then by one. */
export const SLOW_START: ConcurrencyState = {
  limit: 1,
  successes: 0,
  doublesUntil: INITIAL_CONCURRENCY.limit,
};

/** `isCongested`: requests wait for each other at the endpoint, and more of them would only wait longer. */
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
 * Halves the limit, once for requests that fail together: the others were sent under a limit that is gone.
 *
 * @param limitWhenSent the limit when the failed request was sent
 */
export function afterFailure(now: ConcurrencyState, limitWhenSent: number): ConcurrencyState {
  if (limitWhenSent > now.limit) return now;
  const limit = Math.max(1, now.limit >> 1);
  return { limit, successes: 0, doublesUntil: limit };
}

/** How long the shortest latency counts as the baseline. An endpoint may become slower for good, after a move for example. */
const BASELINE_WINDOW: Duration = 30 * SECOND;

/** Answers twice as slow as the baseline mean that half of the requests wait for the others. */
const CONGESTION_FACTOR = 2;

/** Milliseconds. Smaller differences come from the clock and from this program. */
const CLOCK_NOISE = 0.5;

/**
 * Detects that requests wait for each other at an endpoint. More of them would not be answered sooner, and would cost both
 * sides memory. It compares the shortest latency of a sample with the baseline: without a queue at the endpoint, one of
 * many requests is always as fast as ever, however much the others vary.
 */
export class CongestionDetector {
  /** Shortest latency since the sample began. */
  #sampleMinimum = Number.POSITIVE_INFINITY;
  /** Shortest latency of this window and of the one before. */
  #baseline = Number.POSITIVE_INFINITY;
  #previousBaseline = Number.POSITIVE_INFINITY;
  #baselineSince: Monotonic = 0;

  /** Runs for every answer. */
  record(latencyMs: number): void {
    if (latencyMs < this.#sampleMinimum) this.#sampleMinimum = latencyMs;
  }

  /** By the answers since the sample began. */
  get isCongested(): boolean {
    return (
      this.#sampleMinimum > CONGESTION_FACTOR * Math.min(this.#baseline, this.#previousBaseline) + CLOCK_NOISE
    );
  }

  /** Begins a new sample. */
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
