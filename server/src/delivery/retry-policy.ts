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

/** The moment of deciding, and the version of the settings the round was made with. */
export interface DecisionInput {
  readonly outcomes: readonly EndpointOutcome[];
  readonly now: Monotonic;
  readonly settingsVersion: number;
  /** Of the destination: time that its retry window leaves out. */
  readonly pauses?: readonly Pause[];
  /** It asked whether the endpoint is back. */
  readonly isProbe?: boolean;
  /** From 0 (inclusive) to 1 (exclusive); spreads the retries. */
  readonly random: number;
}

/**
 * Decides what becomes of a delivery after one round of attempts.
 *
 * One accepted request delivers it; the other endpoints are not tried again (spec/specification.md, "Several endpoints"). A
 * round in which none was accepted is tried again only at the endpoints that may take it later. `Retry-After` lengthens a
 * delay, inside the retry window, and never shortens one.
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
  // A probe asks for all that waits, and takes none of its own delivery's window.
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
 * The delay after each failed round; the last one repeats. Quick at first, since most failures are short, then no more
 * than two requests an hour to an endpoint that stays down. spec/specification.md, "Retry schedule".
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

/** Each delay is stretched or shortened by up to this share, so that what failed together does not return together. */
export const JITTER = 0.2;

/**
 * The delay before the next round.
 *
 * @param rounds how many rounds have failed, the one just made included; from 1
 * @param random from 0 (inclusive) to 1 (exclusive)
 */
export function backoff(rounds: number, random: number): Duration {
  return withJitter(RETRY_DELAYS[Math.min(rounds, RETRY_DELAYS.length) - 1]!, random);
}

/** A delay with its jitter. `random` from 0 (inclusive) to 1 (exclusive). */
function withJitter(delay: Duration, random: number): Duration {
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random));
}

/** The latest wish among the endpoints' `Retry-After`, or nothing. */
export function latestRetryAfter(wishes: readonly (Monotonic | undefined)[]): Monotonic | undefined {
  const times = wishes.filter((time) => time !== undefined);
  return times.length === 0 ? undefined : Math.max(...times);
}

/** A wish to wait longer than this cannot be met inside the retry window anyway; it also keeps absurd dates small. */
const MAX_RETRY_AFTER: Duration = 4 * HOUR;

/** Network failures that no later try can mend: what the operator wrote is wrong or forbidden. */
const PERMANENT_FAILURES: ReadonlySet<FailureReason> = new Set(['egress_refused', 'invalid_request']);

/**
 * What an answer means. Any 2xx is success; a redirect is not followed and counts as a refusal, like every other status
 * that is neither 408, 429 nor 5xx. No answer, broken connections, unresolved names and untrusted certificates may all
 * be better later. spec/specification.md, "Outcomes".
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

/** How long to wait by `Retry-After`, as seconds or as a date (RFC 9110 section 10.2.3); what is neither says nothing. */
export function parseRetryAfter(header: string, now: Time): Duration | undefined {
  const value = header.trim();
  const date = parseHttpDate(value);
  const wait = /^\d+$/.test(value) ? Number(value) * SECOND : date === undefined ? 0 : date - now;
  return wait <= 0 ? undefined : Math.min(wait, MAX_RETRY_AFTER);
}

/** Every date form of HTTP begins with the name of a day; without this check `Date.parse` takes almost anything. */
function parseHttpDate(value: string): Time | undefined {
  const time = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/**
 * When the retry window counts from.
 *
 * A delivery that has failed counts from its first failure. One that was parked behind an open breaker was never tried and
 * counts from its parking (spec/specification.md, "Retry window"). One that was parked for another reason, because its lane
 * was slow or this program was down, does not count at all before it fails. On disk the last two look alike, so the lane
 * says since when it knows of an outage, and nothing is counted from before that.
 */
export interface Outage {
  readonly since: Monotonic;
}

/**
 * A program that starts in the middle of an outage cannot know when it began. It is taken for old enough to count every
 * delivery from its parking, but first the endpoint has this long: where the machine was off for a night, the network may
 * be slower to come up than this program, and the events of the evening must not die for it.
 */
const RESTART_GRACE: Duration = 10 * MINUTE;

/** A try that was due inside the window may be made so much later: stores merge due times, and expiry is looked at once a minute. */
const LATENESS: Duration = MINUTE;

/** `proven`: the endpoint has shown life since this program started, so the outage began when it began to fail. */
export function outageFrom(failingSince: Monotonic, proven: boolean): Outage {
  return { since: proven ? failingSince : failingSince - (RETRY_WINDOW - RESTART_GRACE) };
}

/**
 * Before which time what waits on disk has had its window, or nothing when that cannot be said for all of it: an outage
 * younger than the window ends nothing that was parked before it. `firstDueAt` is when the first on disk is due, `before`
 * where the window begins that ends now (model/destination.ts, `retryWindowStart`).
 */
export function expiryCutoff(
  { since }: Outage,
  firstDueAt: Monotonic,
  before: Monotonic,
): Monotonic | undefined {
  return since <= before || firstDueAt >= before ? before : undefined;
}

/** Whether a delivery that was claimed during an outage comes too late for another try; `before` as above. */
export function isRetryWindowOver({ firstFailedAt }: Delivery, before: Monotonic): boolean {
  return firstFailedAt !== undefined && firstFailedAt + LATENESS < before;
}

/**
 * A delivery claimed during an outage: one that was never tried has its window from its parking, which is when its event
 * arrived, or from the beginning of the outage if that is later (a replayed event arrived long ago).
 */
export function datedFromOutage({ since }: Outage, delivery: Delivery, arrivedAt: Monotonic): Delivery {
  if (delivery.firstFailedAt !== undefined) return delivery;
  return { ...delivery, firstFailedAt: Math.max(since, arrivedAt) };
}
