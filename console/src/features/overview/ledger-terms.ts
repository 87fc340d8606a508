import type { Status } from '../../api/queries.ts';

/** The terms of both sums over all sources, and over all destinations. */
export function ledgerTerms({ sources, destinations }: Pick<Status, 'sources' | 'destinations'>) {
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
        erased: total(deliveries, ({ erased }) => erased),
      },
    },
  };
}

/** All of a count that is divided by reason. */
export function reasons(counts: Readonly<Record<string, number>>): number {
  return total(Object.values(counts), (count) => count);
}

function total<Entry>(entries: readonly Entry[], of: (entry: Entry) => number): number {
  return entries.reduce((sum, entry) => sum + of(entry), 0);
}
