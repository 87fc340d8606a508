import { type Destination, destinationOfLane, everyLaneOf, lanesOf } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import type { Replay } from '../model/replay.ts';
import type { OwedSlice } from '../ports/backlog.ts';
import type { Likeness } from '../ports/event-log.ts';
import type { EventHistory, History } from '../ports/history.ts';

/** Histories asked for at once. Each is a few small reads, and commits wait meanwhile. */
const HISTORIES = 100;

/** What need not be looked at for a redelivery of what was delivered. */
export function likenessOf(
  { redelivers }: Pick<Replay, 'redelivers'>,
  destination: Destination,
): Likeness | undefined {
  if (redelivers === undefined) return undefined;
  return { owedTo: everyLaneOf(destination), isDelivered: true };
}

/** Whom an event is owed to once more: the lanes that have it, or all of them where those are no longer there. */
function lanesThatHave({ deliveries }: EventHistory, destination: Destination): number[] {
  const all = lanesOf(destination).map(({ id }) => id);
  const delivered = deliveries
    .filter((one) => one.state === 'delivered' && destinationOfLane(one.destination) === destination.id)
    .map((one) => one.destination);
  const those = all.filter((lane) => delivered.includes(lane));
  return delivered.length === 0 || those.length > 0 ? those : all;
}

/** The events of these that a destination has, and what each of its lanes is owed of them once more. */
export async function deliveredOf(
  positions: readonly Position[],
  destination: Destination,
  history: Pick<History, 'of'>,
): Promise<Required<Pick<OwedSlice, 'positions' | 'only'>>> {
  const only = new Map<number, Position[]>(lanesOf(destination).map(({ id }) => [id, []]));
  const wanted: Position[] = [];
  for (let from = 0; from < positions.length; from += HISTORIES) {
    const some = positions.slice(from, from + HISTORIES);
    for (const [nth, known] of (await history.of(some)).entries()) {
      const lanes = known === undefined ? [] : lanesThatHave(known, destination);
      if (lanes.length > 0) wanted.push(some[nth]!);
      for (const lane of lanes) only.get(lane)?.push(some[nth]!);
    }
  }
  return { positions: wanted, only };
}
