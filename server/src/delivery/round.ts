import type { Fifo } from '../model/containers.ts';
import { isComputationId } from '../model/definition.ts';
import type { Attempt, Drop, Outcome } from '../model/delivery.ts';
import { invariant } from '../model/invariant.ts';
import { type Lane, nameOfTarget, type Target } from '../model/lane.ts';
import { type Monotonic, rounded } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { ReadyDelivery } from '../ports/delivery-queue.ts';
import type { AnsweredOutcome, DeliveryOutcome, Sender } from '../ports/destination-type.ts';
import type { TraceContexts } from '../ports/telemetry.ts';
import type { EndpointTracker } from './endpoint-health.ts';
import {
  ENDPOINT_BUSY,
  ENDPOINT_RESTS,
  type RoundOutcome,
  SETTINGS_VERSION_MODULUS,
} from './retry-policy.ts';

/** The result of one round for one of its deliveries. */
export interface RoundResult {
  outcomes: readonly RoundOutcome[];
  attempts: readonly Attempt[];
  /** A target has accepted it. */
  isAccepted: boolean;
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
  /** Called with what the end of a request throws: a bug. */
  readonly onBroken: (error: unknown) => void;
}

/** The replay that a delivery is made for; undefined for what is owed since its event was stored. */
export function replayOf({ origin }: Pick<ReadyDelivery, 'origin'>): string | undefined {
  return origin === undefined || isComputationId(origin) ? undefined : origin;
}

/**
 * Sends one round: the same events to every target that is still to be tried, to all at once. All deliveries
 * of a round have the same targets to try (`targetsToTry`).
 *
 * `onEnd` is called once, with a result for each delivery: when each was accepted somewhere, because that
 * delivers, or when all targets have answered. The round does not wait for later answers, so a hanging target
 * does not delay its siblings. A late answer counts for the health of its target. It is not recorded as an
 * attempt: it changes nothing, and would cost a write of its own after the delivery is settled. A round
 * without a target ends at once: there is none to ask, or each of them rests.
 */
export function sendRound(
  deliveries: readonly ReadyDelivery[],
  lane: Lane,
  dependencies: RoundDependencies,
  onEnd: (results: readonly RoundResult[]) => void,
): void {
  const { clock, openRequests, sender, endpointAt, traceparents, onBroken } = dependencies;
  invariant(deliveries.length > 0, 'a round is sent of a delivery at least');
  const startedAt = clock.monotonic();
  const results = deliveries.map(noResult);
  const asked = targetsToAsk(deliveries[0]!, lane, { openRequests, endpointAt, now: startedAt }, results);
  // In a microtask, because the caller expects that a round ends after this function has returned.
  if (asked === 0) {
    queueMicrotask(() => {
      try {
        onEnd(results);
      } catch (error) {
        onBroken(error);
      }
    });
    return;
  }
  const targets = targetsIn(asked, lane);
  const trials = beginRequests(asked, lane, dependencies);
  const events = deliveries.map((ready) => ({
    serialized: ready.serialized,
    source: ready.source,
    replay: replayOf(ready),
    traceparent: traceparents?.get(ready.delivery.position),
  }));
  let isOver = false;
  let open = targets.length;
  let left = results.length;
  sender.send({ destination: lane, targets, events, now: clock.now() }, (target, outcomes) => {
    try {
      invariant(open > 0, 'no target answers a round twice');
      invariant(outcomes.length === results.length, 'a target answers for each delivery of its round');
      open--;
      const place = target.place - lane.targets[0]!.place;
      invariant((asked & (1 << place)) !== 0, 'a target that answers was asked');
      recordRequest(outcomes, (trials & (1 << place)) !== 0, endpointAt(place), clock);
      openRequests.requestEnded(place, open === 0, isOver);
      if (isOver) return;
      const request = { target, place, startedAt };
      for (let nth = 0; nth < results.length; nth++)
        if (addOutcome(results[nth]!, outcomes[nth]!, request)) left--;
      isOver = left === 0 || open === 0;
      if (isOver) onEnd(results);
    } catch (error) {
      // The sender called this, and serves other lanes as well.
      onBroken(error);
    }
  });
}

const NONE: readonly never[] = [];

function noResult(): RoundResult {
  return { outcomes: NONE, attempts: NONE, isAccepted: false };
}

/** A push would make room for 17, of which most rounds use one: a fifth of what a delivery allocates. */
function appended<Item>(list: readonly Item[], item: Item): readonly Item[] {
  return list.length === 0 ? [item] : [...list, item];
}

/** Begins a request to each target; returns which of them are trials after a rest, as bits. */
function beginRequests(asked: number, lane: Lane, { openRequests, endpointAt }: RoundDependencies): number {
  let trials = 0;
  let isFirst = true;
  for (let place = 0; place < lane.targets.length; place++) {
    if ((asked & (1 << place)) === 0) continue;
    openRequests.requestBegan(place, isFirst);
    isFirst = false;
    if (endpointAt(place)?.rest.beginRequest() === true) trials |= 1 << place;
  }
  return trials;
}

/**
 * Adds the request to the health of its target. A send of which every event was dropped was no request, and
 * tells nothing of it.
 */
function recordRequest(
  outcomes: readonly DeliveryOutcome[],
  isTrial: boolean,
  endpoint: EndpointTracker | undefined,
  clock: Clock,
): void {
  const summary = summaryOf(outcomes);
  if (summary !== undefined) endpoint?.record(summary.outcome, summary.answer, clock.now());
  endpoint?.rest.endRequest(summary?.outcome, isTrial, clock.monotonic());
}

/** Returns whether the delivery is accepted now and was not before. */
function addOutcome(
  result: RoundResult,
  told: DeliveryOutcome,
  {
    target,
    place,
    startedAt,
  }: { readonly target: Target; readonly place: number; readonly startedAt: Monotonic },
): boolean {
  const { outcome } = told;
  result.outcomes = appended(result.outcomes, { place, outcome });
  if (isAnswered(told)) result.attempts = appended(result.attempts, attemptOf(target, startedAt, told));
  if (outcome.kind !== 'accepted' || result.isAccepted) return false;
  result.isAccepted = true;
  return true;
}

function targetsIn(asked: number, { targets }: Lane): readonly Target[] {
  if (asked === (1 << targets.length) - 1) return targets;
  return targets.filter((_, place) => (asked & (1 << place)) !== 0);
}

function isAnswered(told: DeliveryOutcome): told is AnsweredOutcome {
  return told.outcome.kind !== 'dropped';
}

/**
 * The outcome of a send for its target: well if it took anything, and another try if anything is to be tried
 * again; undefined where nothing was asked.
 */
function summaryOf(outcomes: readonly DeliveryOutcome[]): AnsweredOutcome | undefined {
  if (outcomes.length === 1) return isAnswered(outcomes[0]!) ? outcomes[0] : undefined;
  const answered = outcomes.filter(isAnswered);
  const first = (kind: Outcome['kind']) => answered.find(({ outcome }) => outcome.kind === kind);
  return first('accepted') ?? first('retryable') ?? answered[0];
}

/**
 * The targets that are asked, as bits by their place. Those left out get their outcome at once: a later round
 * may ask them.
 */
function targetsToAsk(
  ready: ReadyDelivery,
  lane: Lane,
  {
    openRequests,
    endpointAt,
    now,
  }: Pick<RoundDependencies, 'openRequests' | 'endpointAt'> & { readonly now: Monotonic },
  results: readonly RoundResult[],
): number {
  const wanted = targetsToTry(ready, lane);
  const leaveOut = (place: number, outcome: Outcome) => {
    for (const result of results) result.outcomes = appended(result.outcomes, { place, outcome });
  };
  let awake = wanted;
  for (let place = 0; place < lane.targets.length; place++) {
    const notBefore = (wanted & (1 << place)) === 0 ? undefined : endpointAt(place)?.rest.until(now);
    if (notBefore === undefined) continue;
    awake &= ~(1 << place);
    leaveOut(place, { kind: 'retryable', reason: ENDPOINT_RESTS, notBefore });
  }
  // A power of two, or none: there is no sibling that could take the event.
  return (awake & (awake - 1)) === 0 ? awake : leaveOutBusy(awake, lane, openRequests, leaveOut);
}

/**
 * Leaves out the busy targets, as long as another one is left: a target that does not answer must not hold up
 * events that its siblings accept. A busy target counts as retryable, so that a retry asks it too.
 */
function leaveOutBusy(
  awake: number,
  { targets }: Lane,
  openRequests: OpenRequests,
  leaveOut: (place: number, outcome: Outcome) => void,
): number {
  let free = awake;
  for (let place = 0; place < targets.length; place++)
    if ((awake & (1 << place)) !== 0 && openRequests.isBusy(place)) free &= ~(1 << place);
  if (free === awake || free === 0) return awake;
  for (let place = 0; place < targets.length; place++)
    if ((awake & ~free & (1 << place)) !== 0) leaveOut(place, ENDPOINT_BUSY);
  return free;
}

/**
 * The targets of the last decision, as bits by their place in the lane. All of them when the settings have
 * changed since: a repaired URL gets its try.
 */
function targetsToTry({ delivery }: ReadyDelivery, lane: Lane): number {
  const all = (1 << lane.targets.length) - 1;
  const { endpoints = 0, settingsVersion = -1 } = delivery;
  const sameSettings = settingsVersion === lane.version % SETTINGS_VERSION_MODULUS;
  return sameSettings && (endpoints & all) !== 0 ? endpoints & all : all;
}

/**
 * Takes from the queue what is sent next: as many as the sender takes at once, from the first on, with the
 * same targets to try.
 */
export function takeBatch(queue: Fifo<ReadyDelivery>, lane: Lane, sender: Sender): readonly ReadyDelivery[] {
  const first = queue.shift();
  invariant(first !== undefined, 'a batch is taken from deliveries that wait');
  const most = sender.most(lane);
  invariant(most.events >= 1, 'a sender takes one event at least');
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
export function attemptOf<Told extends Outcome | Drop>(
  target: Target,
  startedAt: Monotonic,
  { outcome, answer, latencyMs }: DeliveryOutcome & { readonly outcome: Told },
): Omit<Attempt, 'outcome'> & { readonly outcome: Told } {
  const attempt = { endpoint: nameOfTarget(target), startedAt, latencyMs: rounded(latencyMs), outcome };
  return outcome.kind === 'accepted' ? attempt : { ...attempt, answer };
}

/**
 * The rounds of a worker that are in flight, so that somebody can wait for those of a moment while later ones
 * begin.
 */
export class RoundsInFlight {
  count = 0;
  /** The deliveries of these rounds. */
  deliveries = 0;
  /** Rounds still in flight of those that the last mark met. */
  marked = 0;
  #marks = 0;

  /** A round begins. Returns what `end` needs. */
  begin(deliveries: number): number {
    invariant(deliveries > 0, 'a round begins with a delivery');
    this.count++;
    this.deliveries += deliveries;
    return this.#marks;
  }

  end(begunAt: number, deliveries: number): void {
    this.count--;
    this.deliveries -= deliveries;
    invariant(this.count >= 0, 'no more rounds end than have begun');
    invariant(this.deliveries >= this.count, 'a round in flight has a delivery');
    invariant(begunAt <= this.#marks, 'no round began after a mark that is still to come');
    if (begunAt !== this.#marks) this.marked--;
    invariant(this.marked >= 0, 'no more rounds of a mark end than it met');
    invariant(this.marked <= this.count, 'a round that a mark met is in flight');
  }

  /** Marks the rounds in flight. Whoever waits for an earlier mark waits for this one too. */
  mark(): void {
    this.#marks++;
    this.marked = this.count;
  }
}
