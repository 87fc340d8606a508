import type { Event } from '../model/event.ts';
import type { DeliveryTrace, EventTrace, TraceEntry } from '../reporting/contract.ts';
import type { Caller } from './auth.ts';

/**
 * The fields of an event that say which one it is. The others are its body: what was done, by whom with which
 * traits, and where.
 */
const IDENTIFYING = [
  ...(['messageId', 'type', 'channel', 'userId', 'anonymousId', 'previousId', 'groupId'] as const),
  ...(['event', 'name', 'timestamp', 'originalTimestamp', 'sentAt', 'receivedAt'] as const),
];

type Viewer = Pick<Caller, 'limits' | 'bodies'>;

/** An event as the owner of a token may see it. */
export function shownEvent(
  caller: Viewer = {},
  entry: EventTrace,
): Omit<EventTrace, 'event'> & { readonly event: Pick<Event, (typeof IDENTIFYING)[number]> } {
  return {
    ...entry,
    event: caller.bodies === false ? identified(entry.event) : entry.event,
    deliveries: entry.deliveries.filter(isOf(caller)),
    skipped: entry.skipped.filter(isOf(caller)),
  };
}

function isOf({ limits }: Viewer) {
  return ({ destination }: Pick<DeliveryTrace, 'destination'>) =>
    limits === undefined || limits.destinations.includes(destination);
}

/**
 * The part of a trace that the owner of a token may see: deliveries to its destinations, and bodies where it
 * may see any.
 */
export function shownTrace(caller: Viewer = {}, entry: TraceEntry) {
  if (entry.verdict === 'accepted') return shownEvent(caller, entry);
  if (entry.verdict === 'damaged') return { ...entry, deliveries: entry.deliveries.filter(isOf(caller)) };
  const { call, ...rest } = entry;
  return caller.bodies === false ? rest : { ...rest, call };
}

function identified(event: Event): Pick<Event, (typeof IDENTIFYING)[number]> {
  const known = IDENTIFYING.filter((key) => event[key] !== undefined).map((key) => [key, event[key]]);
  return Object.fromEntries(known) as Pick<Event, (typeof IDENTIFYING)[number]>;
}
