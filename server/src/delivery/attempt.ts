import type { Attempt, Decision, Outcome } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import { attemptOnWallClock, type Clock, wallTimeOf } from '../ports/clock.ts';
import type { ReadyDelivery } from '../ports/delivery-queue.ts';
import type { DestinationType, EndpointRequest } from '../ports/destination-type.ts';
import type { HttpClient, HttpResult, OutboundRequest } from '../ports/http-client.ts';
import type { Activity, TraceContexts } from '../ports/telemetry.ts';
import type { EndpointTracker } from './endpoint-health.ts';
import { type EndpointOutcome, outcomeOf } from './retry-policy.ts';

/** What one round of requests came to. */
export interface RoundResult {
  readonly outcomes: readonly EndpointOutcome[];
  readonly attempts: readonly Attempt[];
}

/** Keeps count of the requests that have no answer yet, by the place of their endpoint. */
export interface OpenRequests {
  /** The endpoint owes so many answers that it should get no further request. */
  isBusy(place: number): boolean;
  /** `isFirst`: of its round. */
  requestBegan(place: number, isFirst: boolean): void;
  /** `isLast`: none of its round is open any more. `isLate`: its round had ended before. */
  requestEnded(place: number, isLast: boolean, isLate: boolean): void;
}

export interface RoundDependencies {
  readonly type: DestinationType;
  readonly transport: HttpClient;
  readonly clock: Clock;
  readonly open: OpenRequests;
  /** The endpoint at a place of the round's settings: it is told of every request. Absent: nobody is. */
  readonly endpointAt?: ((place: number) => EndpointTracker | undefined) | undefined;
  readonly traceparents?: Pick<TraceContexts, 'get'> | undefined;
}

/** Of an endpoint that was left out of a round: nothing was sent, so nothing is recorded, and it may be asked later. */
const ENDPOINT_BUSY: Outcome = { kind: 'retryable', reason: 'endpoint_busy' };

/**
 * Sends one round: the same bytes to every endpoint that is still to be tried, all at once.
 *
 * `ended` is called once: at the first acceptance, since the delivery is then done whatever the others say, or when all
 * have answered. Answers that come later are not waited for, so a hanging endpoint does not hold up its siblings; they count
 * for their endpoint, and are not kept as attempts of the delivery: nothing follows from them, and each would cost a write
 * of its own after the delivery is settled. A round without a request ends at once, without an outcome.
 */
export function sendRound(
  work: ReadyDelivery,
  destination: Destination,
  tools: RoundDependencies,
  ended: (round: RoundResult) => void,
): void {
  const startedAt = tools.clock.monotonic();
  const now = tools.clock.now();
  const wanted = { endpoints: endpointsToTry(work, destination), now, origin: work.origin };
  const all = tools.type.requests(work.serialized, destination, wanted);
  const outcomes: EndpointOutcome[] = [];
  const attempts: Attempt[] = [];
  const spare = all.length > 1 ? leaveOutBusy(all, tools.open, outcomes) : all;
  const requests = withTraceparent(tools.traceparents?.get(work.delivery.position), spare);
  let over = false;
  let open = requests.length;
  // Not at once: whoever sends is not ready for the end of a round before this returns.
  if (requests.length === 0) queueMicrotask(() => ended({ outcomes, attempts }));
  for (const placed of requests) {
    const { endpoint: place, request } = placed;
    const endpoint = tools.endpointAt?.(place);
    tools.open.requestBegan(place, placed === requests[0]);
    tools.transport.send(request, (answer) => {
      open--;
      const outcome = outcomeOf(answer, tools.clock);
      endpoint?.record(outcome, answer, tools.clock.now());
      tools.open.requestEnded(place, open === 0, over);
      if (over) return;
      outcomes.push({ place, outcome });
      attempts.push(attemptOf(request, startedAt, answer, outcome));
      over = outcome.kind === 'accepted' || open === 0;
      if (over) ended({ outcomes, attempts });
    });
  }
}

/**
 * Leaves out the endpoints that are busy, as long as one is left to take the event: an endpoint that swallows requests
 * would otherwise hold up what its siblings accept. They count as retryable, so that they are asked later if it must be.
 */
function leaveOutBusy(
  all: readonly EndpointRequest[],
  open: OpenRequests,
  outcomes: EndpointOutcome[],
): readonly EndpointRequest[] {
  const spare = all.filter(({ endpoint: place }) => !open.isBusy(place));
  if (spare.length === all.length || spare.length === 0) return all;
  for (const request of all) {
    if (!spare.includes(request)) outcomes.push({ place: request.endpoint, outcome: ENDPOINT_BUSY });
  }
  return spare;
}

/** The same requests as part of the trace their event came in, unless an endpoint's own settings name another. */
function withTraceparent(
  traceparent: string | undefined,
  requests: readonly EndpointRequest[],
): readonly EndpointRequest[] {
  if (traceparent === undefined) return requests;
  return requests.map((placed) => {
    const { headers } = placed.request;
    const isTraced = Object.keys(headers).some((name) => name.toLowerCase() === 'traceparent');
    return isTraced
      ? placed
      : { ...placed, request: { ...placed.request, headers: { ...headers, traceparent } } };
  });
}

/** The endpoints of the last decision, or all of them when the settings have changed since: repaired URLs get their try. */
function endpointsToTry({ delivery }: ReadyDelivery, destination: Destination): number {
  const all = (1 << destination.settings.endpoints.length) - 1;
  const { endpoints = 0, settingsVersion = -1 } = delivery;
  const sameSettings = settingsVersion === destination.version % SETTINGS_VERSION_MODULUS;
  return sameSettings && (endpoints & all) !== 0 ? endpoints & all : all;
}

/** Stores keep the version in two bytes; this many changes within one retry window do not happen. */
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

/** What became of a delivery, for those who watch: with times of the wall clock. */
export function resultOnWallClock(
  { attempts, decision, ...of }: Omit<ResultNotice, 'kind'>,
  clock: Clock,
): ResultNotice {
  return {
    kind: 'settled',
    ...of,
    attempts: attempts.map((attempt) => attemptOnWallClock(attempt, clock)),
    decision: decisionOnWallClock(decision, clock),
  };
}

function decisionOnWallClock(decision: Decision, clock: Clock): Decision {
  return decision.kind === 'retry' ? { ...decision, at: wallTimeOf(decision.at, clock) } : decision;
}
