import { type Attempt, type Decision, isFailure } from '../model/delivery.ts';
import type { SerializedEvent } from '../model/serialized-event.ts';
import { attemptOnWallClock, type Clock, wallTimeOf } from '../ports/clock.ts';
import type { Activity, CurrentObserver, ShownDecision } from '../ports/telemetry.ts';

type ResultNotice = Extract<Activity, { kind: 'settled' }>;

interface SettledDelivery {
  readonly source: string;
  readonly destination: string;
  readonly attempts: readonly Attempt[];
  readonly decision: Decision;
  readonly serialized: SerializedEvent;
}

/** Shows observers the result of a delivery. The event is parsed only if somebody is to see it. */
export function showResult(
  { serialized, ...result }: SettledDelivery,
  observers: CurrentObserver,
  clock: Clock,
): void {
  const { source, destination, decision } = result;
  const notice = { destination, isFailure: isFailure(decision) };
  if (observers.passesOver?.(serialized.line, source, notice) === true) return;
  observers.observer?.(resultOnWallClock({ ...result, event: serialized.event }, clock));
}

/** The result of a delivery as observers get it, with times of the wall clock. */
function resultOnWallClock(
  { attempts, decision, ...rest }: Omit<SettledDelivery, 'serialized'> & Pick<ResultNotice, 'event'>,
  clock: Clock,
): ResultNotice {
  return {
    kind: 'settled',
    ...rest,
    attempts: attempts.map((attempt) => attemptOnWallClock(attempt, clock)),
    decision: decisionOnWallClock(decision, clock),
  };
}

function decisionOnWallClock(decision: Decision, clock: Clock): ShownDecision {
  if (!('at' in decision)) return decision;
  const at = wallTimeOf(decision.at, clock);
  return decision.kind === 'retry' ? { kind: decision.kind, at } : { ...decision, at };
}
