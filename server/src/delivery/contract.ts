import type { Attempt, Drop, EndpointHealth, Outcome } from '../model/delivery.ts';
import type { DestinationStateName } from '../model/destination.ts';
import type { OnWallClock, Time } from '../model/time.ts';
import type { PreviewedRequest } from '../ports/destination-type.ts';

// The types that other stages read: status screens, metrics and the control API import them from here.

/** A worker at one moment. */
export interface WorkerState {
  /** Id of the destination. */
  readonly destination: number;
  /** Deliveries in memory, including those in flight. */
  readonly held: number;
  readonly inFlight: number;
  /** How many deliveries may be in flight. */
  readonly limit: number;
  /** State of the circuit breaker. */
  readonly breaker: 'closed' | 'open' | 'probing';
  /** Present while the breaker is open. The probe also waits until a delivery is due. */
  readonly nextProbeAt?: Time | undefined;
  /** Time of the first failure since the endpoint last showed life; absent while there is none. */
  readonly failingSince?: Time | undefined;
  /** Since when deliveries die for good, all or some (`RefusalTracker`); absent while they do not. */
  readonly refusingSince?: Time | undefined;
  readonly lastError?: LastError | undefined;
  /** The invariant that did not hold, and stopped the worker until the next start; absent while it works. */
  readonly failure?: string | undefined;
}

/** The last failed request of a worker. */
export interface LastError {
  readonly reason: string;
  /** The URL, masked by `maskUrl`. */
  readonly endpoint: string;
  readonly at: Time;
}

/** All workers of a destination as one, and each of its endpoints in the order of the settings. */
export interface DestinationState extends WorkerState {
  readonly state: DestinationStateName;
  readonly endpoints: readonly EndpointState[];
}

/** One endpoint at one moment. */
export interface EndpointState extends Omit<EndpointHealth, 'url' | 'state'> {
  /** The URL, masked by `maskUrl`. */
  readonly endpoint: string;
  /**
   * Its place in the settings, counted from 1, and its host: short, and stable while the settings stay the
   * same.
   */
  readonly label: string;
  /** By the last request that ended; `healthy` before the first. */
  readonly state: 'healthy' | 'failing';
  /** Like `attempts`, but only since this program started. */
  readonly attemptsSinceStart: EndpointHealth['attempts'];
}

/** The request of a test delivery to one target, and its result. */
export interface TestAttempt {
  /** The endpoint's place in the settings, counted from 0. */
  readonly place: number;
  readonly request: PreviewedRequest;
  readonly attempt: OnWallClock<Omit<Attempt, 'outcome'> & { readonly outcome: Outcome | Drop }>;
}
