import { defined } from '../model/json.ts';
import type {
  DestinationRow,
  EndpointRow,
  ReasonCounts,
  SourceRow,
  TimelineRow,
} from '../ports/timeline-store.ts';

/** Sums that rows are added to. Maps, because a record may have the name `__proto__`. */
export class SourceSums {
  received = 0;
  accepted = 0;
  duplicates = 0;
  readonly discarded = new Map<string, number>();
  readonly latency = new Map<number, number>();

  add({ received = 0, accepted = 0, duplicates = 0, discarded, latency }: SourceRow): void {
    this.received += received;
    this.accepted += accepted;
    this.duplicates += duplicates;
    addReasons(this.discarded, discarded);
    addPairs(this.latency, latency);
  }

  toRow(): SourceRow | undefined {
    const { received, accepted, duplicates } = this;
    return sparse<SourceRow>({
      received,
      accepted,
      duplicates,
      discarded: reasonsOf(this.discarded),
      latency: pairsOf(this.latency),
    });
  }
}

export class DestinationSums {
  owed = 0;
  delivered = 0;
  retried = 0;
  erased = 0;
  /** At the end of the latest row. */
  pending = 0;
  readonly dead = new Map<string, number>();
  readonly dropped = new Map<string, number>();
  readonly skipped = new Map<string, number>();
  readonly latency = new Map<number, number>();
  readonly endpoints = new Map<string, EndpointSums>();

  add(row: DestinationRow): void {
    this.owed += row.owed ?? 0;
    this.delivered += row.delivered ?? 0;
    this.retried += row.retried ?? 0;
    this.erased += row.erased ?? 0;
    this.pending = row.pending ?? 0;
    addReasons(this.dead, row.dead);
    addReasons(this.dropped, row.dropped);
    addReasons(this.skipped, row.skipped);
    addPairs(this.latency, row.latency);
    for (const [endpoint, counts] of Object.entries(row.endpoints ?? {}))
      entryOf(this.endpoints, endpoint, () => new EndpointSums()).add(counts);
  }

  toRow(): DestinationRow | undefined {
    const { owed, delivered, retried, erased, pending } = this;
    return sparse<DestinationRow>({
      owed,
      delivered,
      retried,
      dead: reasonsOf(this.dead),
      dropped: reasonsOf(this.dropped),
      erased,
      skipped: reasonsOf(this.skipped),
      pending,
      latency: pairsOf(this.latency),
      endpoints: recordOf(this.endpoints, (sums) => sums.toRow()),
    });
  }
}

export class EndpointSums {
  accepted = 0;
  readonly failed = new Map<string, number>();

  add({ accepted = 0, failed }: EndpointRow): void {
    this.accepted += accepted;
    addReasons(this.failed, failed);
  }

  toRow(): EndpointRow | undefined {
    return sparse<EndpointRow>({ accepted: this.accepted, failed: reasonsOf(this.failed) });
  }
}

/** Everything that happened in one interval. */
export class TimelineBucket {
  readonly sources = new Map<string, SourceSums>();
  readonly destinations = new Map<string, DestinationSums>();
  readonly commits = new Map<number, number>();

  /** A destination that the row does not name is owed nothing at its end. */
  add({ sources, destinations, commits }: Omit<TimelineRow, 'at'>): void {
    addPairs(this.commits, commits);
    for (const sums of this.destinations.values()) sums.pending = 0;
    for (const [name, row] of Object.entries(sources))
      entryOf(this.sources, name, () => new SourceSums()).add(row);
    for (const [name, row] of Object.entries(destinations))
      entryOf(this.destinations, name, () => new DestinationSums()).add(row);
  }

  toRow(at: number): TimelineRow {
    const commits = pairsOf(this.commits);
    return {
      at,
      sources: recordOf(this.sources, (sums) => sums.toRow()) ?? {},
      destinations: recordOf(this.destinations, (sums) => sums.toRow()) ?? {},
      ...defined({ commits }),
    };
  }
}

export function entryOf<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function addReasons(sums: Map<string, number>, counts: ReasonCounts = {}): void {
  for (const [reason, n] of Object.entries(counts)) sums.set(reason, (sums.get(reason) ?? 0) + n);
}

export function addPairs(sums: Map<number, number>, pairs: readonly number[] = []): void {
  for (let at = 0; at + 1 < pairs.length; at += 2)
    sums.set(pairs[at]!, (sums.get(pairs[at]!) ?? 0) + pairs[at + 1]!);
}

function reasonsOf(sums: ReadonlyMap<string, number>): ReasonCounts | undefined {
  return recordOf(sums, (n) => (n === 0 ? undefined : n));
}

function pairsOf(sums: ReadonlyMap<number, number>): readonly number[] | undefined {
  const pairs = [...sums].filter(([, n]) => n !== 0).flat();
  return pairs.length === 0 ? undefined : pairs;
}

function recordOf<Value, Row>(
  map: ReadonlyMap<string, Value>,
  rowOf: (value: Value) => Row | undefined,
): Readonly<Record<string, Row>> | undefined {
  const entries = [...map].flatMap(([key, value]) => {
    const row = rowOf(value);
    return row === undefined ? [] : [[key, row] as const];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** Removes fields that are zero or absent; undefined when nothing is left. */
function sparse<Row extends object>(
  row: { readonly [Key in keyof Row]: Row[Key] | undefined },
): Row | undefined {
  const entries = Object.entries(row).filter(([, value]) => value !== undefined && value !== 0);
  return entries.length === 0 ? undefined : (Object.fromEntries(entries) as Row);
}
