/**
 * Counts what is not stored and has no source in the ledger, or none that is known yet. Called for every request, so it
 * must be quick and must not throw.
 */
export interface Tallies {
  /** Calls without a source that were discarded in a request that was answered 200, by reason. */
  discarded(reasons: Readonly<Record<string, number>>): void;
  /** A request that was refused as a whole; `code` is what it was answered. */
  refused(code: string, request?: RefusedRequest): void;
  /** Times that clients sent and that were not used. */
  clock(counts: ClockTally): void;
}

/** What is known of a request that was refused before its calls were looked at. */
export interface RefusedRequest {
  /** Of the Authorization header; with it the request can be counted under its source. */
  readonly writeKey: string | undefined;
  /** What the client was told beside the sentence of the code. */
  readonly detail?: string | undefined;
}

export interface ClockTally {
  /** Times that could not be read. */
  readonly unparseable: number;
  /** Events whose time was not corrected, because their client's clock is more than 24 hours off. */
  readonly skewed: number;
}
