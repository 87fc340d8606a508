import type { InvariantError } from '../model/invariant.ts';
import type { Duration, Monotonic } from '../model/time.ts';
import type { DeliveryResult } from '../ports/delivery-queue.ts';
import type { Sender } from '../ports/destination-type.ts';
import type { ProbeTurns } from '../ports/nodes.ts';
import type { CurrentObserver, DeliveryRecorder } from '../ports/telemetry.ts';
import type { LoaderDependencies, TotalInMemory } from './backlog.ts';
import type { DestinationEndpoints } from './endpoint-health.ts';
import type { NodeShare } from './rate-limiter.ts';
import type { RoundDependencies } from './round.ts';

export interface WorkerDependencies extends LoaderDependencies, Pick<RoundDependencies, 'traceparents'> {
  readonly sender: Sender;
  readonly currentObserver: CurrentObserver;
  /** Name of a source by its id, for observers. */
  readonly sourceName: (id: number) => string;
  readonly measures: DeliveryRecorder | undefined;
  readonly settle: (result: DeliveryResult) => void;
  /** Resolves when the results settled before are on stable storage. Rejects with a `StorageError`. */
  readonly writeResults: () => Promise<void>;
  /** Deliveries in the memory of all workers. */
  readonly total: TotalInMemory;
  /** All endpoints of the destination; the worker may serve one of them or all. */
  readonly endpoints: Readonly<DestinationEndpoints>;
  /** The part of this node in the limits of every destination. */
  readonly share: () => NodeShare;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
  /** How long an answer that has just been read may have waited for this thread. */
  readonly unreadFor: (now: Monotonic) => Duration;
  /** Told how long each piece of work kept the thread. */
  readonly worked?: ((duration: Duration) => void) | undefined;
  /** Whether this process may hold deliveries and send them. Absent where it always may. */
  readonly maySend?: (() => boolean) | undefined;
  /** Where other processes deliver to the same endpoints: who of them probes a failing one. */
  readonly probeTurns?: ProbeTurns | undefined;
  /**
   * Whether results are written soon: others repeat what is not written when this process loses its lease.
   */
  readonly areResultsWritten?: (() => boolean) | undefined;
  /**
   * Told why the lane has stopped, once: an invariant did not hold. `lane` is its name.
   */
  readonly laneFailed?: ((lane: string, error: InvariantError) => void) | undefined;
}
