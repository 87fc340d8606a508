import type { Attempt, Delivery } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { Monotonic } from '../../../model/time.ts';
import type { DeliveryHistory, EventHistory, GivenUp, PendingPage } from '../../../ports/delivery-queue.ts';
import type { StoredPlan } from '../plans.ts';
import { pendingState } from '../results.ts';

/** The rows that tell of the deliveries of one event. */
export interface DeliveryTraces {
  /**
   * Destinations that no plan may name: a replay or redelivery is pending, was requested, or was given up.
   */
  readonly destinations: Iterable<number>;
  /** In any order. */
  attemptsOf(destination: number): readonly Attempt[];
  /** The pending delivery, and when it is due unless a process holds it; undefined when none is pending. */
  pendingOf(destination: number): { readonly delivery: Delivery; readonly dueAt?: Monotonic } | undefined;
  /** The sets of deliveries that were given up and hold this one, the last first. */
  givenUp(destination: number): readonly GivenUpSet[];
}

interface GivenUpSet {
  readonly state: GivenUp;
  readonly reason: string;
  readonly note: string | null;
}

/**
 * Puts the history of an event together from its plan and the rows about its deliveries. No row says that a
 * delivery was delivered: it was owed, and is neither pending nor given up. The plan of a damaged event is
 * empty; destinations that left a trace of it are still found.
 */
export function historyOf({ owed, skipped }: StoredPlan, traces: DeliveryTraces): EventHistory {
  const ids = [...new Set([...owed, ...traces.destinations])].sort((a, b) => a - b);
  const deliveries = ids.map((destination) => {
    const attempts = traces.attemptsOf(destination).toSorted((a, b) => a.startedAt - b.startedAt);
    return { destination, ...stateOf(destination, traces), attempts };
  });
  return { deliveries, skipped };
}

function stateOf(
  destination: number,
  traces: DeliveryTraces,
): Omit<DeliveryHistory, 'destination' | 'attempts'> {
  const pending = traces.pendingOf(destination);
  if (pending !== undefined) return pendingState(pending.delivery, pending.dueAt);
  const sets = traces.givenUp(destination);
  const worst = sets.find(({ state }) => state === 'dead') ?? sets[0];
  if (worst === undefined) return { state: 'delivered' };
  const { state, reason, note } = worst;
  return { state, reason, note: note ?? undefined };
}

/** A page of positions, the highest first. `found` has one more than `max` where there is another page. */
export function pendingPage(found: Iterable<Position>, max: number): PendingPage {
  const sorted = [...new Set(found)].sort((a, b) => b - a);
  const positions = sorted.slice(0, max);
  return sorted.length > max ? { positions, next: positions.at(-1)! } : { positions };
}
