import type { DestinationCounts, SourceCounts } from '../model/ledger.ts';
import type { ClockErrorCounts } from '../ports/telemetry.ts';

/** The ledger as the control API gives it, by name. spec/contract.md, "Ledger". */
export interface LedgerReport {
  readonly sources: Readonly<Record<string, SourceCounts>>;
  readonly destinations: Readonly<Record<string, DestinationCounts & { readonly balance: number }>>;
  /** Whether every sum comes out: `differences` is empty. */
  readonly balanced: boolean;
  readonly differences: readonly LedgerDifference[];
}

/** A sum that does not come out, with its terms: `difference` is what is missing, negative what is counted twice. */
export type LedgerDifference =
  | {
      readonly source: string;
      readonly difference: number;
      readonly received: number;
      readonly accepted: number;
      readonly duplicates: number;
      readonly discarded: number;
    }
  | {
      readonly destination: string;
      readonly difference: number;
      readonly owed: number;
      readonly delivered: number;
      readonly pending: number;
      readonly dead: number;
      readonly erased: number;
    };

/** Calls that belong to no source, counted since the start. */
export interface UnattributedCalls {
  readonly discarded: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  readonly clock: ClockErrorCounts;
}
