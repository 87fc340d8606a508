import type { DestinationCounts, Ledger, SourceCounts } from '../../model/ledger.ts';
import type { LedgerMessage } from './protocol.ts';

/** Rows of counters as the ledger of model/ledger.ts; `pending` comes from the pending sets, not from a counter. */
export function ledgerOf({ counters, pending }: LedgerMessage): Ledger {
  const sources = new Map<number, Writable<SourceCounts>>();
  const destinations = new Map<number, Writable<DestinationCounts>>();
  for (const { scope, id, name, value } of counters) {
    const counts = scope === 'source' ? entry(sources, id, noSource) : entry(destinations, id, noDestination);
    const [counter, reason] = split(name);
    const field = (counts as Record<string, number | Record<string, number>>)[counter];
    // A count by reason goes down to zero when its dead letters are owed again.
    if (typeof field === 'object' && value === 0) continue;
    if (typeof field === 'object') field[reason] = value;
    else (counts as Record<string, number | Record<string, number>>)[counter] = value;
  }
  for (const { destination, n } of pending) entry(destinations, destination, noDestination).pending = n;
  return { sources, destinations };
}

type Writable<Counts> = { -readonly [Name in keyof Counts]: Counts[Name] };

const noSource = (): Writable<SourceCounts> => ({ received: 0, accepted: 0, duplicates: 0, discarded: {} });

const noDestination = (): Writable<DestinationCounts> => ({
  owed: 0,
  delivered: 0,
  pending: 0,
  dead: {},
  erased: 0,
  skipped: {},
});

function entry<Value>(map: Map<number, Value>, id: number, make: () => Value): Value {
  let value = map.get(id);
  if (value === undefined) {
    value = make();
    map.set(id, value);
  }
  return value;
}

function split(name: string): [counter: string, reason: string] {
  const colon = name.indexOf(':');
  return colon < 0 ? [name, ''] : [name.slice(0, colon), name.slice(colon + 1)];
}
