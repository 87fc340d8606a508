import { type Attempt, type Decision, isFinal } from '../model/delivery.ts';
import type { Position } from '../model/event.ts';
import { invariant } from '../model/invariant.ts';
import { maskUrl } from '../model/secrets.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import { type Clock, wallTimeOf } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import {
  afterFailedRound,
  afterSettingsChange,
  afterSignOfLife,
  beginProbe,
  type CircuitBreaker,
  CLOSED_BREAKER,
  cancelProbe,
  checkBreaker,
  MIN_PROBE_DELAY,
  type OpenBreaker,
  postponeProbe,
} from './circuit-breaker.ts';
import type { LastError } from './contract.ts';
import { RefusalTracker } from './destination-state.ts';
import type { EndpointTracker } from './endpoint-health.ts';
import {
  askedOf,
  latestRetryAfter,
  type Outage,
  outageFrom,
  type RoundOutcome,
  signOfLife,
  wasResting,
} from './retry-policy.ts';

/** A round under way. Its end is judged by the state at its beginning. */
export interface RoundTicket {
  /** Number of the round, counted from 1. */
  readonly nth: number;
  /** The concurrency when it was sent. */
  readonly limit: number;
  readonly isProbe: boolean;
}

/** The end of a round. */
interface RoundReport {
  readonly round: RoundTicket;
  readonly positions: readonly Position[];
  readonly outcomes: readonly RoundOutcome[];
  /** When the first endpoint may be asked again, where all of them rest. */
  readonly restsUntil: Monotonic | undefined;
  /** Latency of the first answer; 0 when there was none. */
  readonly latencyMs: number;
  /** The part of it in which the answer may have waited to be read. */
  readonly unreadMs: number;
  readonly now: Monotonic;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: number;
}

/** A change of the breaker that the worker must act on. */
type BreakerTransition =
  | { readonly kind: 'none' }
  | { readonly kind: 'opened'; readonly breaker: OpenBreaker; readonly outage: Outage }
  /** `wasRest`: the endpoints had asked for a rest. */
  | { readonly kind: 'closed'; readonly wasRest: boolean };

const NO_TRANSITION: BreakerTransition = { kind: 'none' };

/** Decides by the results of rounds whether a worker may send, and how much at once. */
export class HealthTracker {
  #breaker: CircuitBreaker = CLOSED_BREAKER;
  #concurrency: ConcurrencyState = INITIAL_CONCURRENCY;
  readonly #congestion = new CongestionDetector();
  /** Number of rounds begun since the start. */
  #roundsBegun = 0;
  /** The number when the last outage ended. */
  #roundsBeforeRecovery = 0;
  /** The endpoint has shown life since this program started. */
  #hasBeenAlive = false;

  get breaker(): CircuitBreaker {
    return this.#breaker;
  }

  /** How many deliveries may be in flight while the breaker is closed. */
  get limit(): number {
    return this.#concurrency.limit;
  }

  get isClosed(): boolean {
    return this.#breaker.state === 'closed';
  }

  get isProbing(): boolean {
    return this.#breaker.state === 'probing';
  }

  beginRound(isProbe: boolean): RoundTicket {
    return { nth: ++this.#roundsBegun, limit: this.#concurrency.limit, isProbe };
  }

  /**
   * Whether the round began before the last outage was over: its failure says nothing of an endpoint that is
   * back.
   */
  isOutdated({ nth }: RoundTicket): boolean {
    return this.isClosed && nth <= this.#roundsBeforeRecovery;
  }

  record(report: RoundReport): BreakerTransition {
    const { round, latencyMs, unreadMs } = report;
    invariant(round.nth > 0 && round.nth <= this.#roundsBegun, 'a round that ends is one that has begun');
    invariant(round.limit >= 1, 'a round was sent under a limit that allowed it');
    invariant(latencyMs >= 0, 'an answer takes no less than no time');
    invariant(unreadMs >= 0, 'an answer waits no less than no time to be read');
    const transition = this.#recordSign(report);
    if (this.#breaker !== CLOSED_BREAKER) checkBreaker(this.#breaker);
    return transition;
  }

  #recordSign(report: RoundReport): BreakerTransition {
    const sign = signOfLife(report.outcomes);
    if (sign === 'alive') return this.#recordAlive(report);
    if (sign === 'failing') this.#concurrency = afterFailure(this.#concurrency, report.round.limit);
    if (sign === 'failing' || report.restsUntil !== undefined) return this.#recordFailure(report);
    // It could ask nobody, because the endpoint that its delivery still has to reach rests.
    const pause = report.outcomes.some(wasResting) ? MIN_PROBE_DELAY : 0;
    if (report.round.isProbe) this.cancelProbe(report.now + pause);
    return NO_TRANSITION;
  }

  beginProbe(): void {
    if (this.#breaker.state === 'open') this.#breaker = beginProbe(this.#breaker);
  }

  postponeProbe(until: Monotonic): void {
    if (this.#breaker.state === 'open') this.#breaker = postponeProbe(this.#breaker, until);
  }

  /** The next delivery that is due probes from `at` on. */
  cancelProbe(at: Monotonic): void {
    if (this.#breaker.state === 'probing') this.#breaker = cancelProbe(this.#breaker, at);
  }

  settingsChanged(now: Monotonic): void {
    this.#breaker = afterSettingsChange(this.#breaker, now);
  }

  #recordAlive({ round, now, latencyMs, unreadMs }: RoundReport): BreakerTransition {
    const wasClosed = this.isClosed;
    const wasRest = this.#breaker.state !== 'closed' && this.#breaker.isRest;
    this.#hasBeenAlive = true;
    // What was under way when the rest began may well be accepted.
    if (wasRest && !round.isProbe) return NO_TRANSITION;
    if (!wasClosed) this.#roundsBeforeRecovery = this.#roundsBegun;
    if (this.#breaker !== CLOSED_BREAKER) this.#breaker = afterSignOfLife(this.#breaker, now);
    this.#congestion.record(latencyMs, unreadMs);
    this.#concurrency = wasClosed
      ? afterSuccess(this.#concurrency, this.#congestion.isCongested)
      : SLOW_START;
    if (this.#concurrency.successes === 0) this.#congestion.startSample(now);
    return wasClosed ? NO_TRANSITION : { kind: 'closed', wasRest };
  }

  #recordFailure({ round, positions, outcomes, restsUntil, now, random }: RoundReport): BreakerTransition {
    const wasClosed = this.isClosed;
    const notBefore = latestRetryAfter(askedOf(outcomes).map(({ outcome }) => outcome.notBefore));
    const failed = { ...round, positions, begun: this.#roundsBegun, now, notBefore, restsUntil, random };
    this.#breaker = afterFailedRound(this.#breaker, failed);
    if (!wasClosed || this.#breaker.state !== 'open') return NO_TRANSITION;
    const { failingSince, isRest } = this.#breaker;
    const outage = outageFrom(failingSince, this.#hasBeenAlive || isRest);
    return { kind: 'opened', breaker: this.#breaker, outage };
  }
}

/** A failing destination is logged this often, not once a request. */
const REPORT_INTERVAL: Duration = 60 * SECOND;

type EndpointSummary = Pick<EndpointTracker, 'url' | 'state' | 'since' | 'lastError'>;

/**
 * Logs the health of one destination in few lines: it fails (at most once a minute), its breaker has opened,
 * it refuses, it has recovered. While the breaker is open nothing is logged.
 */
export class HealthReporter {
  readonly #destination: string;
  readonly #logger: Logger;
  readonly #clock: Clock;
  #failures = 0;
  #dead = 0;
  #failing: { readonly since: Time; readonly from: Monotonic } | undefined;
  #reportedAt: Monotonic = Number.NEGATIVE_INFINITY;
  /** A recovery is logged only after a failure was. */
  #isReported = false;
  #isBreakerOpen = false;
  readonly #refusals = new RefusalTracker();
  #lastFailed: { readonly attempt: Omit<Attempt, 'startedAt' | 'latencyMs'>; readonly at: Time } | undefined;

  constructor(destination: string, logger: Logger, clock: Clock) {
    this.#destination = destination;
    this.#logger = logger;
    this.#clock = clock;
  }

  /**
   * Time of the first failure since the endpoint last showed life; absent while there is none. An endpoint
   * that refuses is alive.
   */
  get failingSince(): Time | undefined {
    return this.#failing?.since;
  }

  get refusingSince(): Time | undefined {
    return this.#refusals.since;
  }

  get lastError(): LastError | undefined {
    if (this.#lastFailed === undefined) return undefined;
    const { attempt, at } = this.#lastFailed;
    return { reason: attempt.outcome.reason, endpoint: maskUrl(attempt.endpoint), at };
  }

  /**
   * Restores the state from the health of the endpoints: the destination fails, or refuses, when none of them
   * has accepted its last request.
   */
  restore(endpoints: readonly EndpointSummary[]): void {
    for (const { url, lastError } of endpoints) {
      if (lastError === undefined || lastError.at <= (this.#lastFailed?.at ?? 0)) continue;
      const { at, reason, answer } = lastError;
      const attempt = {
        endpoint: url,
        outcome: { kind: 'retryable', reason },
      } as const;
      this.#lastFailed = { attempt: answer === undefined ? attempt : { ...attempt, answer }, at };
    }
    const asked = endpoints.filter(({ state }) => state !== undefined);
    if (asked.length === 0 || asked.some(({ state }) => state === 'healthy')) return;
    const since = Math.max(...asked.map((one) => one.since));
    if (asked.every(({ lastError }) => lastError !== undefined && isFinal(lastError)))
      this.#refusals.restore(since);
    else this.#failing = { since, from: this.#clock.monotonic() - Math.max(0, this.#clock.now() - since) };
    // The earlier process has logged the failure.
    this.#isReported = true;
  }

  /** Forgets an answer in which something stands that was erased. */
  redact(mentions: (text: string) => boolean): void {
    if (this.#lastFailed === undefined) return;
    const { answer, ...attempt } = this.#lastFailed.attempt;
    if (answer !== undefined && mentions(answer)) this.#lastFailed = { ...this.#lastFailed, attempt };
  }

  /** A round has ended, at `from` of the monotonic clock. */
  record(decision: Decision, attempts: readonly Attempt[], from: Monotonic): void {
    // No request was made: the endpoints rest, or the type has nothing to send.
    if (decision.kind === 'dropped' || (decision.kind === 'retry' && attempts.length === 0)) return;
    if (decision.kind === 'delivered') {
      const hasEnded = this.#refusals.accepted(from);
      if ((hasEnded || this.#failing !== undefined) && !this.#isBreakerOpen) this.#recover({});
      return;
    }
    const now = this.#clock.now();
    this.#failures++;
    if (decision.kind === 'dead') this.#dead++;
    const attempt = attempts.findLast(({ outcome }) => outcome.kind !== 'accepted');
    if (attempt !== undefined) this.#lastFailed = { attempt, at: now };
    if (decision.kind === 'dead' && decision.reason !== 'retry_window_over') {
      this.#recordRefusal(attempts, from, now);
      return;
    }
    this.#failing ??= { since: now, from };
    if (this.#isBreakerOpen || from - this.#reportedAt < REPORT_INTERVAL) return;
    this.#report({ nextAttemptAt: decision.kind === 'retry' ? this.#timestamp(decision.at) : undefined });
  }

  #recordRefusal(attempts: readonly Attempt[], from: Monotonic, now: Time): void {
    const isAlive = attempts.some(({ outcome }) => outcome.status !== undefined);
    if (isAlive && !this.#isBreakerOpen) this.#failing = undefined;
    this.#refusals.died(from, now);
    if (from - this.#reportedAt < REPORT_INTERVAL) return;
    this.#reportedAt = from;
    this.#isReported = true;
    this.#logger.warn({ ...this.#facts(), ...this.#lastFailure() }, 'destination.refusing');
  }

  /** Logs that only probes are sent from now on. */
  breakerOpened({ nextProbeAt, isRest }: OpenBreaker): void {
    this.#isBreakerOpen = true;
    // An endpoint that is asked too often may rest every few seconds.
    if (isRest && this.#clock.monotonic() - this.#reportedAt < REPORT_INTERVAL) return;
    this.#report({ breaker: 'open', nextProbeAt: this.#timestamp(nextProbeAt) });
  }

  /** Logs the recovery. `onDisk`: deliveries that waited for it. */
  breakerClosed(onDisk: number): void {
    this.#isBreakerOpen = false;
    this.#recover({ parked: onDisk });
  }

  #report(more: Readonly<Record<string, unknown>>): void {
    this.#reportedAt = this.#clock.monotonic();
    this.#isReported = true;
    this.#logger.warn({ ...this.#facts(), ...this.#lastFailure(), ...more }, 'destination.failing');
  }

  #lastFailure(): Readonly<Record<string, unknown>> {
    const attempt = this.#lastFailed?.attempt;
    return {
      reason: attempt?.outcome.reason,
      endpoint: attempt && maskUrl(attempt.endpoint),
      answer: attempt?.answer?.slice(0, 200),
    };
  }

  #recover(more: Readonly<Record<string, unknown>>): void {
    if (this.#isReported) this.#logger.info({ ...this.#facts(), ...more }, 'destination.recovered');
    this.#failures = 0;
    this.#dead = 0;
    this.#failing = undefined;
    this.#isReported = false;
  }

  #facts(): { destination: string; failures: number; dead: number; failingForMs: Duration } {
    const now = this.#clock.monotonic();
    return {
      destination: this.#destination,
      failures: this.#failures,
      dead: this.#dead,
      failingForMs: now - (this.#failing?.from ?? now),
    };
  }

  #timestamp(at: Monotonic): string {
    return new Date(wallTimeOf(at, this.#clock)).toISOString();
  }
}

/**
 * How many deliveries of a worker may be in flight. After as many successes as the limit it grows: it doubles
 * up to `doublesUntil`, then grows by one unless requests already wait for each other. A failure halves it. A
 * fast endpoint soon gets many connections, a struggling one is relieved quickly, and one that comes back
 * gets one request first.
 */
interface ConcurrencyState {
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
  invariant(limit >= 1 && limit <= MAX_CONCURRENCY, 'a concurrency is from one to the most');
  invariant(successes >= 0 && successes < limit, 'as many successes as the concurrency raise it');
  invariant(
    doublesUntil >= 1 && doublesUntil <= MAX_CONCURRENCY,
    'a concurrency doubles up to one it may have',
  );
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
  invariant(limitWhenSent <= MAX_CONCURRENCY, 'no round is sent beyond the most that may be in flight');
  if (limitWhenSent > now.limit) return now;
  const limit = Math.max(1, now.limit >> 1);
  return { limit, successes: 0, doublesUntil: limit };
}

/**
 * How long the shortest latency counts as the baseline. An endpoint may become slower for good, after a move
 * for example.
 */
const BASELINE_WINDOW: Duration = 30 * SECOND;

/** Answers twice as slow as the baseline mean that half of the requests wait for the others. */
const CONGESTION_FACTOR = 2;

/** Milliseconds. Smaller differences come from the clock and from this program. */
const CLOCK_NOISE = 0.5;

/**
 * Detects that requests wait for each other at an endpoint. More of them would not be answered sooner, and
 * would cost both sides memory. It compares the shortest latency of a sample with the baseline: without a
 * queue at the endpoint, one of many requests is always as fast as ever, however much the others vary.
 *
 * An answer may also have waited here: while this thread takes calls, nobody reads it. A busy server must not
 * take that for a queue at the endpoint and send less, so only what is certain counts as the endpoint's.
 */
export class CongestionDetector {
  /** Shortest time since the sample began that an endpoint has certainly taken. */
  #sampleMinimum = Number.POSITIVE_INFINITY;
  /** Shortest latency since the sample began. */
  #shortestLatency = Number.POSITIVE_INFINITY;
  /** Shortest latency of this window and of the one before. */
  #baseline = Number.POSITIVE_INFINITY;
  #previousBaseline = Number.POSITIVE_INFINITY;
  #baselineSince: Monotonic = 0;

  /** Runs for every answer. `unreadMs`: how long it may have waited to be read. */
  record(latencyMs: number, unreadMs: number): void {
    this.#shortestLatency = Math.min(this.#shortestLatency, latencyMs);
    this.#sampleMinimum = Math.min(this.#sampleMinimum, Math.max(0, latencyMs - unreadMs));
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
    this.#baseline = Math.min(this.#baseline, this.#shortestLatency);
    this.#sampleMinimum = Number.POSITIVE_INFINITY;
    this.#shortestLatency = Number.POSITIVE_INFINITY;
  }
}
