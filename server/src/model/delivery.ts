import type { Position } from './event.ts';
import { type Duration, HOUR, type Monotonic, type Time } from './time.ts';

/**
 * How long after its first failure a delivery may still be tried. Time in which its destination was paused or
 * disabled does not count. spec/specification.md, "Retry window".
 */
export const RETRY_WINDOW: Duration = 4 * HOUR;

/**
 * One event owed to one destination: the unit of retry.
 *
 * ```
 *            room at the worker                  every endpoint answered
 *   owed ──▶ held ────────────────────▶ in flight ──▶ decide ──▶ delivered
 *     │        ▲                                        ├──▶ waiting (retry at t) ──┐
 *     └─▶ parked (no room: waits on disk)               ├──▶ dropped (reason)       │
 *              │                                        └──▶ dead (reason)          │
 *              └───────── claimed when there is room and it is due ◀────────────────┘
 * ```
 */
export interface Delivery {
  readonly position: Position;
  /** Rounds of attempts that have failed so far. */
  readonly rounds: number;
  /** When the first round failed. The retry window begins here. */
  readonly firstFailedAt?: Monotonic | undefined;
  /**
   * The endpoints of the next round, as bits by their place in the settings (bit 0 is the first). Valid only
   * with the settings of `settingsVersion`; with any other version every endpoint is tried.
   */
  readonly endpoints?: number | undefined;
  readonly settingsVersion?: number | undefined;
}

/** The outcome of one request to one endpoint. */
export interface Outcome {
  /** `accepted` ends the delivery well; `retryable` may be tried again; `refused` may not. */
  readonly kind: 'accepted' | 'retryable' | 'refused';
  /**
   * `status_503`, `timeout`, `connection_refused`, `certificate_untrusted`, … as listed in
   * `spec/errors.json`, or as the type of the destination calls it. Of what was accepted stores keep the
   * status alone: it is `status_200`, or `accepted` where there is no status.
   */
  readonly reason: string;
  /** The HTTP status, when there was an answer. */
  readonly status?: number | undefined;
  /** No attempt before this time, as the endpoint asked with `Retry-After`. */
  readonly notBefore?: Monotonic;
}

/** Failures that no later try can repair, because the settings are wrong or forbidden. */
const PERMANENT_FAILURES: ReadonlySet<string> = new Set(['egress_refused', 'invalid_request']);

/** Whether a request that failed so is not tried again. Stored failures tell no more of it than this. */
export function isFinal({ status, reason }: Pick<Outcome, 'status' | 'reason'>): boolean {
  return status === undefined ? PERMANENT_FAILURES.has(reason) : !isRetryableStatus(status);
}

/** Whether the same request may be answered otherwise later. spec/specification.md, "Outcomes". */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status <= 599);
}

/**
 * Why a delivery is dropped: keys of "drop" in `spec/errors.json`. They are labels of metrics, hence a closed
 * list.
 */
export type DropReason = 'not_applicable';

/** Characters of a note; the rest of a longer one is cut off. */
const MAX_DROP_NOTE = 200;

/**
 * The type of a destination sends nothing for an event: no request is made, nothing has failed, and no later
 * try is due.
 */
export interface Drop {
  readonly kind: 'dropped';
  readonly reason: DropReason;
  /** Remark of the type, for people: at most `MAX_DROP_NOTE` characters are kept. */
  readonly note?: string | undefined;
}

/** A note as it is kept. */
export function keptNote(note: string): string {
  return note.length <= MAX_DROP_NOTE ? note : `${note.slice(0, MAX_DROP_NOTE - 1).toWellFormed()}…`;
}

/** The record of one request to one endpoint. */
export interface Attempt {
  /** The URL as it was when the request was sent. */
  readonly endpoint: string;
  readonly startedAt: Monotonic;
  readonly latencyMs: number;
  readonly outcome: Outcome;
  /** The first 4 KB of the answer, or the message of the network. Only for failures. */
  readonly answer?: string | undefined;
}

/** The fate of a delivery after a round of attempts. */
export type Decision =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly at: Monotonic; readonly next: Delivery }
  | (Drop & { readonly at: Monotonic })
  | { readonly kind: 'dead'; readonly reason: string };

/** Whether the endpoints have failed to take the event, for now or for good. */
export function isFailure({ kind }: Pick<Decision, 'kind'>): boolean {
  return kind === 'retry' || kind === 'dead';
}

/**
 * The result of a request to an endpoint: accepted, the class of a status, or why there was no answer. These
 * are labels of metrics, hence a closed list: nothing that an endpoint sends becomes a label.
 */
export const REQUEST_RESULTS = [
  'accepted',
  'status_3xx',
  'status_4xx',
  'status_5xx',
  'status_other',
  'timeout',
  'name_not_resolved',
  'connection_refused',
  'connection_closed',
  'connection_failed',
  'certificate_untrusted',
  'protocol_error',
  'egress_refused',
  'invalid_request',
  'other',
] as const;

export type RequestResult = (typeof REQUEST_RESULTS)[number];

/** The health of one endpoint of a destination, which is kept over restarts. */
export interface EndpointHealth {
  /** The URL in the settings. An endpoint with another URL is another endpoint. */
  readonly url: string;
  /** Result of the last request that ended; absent before the first. */
  readonly state?: 'healthy' | 'failing';
  /** When the first request of that state ended. */
  readonly since?: Time | undefined;
  readonly lastAcceptedAt?: Time;
  readonly lastError?: EndpointError;
  /** Numbers of requests by result, without zeros. */
  readonly attempts: Readonly<Partial<Record<RequestResult, number>>>;
  /** The last changes of the state, the oldest first. */
  readonly history: readonly HealthChange[];
}

/** The last failure of an endpoint. */
export interface EndpointError {
  readonly at: Time;
  readonly reason: string;
  readonly status?: number;
  /** The beginning of the answer, or the message of the network. */
  readonly answer?: string;
}

export interface HealthChange {
  readonly at: Time;
  readonly state: 'healthy' | 'failing';
  /** Why the endpoint fails. */
  readonly reason?: string;
  /** Number of further changes too quick for entries of their own; `at` and `state` are of the last one. */
  readonly flaps?: number;
}
