import type { Destination } from './destination.ts';

/**
 * A place that a destination sends to: a URL, a file. What a type calls its targets follows from its
 * settings.
 */
export interface Target {
  /** Its place among the targets of the destination, from 0. */
  readonly place: number;
  /** Label for people, without secrets: a host, a file. */
  readonly label: string;
  /** The URL by which the egress rules judge it, whole. Absent where it is none of the network. */
  readonly address?: string;
}

/**
 * Name that tells the target from others in attempts and in the health of targets. It is masked wherever it
 * is shown.
 */
export function nameOfTarget({ address, label }: Target): string {
  return address ?? label;
}

/**
 * A unit of delivery: a destination with all of its targets or, with `success: each`, with one of them. It
 * has the id under which its deliveries are stored and counted.
 */
export interface Lane extends Destination {
  readonly targets: readonly Target[];
}

/**
 * A destination has at most this many targets: the lanes of all destinations have ids in one room.
 * spec/specification.md, "Settings".
 */
export const MAX_TARGETS = 5;

/**
 * Distance between the ids of two lanes of one destination. Ids of records stay below it, and ids of lanes
 * fit in the 32 bits that some stores have for them.
 */
const LANE_STEP = 2 ** 24;

/**
 * The lanes of a destination. With `any` the only lane is the destination itself. With `each` every target
 * has a lane (spec/specification.md, "Several endpoints"): none waits for another or is tried again because
 * of another. The id of the first lane is that of the destination.
 */
export function lanesOf(destination: Destination, targets: readonly Target[]): readonly Lane[] {
  if (destination.success !== 'each') return [{ ...destination, targets }];
  return targets.map(({ place }) => laneAt(destination, targets, place));
}

/** The ids of `lanesOf`. */
export function laneIdsOf(destination: Destination, targets: readonly Target[]): readonly number[] {
  return destination.success === 'each'
    ? targets.map(({ place }) => endpointIdOf(destination, place))
    : [destination.id];
}

/**
 * The lane at a place. The settings may have lost its target while deliveries are still pending: the lane
 * goes on with the target that has the place now, and without one when there is none.
 */
export function laneAt(destination: Destination, targets: readonly Target[], place: number): Lane {
  if (place === 0 && destination.success !== 'each') return { ...destination, targets };
  return {
    ...destination,
    id: endpointIdOf(destination, place),
    success: 'any',
    targets: targets.slice(place, place + 1),
  };
}

/**
 * Ids of all lanes that the destination may ever have had. A lane without a target may still have deliveries.
 */
export function everyLaneIdOf(destination: Pick<Destination, 'id'>): number[] {
  return Array.from({ length: MAX_TARGETS }, (_, place) => endpointIdOf(destination, place));
}

/** A number for one target, unique among all destinations, and the id of its lane where it has one. */
export function endpointIdOf({ id }: Pick<Destination, 'id'>, place: number): number {
  return id + place * LANE_STEP;
}

/** The id of the destination of a lane. */
export function destinationOfLane(lane: number): number {
  return lane % LANE_STEP;
}

/** The place of a lane's target in the settings; 0 for a destination with one lane. */
export function endpointIndexOfLane(lane: number): number {
  return Math.floor(lane / LANE_STEP);
}
