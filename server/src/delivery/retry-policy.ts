import { type Decision, type Delivery, type Outcome, RETRY_WINDOW } from '../model/delivery.ts';
import { type Pause, pausedTimeWithin } from '../model/destination.ts';
import { type Duration, HOUR, MINUTE, type Monotonic, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { FailureReason, HttpResult } from '../ports/http-client.ts';

/** The outcome of one endpoint in a round, with the endpoint's place in the settings. */
export interface EndpointOutcome {
  readonly place: number;
  readonly outcome: Outcome;
}

/** One round, and what the decision depends on besides the delivery. */
export interface DecisionInput {
  readonly outcomes: readonly EndpointOutcome[];
  readonly now: Monotonic;
  /** Version of the settings that the round was sent with. */
  readonly settingsVersion: number;
  /** Pauses of the destination; they do not count for the retry window. */
  readonly pauses?: readonly Pause[];
  /** The round tested whether the endpoint is back. */
  readonly isProbe?: boolean;
  /** From 0 (inclusive) to 1 (exclusive); spreads the retries. */
  readonly random: number;
}

/**
 * Decides what happens to a delivery after one round of attempts.
 *
 * One accepted request completes it; the other endpoints are not tried again (spec/specification.md, "Several endpoints").
 * Otherwise only the retryable endpoints are tried again. `Retry-After` lengthens a delay within the retry window, and
 * never shortens one.
 */
export function decide(delivery: Delivery, round: DecisionInput): Decision {
  const { outcomes, now, pauses = [] } = round;
  if (outcomes.some(({ outcome }) => outcome.kind === 'accepted')) return { kind: 'delivered' };
  const retryable = outcomes.filter(({ outcome }) => outcome.kind === 'retryable');
  if (retryable.length === 0) return { kind: 'dead', reason: outcomes[0]?.outcome.reason ?? 'no_endpoint' };

  const firstFailedAt = delivery.firstFailedAt ?? now;
  const deadline = firstFailedAt + RETRY_WINDOW + pausedTimeWithin(pauses, firstFailedAt, now);
  const rounds = delivery.rounds + 1;
  const scheduled = now + backoff(rounds, round.random);
  // A probe is made for the whole backlog. It ends its delivery only when the retry window is over now, not when the next try
  // would be too late.
  if ((round.isProbe === true ? now : scheduled) > deadline)
    return { kind: 'dead', reason: 'retry_window_over' };

  const wish = latestRetryAfter(retryable.map(({ outcome }) => outcome.notBefore)) ?? 0;
  const endpoints = retryable.reduce((bits, { place }) => bits | (1 << place), 0);
  return {
    kind: 'retry',
    at: Math.min(Math.max(scheduled, wish), deadline),
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
 * The delay after each failed round; the last one repeats. Short at first, because most failures are short. An endpoint
 * that stays down gets two requests an hour. spec/specification.md, "Retry schedule".
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
  return withJitter(RETRY_DELAYS[Math.min(rounds, RETRY_DELAYS.length) - 1]!, random);
}

/** A delay with its jitter. `random` from 0 (inclusive) to 1 (exclusive). */
function withJitter(delay: Duration, random: number): Duration {
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random));
}

/** The latest wish among the endpoints' `Retry-After`; absent when there is none. */
export function latestRetryAfter(wishes: readonly (Monotonic | undefined)[]): Monotonic | undefined {
  const times = wishes.filter((time) => time !== undefined);
  return times.length === 0 ? undefined : Math.max(...times);
}

/** Longer wishes cannot be met within the retry window anyway. The limit also keeps absurd dates small. */
const MAX_RETRY_AFTER: Duration = 4 * HOUR;

/** Failures that no later try can repair, because the settings are wrong or forbidden. */
const PERMANENT_FAILURES: ReadonlySet<FailureReason> = new Set(['egress_refused', 'invalid_request']);

/**
 * Classifies an answer. Every 2xx is accepted. 408, 429, 5xx, a missing answer, a broken connection, an unresolved name and
 * an untrusted certificate are retryable. Every other status is refused, also a redirect, which is not followed.
 * spec/specification.md, "Outcomes".
 */
export function outcomeOf(answer: HttpResult, clock: Pick<Clock, 'now' | 'monotonic'>): Outcome {
  if (answer.kind === 'failed') {
    return { kind: PERMANENT_FAILURES.has(answer.reason) ? 'refused' : 'retryable', reason: answer.reason };
  }
  const { status } = answer;
  const reason = `status_${status}`;
  if (status >= 200 && status < 300) return { kind: 'accepted', reason, status };
  if (!isRetryableStatus(status)) return { kind: 'refused', reason, status };
  if (answer.retryAfter === undefined) return { kind: 'retryable', reason, status };
  const wait = parseRetryAfter(answer.retryAfter, clock.now());
  const wish = wait === undefined ? {} : { notBefore: clock.monotonic() + wait };
  return { kind: 'retryable', reason, status, ...wish };
}

function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status <= 599);
}

/** The delay that `Retry-After` asks for, as seconds or a date (RFC 9110 section 10.2.3); absent for anything else. */
export function parseRetryAfter(header: string, now: Time): Duration | undefined {
  const value = header.trim();
  const date = parseHttpDate(value);
  const wait = /^\d+$/.test(value) ? Number(value) * SECOND : date === undefined ? 0 : date - now;
  return wait <= 0 ? undefined : Math.min(wait, MAX_RETRY_AFTER);
}

/** HTTP dates begin with the name of a day. Without this check `Date.parse` takes almost anything. */
function parseHttpDate(value: string): Time | undefined {
  const time = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/**
 * An outage as far as the worker knows it. It decides from when the retry window counts.
 *
 * The window of a delivery counts from its first failure. A delivery that was parked behind an open breaker was never tried
 * and counts from its parking (spec/specification.md, "Retry window"). A delivery that was parked for another reason (the
 * worker was slow, the program was down) does not count before it fails. The last two look alike on disk, so nothing counts
 * from before the start of the outage.
 */
export interface Outage {
  readonly since: Monotonic;
}

/**
 * Time that an endpoint gets after a start before deliveries expire. A program that starts during an outage cannot know
 * when it began, and assumes that it is old. But after a night without power the network may come up later than the
 * program, and the events of the evening must not die for that.
 */
const RESTART_GRACE: Duration = 10 * MINUTE;

/** How late a try within the window may be: stores merge due times, and expiry is checked once a minute. */
const LATENESS: Duration = MINUTE;

/** `hasBeenAlive`: the endpoint has shown life since this program started, so the start of the outage is known. */
export function outageFrom(failingSince: Monotonic, hasBeenAlive: boolean): Outage {
  return { since: hasBeenAlive ? failingSince : failingSince - (RETRY_WINDOW - RESTART_GRACE) };
}

/**
 * The time before which deliveries on disk have had their window. Absent when that does not hold for all of them: an outage
 * that is younger than the window expires nothing that was parked before it.
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
 * Dates a delivery that was claimed during an outage and never tried. Its window counts from its parking: the arrival of
 * its event, or the start of the outage if that is later (a replayed event arrived long ago).
 */
export function datedFromOutage({ since }: Outage, delivery: Delivery, arrivedAt: Monotonic): Delivery {
  if (delivery.firstFailedAt !== undefined) return delivery;
  return { ...delivery, firstFailedAt: Math.max(since, arrivedAt) };
}
