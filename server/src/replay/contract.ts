import type { Destination } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import type { Time } from '../model/time.ts';
import type { GivenUp } from '../ports/delivery-queue.ts';

// The types that other stages read: the control API imports them from here.

/** Deliveries named by an operator, to be made again. */
export interface NamedRedelivery {
  readonly destination: Destination;
  /** Deliveries; each belongs to the destination. */
  readonly ids: readonly NamedDelivery[];
  /** Events: all of their deliveries to the destination. */
  readonly messageIds?: readonly string[] | undefined;
  /** Id of a source: only its events. */
  readonly sourceId?: number | undefined;
  /** Only events of this type. */
  readonly type?: string | undefined;
  /** Only deliveries that ended in this state. */
  readonly state?: 'delivered' | GivenUp | undefined;
  /** Only dead letters with this reason. */
  readonly reason?: string | undefined;
  /**
   * From (inclusive) to (exclusive): the arrival of the event, or the time at which a dead letter was given
   * up.
   */
  readonly from?: Time | undefined;
  readonly to?: Time | undefined;
  /** Counts and changes nothing. */
  readonly dryRun: boolean;
}

export interface NamedDelivery {
  /** As the operator wrote it. */
  readonly id: string;
  /** Id of the destination, or of its endpoint where each is a delivery of its own. */
  readonly destination: number;
  readonly position: Position;
}

export interface NamedRedeliveryResult {
  /** Id of the redelivery. Absent for a dry run, and when nothing was found. */
  readonly id?: string;
  /** Deliveries that are made again. */
  readonly count: number;
  /** Deliveries that were still pending and were left alone. */
  readonly pending: number;
  /** Deliveries that want for the consent of the visitor and were left alone. */
  readonly withheld: number;
  /** Delivery ids and message ids that no stored event has. */
  readonly missing: readonly string[];
}
