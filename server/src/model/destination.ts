import { changeEventNames, type DeliveryPolicy, isWantedName } from './delivery-policy.ts';
import type { Pause } from './pause.ts';
import type { SigningKey } from './signing-key.ts';

/** Where events go. */
export interface Destination extends DeliveryPolicy {
  /** Given by the store when it first sees the name; never reused. */
  readonly id: number;
  readonly name: string;
  /** The name of its type (ports/destination-type.ts). */
  readonly type: string;
  /** Names of its sources. */
  readonly sources: readonly string[];
  /** While false, new events are skipped, and pending deliveries wait. */
  readonly enabled: boolean;
  /** While true, new and pending deliveries wait. Absent: false. */
  readonly paused?: boolean;
  /**
   * The latest periods in which it was paused or disabled, in order; retry windows leave them out. Absent:
   * none.
   */
  readonly pauses?: readonly Pause[];
  /** The settings of its type, which has checked them before they got here. */
  readonly settings: object;
  /** Made by the server for a destination that signs publicly, and forgotten when it does so no more. */
  readonly signingKey?: SigningKey;
  /** Grows with every change of the destination. One round of attempts uses one version. */
  readonly version: number;
}

/**
 * Whether changes of audiences and computed traits come to a destination that these name, in the form that it
 * asks for. Its filter has to let all three track events through: who hears that somebody entered has to hear
 * that they left.
 */
export function hearsOfComputations({
  enabled,
  filter: { types, events } = {},
  computations = {},
}: Pick<Destination, 'enabled' | 'filter' | 'computations'>): boolean {
  if (!enabled) return false;
  const { as = 'identify' } = computations;
  if (as !== 'track' && types?.includes('identify') !== false) return true;
  if (as === 'identify' || types?.includes('track') === false) return false;
  const names = Object.values(changeEventNames(computations));
  return events === undefined || names.every((name) => events.some((wanted) => isWantedName(wanted, name)));
}

/**
 * The states of a destination. It is in the first that holds. spec/specification.md, "State of a
 * destination".
 */
export const DESTINATION_STATES = [
  /** A bug of Millrace has stopped it until the next start: nothing is sent, and everything waits. */
  'failed',
  'disabled',
  'paused',
  /** Requests fail in a way that is tried again, and none has shown life since. */
  'failing',
  /** Deliveries die for good, all or some (`RefusalTracker`). */
  'refusing',
  /** Nothing can be owed: it has no source, and no audience or computed trait names it. */
  'no_source',
  /** No request to it has ended yet. */
  'never_asked',
  'healthy',
] as const;

export type DestinationStateName = (typeof DESTINATION_STATES)[number];

/** Whether the destination is sent anything. */
export function isDelivering({ enabled, paused = false }: Pick<Destination, 'enabled' | 'paused'>): boolean {
  return enabled && !paused;
}
