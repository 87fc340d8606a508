import type { Position } from '../model/event.ts';
import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { PlacedOutcome } from './decide.ts';

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
export type Breaker = Closed | Open | Probing;

export interface Closed {
  readonly state: 'closed';
  /** Since the endpoint last showed life; absent when nothing has failed since. */
  readonly streak?: Streak;
  /** Present for a while after an outage: a relapse goes on where the probes had stopped. */
  readonly relapse?: { readonly until: Monotonic; readonly failedProbes: number };
}

export interface Open extends Outage {
  readonly state: 'open';
  readonly nextProbeAt: Monotonic;
}

/** One delivery is on its way and everything else waits for it. */
export interface Probing extends Outage {
  readonly state: 'probing';
}

interface Outage {
  /** When the streak began that opened the breaker. */
  readonly failingSince: Monotonic;
  readonly openedAt: Monotonic;
  /** The back-off has doubled so often. */
  readonly failedProbes: number;
}

/** Failures with no sign of life between them. */
interface Streak {
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
export const IN_A_ROW = 20;

/**
 * They must also fail within this time of each other. A lane with fewer failures costs its endpoint less by the schedule
 * of its deliveries than by probes, and a few events that can never be delivered must not hold up the rare good one.
 */
export const CLOSE_TOGETHER: Duration = 5 * MINUTE;

/**
 * The mean time to the first probe, and the mean it doubles up to. The times themselves are those of a Poisson process: an
 * endpoint that goes up and down in whatever rhythm cannot fall into step with them, and the healthy time that passes
 * before one is noticed is exponential with this mean, so below a minute in 99 of 100 cases also where probes hang.
 */
export const FIRST_PROBE: Duration = 2 * SECOND;
export const LONGEST_PROBE: Duration = 7 * SECOND;

/** No two probes follow each other sooner: an outage costs less than a request a second. */
const SHORTEST_PAUSE: Duration = SECOND;

/** `Retry-After` can put off a probe no longer than this: the wish may be wrong, and everything waits for it. */
export const LONGEST_WISH: Duration = 10 * MINUTE;

/** An endpoint that falls again so soon after a recovery has not recovered. */
export const RELAPSE: Duration = MINUTE;

export const CLOSED: Closed = { state: 'closed' };

/**
 * What a round says about the endpoints. Any answer that settles the delivery shows life, a refusal too; a refusal that
 * was made up on our side (no request was sent) says nothing. A round with a sibling that may still accept is a failure:
 * it is what the destination can get that does not work.
 */
export function signOf(outcomes: readonly PlacedOutcome[]): 'alive' | 'failing' | 'none' {
  let sign: 'alive' | 'failing' | 'none' = 'none';
  for (const { outcome } of outcomes) {
    if (outcome.kind === 'accepted') return 'alive';
    if (outcome.kind === 'retryable') sign = 'failing';
    else if (sign === 'none' && outcome.status !== undefined) sign = 'alive';
  }
  return sign;
}

/** The endpoint has shown life. Runs for every delivery: on the healthy path nothing is made anew. */
export function afterLife(breaker: Breaker, now: Monotonic): Closed {
  if (breaker.state !== 'closed') {
    return { ...CLOSED, relapse: { until: now + RELAPSE, failedProbes: breaker.failedProbes } };
  }
  if (breaker.relapse !== undefined && now >= breaker.relapse.until) return CLOSED;
  if (breaker.streak === undefined) return breaker;
  return breaker.relapse === undefined ? CLOSED : { ...CLOSED, relapse: breaker.relapse };
}

/** A round has failed. While the breaker is open only the probe counts: the others began before. */
export function afterFailedRound(breaker: Breaker, round: FailedRound): Breaker {
  if (breaker.state === 'probing' && round.isProbe) {
    return open({ ...breaker, failedProbes: breaker.failedProbes + 1 }, round);
  }
  if (breaker.state !== 'closed') return breaker;
  const streak = lengthen(breaker.streak, round);
  if (streak.failures.length < IN_A_ROW) return { ...breaker, streak };
  const { relapse } = breaker;
  const failedProbes = relapse !== undefined && round.now < relapse.until ? relapse.failedProbes + 1 : 0;
  return open({ failingSince: streak.since, openedAt: round.now, failedProbes }, round);
}

function lengthen(streak: Streak | undefined, { position, nth, begun, now }: FailedRound): Streak {
  if (streak === undefined) return { since: now, roundsBefore: begun, failures: [] };
  if (nth <= streak.roundsBefore) return streak;
  const others = streak.failures.filter((one) => one.position !== position && one.at > now - CLOSE_TOGETHER);
  return { ...streak, failures: [...others, { position, at: now }] };
}

function open(
  { failingSince, openedAt, failedProbes }: Outage,
  { now, notBefore, random }: FailedRound,
): Open {
  const delay = untilProbe(failedProbes, random);
  const wish = Math.min(notBefore ?? 0, now + LONGEST_WISH);
  return { state: 'open', failingSince, openedAt, failedProbes, nextProbeAt: Math.max(now + delay, wish) };
}

/** How long to wait for the next probe. `random` from 0 (inclusive) to 1 (exclusive). */
export function untilProbe(failedProbes: number, random: number): Duration {
  const mean = Math.min(FIRST_PROBE * 2 ** failedProbes, LONGEST_PROBE);
  return SHORTEST_PAUSE + Math.round(-Math.log(1 - random) * (mean - SHORTEST_PAUSE));
}

/** The one delivery that asks is about to be claimed. */
export function beginProbe({ failingSince, openedAt, failedProbes }: Open): Probing {
  return { state: 'probing', failingSince, openedAt, failedProbes };
}

/** There was nothing to ask with: the next delivery that is due asks at once. */
export function withoutProbe({ failingSince, openedAt, failedProbes }: Probing, now: Monotonic): Open {
  return { state: 'open', failingSince, openedAt, failedProbes, nextProbeAt: now };
}

/** Somebody has changed the settings, perhaps what made it fail: worth asking at once, and often again. */
export function afterChange(breaker: Breaker, now: Monotonic): Breaker {
  if (breaker.state === 'closed') return breaker;
  const hopeful = { ...breaker, failedProbes: 0 };
  return hopeful.state === 'open' ? { ...hopeful, nextProbeAt: now } : hopeful;
}
