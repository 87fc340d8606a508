import type { Destination, Status } from '../../api/queries.ts';
import type { DestinationHealth } from './destination-state.tsx';

export interface DestinationRow extends DestinationHealth {
  readonly name: string;
  /** The first URL without its scheme. */
  readonly host: string;
  /** How many other URLs there are. */
  readonly more: number;
  readonly sources: readonly string[];
  readonly delivered: number;
  readonly pending: number;
  readonly dead: number;
}

const RANKS: Readonly<Record<DestinationRow['state'], number>> = {
  failed: 0,
  failing: 0,
  refusing: 0,
  no_source: 1,
  healthy: 2,
  never_asked: 2,
  paused: 2,
  disabled: 3,
};

/**
 * Destinations with their numbers: those in trouble first, then those without a source, then by name,
 * disabled ones last.
 */
export function rowsOf(destinations: readonly Destination[], status: Status | undefined): DestinationRow[] {
  return destinations
    .map((destination) => rowOf(destination, status))
    .sort((one, other) => RANKS[one.state] - RANKS[other.state] || (one.name < other.name ? -1 : 1));
}

function rowOf(
  { name, sources, enabled, paused, settings }: Destination,
  status: Status | undefined,
): DestinationRow {
  // There may be neither: a server may have more types than this page knows.
  const [first, ...others] = 'endpoints' in settings ? settings.endpoints : [];
  const url = first?.url ?? ('host' in settings ? String(settings.host) : '');
  const lane = own(status?.lanes, name);
  const counts = own(status?.destinations, name);
  const { delivered = 0, pending = 0, dead = {} } = counts ?? {};
  return {
    name,
    host: url.replace(/^https?:\/\//i, ''),
    more: others.length,
    sources,
    state: lane?.state ?? (enabled ? (paused === true ? 'paused' : 'never_asked') : 'disabled'),
    ...(lane?.failingSince === undefined ? {} : { failingSince: lane.failingSince }),
    ...(lane?.refusingSince === undefined ? {} : { refusingSince: lane.refusingSince }),
    delivered,
    pending,
    dead: sum(dead),
  };
}

/** A value by a name that anybody may have chosen, such as `constructor`. */
export function own<Value>(
  record: Readonly<Record<string, Value>> | undefined,
  name: string,
): Value | undefined {
  return record !== undefined && Object.hasOwn(record, name) ? record[name] : undefined;
}

export function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

interface RowFilter {
  readonly state?: DestinationRow['state'] | undefined;
  readonly q: string;
}

/** Rows of a state whose name, URL or sources have the text. */
export function filterRows(rows: readonly DestinationRow[], { state, q }: RowFilter): DestinationRow[] {
  const text = q.trim().toLowerCase();
  return rows.filter(
    (row) =>
      (state === undefined || row.state === state) &&
      [row.name, row.host, ...row.sources].some((part) => part.toLowerCase().includes(text)),
  );
}
