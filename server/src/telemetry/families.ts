import catalogue from '../../../spec/errors.json' with { type: 'json' };
import type { AlertHealth } from '../alerts/contract.ts';
import type { DestinationState } from '../delivery/contract.ts';
import { DESTINATION_STATES } from '../model/destination.ts';
import type { DatabaseStatus, GoneNode, NodeStatus } from '../model/node.ts';
import { SECOND, type Time } from '../model/time.ts';
import type { RegulationHealth } from '../regulations/contract.ts';
import type { LedgerReport } from '../reporting/contract.ts';
import { NO_COUNTS, type ProcessorCounts, type UsersHealth } from '../users/contract.ts';
import type { MetricFamily, MetricLabels, MetricSample } from './prometheus.ts';
import { type DestinationMetrics, reasonLabel } from './registry.ts';

/** The ledger as metrics. They come from the store, so they are exact and survive a restart. */
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
      'millrace_dropped_deliveries',
      'Deliveries that the type of the destination had no use for, by reason, and not owed again since.',
      all.flatMap(([destination, { dropped }]) =>
        reasonSamples({ destination }, { ...DROPPED_NONE, ...dropped }),
      ),
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
      'Owed less delivered, pending, dead, dropped and erased; other than 0, deliveries were lost or made twice.',
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

/**
 * Reasons of dead letters. Each has a sample from the beginning, so that the first dead letter shows as a
 * rise.
 */
const DEAD_REASONS = [
  ...Object.keys(catalogue.dead),
  'status_3xx',
  'status_4xx',
  'egress_refused',
  'invalid_request',
];

/** Each reason to drop a delivery has a sample from the beginning. */
const DROPPED_NONE = Object.fromEntries(Object.keys(catalogue.drop).map((reason) => [reason, 0]));

/**
 * Sums statuses by class: an endpoint may answer with any of nine hundred. The ledger itself has each of
 * them.
 */
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

type NamedState = readonly [name: string, state: DestinationState];

const ENDPOINT_STATES: readonly DestinationState['endpoints'][number]['state'][] = ['healthy', 'failing'];
const BREAKER_STATES: readonly DestinationState['breaker'][] = ['closed', 'open', 'probing'];

/** The queue, the circuit breaker and the concurrency of each destination. */
export function destinationMetrics(destinations: readonly NamedState[], now: Time): MetricFamily[] {
  const valuesOf = (read: (state: DestinationState) => number): MetricSample[] =>
    destinations.map(([destination, state]) => ({ labels: { destination }, value: read(state) }));
  // One series for each possible state, so that a state that ends shows as a zero and not as a gap.
  const statesOf = (all: readonly string[], read: (state: DestinationState) => string): MetricSample[] =>
    destinations.flatMap(([destination, current]) =>
      all.map((state) => ({ labels: { destination, state }, value: read(current) === state ? 1 : 0 })),
    );
  return [
    gauge(
      'millrace_destination_state',
      '1 for the state the destination is in.',
      statesOf(DESTINATION_STATES, ({ state }) => state),
    ),
    gauge(
      'millrace_breaker_state',
      '1 for the state its breaker is in.',
      statesOf(BREAKER_STATES, ({ breaker }) => breaker),
    ),
    gauge(
      'millrace_failing_seconds',
      'For how long requests to it have failed without a sign of life; 0 while it is alive.',
      valuesOf(({ failingSince = now }) => Math.max(0, now - failingSince) / SECOND),
    ),
    gauge(
      'millrace_refusing_seconds',
      'For how long deliveries to it have died for good, all or some; 0 while they do not.',
      valuesOf(({ refusingSince = now }) => Math.max(0, now - refusingSince) / SECOND),
    ),
    gauge(
      'millrace_lane_concurrency',
      'How many deliveries may be in flight.',
      valuesOf(({ limit }) => limit),
    ),
    gauge(
      'millrace_lane_in_flight',
      'Deliveries in flight.',
      valuesOf(({ inFlight }) => inFlight),
    ),
    gauge(
      'millrace_lane_held',
      'Deliveries in memory, those in flight included.',
      valuesOf(({ held }) => held),
    ),
  ];
}

/** Each endpoint of each destination, labelled with its place in the settings and its host. */
export function endpointMetrics(destinations: readonly NamedState[], now: Time): MetricFamily[] {
  const all = destinations.flatMap(([destination, { endpoints }]) =>
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
        // `accepted` is there from the beginning, so that rates of the others can be related to it.
        Object.entries({ accepted: 0, ...endpoint.attemptsSinceStart }).map(([outcome, value]) => ({
          labels: { ...labels, outcome },
          value,
        })),
      ),
    ),
  ];
}

/** Attempts and deliveries of each destination, by its name. */
export function deliveryMetrics(counts: readonly (readonly [string, DestinationMetrics])[]): MetricFamily[] {
  return [
    counter(
      'millrace_attempts_total',
      'Requests to endpoints that the round waited for, by outcome.',
      counts.flatMap(([destination, one]) => one.attempts({ destination })),
    ),
    {
      name: 'millrace_attempt_duration_seconds',
      type: 'histogram',
      help: 'From sending a request to an endpoint to its answer, or to giving it up.',
      samples: counts.map(([destination, { requests }]) => requests.read({ destination })),
    },
    {
      name: 'millrace_delivery_duration_seconds',
      type: 'histogram',
      help: 'From the arrival of an event to the answer that accepts its delivery.',
      samples: counts.map(([destination, { deliveries }]) => deliveries.read({ destination })),
    },
  ];
}

/** The nodes that share a database, and the database; no samples with the embedded engine. */
export function nodeMetrics(
  nodes: readonly NodeStatus[],
  gone: readonly GoneNode[],
  database: DatabaseStatus | undefined,
): MetricFamily[] {
  const { standbys = [], problems = [] } = database ?? {};
  const severe = problems.filter(({ isSevere }) => isSevere).length;
  return [
    gauge(
      'millrace_node_lease_seconds',
      'How long the lease of a node is still valid; negative when it is over.',
      nodes.map(({ name, leaseLeft }) => ({ labels: { node: name }, value: leaseLeft / SECOND })),
    ),
    gauge(
      'millrace_node_gone',
      '1 for a node that died, for an hour or until it is back.',
      gone.map(({ name }) => ({ labels: { node: name }, value: 1 })),
    ),
    gauge(
      'millrace_database_standby_lag_bytes',
      'Log of the database that is not on the disk of a standby yet.',
      standbys.flatMap(({ name, behindBytes }) =>
        behindBytes === undefined ? [] : [{ labels: { standby: name }, value: behindBytes }],
      ),
    ),
    gauge(
      'millrace_database_standby_lag_seconds',
      'How long a commit took to reach the disk of a standby.',
      standbys.flatMap(({ name, behind }) =>
        behind === undefined ? [] : [{ labels: { standby: name }, value: behind / SECOND }],
      ),
    ),
    gauge(
      'millrace_database_problems',
      'What is wrong with the database; millrace doctor says what to do.',
      database === undefined
        ? []
        : [
            { labels: { severity: 'severe' }, value: severe },
            { labels: { severity: 'warning' }, value: problems.length - severe },
          ],
    ),
  ];
}

/** Counts with the value of the label `result`. */
const IDENTITY_RESULTS = [
  ['merges', 'merged'],
  ['conflicts', 'conflict'],
  ['unproven', 'unproven'],
  ['apart', 'apart'],
  ['overLimit', 'over_limit'],
  ['collisions', 'collision'],
  ['invalid', 'invalid'],
] as const;

/** Counts with the value of the label `reason`. */
const LEFT_OUT_REASONS = [
  ['names', 'name'],
  ['values', 'value'],
  ['gone', 'room'],
] as const;

/** Profiles and the thread that keeps them up; zeros while nothing needs them. */
export function userMetrics({ progress, isFailed, restarts }: UsersHealth): MetricFamily[] {
  const {
    profiles = 0,
    bytes = 0,
    damaged = 0,
    behind = 0,
    lag = 0,
    slices = 0,
    applied = 0,
    counts,
    failed = [],
  } = progress ?? {};
  const one = (value: number): MetricSample[] => [{ labels: {}, value }];
  return [
    gauge('millrace_profiles', 'Profiles of users.', one(profiles)),
    gauge('millrace_profiles_bytes', 'Of the file of profiles.', one(bytes)),
    gauge(
      'millrace_profiles_damaged_rows',
      'Rows of that file that cannot be read, because their bytes have changed on the disk.',
      one(damaged),
    ),
    gauge(
      'millrace_profiles_failed',
      '1 while profiles stand still because of a failure.',
      one(isFailed ? 1 : 0),
    ),
    gauge('millrace_profiles_behind_events', 'Stored events that profiles have not seen yet.', one(behind)),
    gauge('millrace_profiles_lag_seconds', 'Since the oldest of them arrived.', one(lag / SECOND)),
    counter(
      'millrace_profiles_applied_events_total',
      'Events that profiles have seen since the start.',
      one(applied),
    ),
    counter(
      'millrace_profiles_slices_total',
      'Commits of the file of profiles since the start.',
      one(slices),
    ),
    counter(
      'millrace_profiles_restarts_total',
      'Times that the thread of profiles died and was started again.',
      one(restarts),
    ),
    gauge(
      'millrace_computations_failed',
      'Audiences and computed traits that cannot be computed; the others go on.',
      one(failed.length),
    ),
    ...profileCounts(counts),
  ];
}

/** Counts of ids, traits and events, by outcome. */
function profileCounts(counts: ProcessorCounts = NO_COUNTS): MetricFamily[] {
  return [
    {
      name: 'millrace_profiles_identities_total',
      type: 'counter',
      help: 'What became of ids of events since the start of the thread of profiles.',
      samples: IDENTITY_RESULTS.map(([what, result]) => ({
        labels: { result },
        value: counts[what],
      })),
    },
    {
      name: 'millrace_profiles_traits_left_out_total',
      type: 'counter',
      help: 'Traits and groups that profiles do not keep, since then.',
      samples: LEFT_OUT_REASONS.map(([what, reason]) => ({
        labels: { reason },
        value: counts.leftOut[what],
      })),
    },
    {
      name: 'millrace_profiles_forgotten_total',
      type: 'counter',
      help: 'Profiles that were let go, because their time was over or there was no room, since then.',
      samples: (['retention', 'space'] as const).map((reason) => ({
        labels: { reason },
        value: counts.forgotten[reason],
      })),
    },
    {
      name: 'millrace_profiles_ignored_events_total',
      type: 'counter',
      help: 'Events that profiles could not take since the start of their thread.',
      samples: (['unattributed', 'unreadable', 'skipped'] as const).map((reason) => ({
        labels: { reason },
        value: counts[reason],
      })),
    },
  ];
}

/** Deletions and suppressions of users. */
export function regulationMetrics(
  { open, oldestOpenAt, isFailing }: RegulationHealth,
  now: Time,
): MetricFamily[] {
  const one = (value: number) => [{ labels: {}, value }];
  const age = oldestOpenAt === undefined ? 0 : Math.max(0, now - oldestOpenAt);
  return [
    gauge('millrace_regulations_open', 'Regulations that are not done.', one(open)),
    gauge('millrace_regulations_oldest_seconds', 'Since the oldest of them was made.', one(age / SECOND)),
    gauge(
      'millrace_regulations_failing',
      '1 while a step of one fails and is repeated.',
      one(isFailing ? 1 : 0),
    ),
  ];
}

/** Every node knows all suppressions, to refuse their calls. */
export function suppressionMetric({ suppressed }: RegulationHealth): MetricFamily {
  return gauge('millrace_suppressed_ids', 'Ids whose calls are not taken, joined ones included.', [
    { labels: {}, value: suppressed },
  ]);
}

export function alertMetrics(alerts: readonly AlertHealth[]): MetricFamily[] {
  const each = (read: (health: AlertHealth) => number): MetricSample[] =>
    alerts.map((health) => ({ labels: { alert: health.alert }, value: read(health) }));
  return [
    counter(
      'millrace_alert_messages_sent_total',
      'Messages that the receiver of the alert took.',
      each(({ sent }) => sent),
    ),
    counter(
      'millrace_alert_messages_failed_total',
      'Tries to send a message that its receiver did not take.',
      each(({ failed }) => failed),
    ),
    gauge(
      'millrace_alert_message_waiting',
      '1 while a message was not taken yet and is sent again.',
      each(({ isWaiting }) => (isWaiting ? 1 : 0)),
    ),
    gauge(
      'millrace_alert_troubles',
      'Troubles that the receivers of the alert were told of and that are not over.',
      each(({ open }) => open),
    ),
  ];
}
