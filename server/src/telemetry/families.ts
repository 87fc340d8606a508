import catalogue from '../../../spec/errors.json' with { type: 'json' };
import { SECOND, type Time } from '../model/time.ts';
import type { LedgerReport } from '../reporting/contract.ts';
import type { MetricFamily, MetricLabels, MetricSample } from './prometheus.ts';
import { type DestinationMetrics, reasonLabel } from './registry.ts';

/**
 * The ledger as metrics. They are read from the store and not counted here, so they are exact, and they go on after a
 * restart where they were.
 */
export function ledgerMetrics({ sources, destinations, balanced }: LedgerReport): MetricFamily[] {
  return [
    ...sourceFamilies(sources),
    ...destinationFamilies(destinations),
    balanceFamilies(destinations, balanced),
  ].flat();
}

function sourceFamilies(sources: LedgerReport['sources']): MetricFamily[] {
  const all = Object.entries(sources);
  const sum = (read: (counts: LedgerReport['sources'][string]) => number): MetricSample[] =>
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
      all.flatMap(([source, { discarded }]) => reasonSamples({ source }, discarded)),
    ),
  ];
}

function destinationFamilies(destinations: LedgerReport['destinations']): MetricFamily[] {
  const all = Object.entries(destinations);
  const sum = (read: (counts: LedgerReport['destinations'][string]) => number): MetricSample[] =>
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
      all.flatMap(([destination, { skipped }]) => reasonSamples({ destination }, skipped)),
    ),
    gauge(
      'millrace_dead_deliveries',
      'Deliveries that were given up, by reason, and not owed again since.',
      all.flatMap(([destination, { dead }]) => reasonSamples({ destination }, byReasonLabel(dead))),
    ),
    gauge(
      'millrace_pending_deliveries',
      'Deliveries that wait, in memory or on disk.',
      sum(({ pending }) => pending),
    ),
  ];
}

function balanceFamilies(destinations: LedgerReport['destinations'], balanced: boolean): MetricFamily[] {
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
const DEAD_REASONS = [
  ...Object.keys(catalogue.dead),
  'status_3xx',
  'status_4xx',
  'egress_refused',
  'invalid_request',
];

/** An endpoint may answer with any of nine hundred statuses; the ledger itself has each of them. */
function byReasonLabel(counts: Readonly<Record<string, number>>): Record<string, number> {
  const sums: Record<string, number> = Object.fromEntries(DEAD_REASONS.map((reason) => [reason, 0]));
  for (const [reason, n] of Object.entries(counts)) {
    const name = reasonLabel(reason);
    sums[name] = (sums[name] ?? 0) + n;
  }
  return sums;
}

function reasonSamples(labels: MetricLabels, counts: Readonly<Record<string, number>>): MetricSample[] {
  return Object.entries(counts).map(([reason, value]) => ({ labels: { ...labels, reason }, value }));
}

export function counter(name: string, help: string, samples: readonly MetricSample[]): MetricFamily {
  return { name, type: 'counter', help, samples };
}

export function gauge(name: string, help: string, samples: readonly MetricSample[]): MetricFamily {
  return { name, type: 'gauge', help, samples };
}

/** What a lane says about itself. */
export interface LaneFacts {
  /** Id of the destination. */
  readonly destination: number;
  readonly state: (typeof STATES)[number];
  readonly breaker: (typeof BREAKERS)[number];
  readonly held: number;
  readonly inFlight: number;
  readonly limit: number;
  readonly failingSince?: Time;
  readonly endpoints: readonly EndpointFacts[];
}

interface EndpointFacts {
  readonly label: string;
  readonly state: (typeof ENDPOINT_STATES)[number];
  readonly since?: Time;
  readonly attemptsSinceStart: Readonly<Record<string, number>>;
}

const STATES = ['healthy', 'failing', 'paused', 'disabled'] as const;
const ENDPOINT_STATES = ['healthy', 'failing'] as const;
const BREAKERS = ['closed', 'open', 'probing'] as const;

/** By name of the destination. */
export function laneMetrics(lanes: readonly (readonly [string, LaneFacts])[], now: Time): MetricFamily[] {
  const of = (read: (lane: LaneFacts) => number): MetricSample[] =>
    lanes.map(([destination, lane]) => ({ labels: { destination }, value: read(lane) }));
  // One series for each word there is, so that a state that ends shows as a zero and not as a gap.
  const words = (all: readonly string[], read: (lane: LaneFacts) => string): MetricSample[] =>
    lanes.flatMap(([destination, lane]) =>
      all.map((state) => ({ labels: { destination, state }, value: read(lane) === state ? 1 : 0 })),
    );
  return [
    gauge(
      'millrace_destination_state',
      '1 for the state the destination is in.',
      words(STATES, ({ state }) => state),
    ),
    gauge(
      'millrace_breaker_state',
      '1 for the state its breaker is in.',
      words(BREAKERS, ({ breaker }) => breaker),
    ),
    gauge(
      'millrace_failing_seconds',
      'For how long nothing has been answered for; 0 while it is.',
      of(({ failingSince = now }) => Math.max(0, now - failingSince) / SECOND),
    ),
    gauge(
      'millrace_lane_concurrency',
      'How many deliveries may be in flight.',
      of(({ limit }) => limit),
    ),
    gauge(
      'millrace_lane_in_flight',
      'Deliveries in flight.',
      of(({ inFlight }) => inFlight),
    ),
    gauge(
      'millrace_lane_held',
      'Deliveries in memory, those in flight included.',
      of(({ held }) => held),
    ),
  ];
}

/** Every endpoint by itself, by the name of its destination and by its place and host. */
export function endpointMetrics(lanes: readonly (readonly [string, LaneFacts])[], now: Time): MetricFamily[] {
  const all = lanes.flatMap(([destination, { endpoints }]) =>
    endpoints.map((endpoint) => ({ endpoint, labels: { destination, endpoint: endpoint.label } })),
  );
  return [
    gauge(
      'millrace_endpoint_state',
      '1 for the state the endpoint is in.',
      all.flatMap(({ endpoint, labels }) =>
        ENDPOINT_STATES.map((state) => ({
          labels: { ...labels, state },
          value: endpoint.state === state ? 1 : 0,
        })),
      ),
    ),
    gauge(
      'millrace_endpoint_failing_seconds',
      'For how long no request to it has been accepted; 0 while they are.',
      all.map(({ endpoint: { state, since = now }, labels }) => ({
        labels,
        value: state === 'failing' ? Math.max(0, now - since) / SECOND : 0,
      })),
    ),
    counter(
      'millrace_endpoint_attempts_total',
      'Requests to it, also those that nobody waited for, by what they came to.',
      all.flatMap(({ endpoint, labels }) =>
        // Accepted ones are there from the beginning, so that the share of the others can be told.
        Object.entries({ accepted: 0, ...endpoint.attemptsSinceStart }).map(([outcome, value]) => ({
          labels: { ...labels, outcome },
          value,
        })),
      ),
    ),
  ];
}

/** What the rounds of each destination came to, by its name. */
export function deliveryMetrics(counts: readonly (readonly [string, DestinationMetrics])[]): MetricFamily[] {
  return [
    counter(
      'millrace_attempts_total',
      'Requests to endpoints that the round waited for, by outcome.',
      counts.flatMap(([destination, one]) => one.attempts({ destination })),
    ),
    {
      ...{ name: 'millrace_attempt_duration_seconds', type: 'histogram' },
      help: 'From sending a request to an endpoint to its answer, or to giving it up.',
      samples: counts.map(([destination, { requests }]) => requests.read({ destination })),
    },
    {
      ...{ name: 'millrace_delivery_duration_seconds', type: 'histogram' },
      help: 'From the arrival of an event to the answer that accepts its delivery.',
      samples: counts.map(([destination, { deliveries }]) => deliveries.read({ destination })),
    },
  ];
}
