import type { Position } from '../model/event.ts';
import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { EndpointOutcome } from './retry-policy.ts';

/**
 * Whether a lane may send. Only how often it asks a dead endpoint is decided here; what becomes of a delivery is not.
 *
 * ```
 *              20 deliveries in a row failed               its time has come
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
  /** Since the endpoint last showed life; absent when nothing has failed since. */
  readonly streak?: FailureStreak;
  /** Present for a while after an outage: a relapse goes on where the probes had stopped. */
  readonly relapse?: { readonly until: Monotonic; readonly failedProbes: number };
}

export interface OpenBreaker extends BreakerOutage {
  readonly state: 'open';
  readonly nextProbeAt: Monotonic;
}

/** One delivery is on its way and everything else waits for it. */
export interface ProbingBreaker extends BreakerOutage {
  readonly state: 'probing';
}

interface BreakerOutage {
  /** When the streak began that opened the breaker. */
  readonly failingSince: Monotonic;
  readonly openedAt: Monotonic;
  /** The back-off has doubled so often. */
  readonly failedProbes: number;
}

/** Failures with no sign of life between them. */
interface FailureStreak {
  readonly since: Monotonic;
  /** Rounds the lane had begun when the streak began: only later ones say that it goes on. */
  readonly roundsBefore: number;
  /** The newest failure of each delivery, the oldest first. */
  readonly failures: readonly { readonly position: Position; readonly at: Monotonic }[];
}

/** A round that failed. */
export interface FailedRound {
  readonly position: Position;
  /** Which round of its lane it was, counted from 1, and how many have begun by now. */
  readonly nth: number;
  readonly begun: number;
  readonly isProbe: boolean;
  readonly now: Monotonic;
  /** What the endpoint asked for with `Retry-After`. */
  readonly notBefore?: Monotonic | undefined;
  /** From 0 (inclusive) to 1 (exclusive); spreads the probes. */
  readonly random: number;
}

/**
 * So many different deliveries must fail in a row, each in a round that began after the first failure. Different, so that
 * one poisonous event with all its tries counts once. Begun later, because whatever was in flight when an endpoint
 * stumbled fails with it, and that is one observation: it halves the concurrency and no more. And as many as 20, because
 * an endpoint of which half the requests fail by chance would show 10 in a row every thousand requests, 20 every million.
 */
export const FAILURE_THRESHOLD = 20;

/**
 * They must also fail within this time of each other. A lane with fewer failures costs its endpoint less by the schedule
 * of its deliveries than by probes, and a few events that can never be delivered must not hold up the rare good one.
 */
export const FAILURE_WINDOW: Duration = 5 * MINUTE;

/**
 * The mean time to the first probe, and the mean it doubles up to. The times themselves are those of a Poisson process: an
 * endpoint that goes up and down in whatever rhythm cannot fall into step with them, and the healthy time that passes
 * before one is noticed is exponential with this mean, so below a minute in 99 of 100 cases also where probes hang.
 */
export const FIRST_PROBE_DELAY: Duration = 2 * SECOND;
export const MAX_PROBE_DELAY: Duration = 7 * SECOND;

/** No two probes follow each other sooner: an outage costs less than a request a second. */
const MIN_PROBE_DELAY: Duration = SECOND;

/** `Retry-After` can put off a probe no longer than this: the wish may be wrong, and everything waits for it. */
export const MAX_PROBE_RETRY_AFTER: Duration = 10 * MINUTE;

/** An endpoint that falls again so soon after a recovery has not recovered. */
export const RELAPSE_WINDOW: Duration = MINUTE;

export const CLOSED_BREAKER: ClosedBreaker = { state: 'closed' };

/**
 * What a round says about the endpoints. Any answer that settles the delivery shows life, a refusal too; a refusal that
 * was made up on our side (no request was sent) says nothing. A round with a sibling that may still accept is a failure:
 * it is what the destination can get that does not work.
 */
export function signOfLife(outcomes: readonly EndpointOutcome[]): 'alive' | 'failing' | 'none' {
  let sign: 'alive' | 'failing' | 'none' = 'none';
  for (const { outcome } of outcomes) {
    if (outcome.kind === 'accepted') return 'alive';
    if (outcome.kind === 'retryable') sign = 'failing';
    else if (sign === 'none' && outcome.status !== undefined) sign = 'alive';
  }
  return sign;
}

/** The endpoint has shown life. Runs for every delivery: on the healthy path nothing is made anew. */
export function afterSignOfLife(breaker: CircuitBreaker, now: Monotonic): ClosedBreaker {
  if (breaker.state !== 'closed') {
    return {
      ...CLOSED_BREAKER,
      relapse: { until: now + RELAPSE_WINDOW, failedProbes: breaker.failedProbes },
    };
  }
  if (breaker.relapse !== undefined && now >= breaker.relapse.until) return CLOSED_BREAKER;
  if (breaker.streak === undefined) return breaker;
  return breaker.relapse === undefined ? CLOSED_BREAKER : { ...CLOSED_BREAKER, relapse: breaker.relapse };
}

/** A round has failed. While the breaker is open only the probe counts: the others began before. */
export function afterFailedRound(breaker: CircuitBreaker, round: FailedRound): CircuitBreaker {
  if (breaker.state === 'probing' && round.isProbe) {
    return openBreaker({ ...breaker, failedProbes: breaker.failedProbes + 1 }, round);
  }
  if (breaker.state !== 'closed') return breaker;
  const streak = extendStreak(breaker.streak, round);
  if (streak.failures.length < FAILURE_THRESHOLD) return { ...breaker, streak };
  const { relapse } = breaker;
  const failedProbes = relapse !== undefined && round.now < relapse.until ? relapse.failedProbes + 1 : 0;
  return openBreaker({ failingSince: streak.since, openedAt: round.now, failedProbes }, round);
}

function extendStreak(
  streak: FailureStreak | undefined,
  { position, nth, begun, now }: FailedRound,
): FailureStreak {
  if (streak === undefined) return { since: now, roundsBefore: begun, failures: [] };
  if (nth <= streak.roundsBefore) return streak;
  const others = streak.failures.filter((one) => one.position !== position && one.at > now - FAILURE_WINDOW);
  return { ...streak, failures: [...others, { position, at: now }] };
}

function openBreaker(
  { failingSince, openedAt, failedProbes }: BreakerOutage,
  { now, notBefore, random }: FailedRound,
): OpenBreaker {
  const delay = probeDelay(failedProbes, random);
  const wish = Math.min(notBefore ?? 0, now + MAX_PROBE_RETRY_AFTER);
  return { state: 'open', failingSince, openedAt, failedProbes, nextProbeAt: Math.max(now + delay, wish) };
}

/** How long to wait for the next probe. `random` from 0 (inclusive) to 1 (exclusive). */
export function probeDelay(failedProbes: number, random: number): Duration {
  const mean = Math.min(FIRST_PROBE_DELAY * 2 ** failedProbes, MAX_PROBE_DELAY);
  return MIN_PROBE_DELAY + Math.round(-Math.log(1 - random) * (mean - MIN_PROBE_DELAY));
}

/** The one delivery that asks is about to be claimed. */
export function beginProbe({ failingSince, openedAt, failedProbes }: OpenBreaker): ProbingBreaker {
  return { state: 'probing', failingSince, openedAt, failedProbes };
}

/** There was nothing to ask with: the next delivery that is due asks at once. */
export function cancelProbe(
  { failingSince, openedAt, failedProbes }: ProbingBreaker,
  now: Monotonic,
): OpenBreaker {
  return { state: 'open', failingSince, openedAt, failedProbes, nextProbeAt: now };
}

/** Somebody has changed the settings, perhaps what made it fail: worth asking at once, and often again. */
export function afterSettingsChange(breaker: CircuitBreaker, now: Monotonic): CircuitBreaker {
  if (breaker.state === 'closed') return breaker;
  const hopeful = { ...breaker, failedProbes: 0 };
  return hopeful.state === 'open' ? { ...hopeful, nextProbeAt: now } : hopeful;
}
