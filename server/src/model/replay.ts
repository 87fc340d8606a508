import type { CallType } from './call.ts';
import type { Time } from './time.ts';

/**
 * Stored events of a range of time as new deliveries to one destination: what an operator has asked for, and how it
 * ended. How far it has come is kept where its deliveries are owed (ports/backlog.ts, `owe`).
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
export type ReplayWish = Pick<Replay, 'destination' | 'source' | 'types' | 'from' | 'to'>;

/** What a replay comes to, looked at before it begins. */
export interface ReplayPreview {
  /** Events. */
  readonly count: number;
  /** Of their JSON. */
  readonly bytes: number;
  /** False: the range is large, a part of it was looked at, and the rest was taken to be like it. */
  readonly isExact: boolean;
}

/** How far a replay has come. */
export interface ReplayStanding {
  /** Events owed so far. */
  readonly events: number;
  /** Deliveries of it that are not settled for good yet. */
  readonly pending: number;
  /** Why it owes nothing just now. */
  readonly waiting?:
    | 'destination_paused'
    | 'destination_disabled'
    | 'destination_behind'
    | 'storage_unavailable';
}
