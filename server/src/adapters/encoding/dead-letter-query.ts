import type { Position } from '../../model/event.ts';
import type { DeadLetterQuery } from '../../ports/delivery-queue.ts';

/** A page begins at an id, and within its row below a position. */
export function parseCursor(from: string | undefined): readonly [id: number, below?: Position] {
  if (from === undefined) return [Number.MAX_SAFE_INTEGER];
  const [id, below] = from.split('-').map(Number);
  return below === undefined ? [id!] : [id!, below];
}

export type PositionsByDestination = ReadonlyMap<
  number,
  { readonly sorted: readonly Position[]; readonly set: ReadonlySet<Position> }
>;

/** The positions that a query names, by destination; undefined when it names none. */
export function onlyPositions({ only }: DeadLetterQuery): PositionsByDestination | undefined {
  if (only === undefined) return undefined;
  const byDestination = Map.groupBy(only, ({ destination }) => destination);
  return new Map(
    [...byDestination].map(([destination, some]) => {
      const sorted = some.map(({ position }) => position).sort((a, b) => a - b);
      return [destination, { sorted, set: new Set(sorted) }];
    }),
  );
}
