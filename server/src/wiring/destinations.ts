import { previewOf, sendTestDelivery } from '../delivery/test-delivery.ts';
import { DESTINATION_TYPES } from '../destinations/list.ts';
import type { Destination } from '../model/destination.ts';
import { laneIdsOf, type Target } from '../model/lane.ts';
import type { Clock } from '../ports/clock.ts';
import {
  type DestinationTypes,
  type Sender,
  type SenderTools,
  targetsOf,
} from '../ports/destination-type.ts';
import type { SettingsSnapshot } from '../ports/settings-store.ts';
import { Router, withholding } from '../routing/router.ts';
import type { ControlOperationDependencies } from './control-operations.ts';

/** Senders by the name of their type. Types whose events are fetched have none. */
export interface Senders {
  readonly byType: ReadonlyMap<string, Sender>;
  stop(): Promise<void>;
}

export function openSenders(types: DestinationTypes, tools: SenderTools): Senders {
  const byType = new Map<string, Sender>();
  for (const type of types.values()) {
    const sender = type.taker === 'worker' ? type.open?.(tools) : undefined;
    if (sender !== undefined) byType.set(type.name, sender);
  }
  return {
    byType,
    stop: async () => {
      await Promise.all([...byType.values()].map((sender) => sender.stop()));
    },
  };
}

/** Where a destination sends to. */
export function targetsIn(destination: Destination): readonly Target[] {
  return targetsOf(destination, DESTINATION_TYPES);
}

export function lanesIn(destination: Destination): readonly number[] {
  return laneIdsOf(destination, targetsIn(destination));
}

export function routerFor({
  destinations,
  audiences = [],
  traits = [],
}: Pick<SettingsSnapshot, 'destinations'> & Partial<Pick<SettingsSnapshot, 'audiences' | 'traits'>>): Router {
  return new Router(destinations, DESTINATION_TYPES, [...audiences, ...traits]);
}

/** Tells which events consent withholds from a destination; undefined where it asks for none. */
export function withholdingOf(destination: Destination): ReturnType<typeof withholding> {
  return withholding(destination, DESTINATION_TYPES);
}

/**
 * How the control API shows requests and sends tests: by the same senders as deliveries. Of what nobody sends
 * there is nothing to show.
 */
export function previews({
  senders,
  clock,
}: {
  readonly senders: Senders;
  readonly clock: Clock;
}): Pick<ControlOperationDependencies, 'preview' | 'tryOut'> {
  const senderOf = ({ type }: Destination) => senders.byType.get(type);
  return {
    preview: (event, destination, { targets, at }) => {
      const sender = senderOf(destination);
      if (sender === undefined) return [];
      return previewOf(
        { destination, targets, events: [{ serialized: event, source: event.source }], now: at },
        sender,
      );
    },
    tryOut: async (event, destination) => {
      const sender = senderOf(destination);
      if (sender === undefined) return [];
      return await sendTestDelivery(event, destination, { sender, targets: targetsIn(destination), clock });
    },
  };
}
