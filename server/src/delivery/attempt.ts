import type { Attempt, Decision, Outcome } from '../model/delivery.ts';
import { type Destination, lanesOf } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { attemptOnWallClock, type Clock, wallTimeOf } from '../ports/clock.ts';
import type { ReadyDelivery } from '../ports/delivery-queue.ts';
import type { DestinationType, EndpointRequest } from '../ports/destination-type.ts';
import type { HttpClient, HttpResult, OutboundRequest } from '../ports/http-client.ts';
import type { Activity, TraceContexts } from '../ports/telemetry.ts';
import type { TestAttempt } from './contract.ts';
import type { EndpointTracker } from './endpoint-health.ts';
import { type EndpointOutcome, outcomeOf } from './retry-policy.ts';

/** The result of one round of requests. */
export interface RoundResult {
  readonly outcomes: readonly EndpointOutcome[];
  readonly attempts: readonly Attempt[];
}

/** Counts the requests that have no answer yet, by the place of their endpoint. */
export interface OpenRequests {
  /** The endpoint has so many open requests that it should get no further one. */
  isBusy(place: number): boolean;
  /** `isFirst`: the first request of its round. */
  requestBegan(place: number, isFirst: boolean): void;
  /** `isLast`: no request of its round is open any more. `isLate`: its round had ended before. */
  requestEnded(place: number, isLast: boolean, isLate: boolean): void;
}

export interface RoundDependencies {
  readonly type: DestinationType;
  readonly transport: HttpClient;
  readonly clock: Clock;
  readonly openRequests: OpenRequests;
  /** The endpoint at a place of the settings; it records every request. Absent: requests are not recorded. */
  readonly endpointAt?: ((place: number) => EndpointTracker | undefined) | undefined;
  readonly traceparents?: Pick<TraceContexts, 'get'> | undefined;
}

/** Outcome of an endpoint that was left out of a round. There is no attempt, and a later round may ask it. */
const ENDPOINT_BUSY: Outcome = { kind: 'retryable', reason: 'endpoint_busy' };

/**
 * Sends one round: the same bytes to every endpoint that is still to be tried, all at once.
 *
 * `onEnd` is called once: at the first acceptance, because that delivers, or when all endpoints have answered. The round
 * does not wait for later answers, so a hanging endpoint does not delay its siblings. A late answer counts for the health
 * of its endpoint. It is not recorded as an attempt: it changes nothing, and would cost a write of its own after the
 * delivery is settled. A round without a request ends at once, without an outcome.
 */
export function sendRound(
  ready: ReadyDelivery,
  destination: Destination,
  dependencies: RoundDependencies,
  onEnd: (round: RoundResult) => void,
): void {
  const { clock, openRequests } = dependencies;
  const startedAt = clock.monotonic();
  const all = dependencies.type.requests(ready.serialized, destination, {
    endpoints: endpointsToTry(ready, destination),
    now: clock.now(),
    origin: ready.origin,
  });
  const outcomes: EndpointOutcome[] = [];
  const attempts: Attempt[] = [];
  const chosen = all.length > 1 ? leaveOutBusy(all, openRequests, outcomes) : all;
  const requests = withTraceparent(dependencies.traceparents?.get(ready.delivery.position), chosen);
  let isOver = false;
  let open = requests.length;
  // In a microtask, because the caller expects that a round ends after this function has returned.
  if (requests.length === 0) queueMicrotask(() => onEnd({ outcomes, attempts }));
  for (const endpointRequest of requests) {
    const { endpoint: place, request } = endpointRequest;
    const endpoint = dependencies.endpointAt?.(place);
    openRequests.requestBegan(place, endpointRequest === requests[0]);
    dependencies.transport.send(request, (answer) => {
      open--;
      const outcome = outcomeOf(answer, clock);
      endpoint?.record(outcome, answer, clock.now());
      openRequests.requestEnded(place, open === 0, isOver);
      if (isOver) return;
      outcomes.push({ place, outcome });
      attempts.push(attemptOf(request, startedAt, answer, outcome));
      isOver = outcome.kind === 'accepted' || open === 0;
      if (isOver) onEnd({ outcomes, attempts });
    });
  }
}

/**
 * Leaves out the busy endpoints, as long as another one is left: an endpoint that does not answer must not hold up events
 * that its siblings accept. A busy endpoint counts as retryable, so that a retry asks it too.
 */
function leaveOutBusy(
  all: readonly EndpointRequest[],
  openRequests: OpenRequests,
  outcomes: EndpointOutcome[],
): readonly EndpointRequest[] {
  const free = all.filter(({ endpoint: place }) => !openRequests.isBusy(place));
  if (free.length === all.length || free.length === 0) return all;
  for (const request of all) {
    if (!free.includes(request)) outcomes.push({ place: request.endpoint, outcome: ENDPOINT_BUSY });
  }
  return free;
}

/** Adds the trace context of the event's own request, unless the headers of the endpoint name another. */
function withTraceparent(
  traceparent: string | undefined,
  requests: readonly EndpointRequest[],
): readonly EndpointRequest[] {
  if (traceparent === undefined) return requests;
  return requests.map((endpointRequest) => {
    const { request } = endpointRequest;
    const isTraced = Object.keys(request.headers).some((name) => name.toLowerCase() === 'traceparent');
    if (isTraced) return endpointRequest;
    return { ...endpointRequest, request: { ...request, headers: { ...request.headers, traceparent } } };
  });
}

/** The endpoints of the last decision. All of them when the settings have changed since: a repaired URL gets its try. */
function endpointsToTry({ delivery }: ReadyDelivery, destination: Destination): number {
  const all = (1 << destination.settings.endpoints.length) - 1;
  const { endpoints = 0, settingsVersion = -1 } = delivery;
  const sameSettings = settingsVersion === destination.version % SETTINGS_VERSION_MODULUS;
  return sameSettings && (endpoints & all) !== 0 ? endpoints & all : all;
}

/** Stores keep the version in two bytes. Settings do not change this often within one retry window. */
export const SETTINGS_VERSION_MODULUS = 0x10000;

function attemptOf(
  request: OutboundRequest,
  startedAt: number,
  answer: HttpResult,
  outcome: Attempt['outcome'],
): Attempt {
  const attempt = { endpoint: request.url, startedAt, latencyMs: answer.latencyMs, outcome };
  if (outcome.kind === 'accepted') return attempt;
  return { ...attempt, answer: answer.kind === 'answered' ? answer.body : answer.detail };
}

type ResultNotice = Extract<Activity, { kind: 'settled' }>;

/** The result of a delivery as observers get it, with times of the wall clock. */
export function resultOnWallClock(
  { attempts, decision, ...rest }: Omit<ResultNotice, 'kind'>,
  clock: Clock,
): ResultNotice {
  return {
    kind: 'settled',
    ...rest,
    attempts: attempts.map((attempt) => attemptOnWallClock(attempt, clock)),
    decision: decisionOnWallClock(decision, clock),
  };
}

function decisionOnWallClock(decision: Decision, clock: Clock): Decision {
  return decision.kind === 'retry' ? { ...decision, at: wallTimeOf(decision.at, clock) } : decision;
}

type TestDependencies = Omit<RoundDependencies, 'openRequests' | 'endpointAt'>;

/** A test sends one request to each endpoint and counts nothing. */
const UNCOUNTED: OpenRequests = { isBusy: () => false, requestBegan: () => {}, requestEnded: () => {} };

/**
 * Sends an event to every endpoint of a destination once, so that an operator sees the requests and the answers. The
 * requests take the way of every delivery: the same bodies and signatures, the same checks of addresses and certificates,
 * the same outcomes. It waits for every endpoint, whatever `success` says. It retries and stores nothing, and the health
 * of the endpoints stays as it is.
 */
export function sendTestDelivery(
  event: Event,
  destination: Destination,
  dependencies: TestDependencies,
): Promise<TestAttempt[]> {
  const each = { ...destination, settings: { ...destination.settings, success: 'each' as const } };
  return Promise.all(
    lanesOf(each).map((endpoint, place) => testEndpoint(event, { endpoint, place }, dependencies)),
  );
}

function testEndpoint(
  event: Event,
  { endpoint, place }: { readonly endpoint: Destination; readonly place: number },
  dependencies: TestDependencies,
): Promise<TestAttempt> {
  const { transport, clock } = dependencies;
  return new Promise((resolve) => {
    let sent: OutboundRequest | undefined;
    const recording: RoundDependencies['transport'] = {
      send: (request, done) => {
        sent = request;
        transport.send(request, done);
      },
      stop: () => transport.stop(),
    };
    // It is in no pending set and of no source.
    const ready = {
      set: 0,
      delivery: { position: 0, rounds: 0 },
      serialized: { event, arrivedAt: clock.monotonic() },
      source: 0,
    };
    sendRound(
      ready,
      endpoint,
      { ...dependencies, transport: recording, openRequests: UNCOUNTED },
      ({ attempts: [attempt] }) =>
        resolve({ place, request: sent!, attempt: attemptOnWallClock(attempt!, clock) }),
    );
  });
}
