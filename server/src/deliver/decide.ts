import { type Decision, type Delivery, type Outcome, RETRY_WINDOW } from '../model/delivery.ts';
import { type Pause, pausedWithin } from '../model/pauses.ts';
import type { Monotonic } from '../model/time.ts';
import { backoff, latestWish } from './backoff.ts';

/** The outcome of one endpoint in a round, with the endpoint's place in the settings. */
export interface PlacedOutcome {
  readonly place: number;
  readonly outcome: Outcome;
}

/** The moment of deciding, and the version of the settings the round was made with. */
export interface Round {
  readonly outcomes: readonly PlacedOutcome[];
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
 * One accepted request delivers it; the other endpoints are not tried again (service.md, outbound rule 2). A round in
 * which none was accepted is tried again only at the endpoints that may take it later. `Retry-After` lengthens a delay,
 * inside the retry window, and never shortens one.
 */
export function decide(delivery: Delivery, round: Round): Decision {
  const { outcomes, now, pauses = [] } = round;
  if (outcomes.some(({ outcome }) => outcome.kind === 'accepted')) return { kind: 'delivered' };
  const retryable = outcomes.filter(({ outcome }) => outcome.kind === 'retryable');
  if (retryable.length === 0) return { kind: 'dead', reason: outcomes[0]?.outcome.reason ?? 'no_endpoint' };

  const firstFailedAt = delivery.firstFailedAt ?? now;
  const deadline = firstFailedAt + RETRY_WINDOW + pausedWithin(pauses, firstFailedAt, now);
  const rounds = delivery.rounds + 1;
  const scheduled = now + backoff(rounds, round.random);
  // A probe asks for all that waits, and takes none of its own delivery's window.
  if ((round.isProbe === true ? now : scheduled) > deadline)
    return { kind: 'dead', reason: 'retry_window_over' };

  const wish = latestWish(retryable.map(({ outcome }) => outcome.notBefore)) ?? 0;
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
