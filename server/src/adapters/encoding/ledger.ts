import { invariant } from '../../model/invariant.ts';
import type { DestinationCounts, Ledger, SourceCounts } from '../../model/ledger.ts';

/** Scope of a counter. `id` is that of a source, of a destination, or the number of a skip set (plans.ts). */
export type LedgerScope = 'source' | 'destination' | 'skip_set';

/**
 * A change of one counter. `name` is a counter of model/ledger.ts; counters by reason are written
 * `discarded:<reason>`.
 */
export interface LedgerCount {
  readonly scope: LedgerScope;
  readonly id: number;
  readonly name: string;
  readonly n: number;
}

/** Rows of the ledger, and the number of pending deliveries by destination. */
export interface LedgerAnswer {
  readonly counters: readonly { scope: string; id: number; name: string; value: number }[];
  readonly pending: readonly { destination: number; n: number }[];
}

/**
 * The ledger of model/ledger.ts from its rows; counts by reason may come in several. `pending` is counted
 * from the pending sets; it has no counter.
 */
export function ledgerOf({ counters, pending }: LedgerAnswer): Ledger {
  const sources = new Map<number, Writable<SourceCounts>>();
  const destinations = new Map<number, Writable<DestinationCounts>>();
  for (const { scope, id, name, value } of counters) {
    const counts =
      scope === 'source' ? getOrCreate(sources, id, noSource) : getOrCreate(destinations, id, noDestination);
    const [counter, reason] = splitCounterName(name);
    const field = (counts as Record<string, number | Record<string, number>>)[counter];
    if (typeof field === 'object') {
      field[reason] = (field[reason] ?? 0) + value;
      // It falls to zero when its dead letters are redelivered, or when every event of a skip set is owed
      // after all.
      if (field[reason] === 0) delete field[reason];
    } else (counts as Record<string, number | Record<string, number>>)[counter] = value;
  }
  for (const { destination, n } of pending) getOrCreate(destinations, destination, noDestination).pending = n;
  return { sources, destinations };
}

type Writable<Counts> = { -readonly [Name in keyof Counts]: Counts[Name] };

const noSource = (): Writable<SourceCounts> => ({ received: 0, accepted: 0, duplicates: 0, discarded: {} });

const noDestination = (): Writable<DestinationCounts> => ({
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  dropped: {},
  erased: 0,
  skipped: {},
});

function getOrCreate<Value>(map: Map<number, Value>, id: number, make: () => Value): Value {
  let value = map.get(id);
  if (value === undefined) {
    value = make();
    map.set(id, value);
  }
  return value;
}

function splitCounterName(name: string): [counter: string, reason: string] {
  const colon = name.indexOf(':');
  return colon < 0 ? [name, ''] : [name.slice(0, colon), name.slice(colon + 1)];
}

/**
 * Adds up the changes that one transaction makes to the sum that holds for every lane (model/ledger.ts):
 * `owed = delivered + pending + dead + dropped + erased`. The counters say one half of it, the pending sets
 * the other, so that a delivery that is lost or made twice shows before the commit.
 *
 * Deliveries of a damaged row are in neither half: only their number is known, and it may be wrong. The sum
 * of a source is checked where its calls are counted (ingest/commit-queue.ts).
 */
export class LedgerBalance {
  /** By id of the lane: owed, less everything else. */
  readonly #lanes = new Map<number, number>();

  /** A counter changes. */
  count({ scope, id, name, n }: LedgerCount): void {
    if (scope !== 'destination' || name.startsWith('skipped')) return;
    this.#lanes.set(id, (this.#lanes.get(id) ?? 0) + (name === 'owed' ? n : -n));
  }

  /** A lane has more pending deliveries, or fewer where the number is negative. */
  pending(lane: number, n: number): void {
    this.#lanes.set(lane, (this.#lanes.get(lane) ?? 0) - n);
  }

  /** Call before the commit. */
  check(): void {
    for (const balance of this.#lanes.values())
      invariant(balance === 0, 'what a lane is owed is delivered, pending, dead, dropped or erased');
    this.#lanes.clear();
  }
}
