import type { Destination } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import type { Time } from '../model/time.ts';
import type { OutboundRequest } from './transport.ts';

/**
 * What a kind of destination knows: how an event becomes requests. Pure: the same event and settings, the same bytes;
 * `now` is for headers that date the request and never for the body.
 */
export interface DestinationType {
  /** The name that stands for every destination of this type in an integrations object. */
  readonly name: string;

  /**
   * The requests of one round, one per endpoint whose bit is set in `endpoints`, with the place of its endpoint.
   * All of them carry the same body.
   */
  requests(event: Event, destination: Destination, endpoints: number, now: Time): readonly PlacedRequest[];
}

export interface PlacedRequest {
  /** The endpoint's place in the settings. */
  readonly place: number;
  readonly request: OutboundRequest;
}
