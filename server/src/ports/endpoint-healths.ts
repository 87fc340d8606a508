import type { EndpointHealth } from '../model/endpoint-health.ts';

/**
 * How endpoints have done, over restarts. It is for people who look, and nothing is decided by it: what was kept last
 * is what a restart finds, and what happened since may be missing.
 */
export interface EndpointHealths {
  /** What is kept of every destination; one that nothing is kept of, or whose record cannot be read, is left out. */
  load(): Promise<readonly DestinationHealth[]>;

  /**
   * Puts what is kept of these destinations in the place of what was, all of them or none; one without endpoints is
   * forgotten. Asked in the same turn as `Backlog.settle`, it shares the commit of that.
   * Rejects with a `StorageError` when nothing was written.
   */
  keep(healths: readonly DestinationHealth[]): Promise<void>;
}

export interface DestinationHealth {
  /** Id of the destination. */
  readonly destination: number;
  /** In the order of its settings. */
  readonly endpoints: readonly EndpointHealth[];
}
