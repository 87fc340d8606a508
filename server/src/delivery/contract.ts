import type { Destination } from '../model/destination.ts';
import type { Time } from '../model/time.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { EndpointState } from './endpoint-health.ts';
import type { LastError } from './health.ts';

/** A lane as a status screen shows it. */
export interface WorkerState {
  /** Id of the destination. */
  readonly destination: number;
  /** `failing`: nothing was delivered since the last failure. */
  readonly state: 'healthy' | 'failing' | 'paused' | 'disabled';
  /** Deliveries in memory, those in flight included. */
  readonly held: number;
  readonly inFlight: number;
  /** How many may be in flight. */
  readonly limit: number;
  readonly breaker: CircuitBreaker['state'];
  /** Only while the breaker is open; the probe waits besides until a delivery is due. */
  readonly nextProbeAt?: Time;
  /** When the first of the failures was that no success has followed. */
  readonly failingSince?: Time;
  readonly lastError?: LastError;
}

/** A destination as a status screen shows it: its lanes together, and each of its endpoints in the order of the settings. */
export interface DestinationState extends WorkerState {
  readonly endpoints: readonly EndpointState[];
}

/** Disabled says more than paused: what arrives is skipped. */
export function workerStateOf(
  { enabled, paused }: Destination,
  failingSince: Time | undefined,
): WorkerState['state'] {
  if (!enabled) return 'disabled';
  if (paused === true) return 'paused';
  return failingSince === undefined ? 'healthy' : 'failing';
}
