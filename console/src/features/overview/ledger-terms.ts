import type { Status } from '../../api/queries.ts';

/** Both sums of the ledger: the calls, and the deliveries. */
export interface Terms {
  readonly calls: { readonly received: number; readonly terms: Readonly<Record<string, number>> };
  readonly deliveries: { readonly owed: number; readonly terms: Readonly<Record<string, number>> };
}

/** Sums of a range by the name of their series; null where nothing is known. */
export type RangeTotals = Readonly<Record<string, number | null>>;

/**
 * The terms of both sums in a range of time. What was owed before may be delivered in it: then fewer wait
 * than before.
 */
export function rangeTerms(totals: RangeTotals): Terms {
  const of = (name: string): number => totals[name] ?? 0;
  const [owed, delivered, dead, erased] = [of('owed'), of('delivered'), of('dead'), of('erased')];
  const dropped = of('dropped');
  const waiting = owed - delivered - dead - dropped - erased;
  return {
    calls: {
      received: of('received'),
      terms: { accepted: of('accepted'), duplicate: of('duplicates'), discarded: of('discarded') },
    },
    deliveries: {
      owed,
      terms: {
        delivered,
        dead,
        ...ifAny(dropped),
        erased,
        [waiting < 0 ? 'fewer pending' : 'more pending']: waiting,
      },
    },
  };
}

/** The terms of both sums since the beginning, over all sources and over all destinations. */
export function ledgerTerms({ sources, destinations }: Pick<Status, 'sources' | 'destinations'>): Terms {
  const calls = Object.values(sources);
  const deliveries = Object.values(destinations);
  return {
    calls: {
      received: total(calls, ({ received }) => received),
      terms: {
        accepted: total(calls, ({ accepted }) => accepted),
        duplicate: total(calls, ({ duplicates }) => duplicates),
        discarded: total(calls, ({ discarded }) => reasons(discarded)),
      },
    },
    deliveries: {
      owed: total(deliveries, ({ owed }) => owed),
      terms: {
        delivered: total(deliveries, ({ delivered }) => delivered),
        pending: total(deliveries, ({ pending }) => pending),
        dead: total(deliveries, ({ dead }) => reasons(dead)),
        ...ifAny(total(deliveries, ({ dropped }) => reasons(dropped))),
        erased: total(deliveries, ({ erased }) => erased),
      },
    },
  };
}

/** Few types of destinations drop anything. */
function ifAny(dropped: number): { readonly dropped?: number } {
  return dropped === 0 ? {} : { dropped };
}

/** All of a count that is divided by reason. */
export function reasons(counts: Readonly<Record<string, number>>): number {
  return total(Object.values(counts), (count) => count);
}

function total<Entry>(entries: readonly Entry[], of: (entry: Entry) => number): number {
  return entries.reduce((sum, entry) => sum + of(entry), 0);
}
