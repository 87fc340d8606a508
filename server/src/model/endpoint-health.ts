import type { Outcome } from './delivery.ts';
import type { Time } from './time.ts';

/**
 * What a request to an endpoint came to: accepted, the class of a status, or why there was no answer. A label of metrics:
 * nothing that an endpoint sends becomes one.
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

const STATUS_CLASSES = [3, 4, 5];
const OTHER_STATUS = REQUEST_RESULTS.indexOf('status_other');
const OTHER = REQUEST_RESULTS.indexOf('other');
const RESULT_INDEXES = new Map<string, number>(REQUEST_RESULTS.map((result, place) => [result, place]));

/** The place in `RESULTS` of what a request came to. Runs for every request. */
export function resultIndexOf({ kind, reason, status }: Outcome): number {
  if (kind === 'accepted') return 0;
  if (status === undefined) return RESULT_INDEXES.get(reason) ?? OTHER;
  const place = STATUS_CLASSES.indexOf(Math.floor(status / 100));
  return place < 0 ? OTHER_STATUS : place + 1;
}

/** How one endpoint of a destination has done, as it is kept over restarts. */
export interface EndpointHealth {
  /** As it stands in the settings: an endpoint whose URL changes is another one. */
  readonly url: string;
  /** By the last request that ended; absent before the first. */
  readonly state?: 'healthy' | 'failing';
  /** When the first request of that state ended. */
  readonly since?: Time;
  readonly lastAcceptedAt?: Time;
  readonly lastError?: EndpointError;
  /** Requests by what they came to, without those of which there was none. */
  readonly attempts: Readonly<Partial<Record<RequestResult, number>>>;
  /** The last changes of the state, the oldest first. */
  readonly history: readonly HealthChange[];
}

/** What went wrong last at an endpoint. */
export interface EndpointError {
  readonly at: Time;
  readonly reason: string;
  readonly status?: number;
  /** The beginning of what was answered, or what the network said. */
  readonly answer?: string;
}

export interface HealthChange {
  readonly at: Time;
  readonly state: 'healthy' | 'failing';
  /** Why it fails. */
  readonly reason?: string;
  /** It changed so often more, too quickly for an entry each; `at` and `state` are of the last time. */
  readonly flaps?: number;
}
