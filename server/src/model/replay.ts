import type { CallType } from './event.ts';
import type { Monotonic, Time } from './time.ts';

/**
 * Stored events of a range of time as new deliveries to one destination: the request of an operator, and how
 * it ended. Its progress is stored with its deliveries (`ReplayProgress` in ports/delivery-queue.ts).
 *
 * ```
 *   running ──▶ done        every event of the range was enqueued, or did not match
 *      ├──────▶ cancelled   by an operator; deliveries enqueued until then stay
 *      └──────▶ failed      for a reason: its destination was removed
 * ```
 */
export interface Replay {
  /** Visible ASCII: requests carry it as `X-Replay-Id`. Later replays have larger ones. */
  readonly id: string;
  /** Name of the destination. */
  readonly destination: string;
  /** Name of a source; absent for all sources of the destination. */
  readonly source?: string;
  /** Only events of these types. */
  readonly types?: readonly CallType[];
  /**
   * Present for a redelivery: only deliveries in this state, and dead and dropped ones only with this reason
   * if one is given. Delivered ones are enqueued again, dead and dropped ones are revived. For these, `from`
   * and `to` are about the time at which they were given up.
   */
  readonly redelivers?: {
    readonly state: 'delivered' | 'dead' | 'dropped';
    readonly reason?: string;
    /**
     * Only deliveries given up before this time, that of the request: those given up again are left to the
     * next redelivery.
     */
    readonly before?: Monotonic;
  };
  /** Arrival of the events: from (inclusive) to (exclusive). */
  readonly from: Time;
  readonly to: Time;
  /** Events a second at most. */
  readonly rate: number;
  readonly preview: ReplayPreview;
  readonly state: 'running' | 'done' | 'cancelled' | 'failed';
  /** The reason why the replay failed. */
  readonly reason?: string;
  readonly createdAt: Time;
  /** The author's name, as in the audit trail. */
  readonly by: string;
  readonly endedAt?: Time;
}

/** Whether deliveries that were given up are revived, and no events are enqueued. */
export function revives({ redelivers }: Pick<Replay, 'redelivers'>): boolean {
  return redelivers !== undefined && redelivers.state !== 'delivered';
}

/** The part of a replay that selects its events. */
export type ReplayRequest = Pick<Replay, 'destination' | 'source' | 'types' | 'redelivers' | 'from' | 'to'>;

/** The size of a replay, estimated before it begins. */
export interface ReplayPreview {
  /** Events. */
  readonly count: number;
  /**
   * Number of deliveries: more than events if each endpoint gets its own. Absent in replays of earlier
   * versions.
   */
  readonly deliveries?: number;
  /** Bytes of JSON. */
  readonly bytes: number;
  /** False when only a part of the range was read and the rest was estimated from that part. */
  readonly isExact: boolean;
}

/** The progress of a replay. */
export interface ReplayStatus {
  /** Events enqueued so far. */
  readonly events: number;
  /** Deliveries that are not settled for good yet. */
  readonly pending: number;
  /**
   * Estimate of events still to be enqueued, never more than are stored. Absent when the preview is the best
   * estimate.
   */
  readonly left?: number;
  /** Events enqueued per second of late; absent when that is not known yet. */
  readonly speed?: number;
  /** The reason why the replay enqueues nothing at the moment. */
  readonly waiting?:
    | 'destination_paused'
    | 'destination_disabled'
    | 'destination_behind'
    | 'storage_unavailable';
}
