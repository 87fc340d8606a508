import { SECOND, type Time } from '../model/time.ts';
import type { DestinationMetrics } from './metrics-counts.ts';
import { counter, gauge } from './metrics-ledger.ts';
import type { Family, Sample } from './metrics-text.ts';

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
export function laneMetrics(lanes: readonly (readonly [string, LaneFacts])[], now: Time): Family[] {
  const of = (read: (lane: LaneFacts) => number): Sample[] =>
    lanes.map(([destination, lane]) => ({ labels: { destination }, value: read(lane) }));
  // One series for each word there is, so that a state that ends shows as a zero and not as a gap.
  const words = (all: readonly string[], read: (lane: LaneFacts) => string): Sample[] =>
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
export function endpointMetrics(lanes: readonly (readonly [string, LaneFacts])[], now: Time): Family[] {
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
export function roundMetrics(counts: readonly (readonly [string, DestinationMetrics])[]): Family[] {
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
