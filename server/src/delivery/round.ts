import type { Fifo } from '../model/containers.ts';
import { isComputationId } from '../model/definition.ts';
import type { Attempt, Outcome } from '../model/delivery.ts';
import { type Lane, nameOfTarget, type Target } from '../model/lane.ts';
import { type Monotonic, rounded } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { ReadyDelivery } from '../ports/delivery-queue.ts';
import type { DeliveryOutcome, Sender } from '../ports/destination-type.ts';
import type { TraceContexts } from '../ports/telemetry.ts';
import type { EndpointTracker } from './endpoint-health.ts';
import {
  ENDPOINT_BUSY,
  ENDPOINT_RESTS,
  type EndpointOutcome,
  SETTINGS_VERSION_MODULUS,
} from './retry-policy.ts';

/** The result of one round for one of its deliveries. */
export interface RoundResult {
  readonly outcomes: EndpointOutcome[];
  readonly attempts: Attempt[];
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
  readonly sender: Sender;
  readonly clock: Clock;
  readonly openRequests: OpenRequests;
  /** The endpoint at a place of the lane; it records every request. */
  readonly endpointAt: (place: number) => EndpointTracker | undefined;
  readonly traceparents?: Pick<TraceContexts, 'get'> | undefined;
}

/** The replay that a delivery is made for; undefined for what is owed since its event was stored. */
export function replayOf({ origin }: Pick<ReadyDelivery, 'origin'>): string | undefined {
  return origin === undefined || isComputationId(origin) ? undefined : origin;
}

/**
 * Sends one round: the same events to every target that is still to be tried, to all at once. All deliveries of a round have the same
 * targets to try (`targetsToTry`).
 *
 * `onEnd` is called once, with a result for each delivery: when each was accepted somewhere, because that delivers, or when all targets have
 * answered. The round does not wait for later answers, so a hanging target does not delay its siblings. A late answer counts for the
 * health of its target. It is not recorded as an attempt: it changes nothing, and would cost a write of its own after the delivery is
 * settled. A round without a target ends at once: there is none to ask, or each of them rests.
 */
export function sendRound(
  deliveries: readonly ReadyDelivery[],
  lane: Lane,
  dependencies: RoundDependencies,
  onEnd: (results: readonly RoundResult[]) => void,
): void {
  const { clock, openRequests, sender, endpointAt, traceparents } = dependencies;
  const startedAt = clock.monotonic();
  const results = deliveries.map((): RoundResult => ({ outcomes: [], attempts: [] }));
  const places = targetsToAsk(deliveries[0]!, lane, { ...dependencies, now: startedAt }, results);
  // In a microtask, because the caller expects that a round ends after this function has returned.
  if (places.length === 0) {
    queueMicrotask(() => onEnd(results));
    return;
  }
  const targets = places.map((place) => lane.targets[place]!);
  const trials = places.map((place, nth) => {
    openRequests.requestBegan(place, nth === 0);
    return endpointAt(place)?.rest.beginRequest() === true;
  });
  const events = deliveries.map((ready) => ({
    serialized: ready.serialized,
    replay: replayOf(ready),
    traceparent: traceparents?.get(ready.delivery.position),
  }));
  let isOver = false;
  let open = targets.length;
  sender.send({ destination: lane, targets, events, now: clock.now() }, (target, outcomes) => {
    open--;
    const nth = targets.indexOf(target);
    const place = places[nth]!;
    const { outcome, answer } = summaryOf(outcomes);
    const endpoint = endpointAt(place);
    endpoint?.record(outcome, answer, clock.now());
    endpoint?.rest.endRequest(outcome, trials[nth]!, clock.monotonic());
    openRequests.requestEnded(place, open === 0, isOver);
    if (isOver) return;
    let accepted = 0;
    for (const [index, result] of results.entries()) {
      result.outcomes.push({ place, outcome: outcomes[index]!.outcome });
      result.attempts.push(attemptOf(target, startedAt, outcomes[index]!));
      if (result.outcomes.some(isAccepted)) accepted++;
    }
    isOver = accepted === results.length || open === 0;
    if (isOver) onEnd(results);
  });
}

const isAccepted = ({ outcome }: EndpointOutcome): boolean => outcome.kind === 'accepted';

/** What a send says of its target: it is well if it took anything, and asks for another try if anything is to be tried again. */
function summaryOf(outcomes: readonly DeliveryOutcome[]): DeliveryOutcome {
  if (outcomes.length === 1) return outcomes[0]!;
  const first = (kind: Outcome['kind']) => outcomes.find(({ outcome }) => outcome.kind === kind);
  return first('accepted') ?? first('retryable') ?? outcomes[0]!;
}

/** The places of the targets that are asked. Those left out get their outcome at once: a later round may ask them. */
function targetsToAsk(
  ready: ReadyDelivery,
  lane: Lane,
  dependencies: Pick<RoundDependencies, 'openRequests' | 'endpointAt'> & { readonly now: Monotonic },
  results: readonly RoundResult[],
): readonly number[] {
  const wanted = targetsToTry(ready, lane);
  const all: number[] = [];
  for (let place = 0; place < lane.targets.length; place++)
    if ((wanted & (1 << place)) !== 0) all.push(place);
  const leaveOut = (place: number, outcome: Outcome) => {
    for (const { outcomes } of results) outcomes.push({ place, outcome });
  };
  const awake = leaveOutResting(all, dependencies, leaveOut);
  return awake.length > 1 ? leaveOutBusy(awake, dependencies.openRequests, leaveOut) : awake;
}

type LeaveOut = (place: number, outcome: Outcome) => void;

/** Leaves out the targets that rest. Each counts as retryable, so that the delivery waits for it if its siblings do not accept. */
function leaveOutResting(
  all: readonly number[],
  { endpointAt, now }: Pick<RoundDependencies, 'endpointAt'> & { readonly now: Monotonic },
  leaveOut: LeaveOut,
): readonly number[] {
  const restOfPlace = (place: number) => endpointAt(place)?.rest.until(now);
  if (all.every((place) => restOfPlace(place) === undefined)) return all;
  return all.filter((place) => {
    const notBefore = restOfPlace(place);
    if (notBefore === undefined) return true;
    leaveOut(place, { kind: 'retryable', reason: ENDPOINT_RESTS, notBefore });
    return false;
  });
}

/**
 * Leaves out the busy targets, as long as another one is left: a target that does not answer must not hold up events that its siblings
 * accept. A busy target counts as retryable, so that a retry asks it too.
 */
function leaveOutBusy(
  all: readonly number[],
  openRequests: OpenRequests,
  leaveOut: LeaveOut,
): readonly number[] {
  const free = all.filter((place) => !openRequests.isBusy(place));
  if (free.length === all.length || free.length === 0) return all;
  for (const place of all) if (!free.includes(place)) leaveOut(place, ENDPOINT_BUSY);
  return free;
}

/**
 * The targets of the last decision, as bits by their place in the lane. All of them when the settings have changed since: a repaired URL gets
 * its try.
 */
function targetsToTry({ delivery }: ReadyDelivery, lane: Lane): number {
  const all = (1 << lane.targets.length) - 1;
  const { endpoints = 0, settingsVersion = -1 } = delivery;
  const sameSettings = settingsVersion === lane.version % SETTINGS_VERSION_MODULUS;
  return sameSettings && (endpoints & all) !== 0 ? endpoints & all : all;
}

/** Takes from the queue what is sent next: as many as the sender takes at once, from the first on, with the same targets to try. */
export function takeBatch(queue: Fifo<ReadyDelivery>, lane: Lane, sender: Sender): readonly ReadyDelivery[] {
  const first = queue.shift()!;
  const most = sender.most(lane);
  if (most.events === 1) return [first];
  const batch = [first];
  let bytes = bytesOf(first);
  for (let next = queue.peek(); next !== undefined && batch.length < most.events; next = queue.peek()) {
    bytes += bytesOf(next);
    if (bytes > most.bytes || targetsToTry(next, lane) !== targetsToTry(first, lane)) break;
    batch.push(queue.shift()!);
  }
  return batch;
}

function bytesOf({ serialized }: ReadyDelivery): number {
  const { line } = serialized;
  return line === undefined ? Buffer.byteLength(JSON.stringify(serialized.event)) : line.to - line.from;
}

/** The record of what a target said of an event. */
export function attemptOf(
  target: Target,
  startedAt: Monotonic,
  { outcome, answer, latencyMs }: DeliveryOutcome,
): Attempt {
  const attempt = { endpoint: nameOfTarget(target), startedAt, latencyMs: rounded(latencyMs), outcome };
  return outcome.kind === 'accepted' ? attempt : { ...attempt, answer };
}

/** The rounds of a worker that are in flight, so that somebody can wait for those of a moment while later ones begin. */
export class RoundsInFlight {
  count = 0;
  /** The deliveries of these rounds. */
  deliveries = 0;
  /** Rounds still in flight of those that the last mark met. */
  marked = 0;
  #marks = 0;

  /** A round begins. Returns what `end` needs. */
  begin(deliveries: number): number {
    this.count++;
    this.deliveries += deliveries;
    return this.#marks;
  }

  end(begunAt: number, deliveries: number): void {
    this.count--;
    this.deliveries -= deliveries;
    if (begunAt !== this.#marks) this.marked--;
  }

  /** Marks the rounds in flight. Whoever waits for an earlier mark waits for this one too. */
  mark(): void {
    this.#marks++;
    this.marked = this.count;
  }
}
