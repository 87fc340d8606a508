import type { Attempt } from '../model/delivery.ts';
import type { Destination } from '../model/destination.ts';
import type { Clock } from '../ports/clock.ts';
import type { InHand } from '../ports/deliverer.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import type { Answer, OutboundRequest, Transport } from '../ports/transport.ts';
import type { PlacedOutcome } from './decide.ts';
import { outcomeOf } from './outcome.ts';

/** What one round of requests came to. */
export interface EndedRound {
  readonly outcomes: readonly PlacedOutcome[];
  readonly attempts: readonly Attempt[];
}

export interface RoundTools {
  readonly type: DestinationType;
  readonly transport: Transport;
  readonly clock: Clock;
  /** Called as each request ends, also after the round has ended. */
  readonly requestEnded: () => void;
}

/**
 * Sends one round: the same bytes to every endpoint that is still to be tried, all at once.
 *
 * `ended` is called once: at the first acceptance, since the delivery is then done whatever the others say, or when all
 * have answered. Answers that come later are not waited for, so a hanging endpoint does not hold up its siblings. A round
 * without a request ends at once, without an outcome.
 *
 * @returns the number of requests sent
 */
export function sendRound(
  work: InHand,
  destination: Destination,
  tools: RoundTools,
  ended: (round: EndedRound) => void,
): number {
  const requests = tools.type.requests(work.event, destination, endpointsToTry(work, destination));
  const outcomes: PlacedOutcome[] = [];
  const attempts: Attempt[] = [];
  let over = false;
  const startedAt = tools.clock.now();
  // Not at once: whoever sends is not ready for the end of a round before this returns.
  if (requests.length === 0) queueMicrotask(() => ended({ outcomes, attempts }));
  for (const { place, request } of requests) {
    tools.transport.send(request, (answer) => {
      tools.requestEnded();
      if (over) return;
      const outcome = outcomeOf(answer, tools.clock.now());
      outcomes.push({ place, outcome });
      attempts.push(attemptOf(request, startedAt, answer, outcome));
      over = outcome.kind === 'accepted' || outcomes.length === requests.length;
      if (over) ended({ outcomes, attempts });
    });
  }
  return requests.length;
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
