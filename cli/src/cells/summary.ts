import type { Overview } from '@millrace/server';

/** Sums of the ledger of a cell, or of all of them. */
export interface CellSums {
  readonly received: number;
  readonly accepted: number;
  readonly duplicates: number;
  readonly discarded: number;
  readonly owed: number;
  readonly delivered: number;
  readonly pending: number;
  readonly dead: number;
  readonly erased: number;
}

/** The figures of a cell in `millrace cells status`. */
export interface CellSummary extends CellSums {
  readonly version: string;
  /** Absent in the answer of an older server. */
  readonly storeId?: string;
  /** Nodes with a valid lease; 1 where a cell is one process. */
  readonly nodes: number;
  /** When the oldest event arrived that some destination still waits for, and how long that is by the clock of the cell. */
  readonly oldestPendingAt?: string;
  readonly oldestPendingMs?: number;
  readonly balanced: boolean;
  readonly differences: Overview['differences'];
}

/** Throws a `TypeError` where a count is no number: in a sum it would make all of them wrong. */
export function summaryOf(overview: Overview): CellSummary {
  const { version, storeId, nodes, lanes, at, balanced, differences } = overview;
  const sources = Object.values(overview.sources);
  const destinations = Object.values(overview.destinations);
  const oldest = Object.values(lanes)
    .flatMap(({ oldestPendingAt }) => oldestPendingAt ?? [])
    .reduce<string | undefined>(
      (a, b) => (a !== undefined && Date.parse(a) <= Date.parse(b) ? a : b),
      undefined,
    );
  return {
    version,
    storeId,
    nodes: nodes === undefined ? 1 : nodes.filter(({ leaseLeftMs }) => leaseLeftMs > 0).length,
    received: total(sources.map(({ received }) => received)),
    accepted: total(sources.map(({ accepted }) => accepted)),
    duplicates: total(sources.map(({ duplicates }) => duplicates)),
    discarded: total(sources.flatMap(({ discarded }) => Object.values(discarded))),
    owed: total(destinations.map(({ owed }) => owed)),
    delivered: total(destinations.map(({ delivered }) => delivered)),
    pending: total(destinations.map(({ pending }) => pending)),
    dead: total(destinations.flatMap(({ dead }) => Object.values(dead))),
    erased: total(destinations.map(({ erased }) => erased)),
    ...(oldest === undefined
      ? {}
      : { oldestPendingAt: oldest, oldestPendingMs: total([Date.parse(at), -Date.parse(oldest)]) }),
    balanced,
    differences,
  };
}

export function sumsOf(cells: readonly CellSums[]): CellSums {
  const sum = (key: keyof CellSums) => total(cells.map((cell) => cell[key]));
  return {
    received: sum('received'),
    accepted: sum('accepted'),
    duplicates: sum('duplicates'),
    discarded: sum('discarded'),
    owed: sum('owed'),
    delivered: sum('delivered'),
    pending: sum('pending'),
    dead: sum('dead'),
    erased: sum('erased'),
  };
}

function total(counts: readonly number[]): number {
  const sum = counts.reduce((before, n) => before + n, 0);
  if (Number.isFinite(sum)) return sum;
  throw new TypeError('a count is no number');
}
