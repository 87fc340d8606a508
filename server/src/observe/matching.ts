import { destinationOfLane } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Time } from '../model/time.ts';
import type { StoredEvent } from '../ports/event-log.ts';
import type { DeliveryHistory } from '../ports/history.ts';

/** What an event must be like; whatever is absent may be anything. */
export interface EventQuery {
  /** Id of the source. */
  readonly source?: number;
  readonly type?: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  /** Name of what was tracked, of the page or of the screen; a `*` at the end stands for any rest. */
  readonly event?: string;
  /** Arrived from (inclusive) to (exclusive). */
  readonly from?: Time;
  readonly to?: Time;
}

/** What a delivery must be like, beside its event. */
export interface DeliveryQuery extends EventQuery {
  /** Id of the destination. */
  readonly destination?: number;
  readonly state?: DeliveryHistory['state'];
  /** Why it is dead, or what its last request came to while it is retried. */
  readonly reason?: string;
}

/** The cheapest first: an event is read out of its bytes when it is looked at, and most are ruled out by their source. */
export function isEvent(stored: StoredEvent, query: EventQuery): boolean {
  const { source, type, userId, anonymousId, event, from, to } = query;
  if (source !== undefined && stored.source !== source) return false;
  if (type !== undefined && stored.event.type !== type) return false;
  if (anonymousId !== undefined && stored.event.anonymousId !== anonymousId) return false;
  if (userId !== undefined && stored.event.userId !== userId) return false;
  if (event !== undefined && !isNamed(stored.event, event)) return false;
  if (from === undefined && to === undefined) return true;
  const arrivedAt = Date.parse(stored.event.receivedAt);
  return arrivedAt >= (from ?? arrivedAt) && (to === undefined || arrivedAt < to);
}

function isNamed({ event, name }: Event, wanted: string): boolean {
  const found = event ?? name;
  if (found === undefined) return false;
  return wanted.endsWith('*') ? found.startsWith(wanted.slice(0, -1)) : found === wanted;
}

export function isDelivery(
  { destination, state, reason, attempts }: DeliveryHistory,
  query: Pick<DeliveryQuery, 'destination' | 'state' | 'reason'>,
): boolean {
  if (query.destination !== undefined && query.destination !== destinationOfLane(destination)) return false;
  if (query.state !== undefined && query.state !== state) return false;
  return query.reason === undefined || query.reason === (reason ?? attempts.at(-1)?.outcome.reason);
}
