import type { CallType } from './call.ts';
import type { Monotonic, Time } from './time.ts';

/**
 * Stored events of a range of time as new deliveries to one destination: what an operator has asked for, and how it
 * ended. How far it has come is kept where its deliveries are owed (ports/delivery-queue.ts, `owe`).
 *
 * ```
 *   running ──▶ done        every event of the range was owed, or not wanted
 *      ├──────▶ cancelled   by an operator; what was owed until then stays owed
 *      └──────▶ failed      for a reason: its destination was removed
 * ```
 */
export interface Replay {
  /** Visible ASCII: requests carry it as `X-Replay-Id`. Later replays have larger ones. */
  readonly id: string;
  /** Name of the destination. */
  readonly destination: string;
  /** Name of a source; absent for all sources that the destination takes events from. */
  readonly source?: string;
  /** Only events of these types. */
  readonly types?: readonly CallType[];
  /**
   * Present for a redelivery: only deliveries to the destination that ended so, those that are dead for this reason where one
   * is given. Delivered ones are owed once more, dead ones are revived; of dead ones `from` and `to` say when they died.
   */
  readonly redelivers?: {
    readonly state: 'delivered' | 'dead';
    readonly reason?: string;
    /** Only what died before it was asked for: what dies again is left to the next redelivery. */
    readonly before?: Monotonic;
  };
  /** When they arrived: from (inclusive) to (exclusive). */
  readonly from: Time;
  readonly to: Time;
  /** Events a second at most. */
  readonly rate: number;
  readonly preview: ReplayPreview;
  readonly state: 'running' | 'done' | 'cancelled' | 'failed';
  /** Why it failed. */
  readonly reason?: string;
  readonly createdAt: Time;
  /** As in the audit trail. */
  readonly by: string;
  readonly endedAt?: Time;
}

/** Which events a replay is about. */
export type ReplayRequest = Pick<Replay, 'destination' | 'source' | 'types' | 'redelivers' | 'from' | 'to'>;

/** What a replay comes to, looked at before it begins. */
export interface ReplayPreview {
  /** Events. */
  readonly count: number;
  /** Of their JSON. */
  readonly bytes: number;
  /** False: a part of the range was looked at, and what else is stored of it was taken to be like that part. */
  readonly isExact: boolean;
}

/** How far a replay has come. */
export interface ReplayStatus {
  /** Events owed so far. */
  readonly events: number;
  /** Deliveries of it that are not settled for good yet. */
  readonly pending: number;
  /** Events that are probably still to be owed, never more than are stored; absent when nobody knows better than the preview. */
  readonly left?: number;
  /** Events a second that it has owed of late; absent when that is not known yet. */
  readonly speed?: number;
  /** Why it owes nothing just now. */
  readonly waiting?:
    | 'destination_paused'
    | 'destination_disabled'
    | 'destination_behind'
    | 'storage_unavailable';
}
