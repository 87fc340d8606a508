import { DESTINATION_TYPES } from '../../src/destinations/list.ts';
import type { Destination } from '../../src/model/destination.ts';
import { type Lane, laneAt, laneIdsOf, lanesOf, type Target } from '../../src/model/lane.ts';
import { targetsOf } from '../../src/ports/destination-type.ts';

/** Where a destination of a test sends to. */
export function targetsIn(destination: Destination): readonly Target[] {
  return targetsOf(destination, DESTINATION_TYPES);
}

export function lanesIn(destination: Destination): readonly Lane[] {
  return lanesOf(destination, targetsIn(destination));
}

export function laneIdsIn(destination: Destination): readonly number[] {
  return laneIdsOf(destination, targetsIn(destination));
}

export function laneIn(destination: Destination, place: number): Lane {
  return laneAt(destination, targetsIn(destination), place);
}
