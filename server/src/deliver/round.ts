import type { Attempt, Outcome } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import type { Clock } from '../ports/clock.ts';
import type { InHand } from '../ports/deliverer.ts';
import type { DestinationType, PlacedRequest } from '../ports/destination-type.ts';
import type { Traceparents } from '../ports/traceparents.ts';
import type { Answer, OutboundRequest, Transport } from '../ports/transport.ts';
import type { PlacedOutcome } from './decide.ts';
import type { Endpoint } from './endpoint.ts';
import { outcomeOf } from './outcome.ts';

/** What one round of requests came to. */
export interface EndedRound {
  readonly outcomes: readonly PlacedOutcome[];
  readonly attempts: readonly Attempt[];
}

/** Keeps count of the requests that have no answer yet, by the place of their endpoint. */
export interface OpenRequests {
  /** The endpoint owes so many answers that it should get no further request. */
  isBusy(place: number): boolean;
  /** `isFirst`: of its round. */
  begun(place: number, isFirst: boolean): void;
  /** `isLast`: none of its round is open any more. `isLate`: its round had ended before. */
  ended(place: number, isLast: boolean, isLate: boolean): void;
}

export interface RoundTools {
  readonly type: DestinationType;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly open: OpenRequests;
  /** The endpoint at a place of the round's settings: it is told of every request. Absent: nobody is. */
  readonly endpointAt?: ((place: number) => Endpoint | undefined) | undefined;
  readonly traceparents?: Pick<Traceparents, 'of'> | undefined;
}

/** Of an endpoint that was left out of a round: nothing was sent, so nothing is recorded, and it may be asked later. */
const LEFT_OUT: Outcome = { kind: 'retryable', reason: 'endpoint_busy' };

/**
 * Sends one round: the same bytes to every endpoint that is still to be tried, all at once.
 *
 * `ended` is called once: at the first acceptance, since the delivery is then done whatever the others say, or when all
 * have answered. Answers that come later are not waited for, so a hanging endpoint does not hold up its siblings; they count
 * for their endpoint, and are not kept as attempts of the delivery: nothing follows from them, and each would cost a write
 * of its own after the delivery is settled. A round without a request ends at once, without an outcome.
 */
export function sendRound(
  work: InHand,
  destination: Destination,
  tools: RoundTools,
  ended: (round: EndedRound) => void,
): void {
  const startedAt = tools.clock.monotonic();
  const now = tools.clock.now();
  const wanted = { endpoints: endpointsToTry(work, destination), now, origin: work.origin };
  const all = tools.type.requests(work.written, destination, wanted);
  const outcomes: PlacedOutcome[] = [];
  const attempts: Attempt[] = [];
  const spare = all.length > 1 ? withoutBusy(all, tools.open, outcomes) : all;
  const requests = inTrace(tools.traceparents?.of(work.delivery.position), spare);
  let over = false;
  let open = requests.length;
  // Not at once: whoever sends is not ready for the end of a round before this returns.
  if (requests.length === 0) queueMicrotask(() => ended({ outcomes, attempts }));
  for (const placed of requests) {
    const { place, request } = placed;
    const endpoint = tools.endpointAt?.(place);
    tools.open.begun(place, placed === requests[0]);
    tools.transport.send(request, (answer) => {
      open--;
      const outcome = outcomeOf(answer, tools.clock);
      endpoint?.note(outcome, answer, tools.clock.now());
      tools.open.ended(place, open === 0, over);
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
function withoutBusy(
  all: readonly PlacedRequest[],
  open: OpenRequests,
  outcomes: PlacedOutcome[],
): readonly PlacedRequest[] {
  const spare = all.filter(({ place }) => !open.isBusy(place));
  if (spare.length === all.length || spare.length === 0) return all;
  for (const request of all) {
    if (!spare.includes(request)) outcomes.push({ place: request.place, outcome: LEFT_OUT });
  }
  return spare;
}

/** The same requests as part of the trace their event came in, unless an endpoint's own settings name another. */
function inTrace(
  traceparent: string | undefined,
  requests: readonly PlacedRequest[],
): readonly PlacedRequest[] {
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
function endpointsToTry({ delivery }: InHand, destination: Destination): number {
  const all = (1 << destination.settings.endpoints.length) - 1;
  const { endpoints = 0, settingsVersion = -1 } = delivery;
  const sameSettings = settingsVersion === destination.version % SETTINGS_VERSIONS;
  return sameSettings && (endpoints & all) !== 0 ? endpoints & all : all;
}

/** Stores keep the version in two bytes; this many changes within one retry window do not happen. */
export const SETTINGS_VERSIONS = 0x10000;

function attemptOf(
  request: OutboundRequest,
  startedAt: number,
  answer: Answer,
  outcome: Attempt['outcome'],
): Attempt {
  const attempt = { endpoint: request.url, startedAt, latencyMs: answer.latencyMs, outcome };
  if (outcome.kind === 'accepted') return attempt;
  return { ...attempt, answer: answer.kind === 'answered' ? answer.body : answer.detail };
}
