/**
 * Counts what the ledger cannot, because no source can be named for it. Called for every request, so it must be quick
 * and must not throw.
 */
export interface Tallies {
  /** Calls without a source that were discarded in a request that was answered 200, by reason. */
  discarded(reasons: Readonly<Record<string, number>>): void;
  /** A request without a source that was refused as a whole; `code` is what it was answered. */
  refused(code: string): void;
  /** Times that clients sent and that were not used. */
  clock(counts: ClockTally): void;
}

export interface ClockTally {
  /** Times that could not be read. */
  readonly unparseable: number;
  /** Events whose time was not corrected, because their client's clock is more than 24 hours off. */
  readonly skewed: number;
}
