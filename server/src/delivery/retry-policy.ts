import {
  type Decision,
  type Delivery,
  type Drop,
  keptNote,
  type Outcome,
  RETRY_WINDOW,
} from '../model/delivery.ts';
import { invariant } from '../model/invariant.ts';
import { type Pause, pausedTimeWithin } from '../model/pause.ts';
import { type Duration, MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import { restOf } from './circuit-breaker.ts';

/** Of endpoints that were left out of a round. There is no attempt, and a later round may ask them. */
export const ENDPOINT_BUSY: Outcome = { kind: 'retryable', reason: 'endpoint_busy' };
export const ENDPOINT_RESTS = 'endpoint_rests';

/** The endpoint was left out of the round because it rests. */
export const wasResting = ({ outcome }: RoundOutcome): boolean => outcome.reason === ENDPOINT_RESTS;

/** Stores keep the version in two bytes. Settings do not change this often within one retry window. */
export const SETTINGS_VERSION_MODULUS = 0x10000;

/** The outcome of one endpoint in a round, with the endpoint's place in the settings. */
export interface EndpointOutcome {
  readonly place: number;
  readonly outcome: Outcome;
}

/** The same where the type of the destination may also send nothing. */
export interface RoundOutcome {
  readonly place: number;
  readonly outcome: Outcome | Drop;
}

/** The outcomes of endpoints that were asked, or would have been. */
export function askedOf(outcomes: readonly RoundOutcome[]): readonly EndpointOutcome[] {
  return outcomes.filter((one): one is EndpointOutcome => one.outcome.kind !== 'dropped');
}

/** One round, and what the decision depends on besides the delivery. */
interface DecisionInput {
  readonly outcomes: readonly RoundOutcome[];
  readonly now: Monotonic;
  /** Version of the settings that the round was sent with. */
  readonly settingsVersion: number;
  /** Pauses of the destination; they do not count for the retry window. */
  readonly pauses?: readonly Pause[];
  /** The round tested whether the endpoint is back. */
  readonly isProbe?: boolean;
  /** The round began in an outage that is over. */
  readonly isOutdated?: boolean;
  /** From 0 (inclusive) to 1 (exclusive); spreads the retries. */
  readonly random: number;
}

/**
 * Decides what happens to a delivery after one round of attempts.
 *
 * One accepted request completes it; the other endpoints are not tried again (spec/specification.md, "Several
 * endpoints"). Otherwise only the retryable endpoints are tried again. `Retry-After` lengthens a delay within
 * the retry window, and never shortens one. Where every one of these endpoints rested, nothing was tried and
 * nothing has failed. What every endpoint that is left would drop is dropped.
 */
export function decide(delivery: Delivery, round: DecisionInput): Decision {
  const { now, pauses = [] } = round;
  if (round.outcomes.some(({ outcome }) => outcome.kind === 'accepted')) return { kind: 'delivered' };
  invariant(delivery.rounds >= 0, 'a delivery was tried no fewer times than none');
  const outcomes = askedOf(round.outcomes);
  const retryable = outcomes.filter(({ outcome }) => outcome.kind === 'retryable');
  if (retryable.length === 0) return givenUp(outcomes, round);

  const firstFailedAt = delivery.firstFailedAt ?? now;
  const deadline = firstFailedAt + RETRY_WINDOW + pausedTimeWithin(pauses, firstFailedAt, now);
  const isTried = !outcomes.every(wasResting);
  const rounds = delivery.rounds + (isTried ? 1 : 0);
  // Of an endpoint that is back everything is due at once (spec/specification.md, "Endpoints that are down").
  const scheduled = round.isOutdated === true || !isTried ? now : now + backoff(rounds, round.random);
  // A probe is made for the whole backlog. It ends its delivery only when the retry window is over now, not
  // when the next try would be too late.
  if ((round.isProbe === true ? now : scheduled) > deadline)
    return { kind: 'dead', reason: 'retry_window_over' };

  const wish = retryAfterOf(retryable, round.random);
  const endpoints = retryable.reduce((bits, { place }) => bits | (1 << place), 0);
  const at = Math.min(Math.max(scheduled, wish), deadline);
  invariant(Number.isFinite(at), 'a retry is due at a time');
  invariant(endpoints > 0, 'a retry has an endpoint to ask');
  return {
    kind: 'retry',
    at,
    next: {
      position: delivery.position,
      rounds,
      firstFailedAt,
      endpoints,
      settingsVersion: round.settingsVersion,
    },
  };
}

/**
 * Ends a delivery that no endpoint is to be asked for again: it is dead where one has refused it, or none was
 * left, and otherwise dropped.
 */
function givenUp(asked: readonly EndpointOutcome[], { outcomes, now }: DecisionInput): Decision {
  const drop = outcomes.find(({ outcome }) => outcome.kind === 'dropped')?.outcome as Drop | undefined;
  if (asked.length > 0 || drop === undefined) {
    const dead = asked[0]?.outcome.reason ?? 'no_endpoint';
    invariant(dead.length > 0, 'a dead delivery has a reason');
    return { kind: 'dead', reason: dead };
  }
  invariant(drop.reason.length > 0, 'a dropped delivery has a reason');
  const { kind, reason, note } = drop;
  return { kind, reason, at: now, note: note === undefined ? undefined : keptNote(note) };
}

/**
 * The delay after each failed round; the last one repeats. Short at first, because most failures are short.
 * An endpoint that stays down gets two requests an hour. spec/specification.md, "Retry schedule".
 */
export const RETRY_DELAYS: readonly Duration[] = [
  1 * SECOND,
  2 * SECOND,
  4 * SECOND,
  8 * SECOND,
  15 * SECOND,
  30 * SECOND,
  1 * MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  20 * MINUTE,
  30 * MINUTE,
];

/** Each delay varies by up to this share, so that deliveries that failed together do not return together. */
export const JITTER = 0.2;

/**
 * The delay before the next round.
 *
 * @param rounds failed rounds, including the last one; from 1
 * @param random from 0 (inclusive) to 1 (exclusive)
 */
export function backoff(rounds: number, random: number): Duration {
  invariant(rounds >= 1, 'a back-off follows a round');
  return withJitter(RETRY_DELAYS[Math.min(rounds, RETRY_DELAYS.length) - 1]!, random);
}

/** A delay with its jitter. `random` from 0 (inclusive) to 1 (exclusive). */
function withJitter(delay: Duration, random: number): Duration {
  invariant(random >= 0 && random < 1, 'the lot of a delay is from 0 to below 1');
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random));
}

/**
 * Deliveries that wait for an endpoint that rests come back within this time after the rest, and not at once.
 */
const REST_SPREAD: Duration = 5 * SECOND;

/**
 * When the endpoints wish the next round; 0 where they have no wish. A rest keeps nobody from asking the
 * siblings, so it counts only where all of them rest, and then that which ends first.
 */
function retryAfterOf(retryable: readonly EndpointOutcome[], random: number): Monotonic {
  const rests = retryable.map((one) => (wasResting(one) ? one.outcome.notBefore : restOf(one.outcome)));
  const first = Math.min(...rests.map((until) => until ?? 0));
  if (first > 0) return first + (retryable.some(wasResting) ? Math.round(REST_SPREAD * random) : 0);
  const others = retryable.filter((_, index) => rests[index] === undefined);
  return latestRetryAfter(others.map(({ outcome }) => outcome.notBefore)) ?? 0;
}

/** The latest wish among the endpoints' `Retry-After`; absent when there is none. */
export function latestRetryAfter(wishes: readonly (Monotonic | undefined)[]): Monotonic | undefined {
  const times = wishes.filter((time) => time !== undefined);
  return times.length === 0 ? undefined : Math.max(...times);
}

/**
 * An outage as far as the worker knows it. It decides from when the retry window counts.
 *
 * The window of a delivery counts from its first failure. A delivery that was parked behind an open breaker
 * was never tried and counts from its parking (spec/specification.md, "Retry window"). A delivery that was
 * parked for another reason (the worker was slow, the program was down) does not count before it fails. The
 * last two look alike on disk, so nothing counts from before the start of the outage.
 */
export interface Outage {
  readonly since: Monotonic;
}

/**
 * Time that an endpoint gets after a start before deliveries expire. A program that starts during an outage
 * cannot know when it began, and assumes that it is old. But after a night without power the network may come
 * up later than the program, and the events of the evening must not die for that.
 */
const RESTART_GRACE: Duration = 10 * MINUTE;

/** How late a try within the window may be: stores merge due times, and expiry is checked once a minute. */
const LATENESS: Duration = MINUTE;

/**
 * `hasBeenAlive`: the endpoint has shown life since this program started, so the start of the outage is
 * known. A wish to rest is life.
 */
export function outageFrom(failingSince: Monotonic, hasBeenAlive: boolean): Outage {
  invariant(Number.isFinite(failingSince), 'an outage begins at a time');
  return { since: hasBeenAlive ? failingSince : failingSince - (RETRY_WINDOW - RESTART_GRACE) };
}

/**
 * The time before which deliveries on disk have had their window. Absent when that does not hold for all of
 * them: an outage that is younger than the window expires nothing that was parked before it.
 *
 * @param firstDueAt when the first delivery on disk is due
 * @param before start of the retry window that ends now (`retryWindowStart`)
 */
export function expiryCutoff(
  { since }: Outage,
  firstDueAt: Monotonic,
  before: Monotonic,
): Monotonic | undefined {
  return since <= before || firstDueAt >= before ? before : undefined;
}

/** Whether a delivery claimed during an outage is too late for another try. `before` as in `expiryCutoff`. */
export function isRetryWindowOver({ firstFailedAt }: Delivery, before: Monotonic): boolean {
  return firstFailedAt !== undefined && firstFailedAt + LATENESS < before;
}

/**
 * Dates a delivery that was claimed during an outage and never tried. Its window counts from its parking, or
 * from the start of the outage if that is later.
 */
export function datedFromOutage({ since }: Outage, delivery: Delivery, parkedAt: Monotonic): Delivery {
  if (delivery.firstFailedAt !== undefined) return delivery;
  return { ...delivery, firstFailedAt: Math.max(since, parkedAt) };
}

/**
 * Judges the endpoints by one round. An answer that settles the delivery shows life, also a refusal. A
 * refusal without a request (by our own egress rules) says nothing, nor does an endpoint that rests. A round
 * in which one endpoint is retryable and the others refuse is a failure, because the retryable endpoint is
 * the only one that can still accept.
 */
export function signOfLife(outcomes: readonly RoundOutcome[]): 'alive' | 'failing' | 'none' {
  let sign: 'alive' | 'failing' | 'none' = 'none';
  for (const { outcome } of outcomes) {
    if (outcome.kind === 'accepted') return 'alive';
    if (outcome.kind === 'dropped' || outcome.reason === ENDPOINT_RESTS) continue;
    if (outcome.kind === 'retryable') sign = 'failing';
    else if (sign === 'none' && outcome.status !== undefined) sign = 'alive';
  }
  return sign;
}
