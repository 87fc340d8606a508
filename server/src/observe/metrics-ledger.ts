import catalogue from '../../../spec/errors.json' with { type: 'json' };
import { boundedReason } from './metrics-counts.ts';
import type { Family, Labels, Sample } from './metrics-text.ts';
import type { Statement } from './statement.ts';

/**
 * The ledger as metrics. They are read from the store and not counted here, so they are exact, and they go on after a
 * restart where they were.
 */
export function ledgerMetrics({ sources, destinations, balanced }: Statement): Family[] {
  return [...ofSources(sources), ...ofDestinations(destinations), balance(destinations, balanced)].flat();
}

function ofSources(sources: Statement['sources']): Family[] {
  const all = Object.entries(sources);
  const sum = (read: (counts: Statement['sources'][string]) => number): Sample[] =>
    all.map(([source, counts]) => ({ labels: { source }, value: read(counts) }));
  return [
    counter(
      'millrace_received_total',
      'Calls that were parsed and belong to the source.',
      sum(({ received }) => received),
    ),
    counter(
      'millrace_accepted_total',
      'Calls that became events.',
      sum(({ accepted }) => accepted),
    ),
    counter(
      'millrace_duplicates_total',
      'Calls with a messageId that the source used within the dedupe window.',
      sum(({ duplicates }) => duplicates),
    ),
    counter(
      'millrace_discarded_total',
      'Calls that were not accepted, by reason.',
      all.flatMap(([source, { discarded }]) => byReason({ source }, discarded)),
    ),
  ];
}

function ofDestinations(destinations: Statement['destinations']): Family[] {
  const all = Object.entries(destinations);
  const sum = (read: (counts: Statement['destinations'][string]) => number): Sample[] =>
    all.map(([destination, counts]) => ({ labels: { destination }, value: read(counts) }));
  return [
    counter(
      'millrace_owed_total',
      'Deliveries that were ever owed.',
      sum(({ owed }) => owed),
    ),
    counter(
      'millrace_delivered_total',
      'Deliveries that an endpoint accepted.',
      sum(({ delivered }) => delivered),
    ),
    counter(
      'millrace_erased_total',
      'Deliveries that were deleted with their user before they were made.',
      sum(({ erased }) => erased),
    ),
    counter(
      'millrace_skipped_total',
      'Events that the destination was never owed, by reason.',
      all.flatMap(([destination, { skipped }]) => byReason({ destination }, skipped)),
    ),
    gauge(
      'millrace_dead_deliveries',
      'Deliveries that were given up, by reason, and not owed again since.',
      all.flatMap(([destination, { dead }]) => byReason({ destination }, bounded(dead))),
    ),
    gauge(
      'millrace_pending_deliveries',
      'Deliveries that wait, in memory or on disk.',
      sum(({ pending }) => pending),
    ),
  ];
}

function balance(destinations: Statement['destinations'], balanced: boolean): Family[] {
  return [
    gauge(
      'millrace_ledger_balance',
      'Owed less delivered, pending, dead and erased; other than 0, deliveries were lost or made twice.',
      Object.entries(destinations).map(([destination, { balance }]) => ({
        labels: { destination },
        value: balance,
      })),
    ),
    gauge('millrace_ledger_balanced', '1 when every sum of the ledger comes out.', [
      { labels: {}, value: balanced ? 1 : 0 },
    ]),
  ];
}

/** Why deliveries are given up. They are there from the beginning, so that the first of a kind shows as a rise. */
const DEAD = [
  ...Object.keys(catalogue.dead),
  'status_3xx',
  'status_4xx',
  'egress_refused',
  'invalid_request',
];

/** An endpoint may answer with any of nine hundred statuses; the ledger itself has each of them. */
function bounded(counts: Readonly<Record<string, number>>): Record<string, number> {
  const sums: Record<string, number> = Object.fromEntries(DEAD.map((reason) => [reason, 0]));
  for (const [reason, n] of Object.entries(counts)) {
    const name = boundedReason(reason);
    sums[name] = (sums[name] ?? 0) + n;
  }
  return sums;
}

function byReason(labels: Labels, counts: Readonly<Record<string, number>>): Sample[] {
  return Object.entries(counts).map(([reason, value]) => ({ labels: { ...labels, reason }, value }));
}

export function counter(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, type: 'counter', help, samples };
}

export function gauge(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, type: 'gauge', help, samples };
}
