/**
 * Counts of a source, and with `DestinationCounts` the sums by which anybody can check that nothing is lost:
 * per source `received = accepted + duplicates + discarded`, per destination `owed = delivered + pending +
 * dead + dropped + erased`.
 *
 * `received` is counted by the parser and not derived from the others: a loss would show as a number.
 */
export interface SourceCounts {
  readonly received: number;
  readonly accepted: number;
  readonly duplicates: number;
  /** By reason. */
  readonly discarded: Readonly<Record<string, number>>;
}

export interface DestinationCounts {
  readonly owed: number;
  readonly delivered: number;
  /** Counted from the pending sets, which makes the balance a check instead of a tautology. */
  readonly pending: number;
  readonly dead: Readonly<Record<string, number>>;
  /** Not sent, because the type of the destination has no use for the event; by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  readonly erased: number;
  /** Not owed, by reason. */
  readonly skipped: Readonly<Record<string, number>>;
}

export interface Ledger {
  /** By source id. */
  readonly sources: ReadonlyMap<number, SourceCounts>;
  /** By destination id. */
  readonly destinations: ReadonlyMap<number, DestinationCounts>;
}

/**
 * owed − delivered − pending − dead − dropped − erased: 0, or deliveries were lost (positive) or made twice
 * (negative).
 */
export function balanceOf({ owed, delivered, pending, dead, dropped, erased }: DestinationCounts): number {
  return owed - delivered - pending - sumByReason(dead) - sumByReason(dropped) - erased;
}

export function sumByReason(byReason: Readonly<Record<string, number>>): number {
  return Object.values(byReason).reduce((sum, n) => sum + n, 0);
}
