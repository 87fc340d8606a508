import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { OwedSlice, Owing, SetId } from '../../ports/backlog.ts';
import type { Owed } from '../../ports/event-log.ts';
import type { Holder, MemoryContents, PendingSet } from './contents.ts';
import { putOnDisk, replaceOnDisk } from './due.ts';
import { tallyOfDestination } from './tally.ts';

export interface Birth {
  /** One entry per event of the batch; `undefined` where it is a duplicate. */
  readonly positions: readonly (Position | undefined)[];
  readonly holder: Holder;
  readonly dueAt: Time;
}

/** Makes the pending set of one entry of `owed`, unless all its events are duplicates; its id when it is held. */
export function owe(contents: MemoryContents, owed: Owed, birth: Birth): SetId | undefined {
  const deliveries = new Map<Position, Delivery>();
  for (const index of owed.indexes) {
    const position = birth.positions[index];
    if (position !== undefined) deliveries.set(position, { position, rounds: 0 });
  }
  if (deliveries.size === 0) return undefined;

  tallyOfDestination(contents, owed.destination).owed += deliveries.size;
  const isHeld = owed.state === 'held';
  const id = ++contents.lastSet;
  const holder = isHeld ? birth.holder : undefined;
  const { destination } = owed;
  const set = { id, destination, origin: undefined, dueAt: birth.dueAt, holder, deliveries };
  contents.sets.set(id, set);
  if (isHeld) return id;
  putOnDisk(contents, set);
  return undefined;
}

/** Owes a slice once more, unless its origin stands elsewhere; gives how far it has come. */
export function oweAgain(contents: MemoryContents, slice: OwedSlice): Owing {
  const { origin, destinations, positions, only, from, to, now } = slice;
  const { cursor, events } = owingOf(contents, origin);
  if (cursor !== from) return owingOf(contents, origin);
  contents.origins.set(origin, { cursor: to, events: events + positions.length });
  for (const destination of positions.length === 0 ? [] : destinations) {
    const own = only?.get(destination) ?? positions;
    if (own.length === 0) continue;
    tallyOfDestination(contents, destination).owed += own.length;
    const deliveries = new Map(own.map((position) => [position, { position, rounds: 0 }]));
    const set = { id: ++contents.lastSet, destination, origin, dueAt: now, holder: undefined, deliveries };
    contents.sets.set(set.id, set);
    putOnDisk(contents, set);
  }
  return owingOf(contents, origin);
}

/** Counts what was revived on behalf of an origin. */
export function countFor(contents: MemoryContents, origin: string, revived: number): void {
  const { cursor, events } = owingOf(contents, origin);
  contents.origins.set(origin, { cursor, events: events + revived });
}

/** Walks over everything pending. */
export function owingOf(contents: MemoryContents, origin: string): Owing {
  const { cursor, events } = contents.origins.get(origin) ?? { cursor: 0, events: 0 };
  const pending = new Map<number, number>();
  for (const set of contents.sets.values()) {
    if (set.origin !== origin) continue;
    pending.set(set.destination, (pending.get(set.destination) ?? 0) + set.deliveries.size);
  }
  return { cursor, events, pending };
}

/** What was taken out of one set. */
export interface Withdrawn extends Pick<PendingSet, 'destination' | 'origin'> {
  readonly positions: readonly Position[];
}

/**
 * Takes what is owed of some events out of the sets that `from` names, and gives what was taken from each. An event that
 * is owed twice stands there twice. Walks over everything pending: meant for upkeep and erasing.
 */
export function withdraw(
  contents: MemoryContents,
  goes: (position: Position) => boolean,
  from: (set: PendingSet) => boolean,
): readonly Withdrawn[] {
  const withdrawn: Withdrawn[] = [];
  const emptied = new Set<number>();
  for (const set of contents.sets.values()) {
    if (!from(set)) continue;
    const gone = [...set.deliveries.keys()].filter(goes);
    if (gone.length === 0) continue;
    for (const position of gone) set.deliveries.delete(position);
    withdrawn.push({ destination: set.destination, origin: set.origin, positions: gone });
    if (set.deliveries.size > 0) continue;
    contents.sets.delete(set.id);
    emptied.add(set.destination);
  }
  for (const destination of emptied) leaveOutEmpty(contents, destination);
  return withdrawn;
}

/** A set is never empty: claims rely on it. */
function leaveOutEmpty(contents: MemoryContents, destination: number): void {
  const sets = contents.onDisk.get(destination) ?? [];
  replaceOnDisk(
    contents,
    destination,
    sets.filter((set) => set.deliveries.size > 0),
  );
}
