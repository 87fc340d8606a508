import type { Attempt, Decision } from '../model/delivery.ts';
import { shownUrl } from '../model/shown-url.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import { type Clock, wallTimeOf } from '../ports/clock.ts';
import type { Logger } from '../ports/logger.ts';
import type { Open } from './breaker.ts';
import type { Endpoint } from './endpoint.ts';

/** Single failures of a destination are spoken of this often and not once a request. */
const REPEAT: Duration = 60 * SECOND;

/** What went wrong last at a destination. */
export interface LastError {
  readonly reason: string;
  readonly endpoint: string;
  readonly at: Time;
}

/** What is known of an endpoint. */
type Seen = Pick<Endpoint, 'url' | 'state' | 'since' | 'lastError'>;

/**
 * Turns the results of one destination into few log lines: that it fails (at most once a minute), that its breaker has
 * opened, that it is back. While the breaker is open nothing more is said until it closes.
 */
export class Health {
  readonly #destination: string;
  readonly #logger: Logger;
  readonly #clock: Clock;
  #failures = 0;
  #dead = 0;
  #failing: { readonly since: Time; readonly from: Monotonic } | undefined;
  #lastLine: Monotonic = Number.NEGATIVE_INFINITY;
  /** Only what was reported as failing is reported as recovered. */
  #reported = false;
  #isOpen = false;
  #lastFailed: { readonly attempt: Attempt; readonly at: Time } | undefined;

  constructor(destination: string, logger: Logger, clock: Clock) {
    this.#destination = destination;
    this.#logger = logger;
    this.#clock = clock;
  }

  /**
   * When the first of the failures was that no delivery has followed; absent while all is well. An endpoint that answers
   * and refuses everything fails too, although its breaker has no reason to open.
   */
  get failingSince(): Time | undefined {
    return this.#failing?.since;
  }

  get lastError(): LastError | undefined {
    if (this.#lastFailed === undefined) return undefined;
    const { attempt, at } = this.#lastFailed;
    return { reason: attempt.outcome.reason, endpoint: shownUrl(attempt.endpoint), at };
  }

  /**
   * Takes up what an earlier process has seen of its endpoints: the destination fails when none of them has accepted the
   * last request that it got.
   */
  recall(endpoints: readonly Seen[]): void {
    for (const { url, lastError } of endpoints) {
      if (lastError === undefined || lastError.at <= (this.#lastFailed?.at ?? 0)) continue;
      const { at, reason, answer } = lastError;
      const attempt = {
        endpoint: url,
        startedAt: at,
        latencyMs: 0,
        outcome: { kind: 'retryable', reason },
      } as const;
      this.#lastFailed = { attempt: answer === undefined ? attempt : { ...attempt, answer }, at };
    }
    const asked = endpoints.filter(({ state }) => state !== undefined);
    if (asked.length === 0 || asked.some(({ state }) => state === 'healthy')) return;
    const since = Math.max(...asked.map((one) => one.since));
    this.#failing = { since, from: this.#clock.monotonic() - Math.max(0, this.#clock.now() - since) };
    // The earlier process has said that it fails.
    this.#reported = true;
  }

  note(decision: Decision, attempts: readonly Attempt[]): void {
    if (decision.kind === 'delivered') {
      if (this.#failing !== undefined && !this.#isOpen) this.#recover({});
      return;
    }
    const now = this.#clock.now();
    this.#failures++;
    if (decision.kind === 'dead') this.#dead++;
    const from = this.#clock.monotonic();
    this.#failing ??= { since: now, from };
    const attempt = attempts.findLast(({ outcome }) => outcome.kind !== 'accepted');
    if (attempt !== undefined) this.#lastFailed = { attempt, at: now };
    if (this.#isOpen || from - this.#lastLine < REPEAT) return;
    this.#report({ nextAttemptAt: decision.kind === 'retry' ? this.#timestamp(decision.at) : undefined });
  }

  /** The breaker has opened: from now on only probes are sent. */
  opened({ nextProbeAt }: Open): void {
    this.#isOpen = true;
    this.#report({ breaker: 'open', nextProbeAt: this.#timestamp(nextProbeAt) });
  }

  /** The breaker has closed, and what waits is due; so many deliveries are on disk. */
  recovered(onDisk: number): void {
    this.#isOpen = false;
    this.#recover({ parked: onDisk });
  }

  #report(more: Readonly<Record<string, unknown>>): void {
    this.#lastLine = this.#clock.monotonic();
    this.#reported = true;
    const attempt = this.#lastFailed?.attempt;
    this.#logger.warn(
      {
        ...this.#facts(),
        reason: attempt?.outcome.reason,
        endpoint: attempt && shownUrl(attempt.endpoint),
        answer: attempt?.answer?.slice(0, 200),
        ...more,
      },
      'destination.failing',
    );
  }

  #recover(more: Readonly<Record<string, unknown>>): void {
    if (this.#reported) this.#logger.info({ ...this.#facts(), ...more }, 'destination.recovered');
    this.#failures = 0;
    this.#dead = 0;
    this.#failing = undefined;
    this.#reported = false;
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
