import type { Attempt, Decision } from '../model/delivery.ts';
import { type Clock, wallTimeOf } from '../ports/clock.ts';
import type { Happening } from '../ports/observer.ts';

type Settled = Extract<Happening, { kind: 'settled' }>;

/** What became of a delivery, for those who watch: with times of the wall clock. */
export function shownSettled({ attempts, decision, ...of }: Omit<Settled, 'kind'>, clock: Clock): Settled {
  return {
    kind: 'settled',
    ...of,
    attempts: attempts.map((attempt) => shownAttempt(attempt, clock)),
    decision: shownDecision(decision, clock),
  };
}

function shownDecision(decision: Decision, clock: Clock): Decision {
  return decision.kind === 'retry' ? { ...decision, at: wallTimeOf(decision.at, clock) } : decision;
}

export function shownAttempt(attempt: Attempt, clock: Clock): Attempt {
  return { ...attempt, startedAt: wallTimeOf(attempt.startedAt, clock) };
}
