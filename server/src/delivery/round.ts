import { isComputationId } from '../model/definition.ts';
import { type Attempt, type Decision, type Delivery, type Outcome, RETRY_WINDOW } from '../model/delivery.ts';
import type { Destination, WebhookSettings } from '../model/destination.ts';
import type { Event } from '../model/event.ts';
import { lanesOf } from '../model/lane.ts';
import { type Pause, pausedTimeWithin } from '../model/pause.ts';
import { SecretRedactor, secretsOfEndpoint, signaturesIn } from '../model/secret-redactor.ts';
import type { SerializedEvent } from '../model/serialized-event.ts';
import { type Duration, HOUR, MINUTE, type Monotonic, rounded, SECOND, type Time } from '../model/time.ts';
import { attemptOnWallClock, type Clock, wallTimeOf } from '../ports/clock.ts';
import type { ReadyDelivery } from '../ports/delivery-queue.ts';
import type { DestinationType, EndpointRequest } from '../ports/destination-type.ts';
import {
  allHeaders,
  type FailureReason,
  type HttpClient,
  type HttpResult,
  type OutboundRequest,
} from '../ports/http-client.ts';
import type { Activity, CurrentObserver, TraceContexts } from '../ports/telemetry.ts';
import { restOf } from './circuit-breaker.ts';
import type { TestAttempt } from './contract.ts';
import type { EndpointTracker } from './endpoint-health.ts';

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

/** The replay that a delivery is made for; undefined for what is owed since its event was stored. */
export function replayOf({ origin }: Pick<ReadyDelivery, 'origin'>): string | undefined {
  return origin === undefined || isComputationId(origin) ? undefined : origin;
}

/** Outcomes of endpoints that were left out of a round. There is no attempt, and a later round may ask them. */
const ENDPOINT_BUSY: Outcome = { kind: 'retryable', reason: 'endpoint_busy' };
const ENDPOINT_RESTS = 'endpoint_rests';

/**
 * Sends one round: the same bytes to every endpoint that is still to be tried, all at once.
 *
 * `onEnd` is called once: at the first acceptance, because that delivers, or when all endpoints have answered. The round
 * does not wait for later answers, so a hanging endpoint does not delay its siblings. A late answer counts for the health
 * of its endpoint. It is not recorded as an attempt: it changes nothing, and would cost a write of its own after the
 * delivery is settled. A round without a request ends at once: there is no endpoint to ask, or each of them rests.
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
    replay: replayOf(ready),
  });
  const outcomes: EndpointOutcome[] = [];
  const attempts: Attempt[] = [];
  const awake = leaveOutResting(all, startedAt, dependencies.endpointAt, outcomes);
  const chosen = awake.length > 1 ? leaveOutBusy(awake, openRequests, outcomes) : awake;
  const requests = withTraceparent(dependencies.traceparents?.get(ready.delivery.position), chosen);
  let isOver = false;
  let open = requests.length;
  // In a microtask, because the caller expects that a round ends after this function has returned.
  if (requests.length === 0) queueMicrotask(() => onEnd({ outcomes, attempts }));
  for (const endpointRequest of requests) {
    const { endpoint: place, request } = endpointRequest;
    const endpoint = dependencies.endpointAt?.(place);
    openRequests.requestBegan(place, endpointRequest === requests[0]);
    const isTrial = endpoint?.rest.beginRequest() === true;
    dependencies.transport.send(request, (received) => {
      open--;
      const outcome = outcomeOf(received, clock);
      const answer =
        outcome.kind === 'accepted' ? received : withoutSecrets(received, endpointRequest, destination);
      endpoint?.record(outcome, answer, clock.now());
      endpoint?.rest.endRequest(outcome, isTrial, clock.monotonic());
      openRequests.requestEnded(place, open === 0, isOver);
      if (isOver) return;
      outcomes.push({ place, outcome });
      attempts.push(attemptOf(request, startedAt, answer, outcome));
      isOver = outcome.kind === 'accepted' || open === 0;
      if (isOver) onEnd({ outcomes, attempts });
    });
  }
}

/** Leaves out the endpoints that rest. Each counts as retryable, so that the delivery waits for it if its siblings do not accept. */
function leaveOutResting(
  all: readonly EndpointRequest[],
  now: Monotonic,
  endpointAt: RoundDependencies['endpointAt'],
  outcomes: EndpointOutcome[],
): readonly EndpointRequest[] {
  const restOfPlace = (place: number) => endpointAt?.(place)?.rest.until(now);
  if (all.every(({ endpoint }) => restOfPlace(endpoint) === undefined)) return all;
  return all.filter(({ endpoint: place }) => {
    const notBefore = restOfPlace(place);
    if (notBefore === undefined) return true;
    outcomes.push({ place, outcome: { kind: 'retryable', reason: ENDPOINT_RESTS, notBefore } });
    return false;
  });
}

/** The endpoint was left out of the round because it rests. */
export const wasResting = ({ outcome }: EndpointOutcome): boolean => outcome.reason === ENDPOINT_RESTS;

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
    const isTraced = Object.keys(allHeaders(request)).some((name) => name.toLowerCase() === 'traceparent');
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

/** An answer that may be kept: an endpoint that answers with its request would show the secrets in it to whoever reads. */
function withoutSecrets(
  answer: HttpResult,
  { endpoint, request }: EndpointRequest,
  { settings }: Destination,
): HttpResult {
  if (answer.kind === 'answered' && answer.body === '') return answer;
  const known = redactorOf(settings, endpoint);
  const signatures = new SecretRedactor(signaturesIn(request.headers));
  const redact = (text: string) => signatures.redact(known.redact(text));
  return answer.kind === 'answered'
    ? { ...answer, body: redact(answer.body) }
    : { ...answer, detail: redact(answer.detail) };
}

/** One for each endpoint of settings, because many answers of one endpoint may come in a second. */
const redactors = new WeakMap<WebhookSettings, SecretRedactor[]>();

function redactorOf(settings: WebhookSettings, place: number): SecretRedactor {
  let all = redactors.get(settings);
  if (all === undefined) {
    all = settings.endpoints.map((endpoint) => new SecretRedactor(secretsOfEndpoint(endpoint, settings)));
    redactors.set(settings, all);
  }
  return all[place]!;
}

function attemptOf(
  request: OutboundRequest,
  startedAt: number,
  answer: HttpResult,
  outcome: Attempt['outcome'],
): Attempt {
  const attempt = { endpoint: request.url, startedAt, latencyMs: rounded(answer.latencyMs), outcome };
  if (outcome.kind === 'accepted') return attempt;
  return { ...attempt, answer: answer.kind === 'answered' ? answer.body : answer.detail };
}

type ResultNotice = Extract<Activity, { kind: 'settled' }>;

interface ShownResult extends Omit<ResultNotice, 'kind' | 'event'> {
  readonly serialized: SerializedEvent;
}

/** Shows observers the result of a delivery. The event is parsed only if somebody is to see it. */
export function showResult(
  { serialized, ...result }: ShownResult,
  observers: CurrentObserver,
  clock: Clock,
): void {
  const { source, destination, decision } = result;
  const notice = { destination, isFailure: decision.kind !== 'delivered' };
  if (observers.passesOver?.(serialized.line, source, notice) === true) return;
  observers.observer?.(resultOnWallClock({ ...result, event: serialized.event }, clock));
}

/** The result of a delivery as observers get it, with times of the wall clock. */
function resultOnWallClock(
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
  const each = { ...destination, success: 'each' as const };
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

/** The outcome of one endpoint in a round, with the endpoint's place in the settings. */
export interface EndpointOutcome {
  readonly place: number;
  readonly outcome: Outcome;
}

/** One round, and what the decision depends on besides the delivery. */
interface DecisionInput {
  readonly outcomes: readonly EndpointOutcome[];
  readonly now: Monotonic;
  /** Version of the settings that the round was sent with. */
  readonly settingsVersion: number;
  /** Pauses of the destination; they do not count for the retry window. */
  readonly pauses?: readonly Pause[];
  /** The round tested whether the endpoint is back. */
  readonly isProbe?: boolean;
  /** The round began in an outage that is over. */
  readonly isOutdated?: boolean;
  /** From 0 (inclusive) to 1 (exclusive); spreads the retries. */
  readonly random: number;
}

/**
 * Decides what happens to a delivery after one round of attempts.
 *
 * One accepted request completes it; the other endpoints are not tried again (spec/specification.md, "Several endpoints").
 * Otherwise only the retryable endpoints are tried again. `Retry-After` lengthens a delay within the retry window, and
 * never shortens one. Where every one of these endpoints rested, nothing was tried and nothing has failed.
 */
export function decide(delivery: Delivery, round: DecisionInput): Decision {
  const { outcomes, now, pauses = [] } = round;
  if (outcomes.some(({ outcome }) => outcome.kind === 'accepted')) return { kind: 'delivered' };
  const retryable = outcomes.filter(({ outcome }) => outcome.kind === 'retryable');
  if (retryable.length === 0) return { kind: 'dead', reason: outcomes[0]?.outcome.reason ?? 'no_endpoint' };

  const firstFailedAt = delivery.firstFailedAt ?? now;
  const deadline = firstFailedAt + RETRY_WINDOW + pausedTimeWithin(pauses, firstFailedAt, now);
  const isTried = !outcomes.every(wasResting);
  const rounds = delivery.rounds + (isTried ? 1 : 0);
  // Of an endpoint that is back everything is due at once (spec/specification.md, "Endpoints that are down").
  const scheduled = round.isOutdated === true || !isTried ? now : now + backoff(rounds, round.random);
  // A probe is made for the whole backlog. It ends its delivery only when the retry window is over now, not when the next try
  // would be too late.
  if ((round.isProbe === true ? now : scheduled) > deadline)
    return { kind: 'dead', reason: 'retry_window_over' };

  const wish = retryAfterOf(retryable, round.random);
  const endpoints = retryable.reduce((bits, { place }) => bits | (1 << place), 0);
  return {
    kind: 'retry',
    at: Math.min(Math.max(scheduled, wish), deadline),
    next: {
      position: delivery.position,
      rounds,
      firstFailedAt,
      endpoints,
      settingsVersion: round.settingsVersion,
    },
  };
}

/**
 * The delay after each failed round; the last one repeats. Short at first, because most failures are short. An endpoint
 * that stays down gets two requests an hour. spec/specification.md, "Retry schedule".
 */
export const RETRY_DELAYS: readonly Duration[] = [
  1 * SECOND,
  2 * SECOND,
  4 * SECOND,
  8 * SECOND,
  15 * SECOND,
  30 * SECOND,
  1 * MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  20 * MINUTE,
  30 * MINUTE,
];

/** Each delay varies by up to this share, so that deliveries that failed together do not return together. */
export const JITTER = 0.2;

/**
 * The delay before the next round.
 *
 * @param rounds failed rounds, including the last one; from 1
 * @param random from 0 (inclusive) to 1 (exclusive)
 */
export function backoff(rounds: number, random: number): Duration {
  return withJitter(RETRY_DELAYS[Math.min(rounds, RETRY_DELAYS.length) - 1]!, random);
}

/** A delay with its jitter. `random` from 0 (inclusive) to 1 (exclusive). */
function withJitter(delay: Duration, random: number): Duration {
  return Math.round(delay * (1 - JITTER + 2 * JITTER * random));
}

/** What waits for an endpoint that rests comes back within this time after the rest, and not at once. */
const REST_SPREAD: Duration = 5 * SECOND;

/**
 * When the endpoints wish the next round; 0 where they have no wish. A rest keeps nobody from asking the siblings, so it counts only where
 * all of them rest, and then that which ends first.
 */
function retryAfterOf(retryable: readonly EndpointOutcome[], random: number): Monotonic {
  const rests = retryable.map((one) => (wasResting(one) ? one.outcome.notBefore : restOf(one.outcome)));
  const first = Math.min(...rests.map((until) => until ?? 0));
  if (first > 0) return first + (retryable.some(wasResting) ? Math.round(REST_SPREAD * random) : 0);
  const others = retryable.filter((_, index) => rests[index] === undefined);
  return latestRetryAfter(others.map(({ outcome }) => outcome.notBefore)) ?? 0;
}

/** The latest wish among the endpoints' `Retry-After`; absent when there is none. */
export function latestRetryAfter(wishes: readonly (Monotonic | undefined)[]): Monotonic | undefined {
  const times = wishes.filter((time) => time !== undefined);
  return times.length === 0 ? undefined : Math.max(...times);
}

/** Longer wishes cannot be met within the retry window anyway. The limit also keeps absurd dates small. */
const MAX_RETRY_AFTER: Duration = 4 * HOUR;

/** Failures that no later try can repair, because the settings are wrong or forbidden. */
const PERMANENT_FAILURES: ReadonlySet<FailureReason> = new Set(['egress_refused', 'invalid_request']);

/**
 * Classifies an answer. Every 2xx is accepted. 408, 429, 5xx, a missing answer, a broken connection, an unresolved name and
 * an untrusted certificate are retryable. Every other status is refused, also a redirect, which is not followed.
 * spec/specification.md, "Outcomes".
 */
export function outcomeOf(answer: HttpResult, clock: Pick<Clock, 'now' | 'monotonic'>): Outcome {
  if (answer.kind === 'failed')
    return { kind: isFinal(answer) ? 'refused' : 'retryable', reason: answer.reason };
  const { status } = answer;
  const reason = `status_${status}`;
  if (status >= 200 && status < 300) return { kind: 'accepted', reason, status };
  if (!isRetryableStatus(status)) return { kind: 'refused', reason, status };
  if (answer.retryAfter === undefined) return { kind: 'retryable', reason, status };
  const wait = parseRetryAfter(answer.retryAfter, clock.now());
  const wish = wait === undefined ? {} : { notBefore: clock.monotonic() + wait };
  return { kind: 'retryable', reason, status, ...wish };
}

/** Whether a failed request is not tried again. */
export function isFinal({ status, reason }: Pick<Outcome, 'status' | 'reason'>): boolean {
  return status === undefined ? PERMANENT_FAILURES.has(reason as FailureReason) : !isRetryableStatus(status);
}

function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status <= 599);
}

/** The delay that `Retry-After` asks for, as seconds or a date (RFC 9110 section 10.2.3); absent for anything else. */
export function parseRetryAfter(header: string, now: Time): Duration | undefined {
  const value = header.trim();
  const date = parseHttpDate(value);
  const wait = /^\d+$/.test(value) ? Number(value) * SECOND : date === undefined ? 0 : date - now;
  return wait <= 0 ? undefined : Math.min(wait, MAX_RETRY_AFTER);
}

/** HTTP dates begin with the name of a day. Without this check `Date.parse` takes almost anything. */
function parseHttpDate(value: string): Time | undefined {
  const time = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/**
 * An outage as far as the worker knows it. It decides from when the retry window counts.
 *
 * The window of a delivery counts from its first failure. A delivery that was parked behind an open breaker was never tried
 * and counts from its parking (spec/specification.md, "Retry window"). A delivery that was parked for another reason (the
 * worker was slow, the program was down) does not count before it fails. The last two look alike on disk, so nothing counts
 * from before the start of the outage.
 */
export interface Outage {
  readonly since: Monotonic;
}

/**
 * Time that an endpoint gets after a start before deliveries expire. A program that starts during an outage cannot know
 * when it began, and assumes that it is old. But after a night without power the network may come up later than the
 * program, and the events of the evening must not die for that.
 */
const RESTART_GRACE: Duration = 10 * MINUTE;

/** How late a try within the window may be: stores merge due times, and expiry is checked once a minute. */
const LATENESS: Duration = MINUTE;

/** `hasBeenAlive`: the endpoint has shown life since this program started, so the start of the outage is known. A wish to rest is life. */
export function outageFrom(failingSince: Monotonic, hasBeenAlive: boolean): Outage {
  return { since: hasBeenAlive ? failingSince : failingSince - (RETRY_WINDOW - RESTART_GRACE) };
}

/**
 * The time before which deliveries on disk have had their window. Absent when that does not hold for all of them: an outage
 * that is younger than the window expires nothing that was parked before it.
 *
 * @param firstDueAt when the first delivery on disk is due
 * @param before start of the retry window that ends now (`retryWindowStart`)
 */
export function expiryCutoff(
  { since }: Outage,
  firstDueAt: Monotonic,
  before: Monotonic,
): Monotonic | undefined {
  return since <= before || firstDueAt >= before ? before : undefined;
}

/** Whether a delivery claimed during an outage is too late for another try. `before` as in `expiryCutoff`. */
export function isRetryWindowOver({ firstFailedAt }: Delivery, before: Monotonic): boolean {
  return firstFailedAt !== undefined && firstFailedAt + LATENESS < before;
}

/**
 * Dates a delivery that was claimed during an outage and never tried. Its window counts from its parking: the arrival of
 * its event, or the start of the outage if that is later (a replayed event arrived long ago).
 */
export function datedFromOutage({ since }: Outage, delivery: Delivery, arrivedAt: Monotonic): Delivery {
  if (delivery.firstFailedAt !== undefined) return delivery;
  return { ...delivery, firstFailedAt: Math.max(since, arrivedAt) };
}

/**
 * Judges the endpoints by one round. An answer that settles the delivery shows life, also a refusal. A refusal without a
 * request (by our own egress rules) says nothing, nor does an endpoint that rests. A round in which one endpoint is retryable and the others refuse is a
 * failure, because the retryable endpoint is the only one that can still accept.
 */
export function signOfLife(outcomes: readonly EndpointOutcome[]): 'alive' | 'failing' | 'none' {
  let sign: 'alive' | 'failing' | 'none' = 'none';
  for (const { outcome } of outcomes) {
    if (outcome.kind === 'accepted') return 'alive';
    if (outcome.reason === ENDPOINT_RESTS) continue;
    if (outcome.kind === 'retryable') sign = 'failing';
    else if (sign === 'none' && outcome.status !== undefined) sign = 'alive';
  }
  return sign;
}

/** The rounds of a worker that are in flight, so that somebody can wait for those of a moment while later ones begin. */
export class RoundsInFlight {
  count = 0;
  /** Rounds still in flight of those that the last mark met. */
  marked = 0;
  #marks = 0;

  /** A round begins. Returns what `end` needs. */
  begin(): number {
    this.count++;
    return this.#marks;
  }

  end(begunAt: number): void {
    this.count--;
    if (begunAt !== this.#marks) this.marked--;
  }

  /** Marks the rounds in flight. Whoever waits for an earlier mark waits for this one too. */
  mark(): void {
    this.#marks++;
    this.marked = this.count;
  }
}
