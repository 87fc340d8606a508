import type { Position } from '../../model/event.ts';
import type { ErasedCounts } from '../../model/regulation.ts';
import { type Erasure, type LogQuery, ownerQueries, type PositionPage } from '../../ports/event-log.ts';

export interface EraseMessage {
  /** Neighbours stand together, so that a slice rewrites few chunks. */
  readonly positions: Float64Array;
  /** Delete notifications are left where they are. */
  readonly keepsNotifications: boolean;
  /** The regulation whose receipt counts what is erased. */
  readonly regulation?: string | undefined;
}

export interface EraseAnswer extends ErasedCounts {
  /** Number of positions that are done. The caller asks again for the others. */
  readonly taken: number;
  /** The positions of them whose events are gone: notifications that stay are not among them. */
  readonly gone: readonly Position[];
}

/** Sums of many slices. */
export class ErasureCounts implements ErasedCounts {
  events = 0;
  deliveries = 0;
  deadLetters = 0;

  add({ events, deliveries, deadLetters }: ErasedCounts): void {
    this.events += events;
    this.deliveries += deliveries;
    this.deadLetters += deadLetters;
  }
}

type EraseSlice = (message: EraseMessage) => Promise<EraseAnswer>;

export interface ErasureDependencies {
  readonly find: (query: LogQuery, below?: Position) => Promise<PositionPage>;
  readonly eraseAt: EraseSlice;
}

/**
 * Finds and erases the events of users, from the newest down, on the main thread: the writer does other work
 * between slices.
 */
export async function eraseUsers(
  { userIds, anonymousIds = [], below, regulation, onErased }: Erasure,
  { find, eraseAt }: ErasureDependencies,
): Promise<ErasedCounts> {
  const counts = new ErasureCounts();
  for (const query of ownerQueries(userIds, anonymousIds)) {
    let next = below;
    do {
      const found = await find(query, next);
      const { positions } = found;
      const options = regulation === undefined ? { onErased } : { onErased, regulation };
      await eraseSlices({ positions, isOfUsers: true, ...options }, counts, eraseAt);
      next = found.next;
    } while (next !== undefined);
  }
  return counts;
}

interface ErasedPositions extends Pick<Erasure, 'regulation' | 'onErased'> {
  readonly positions: readonly Position[];
  /** True for positions that were found by a user: delete notifications among them stay. */
  readonly isOfUsers?: boolean;
}

/** Erases positions slice by slice, and adds to the counts. */
export async function eraseSlices(
  { positions, isOfUsers = false, regulation, onErased }: ErasedPositions,
  counts: ErasureCounts,
  eraseAt: EraseSlice,
): Promise<void> {
  for (let from = 0; from < positions.length; ) {
    const erased = await eraseAt({
      positions: Float64Array.from(positions.slice(from)),
      keepsNotifications: isOfUsers,
      regulation,
    });
    counts.add(erased);
    onErased?.(erased.gone);
    from += erased.taken;
  }
}

const DELETE_TYPE = Buffer.from('","type":"delete",');

/** The bytes alone may also be those of a property. */
export function isDeleteNotification(line: Buffer): boolean {
  return line.includes(DELETE_TYPE) && (JSON.parse(line.toString()) as { type?: unknown }).type === 'delete';
}
