import type { Destination } from '../model/destination.ts';
import type { Time } from '../model/time.ts';
import type { WrittenEvent } from '../model/written-event.ts';
import type { OutboundRequest } from './transport.ts';

/**
 * What a kind of destination knows: how an event becomes requests. Pure: the same event and settings, the same bytes;
 * what else it is given is for headers and never for the body.
 */
export interface DestinationType {
  /** The name that stands for every destination of this type in an integrations object. */
  readonly name: string;

  /** The requests of one round, one per endpoint that is wanted, with its place. All of them carry the same body. */
  requests(written: WrittenEvent, destination: Destination, wanted: WantedRound): readonly PlacedRequest[];
}

/** The round that requests are made for. */
export interface WantedRound {
  /** The endpoints, as bits by their place in the settings. */
  readonly endpoints: number;
  readonly now: Time;
  /** The replay on whose behalf the event is owed once more. */
  readonly origin?: string | undefined;
}

export interface PlacedRequest {
  /** The endpoint's place in the settings. */
  readonly place: number;
  readonly request: OutboundRequest;
}
