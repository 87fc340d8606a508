import type { Outcome } from '../model/delivery.ts';
import type { Position } from '../model/event.ts';
import { invariant } from '../model/invariant.ts';
import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';

/**
 * Decides whether a worker may send, and how often it probes a dead endpoint. The fate of a delivery is
 * decided elsewhere (`decide`).
 *
 * ```
 *              20 deliveries in a row failed,
 *              or all endpoints rest                       the probe is due
 *   closed ───────────────────────────────────▶ open ──────────────────────────▶ probing
 *     ▲                                          ▲ │                              │   │
 *     │                                          │ │ a late answer shows life     │   │
 *     │                                          └─┼──── the probe failed ────────┘   │
 *     └────────────────────────────────────────────┴──── the probe shows life ────────┘
 * ```
 */
export type CircuitBreaker = ClosedBreaker | OpenBreaker | ProbingBreaker;

export interface ClosedBreaker {
  readonly state: 'closed';
  /** Failures since the endpoint last showed life (`signOfLife`); absent without a failure since then. */
  readonly streak?: FailureStreak;
  /** Present for a while after an outage: a relapse continues its back-off. */
  readonly relapse?: { readonly until: Monotonic; readonly failedProbes: number };
}

export interface OpenBreaker extends BreakerOutage {
  readonly state: 'open';
  readonly nextProbeAt: Monotonic;
}

/** One delivery is in flight, and everything else waits for it. */
export interface ProbingBreaker extends BreakerOutage {
  readonly state: 'probing';
}

interface BreakerOutage {
  /** Start of the streak that opened the breaker. */
  readonly failingSince: Monotonic;
  readonly openedAt: Monotonic;
  /** How often the back-off has doubled. */
  readonly failedProbes: number;
  /**
   * The endpoints have asked to be left alone until the probe. They are alive, so only the probe tells that
   * they take events again.
   */
  readonly isRest: boolean;
}

/** Failures with no sign of life between them. */
interface FailureStreak {
  readonly since: Monotonic;
  /** Rounds the worker had begun when the streak began. Only the failures of later rounds extend it. */
  readonly roundsBefore: number;
  /** The newest failure of each delivery, the oldest first. */
  readonly failures: readonly { readonly position: Position; readonly at: Monotonic }[];
}

/** A failed round. */
export interface FailedRound {
  /** Of its deliveries. */
  readonly positions: readonly Position[];
  /** Number of the round at its worker, counted from 1, and of the last round that has begun. */
  readonly nth: number;
  readonly begun: number;
  readonly isProbe: boolean;
  readonly now: Monotonic;
  /** The wish of the endpoint, from `Retry-After`. */
  readonly notBefore?: Monotonic | undefined;
  /** When the first endpoint may be asked again, where all of them rest (`EndpointRest`). */
  readonly restsUntil?: Monotonic | undefined;
  /** From 0 (inclusive) to 1 (exclusive); spreads the probes. */
  readonly random: number;
}

/**
 * Number of different deliveries that must fail in a row, each in a round that began after the first failure.
 *
 * Different deliveries, so that one poisonous event counts once with all its tries. Later rounds, because the
 * requests that were in flight at the first failure fail with it: that is one observation, and only halves
 * the concurrency. 20, because an endpoint that fails half of its requests by chance fails 10 in a row every
 * thousand requests, 20 every million.
 */
export const FAILURE_THRESHOLD = 20;

/**
 * Of a round with many deliveries so many count: three such rounds in a row are enough, and one or two are
 * not.
 */
const COUNTED_OF_A_ROUND = Math.ceil(FAILURE_THRESHOLD / 3);

/**
 * The failures must also lie within this time. With fewer of them the retry schedule costs the endpoint less
 * than probes would, and a few events that can never be delivered must not hold up a rare good one.
 */
export const FAILURE_WINDOW: Duration = 5 * MINUTE;

/**
 * Mean delay of the first probe, and the mean it doubles up to. Probes are a Poisson process, so that an
 * endpoint that goes up and down cannot fall into step with them. The healthy time that passes unnoticed is
 * exponential with this mean: below a minute in 99 of 100 cases, also where probes hang.
 */
export const FIRST_PROBE_DELAY: Duration = 2 * SECOND;
export const MAX_PROBE_DELAY: Duration = 7 * SECOND;

/** Shortest time between two probes: an outage costs less than a request a second. */
export const MIN_PROBE_DELAY: Duration = SECOND;

/**
 * Longest rest of an endpoint, and longest delay of a probe by `Retry-After`. The wish may be wrong, and
 * everything waits for it.
 */
export const MAX_REST: Duration = 10 * MINUTE;

/** An endpoint that fails this soon after a recovery has not recovered. */
export const RELAPSE_WINDOW: Duration = MINUTE;

export const CLOSED_BREAKER: ClosedBreaker = { state: 'closed' };

/**
 * The endpoint has shown life. `CLOSED_BREAKER` stays as it is, so that callers can spare the call while all
 * is well.
 */
export function afterSignOfLife(breaker: CircuitBreaker, now: Monotonic): ClosedBreaker {
  if (breaker.state !== 'closed') {
    return {
      ...CLOSED_BREAKER,
      relapse: { until: now + RELAPSE_WINDOW, failedProbes: breaker.failedProbes },
    };
  }
  const { relapse } = breaker;
  return relapse !== undefined && now < relapse.until ? { ...CLOSED_BREAKER, relapse } : CLOSED_BREAKER;
}

/**
 * A round has failed. While the breaker is not closed only the probe counts, because the other rounds began
 * before.
 */
export function afterFailedRound(breaker: CircuitBreaker, round: FailedRound): CircuitBreaker {
  invariant(round.positions.length > 0, 'a round that has failed has deliveries');
  invariant(round.nth > 0 && round.nth <= round.begun, 'a round that has failed had begun');
  if (breaker.state === 'probing' && round.isProbe) {
    return openBreaker({ ...breaker, failedProbes: breaker.failedProbes + 1 }, round);
  }
  if (breaker.state === 'open' && round.restsUntil !== undefined)
    return { ...breaker, nextProbeAt: Math.max(breaker.nextProbeAt, round.restsUntil) };
  if (breaker.state !== 'closed') return breaker;
  if (round.restsUntil !== undefined)
    return openBreaker({ failingSince: round.now, openedAt: round.now, failedProbes: 0 }, round);
  const streak = extendStreak(breaker.streak, round);
  if (streak.failures.length < FAILURE_THRESHOLD) return { ...breaker, streak };
  const { relapse } = breaker;
  const failedProbes = relapse !== undefined && round.now < relapse.until ? relapse.failedProbes + 1 : 0;
  return openBreaker({ failingSince: streak.since, openedAt: round.now, failedProbes }, round);
}

function extendStreak(
  streak: FailureStreak | undefined,
  { positions, nth, begun, now }: FailedRound,
): FailureStreak {
  if (streak === undefined) return { since: now, roundsBefore: begun, failures: [] };
  if (nth <= streak.roundsBefore) return streak;
  const counted = positions.slice(0, COUNTED_OF_A_ROUND);
  const others = streak.failures.filter(
    (one) => !counted.includes(one.position) && one.at > now - FAILURE_WINDOW,
  );
  return { ...streak, failures: [...others, ...counted.map((position) => ({ position, at: now }))] };
}

function openBreaker(
  { failingSince, openedAt, failedProbes }: Omit<BreakerOutage, 'isRest'>,
  { now, notBefore, restsUntil, random }: FailedRound,
): OpenBreaker {
  const outage = { state: 'open', failingSince, openedAt, failedProbes } as const;
  if (restsUntil !== undefined)
    return { ...outage, isRest: true, nextProbeAt: Math.max(now + MIN_PROBE_DELAY, restsUntil) };
  const wish = Math.min(notBefore ?? 0, now + MAX_REST);
  const nextProbeAt = Math.max(now + probeDelay(failedProbes, random), wish);
  return { ...outage, isRest: false, nextProbeAt };
}

/** Delay of the next probe. `random` from 0 (inclusive) to 1 (exclusive). */
export function probeDelay(failedProbes: number, random: number): Duration {
  invariant(failedProbes >= 0, 'the back-off of probes has not doubled fewer times than none');
  invariant(random >= 0 && random < 1, 'the lot of a probe is from 0 to below 1');
  const mean = Math.min(FIRST_PROBE_DELAY * 2 ** failedProbes, MAX_PROBE_DELAY);
  return MIN_PROBE_DELAY + Math.round(-Math.log(1 - random) * (mean - MIN_PROBE_DELAY));
}

/** A breaker is in one of three states, each with its own fields. Checked whenever it has changed. */
export function checkBreaker(breaker: CircuitBreaker): void {
  const { state } = breaker;
  if (state === 'closed') {
    invariant(!('nextProbeAt' in breaker), 'a closed breaker waits for no probe');
    invariant(!('failingSince' in breaker), 'a closed breaker is in no outage');
    const failures = breaker.streak?.failures.length ?? 0;
    invariant(failures < FAILURE_THRESHOLD, 'a breaker is open after as many failures as open it');
    const { failedProbes = 0 } = breaker.relapse ?? {};
    invariant(failedProbes >= 0, 'a relapse goes on with a back-off that there was');
    return;
  }
  invariant(!('streak' in breaker), 'a breaker that is not closed counts no failures');
  invariant(!('relapse' in breaker), 'a breaker that is not closed waits for no relapse');
  invariant(breaker.failingSince <= breaker.openedAt, 'an outage begins before its breaker opens');
  invariant(breaker.failedProbes >= 0, 'an outage has had no fewer failed probes than none');
  invariant(typeof breaker.isRest === 'boolean', 'an outage is a rest or is none');
  const { nextProbeAt } = breaker as Partial<OpenBreaker>;
  if (state === 'open') invariant(Number.isFinite(nextProbeAt), 'an open breaker knows when it probes');
  else invariant(nextProbeAt === undefined, 'a breaker that probes waits for no other probe');
}

/** The delivery that serves as probe is about to be claimed. */
export function beginProbe({ nextProbeAt: _, ...outage }: OpenBreaker): ProbingBreaker {
  return { ...outage, state: 'probing' };
}

/** Another process has the turn to probe; see `ProbeTurns`. */
export function postponeProbe(breaker: OpenBreaker, until: Monotonic): OpenBreaker {
  return { ...breaker, nextProbeAt: until };
}

/** No delivery was there to probe with. The next one that is due probes from `at` on. */
export function cancelProbe(breaker: ProbingBreaker, at: Monotonic): OpenBreaker {
  return { ...breaker, state: 'open', nextProbeAt: at };
}

/**
 * A change of the settings may have repaired the destination: it is probed at once, and the back-off begins
 * again.
 */
export function afterSettingsChange(breaker: CircuitBreaker, now: Monotonic): CircuitBreaker {
  if (breaker.state === 'closed') return breaker;
  const reset = { ...breaker, failedProbes: 0 };
  return reset.state === 'open' ? { ...reset, nextProbeAt: now } : reset;
}

/** The statuses by which an endpoint asks to be left alone, where `Retry-After` comes with them. */
const REST_STATUSES: ReadonlySet<number | undefined> = new Set([429, 503]);

/**
 * When the endpoint may be asked again, by an answer that asks for a rest; undefined for every other answer.
 */
export function restOf({ kind, status, notBefore }: Outcome): Monotonic | undefined {
  return kind === 'retryable' && REST_STATUSES.has(status) ? notBefore : undefined;
}

/**
 * The rest of one endpoint that has answered 429 or 503 with `Retry-After`: nobody asks it before that time.
 * Then one request is its trial, and whatever answers it ends the rest or begins the next. Answers to earlier
 * requests, which were under way when it began, end nothing.
 */
export class EndpointRest {
  #until: Monotonic | undefined;
  #isTried = false;

  /** When it may be asked again; undefined when it may be asked now. */
  until(now: Monotonic): Monotonic | undefined {
    if (this.#until !== undefined && now < this.#until) return this.#until;
    return this.#isTried ? now + MIN_PROBE_DELAY : undefined;
  }

  /** A request begins. Returns whether it is the trial after a rest. */
  beginRequest(): boolean {
    if (this.#until === undefined) return false;
    this.#isTried = true;
    return true;
  }

  /** `outcome`: absent where nothing was asked after all. */
  endRequest(outcome: Outcome | undefined, isTrial: boolean, now: Monotonic): void {
    if (outcome === undefined) {
      if (isTrial) this.#isTried = false;
      return;
    }
    const until = restOf(outcome);
    if (until === undefined && !isTrial) return;
    invariant(until === undefined || Number.isFinite(until), 'an endpoint rests until a time');
    this.#until =
      until === undefined ? undefined : Math.max(this.#until ?? 0, Math.min(until, now + MAX_REST));
    if (isTrial) this.#isTried = false;
  }

  /** A change of the settings may have repaired it. */
  end(): void {
    this.#until = undefined;
    this.#isTried = false;
  }
}
