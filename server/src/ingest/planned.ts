import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Plan } from '../model/plan.ts';
import type { Source } from '../model/source.ts';
import type { Skipped } from '../ports/event-log.ts';
import type { AcceptedEvent } from './accepted.ts';

export interface Planner {
  readonly plan: (event: Event, source: Source) => Plan;
  /** The plan of every event of this source that says nothing of where it goes; undefined when it depends on the event. */
  readonly commonPlan?: (source: Source) => Plan | undefined;
  /** Whether any destination takes events of this source; where none does, no event of it is planned. */
  readonly reaches?: (source: Source) => boolean;
}

/** The plans of a batch, by destination: which of its events each is to get, and which not and why. */
export interface Planned {
  /** Indexes of events by id of the destination. */
  readonly owed: ReadonlyMap<number, readonly number[]>;
  readonly skipped: readonly Skipped[];
}

export function planned(events: readonly AcceptedEvent[], planner: Planner): Planned {
  const owed = new Map<number, number[]>();
  const skipped = new Map<string, { destination: number; reason: string; indexes: number[] }>();
  events.forEach((event, index) => {
    if (planner.reaches?.(event.origin) === false) return;
    const plan = planOf(event, planner);
    for (const destination of plan.owed) listOf(owed, destination.id).push(index);
    for (const { destination, reason } of plan.skipped) skip(skipped, destination, reason).push(index);
  });
  return { owed, skipped: [...skipped.values()] };
}

/** Most events are planned without being parsed. */
function planOf(event: AcceptedEvent, { plan, commonPlan }: Planner): Plan {
  const common = event.isUndirected ? commonPlan?.(event.origin) : undefined;
  return common ?? plan(event.event, event.origin);
}

function listOf(lists: Map<number, number[]>, destination: number): number[] {
  let list = lists.get(destination);
  if (list === undefined) {
    list = [];
    lists.set(destination, list);
  }
  return list;
}

function skip(
  lists: Map<string, { destination: number; reason: string; indexes: number[] }>,
  destination: Destination,
  reason: string,
): number[] {
  const key = `${destination.id}/${reason}`;
  let entry = lists.get(key);
  if (entry === undefined) {
    entry = { destination: destination.id, reason, indexes: [] };
    lists.set(key, entry);
  }
  return entry.indexes;
}
