import { type Destination, placeOfLane } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import { shownUrl } from '../model/shown-url.ts';
import type { DeadLetter } from '../ports/dead-letters.ts';
import type { StoredEvent } from '../ports/event-log.ts';
import type { DeliveryHistory, EventHistory } from '../ports/history.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { type Names, namesIn, type TracedAttempt, type TracedDelivery, tracedDelivery } from './trace.ts';

/** A delivery with what says which event it is. Times are ISO 8601. */
export interface FoundDelivery {
  /** As `trace` gives it, and as `redeliveries` takes it. */
  readonly id: string;
  readonly destination: string;
  /** Where it goes, with `success: each`. */
  readonly endpoint?: string;
  readonly state: TracedDelivery['state'];
  /** Why it is dead. */
  readonly reason?: string;
  /** When it was given up. Only where dead ones are asked for. */
  readonly diedAt?: string;
  readonly nextAttemptAt?: string;
  /** These four are unknown of a dead letter whose event was erased. */
  readonly messageId?: string;
  readonly source?: string;
  readonly type?: string;
  readonly receivedAt?: string;
  readonly attempts: readonly TracedAttempt[];
}

/** How deliveries are shown, by the records as they are now. */
export class ShownDeliveries {
  readonly #names: Names;
  readonly #destinations: ReadonlyMap<string, Destination>;

  constructor(settings: SettingsSnapshot) {
    this.#names = namesIn(settings);
    this.#destinations = new Map(settings.destinations.map((one) => [one.name, one]));
  }

  delivery(position: Position, stored: StoredEvent, delivery: DeliveryHistory): FoundDelivery {
    const { attempts, ...rest } = tracedDelivery(position, delivery, this.#names);
    return { ...rest, ...this.#endpointOf(delivery.destination), ...this.#eventOf(stored), attempts };
  }

  letter(
    { destination, position, reason, at }: DeadLetter,
    stored: StoredEvent | undefined,
    known: EventHistory | undefined,
  ): FoundDelivery {
    const requests = known?.deliveries.find((one) => one.destination === destination)?.attempts ?? [];
    const delivery = { destination, state: 'dead', reason, attempts: requests } as const;
    const { attempts, ...rest } = tracedDelivery(position, delivery, this.#names);
    return {
      ...rest,
      diedAt: new Date(at).toISOString(),
      ...this.#endpointOf(destination),
      ...(stored === undefined ? {} : this.#eventOf(stored)),
      attempts,
    };
  }

  #endpointOf(lane: number): { readonly endpoint?: string } {
    const settings = this.#destinations.get(this.#names.destination(lane))?.settings;
    const endpoint = settings?.success === 'each' ? settings.endpoints[placeOfLane(lane)]?.url : undefined;
    return endpoint === undefined ? {} : { endpoint: shownUrl(endpoint) };
  }

  #eventOf({ source, event }: StoredEvent) {
    const { messageId, type, receivedAt } = event;
    return { messageId, source: this.#names.source(source), type, receivedAt };
  }
}
