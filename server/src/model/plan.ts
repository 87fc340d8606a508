import type { Destination } from './destination.ts';

/**
 * Where one event goes, and where not and why. Every destination connected to its source is in exactly one of the two.
 */
export interface Plan {
  /** As lanes: a destination with `success: each` is here once for each endpoint. See `lanesOf`. */
  readonly owed: readonly Destination[];
  readonly skipped: readonly { readonly destination: Destination; readonly reason: SkipReason }[];
}

/** See `spec/errors.json`. */
export type SkipReason = 'destination_disabled' | 'integrations' | 'filtered';
