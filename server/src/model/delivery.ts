import type { Position } from './event.ts';
import { type Duration, HOUR, type Monotonic } from './time.ts';

/**
 * How long after its first failure a delivery may still be tried. Time in which its destination was paused or disabled does not
 * count. spec/specification.md, "Retry window".
 */
export const RETRY_WINDOW: Duration = 4 * HOUR;

/**
 * One event owed to one destination: the unit of retry.
 *
 * ```
 *            place in the lane's window          every endpoint answered
 *   owed ──▶ held ────────────────────▶ in flight ──▶ decide ──▶ delivered
 *     │        ▲                                        ├──▶ waiting (retry at t) ──┐
 *     └─▶ parked (no room: waits on disk)               └──▶ dead (reason)          │
 *              └───────── claimed when there is room and it is due ◀────────────────┘
 * ```
 */
export interface Delivery {
  readonly position: Position;
  /** Rounds of attempts that have failed so far. */
  readonly rounds: number;
  /** When the first round failed. The retry window begins here. */
  readonly firstFailedAt?: Monotonic;
  /**
   * The endpoints of the next round, as bits by their place in the settings (bit 0 is the first). Valid only with the settings of
   * `settingsVersion`; with any other version every endpoint is tried.
   */
  readonly endpoints?: number;
  readonly settingsVersion?: number;
}

/** The outcome of one request to one endpoint. */
export interface Outcome {
  /** `accepted` ends the delivery well; `retryable` may be tried again; `refused` may not. */
  readonly kind: 'accepted' | 'retryable' | 'refused';
  /** `status_503`, `timeout`, `connection_refused`, `certificate_untrusted`, … as listed in `spec/errors.json`. */
  readonly reason: string;
  /** The HTTP status, when there was an answer. */
  readonly status?: number;
  /** No attempt before this time, as the endpoint asked with `Retry-After`. */
  readonly notBefore?: Monotonic;
}

/** The record of one request to one endpoint. */
export interface Attempt {
  /** The URL as it was when the request was sent. */
  readonly endpoint: string;
  readonly startedAt: Monotonic;
  readonly latencyMs: number;
  readonly outcome: Outcome;
  /** The first 4 KB of the answer, or the message of the network. Only for failures. */
  readonly answer?: string;
}

/** The fate of a delivery after a round of attempts. */
export type Decision =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly at: Monotonic; readonly next: Delivery }
  | { readonly kind: 'dead'; readonly reason: string };
