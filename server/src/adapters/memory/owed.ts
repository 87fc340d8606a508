import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { SetId } from '../../ports/backlog.ts';
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
  const set = { id, destination: owed.destination, dueAt: birth.dueAt, holder, deliveries };
  contents.sets.set(id, set);
  if (isHeld) return id;
  putOnDisk(contents, set);
  return undefined;
}

/**
 * Takes what is owed of some events out of the sets that `from` names, and gives their positions by destination. An event
 * that is owed twice stands there twice. Walks over everything pending: meant for upkeep and erasing.
 */
export function withdraw(
  contents: MemoryContents,
  goes: (position: Position) => boolean,
  from: (set: PendingSet) => boolean,
): ReadonlyMap<number, readonly Position[]> {
  const withdrawn = new Map<number, Position[]>();
  const emptied = new Set<number>();
  for (const set of contents.sets.values()) {
    if (!from(set)) continue;
    const gone = [...set.deliveries.keys()].filter(goes);
    if (gone.length === 0) continue;
    for (const position of gone) set.deliveries.delete(position);
    const others = withdrawn.get(set.destination);
    withdrawn.set(set.destination, others === undefined ? gone : others.concat(gone));
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
