import type { Destination } from '../model/destination.ts';
import type { SerializedEvent } from '../model/serialized-event.ts';
import type { Time } from '../model/time.ts';
import type { OutboundRequest } from './http-client.ts';

/**
 * What a kind of destination knows: how an event becomes requests. Pure: the same event and settings, the same bytes;
 * what else it is given is for headers and never for the body.
 */
export interface DestinationType {
  /** The name that stands for every destination of this type in an integrations object. */
  readonly name: string;

  /** The requests of one round, one per endpoint that is wanted, with its place. All of them carry the same body. */
  requests(
    written: SerializedEvent,
    destination: Destination,
    wanted: AttemptContext,
  ): readonly EndpointRequest[];
}

/** The round that requests are made for. */
export interface AttemptContext {
  /** The endpoints, as bits by their place in the settings. */
  readonly endpoints: number;
  readonly now: Time;
  /** The replay on whose behalf the event is owed once more. */
  readonly origin?: string | undefined;
}

export interface EndpointRequest {
  /** The endpoint's place in the settings. */
  readonly endpoint: number;
  readonly request: OutboundRequest;
}
