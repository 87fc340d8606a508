import type { EventFilter } from '../model/destination.ts';
import type { Event } from '../model/event.ts';

/**
 * A filter of a destination, made ready for the many events it is asked about: exact names are looked up, and only the
 * few with a `*` are compared one after the other.
 */
export function passes(filter: EventFilter | undefined): (event: Event) => boolean {
  if (filter === undefined) return () => true;
  const { types, events } = filter;
  const exact = new Set(events?.filter((name) => !name.endsWith('*')));
  const beginnings = (events ?? []).filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return ({ type, event: name = '' }) => {
    if (types !== undefined && !types.includes(type)) return false;
    // Only track calls have such a name; a filter of names says nothing about the others.
    if (events === undefined || type !== 'track') return true;
    return exact.has(name) || beginnings.some((beginning) => name.startsWith(beginning));
  };
}
