import type { Destination } from './destination.ts';

/**
 * Distance between the ids of two lanes of one destination. Ids of records stay below it, and ids of lanes fit in the 32 bits that
 * some stores have for them.
 */
const LANE_STEP = 2 ** 24;

/**
 * The lanes of a destination. With `any` the only lane is the destination itself. With `each` every endpoint has a lane
 * (spec/specification.md, "Several endpoints"), with an id of its own under which deliveries are stored and counted: no endpoint
 * waits for another or is tried again because of another. The id of the first lane is that of the destination.
 */
export function lanesOf(destination: Destination): readonly Destination[] {
  const { settings, success } = destination;
  return success !== 'each'
    ? [destination]
    : settings.endpoints.map((_, place) => laneAt(destination, place));
}

/**
 * The lane at a place. The settings may have lost its endpoint while deliveries are still pending: the lane goes on with the
 * endpoint that has the place now, and without one when there is none.
 */
export function laneAt(destination: Destination, place: number): Destination {
  const { settings } = destination;
  if (place === 0 && destination.success !== 'each') return destination;
  const endpoints = settings.endpoints.slice(place, place + 1);
  return {
    ...destination,
    id: destination.id + place * LANE_STEP,
    success: 'any',
    settings: { ...settings, endpoints },
  };
}

/** A destination has at most this many endpoints. spec/specification.md, "Settings". */
const MAX_ENDPOINTS = 5;

/** Ids of all lanes that the destination may ever have had. A lane without an endpoint may still have deliveries. */
export function everyLaneIdOf(destination: Destination): number[] {
  return Array.from({ length: MAX_ENDPOINTS }, (_, place) => laneAt(destination, place).id);
}

/**
 * A number for one endpoint, unique among all destinations. It is the same for a destination and for a lane of it.
 */
export function endpointIdOf({ id }: Pick<Destination, 'id'>, place: number): number {
  return id + place * LANE_STEP;
}

/** The id of the destination of a lane. */
export function destinationOfLane(lane: number): number {
  return lane % LANE_STEP;
}

/** The place of a lane's endpoint in the settings; 0 for a destination with one lane. */
export function endpointIndexOfLane(lane: number): number {
  return Math.floor(lane / LANE_STEP);
}

/** A removed destination has nowhere to send to: its pending deliveries are given up. */
export function withoutEndpoints(destination: Destination): Destination {
  const settings = { ...destination.settings, endpoints: [] };
  return { ...destination, enabled: true, paused: false, settings };
}
