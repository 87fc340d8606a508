import { destinationOfLane } from './lane.ts';

/** A destination of an event's source that does not get the event, by id, and why. */
export interface Skip {
  readonly destination: number;
  readonly reason: string;
}

/**
 * Why destinations skip events, by id of the destination. Many plans share one object, which never changes.
 */
export type SkipSet = ReadonlyMap<number, string>;

/**
 * The part of a plan that stores keep. Most of many filtered destinations skip every event for the same
 * reason, so that plans name them together, in a set that they share. See `skipsOf`.
 */
export interface EventPlan {
  /** Lanes. */
  readonly owed: readonly { readonly id: number }[];
  /** Destinations that skip the event for a reason of its own, whatever the set says. */
  readonly skipped: readonly Skip[];
  readonly skipSet?: SkipSet;
}

/**
 * The destinations of an event. Every destination of its source is either owed or skipped. Events with the
 * same destinations share one object.
 */
export interface Plan extends EventPlan {
  /** Lanes: a destination with `success: each` has one for each target. See `laneIdsOf`. */
  readonly owed: readonly OwedLane[];
}

/** A lane that an event is owed to, with the name of its destination. */
export interface OwedLane {
  readonly id: number;
  readonly name: string;
}

/**
 * Every destination that skips the events of a plan, by id. The set does not count where the plan says
 * something else.
 */
export function skipsOf({ owed, skipped, skipSet }: EventPlan): Skip[] {
  const reasons = new Map(skipSet);
  for (const { id } of owed) reasons.delete(destinationOfLane(id));
  for (const { destination, reason } of skipped) reasons.set(destination, reason);
  return Array.from(reasons, ([destination, reason]) => ({ destination, reason })).sort(
    (a, b) => a.destination - b.destination,
  );
}

/** The plans of a batch of events: each once, and the events by their plans and destinations. */
export interface GroupedPlans {
  readonly plans: readonly EventPlan[];
  /** For each event the index of its plan in `plans`. */
  readonly planIndexes: readonly number[];
  /** Indexes of events by id of the lane that they are owed to. */
  readonly owed: ReadonlyMap<number, readonly number[]>;
}

/** Groups events by their plans: `plans` has one entry for each event. */
export function groupByPlan(plans: readonly EventPlan[]): GroupedPlans {
  const places = new Map<EventPlan, number>();
  const owed = new Map<number, number[]>();
  const planIndexes = plans.map((plan, index) => {
    for (const { id } of plan.owed) {
      const indexes = owed.get(id);
      if (indexes === undefined) owed.set(id, [index]);
      else indexes.push(index);
    }
    const place = places.get(plan) ?? places.size;
    places.set(plan, place);
    return place;
  });
  return { plans: [...places.keys()], planIndexes, owed };
}

/** The plan of an event whose source has no destinations. */
export const EMPTY_PLAN: Plan = { owed: [], skipped: [] };

/** See `spec/errors.json`. */
export type SkipReason = 'destination_disabled' | 'forwarded' | 'consent' | 'integrations' | 'filtered';
