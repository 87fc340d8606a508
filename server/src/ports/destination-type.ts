import type { Destination } from '../model/destination.ts';
import type { SerializedEvent } from '../model/serialized-event.ts';
import type { Time } from '../model/time.ts';
import type { OutboundRequest } from './http-client.ts';

/**
 * A type of destination: it turns events into requests. Pure: the same event and settings give the same body, and the context
 * of the attempt goes into headers only.
 */
export interface DestinationType {
  /** The name in an integrations object for all destinations of this type. */
  readonly name: string;

  /** The requests of one round, one per endpoint of the context. All have the same body. */
  requests(
    serialized: SerializedEvent,
    destination: Destination,
    context: AttemptContext,
  ): readonly EndpointRequest[];
}

/** The round of attempts that requests are made for. */
export interface AttemptContext {
  /** The endpoints of the round, as bits by their place in the settings. */
  readonly endpoints: number;
  readonly now: Time;
  /** The id of the replay that delivers the event again. */
  readonly replay?: string | undefined;
}

export interface EndpointRequest {
  /** The endpoint's place in the settings. */
  readonly endpoint: number;
  readonly request: OutboundRequest;
}
