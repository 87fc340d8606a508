import { Fifo } from '../model/containers.ts';
import { type Decision, RETRY_WINDOW } from '../model/delivery.ts';
import { type Destination, isDelivering } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import { InvariantError } from '../model/invariant.ts';
import { endpointIndexOfLane, type Lane } from '../model/lane.ts';
import { retryWindowStart } from '../model/pause.ts';
import { type Duration, type Monotonic, SECOND } from '../model/time.ts';
import { waitAtMost, wallTimeOf } from '../ports/clock.ts';
import type { DeliveryResult, HeldDelivery, ReadyDelivery } from '../ports/delivery-queue.ts';
import {
  afterBreakerClosed,
  afterBreakerOpened,
  afterClaim,
  afterFallingBehind,
  afterParking,
  afterRelease,
  BacklogLoader,
  batchOf,
  beforeClaim,
  checkBacklog,
  EMPTY_BACKLOG,
  type LoaderAction,
  nextAction,
  roomToClaim,
} from './backlog.ts';
import { type CircuitBreaker, MIN_PROBE_DELAY } from './circuit-breaker.ts';
import type { WorkerState } from './contract.ts';
import type { EndpointTracker } from './endpoint-health.ts';
import { HealthReporter, HealthTracker, type RoundTicket } from './health.ts';
import { LaneMemory } from './lane-memory.ts';
import { showResult } from './observers.ts';
import { DestinationRateLimiter, type NodeShare, shareOf } from './rate-limiter.ts';
import { decide, expiryCutoff, SETTINGS_VERSION_MODULUS } from './retry-policy.ts';
import {
  type RoundDependencies,
  type RoundResult,
  RoundsInFlight,
  replayOf,
  sendRound,
  takeBatch,
} from './round.ts';
import type { WorkerDependencies } from './worker-dependencies.ts';

/** A stop waits this long for the requests in flight. Each also ends by itself, at its own time limit. */
const STOP_LIMIT: Duration = 5 * SECOND;

/**
 * Delivers to one destination, or to one of its endpoints where each is a delivery of its own. Workers share
 * nothing that could slow another down: each has its own prefetch limit, number of requests in flight,
 * circuit breaker and backlog.
 *
 * ```
 *   reserve ─▶ deliver ─▶ ready ─▶ in flight ─▶ settle
 *                           ▲ │
 *   parked, due ─▶ claim ───┘ └─▶ back to disk, when the breaker opens or the destination is paused
 * ```
 * While the breaker is open a worker holds its probe and nothing else, so an outage of any length costs no
 * memory. How it stands to its deliveries on disk is the state machine of backlog.ts (`BacklogPhase`).
 */
export class DestinationWorker {
  readonly #dependencies: WorkerDependencies;
  readonly #roundDependencies: RoundDependencies;
  readonly #reporter: HealthReporter;
  readonly #loader: BacklogLoader;
  /** The deliveries that can be sent now. */
  readonly #queue = new Fifo<ReadyDelivery>();
  readonly #tracker = new HealthTracker();
  readonly #rateLimiter: DestinationRateLimiter;
  #destination: Lane;
  #share: NodeShare;
  #backlog = EMPTY_BACKLOG;
  readonly #memory: LaneMemory;
  /** Why the lane has stopped: the invariant that did not hold. */
  #failure: string | undefined;
  /**
   * Leases that were lost. What began under one of them belongs to others, or to a later claim of this
   * process.
   */
  #lostLeases = 0;
  readonly rounds = new RoundsInFlight();
  /** The turn of the last probe on its way back: a database may do what is asked later first. */
  #givingBack: Promise<void> | undefined;
  /** The action under way. */
  #loading: Promise<void> | undefined;
  #wakesAt: Monotonic | undefined;
  #cancelTimer: (() => void) | undefined;
  #stopping: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;

  constructor(destination: Lane, dependencies: WorkerDependencies) {
    this.#destination = destination;
    this.#share = shareOf(destination, dependencies.share());
    this.#dependencies = dependencies;
    this.#memory = new LaneMemory(dependencies.total);
    this.#reporter = new HealthReporter(destination.name, dependencies.logger, dependencies.clock);
    this.#loader = new BacklogLoader(destination, dependencies);
    this.#rateLimiter = new DestinationRateLimiter(dependencies.clock, () => this.#guard(this.resume));
    this.#rateLimiter.configure(destination, this.#share);
    this.#roundDependencies = {
      sender: dependencies.sender,
      clock: dependencies.clock,
      openRequests: this.#rateLimiter,
      endpointAt: (place) => this.#endpointAt(place),
      traceparents: dependencies.traceparents,
      onBroken: this.fail,
    };
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Stops the lane for good, because an invariant did not hold: its memory may be wrong. What it holds stays
   * held in the store, and comes back with the next start. Any other error is thrown again.
   */
  readonly fail = (error: unknown): void => {
    if (!(error instanceof InvariantError)) throw error;
    if (this.#failure !== undefined) return;
    this.#failure = error.message;
    const { name } = this.#destination;
    const facts = { destination: name, invariant: error.message, phase: this.#backlog.phase };
    this.#dependencies.logger.error({ ...facts, held: this.#memory.held }, 'destination.failed');
    this.#cancelTimer?.();
    this.#loader.stop();
    this.#queue.drain();
    this.#memory.giveUp();
    this.#onIdle?.();
    this.#dependencies.laneFailed?.(name, error);
  };

  /**
   * Runs work that nobody waits for: where an invariant does not hold, it ends this lane and nothing else.
   */
  #guard(work: () => void): void {
    if (this.#failure !== undefined) return;
    try {
      work();
    } catch (error) {
      this.fail(error);
    }
  }

  state(): WorkerState {
    const { lastError, failingSince, refusingSince } = this.#reporter;
    const { breaker, limit } = this.#tracker;
    return {
      destination: this.#destination.id,
      held: this.#memory.held,
      inFlight: this.rounds.deliveries,
      limit,
      breaker: breaker.state,
      nextProbeAt:
        breaker.state === 'open' ? wallTimeOf(breaker.nextProbeAt, this.#dependencies.clock) : undefined,
      failingSince,
      refusingSince,
      lastError,
      failure: this.#failure,
    };
  }

  /** Sets the settings of the next rounds; rounds under way keep theirs. */
  configure(destination: Lane): void {
    const isChanged = destination.version !== this.#destination.version;
    this.#destination = destination;
    if (isChanged) this.#rateLimiter.configure(destination, this.#share);
    if (isChanged) this.#endRests();
    if (isChanged) this.#tracker.settingsChanged(this.#dependencies.clock.monotonic());
    if (isChanged && !this.#tracker.isClosed) this.#giveBackProbe(0);
    this.#sendReady();
    this.#load();
  }

  /** The number of nodes that deliver has changed. */
  shareChanged(): void {
    this.#share = shareOf(this.#destination, this.#dependencies.share());
    this.#rateLimiter.configure(this.#destination, this.#share);
    this.#sendReady();
    this.#load();
  }

  /** Restores the health of the endpoints from an earlier process. */
  restore(): void {
    const { targets } = this.#destination;
    this.#reporter.restore(targets.flatMap((_, place) => this.#endpointAt(place) ?? []));
  }

  /** An earlier process left deliveries on disk; the first is due at `at`. */
  recoverFrom(at: Monotonic): void {
    if (at <= this.#dependencies.clock.monotonic()) this.#backlog = afterFallingBehind(this.#backlog);
    this.noteDue(at);
  }

  /**
   * Reserves memory for new deliveries. The others must wait on disk: there is no room, or older ones wait
   * there and go first. Runs for each commit.
   *
   * @returns how many of them may be held
   */
  reserve(deliveries: number): number {
    const takesNew = this.#backlog.phase === 'caught_up' && this.#isServing();
    const reserved = takesNew ? this.#memory.reserve(deliveries) : 0;
    if (reserved < deliveries) this.#backlog = afterFallingBehind(this.#backlog);
    return reserved;
  }

  /** Gives reserved memory back. */
  unreserve(deliveries: number): void {
    this.#memory.endReservation(deliveries);
    this.#memory.add(-deliveries);
    this.#load();
  }

  /** Takes deliveries for which memory was reserved. Without a lease they belong to another process soon. */
  deliver(deliveries: readonly ReadyDelivery[]): void {
    this.#memory.endReservation(deliveries.length);
    this.#enqueue(deliveries);
  }

  #enqueue(deliveries: readonly ReadyDelivery[]): void {
    if (!this.#maySend()) {
      this.#memory.add(-deliveries.length);
      return;
    }
    const startedAt = this.#dependencies.clock.elapsed();
    for (const one of deliveries) this.#queue.push(one);
    this.#sendReady();
    this.#dependencies.worked?.(this.#dependencies.clock.elapsed() - startedAt);
  }

  /**
   * Forgets all deliveries that wait here, because the lease is lost: they belong to other processes.
   * Resolves when no claim is under way. Requests in flight go on; their results change nothing.
   */
  async forget(): Promise<void> {
    this.#lostLeases++;
    this.#memory.add(-this.#queue.drain().length);
    this.#backlog = afterFallingBehind(this.#backlog);
    this.#loader.wake();
    await this.#loading;
  }

  /** Forgets deliveries whose events were erased. Requests in flight go on; their results change nothing. */
  drop(positions: ReadonlySet<Position>): void {
    this.#loader.drop(positions);
    const dropped = this.#queue.keep(({ delivery }) => !positions.has(delivery.position));
    if (dropped === 0) return;
    this.#memory.add(-dropped);
    this.#load();
  }

  /** Forgets answers of endpoints in which one of these texts stands. */
  redact(mentions: (text: string) => boolean): void {
    this.#reporter.redact(mentions);
  }

  /** Results are written again. */
  readonly resume = (): void => this.#sendReady();

  /** Deliveries on disk are due at `at`. */
  noteDue(at: Monotonic): void {
    this.#backlog = afterParking(this.#backlog, at);
    this.#load();
  }

  /**
   * Starts nothing new. Resolves when nothing is in flight, after five seconds at the latest. The store
   * counts what is still in the queue as held by this process, and the next process recovers it. Idempotent.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      if (this.rounds.count === 0 || this.#failure !== undefined) resolve();
    });
    this.#cancelTimer?.();
    this.#loader.stop();
    await waitAtMost(Promise.all([idle, this.#loading]), STOP_LIMIT, this.#dependencies.clock);
  }

  #endpointAt(place: number): EndpointTracker | undefined {
    return this.#dependencies.endpoints.trackers[endpointIndexOfLane(this.#destination.id) + place];
  }

  /**
   * When the first endpoint may be asked again, where all of them rest; undefined where one may be asked now.
   */
  #restsUntil(now: Monotonic): Monotonic | undefined {
    const rests = this.#destination.targets.map((_, place) => this.#endpointAt(place)?.rest.until(now));
    const known = rests.filter((until) => until !== undefined);
    return known.length === 0 || known.length < rests.length ? undefined : Math.min(...known);
  }

  #endRests(): void {
    for (const place of this.#destination.targets.keys()) this.#endpointAt(place)?.rest.end();
  }

  #isServing(): boolean {
    const isAllowed = isDelivering(this.#destination) && this.#rateLimiter.hasShare;
    return this.#stopping === undefined && this.#failure === undefined && isAllowed && this.#maySend();
  }

  #areResultsLate(): boolean {
    return this.#dependencies.areResultsWritten?.() === false;
  }

  #maySend(): boolean {
    return this.#dependencies.maySend?.() !== false;
  }

  // Sending

  #sendReady(): void {
    if (this.#stopping !== undefined || this.#failure !== undefined || !this.#maySend()) return;
    if (!this.#tracker.isClosed || !this.#isServing()) this.#returnToDisk();
    while (
      this.#queue.size > 0 &&
      this.rounds.count < this.#tracker.limit &&
      this.#rateLimiter.canBeginRound() &&
      !this.#areResultsLate()
    )
      this.#send(takeBatch(this.#queue, this.#destination, this.#dependencies.sender), false);
  }

  /**
   * Parks the queue again, at its old place: before everything else on disk. During an outage a delivery is
   * parked at the time at which it would have been parked, because its retry window counts from there.
   */
  #returnToDisk(): void {
    const deliveries = this.#queue.drain();
    if (deliveries.length === 0) return;
    this.#memory.add(-deliveries.length);
    this.#backlog = afterFallingBehind(this.#backlog);
    const { outage, nextDueAt = Number.POSITIVE_INFINITY } = this.#backlog;
    const now = Math.min(this.#dependencies.clock.monotonic(), nextDueAt);
    for (const { set, delivery, serialized, dueAt = serialized.arrivedAt } of deliveries) {
      const parkedAt = outage === undefined ? now : Math.max(outage.since, dueAt);
      this.#dependencies.settle({
        set,
        destination: this.#destination.id,
        position: delivery.position,
        attempts: [],
        decision: { kind: 'retry', at: Math.min(parkedAt, now), next: delivery },
      });
    }
  }

  #send(batch: readonly ReadyDelivery[], isProbe: boolean): void {
    const destination = this.#destination;
    const ticket = this.#tracker.beginRound(isProbe);
    const begun = this.rounds.begin(batch.length);
    const lostLeases = this.#lostLeases;
    sendRound(batch, destination, this.#roundDependencies, (results) => {
      const startedAt = this.#dependencies.clock.elapsed();
      this.rounds.end(begun, batch.length);
      if (this.#failure !== undefined) return;
      this.#finishRound(batch, results, { destination, ticket, isOurs: lostLeases === this.#lostLeases });
      if (this.rounds.count === 0) this.#onIdle?.();
      this.#sendReady();
      this.#load();
      this.#dependencies.worked?.(this.#dependencies.clock.elapsed() - startedAt);
    });
  }

  #finishRound(
    batch: readonly ReadyDelivery[],
    results: readonly RoundResult[],
    { destination, ticket, isOurs }: RoundContext,
  ): void {
    const { clock, random, unreadFor } = this.#dependencies;
    const now = clock.monotonic();
    const settingsVersion = destination.version % SETTINGS_VERSION_MODULUS;
    const pauses = this.#destination.pauses ?? NO_PAUSES;
    const { isProbe } = ticket;
    const isOutdated = this.#tracker.isOutdated(ticket);
    let isDelivered = false;
    let latencyMs: Duration | undefined;
    for (let nth = 0; nth < batch.length; nth++) {
      const { outcomes, attempts } = results[nth]!;
      const round = { outcomes, now, settingsVersion, pauses, isProbe, isOutdated, random: random() };
      const decision = decide(batch[nth]!.delivery, round);
      isDelivered ||= decision.kind === 'delivered';
      latencyMs ??= attempts[0]?.latencyMs;
      this.#finishDelivery(batch[nth]!, attempts, decision, { now, isOurs });
    }
    const transition = this.#tracker.record({
      round: ticket,
      positions: batch.map(({ delivery }) => delivery.position),
      outcomes: results.length === 1 ? results[0]!.outcomes : results.flatMap(({ outcomes }) => outcomes),
      restsUntil: isDelivered ? undefined : this.#restsUntil(now),
      latencyMs: latencyMs ?? 0,
      unreadMs: unreadFor(now),
      now,
      random: random(),
    });
    if (isProbe) this.#giveBackProbe(pauseOf(this.#tracker.breaker, now));
    if (transition.kind === 'closed') {
      if (transition.wasRest) this.#rateLimiter.restEnded();
      this.#backlog = afterBreakerClosed(this.#backlog);
      this.#load();
    } else if (transition.kind === 'opened') {
      this.#backlog = afterBreakerOpened(this.#backlog, transition.outage, now);
      this.#reporter.breakerOpened(transition.breaker);
    }
  }

  #finishDelivery(
    ready: ReadyDelivery,
    attempts: DeliveryResult['attempts'],
    decision: Decision,
    { now, isOurs }: { readonly now: Monotonic; readonly isOurs: boolean },
  ): void {
    this.#reporter.record(decision, attempts, now);
    const arrivedAt = replayOf(ready) === undefined ? ready.serialized.arrivedAt : undefined;
    this.#dependencies.measures?.attemptEnded(arrivedAt, attempts, decision, now);
    if (isOurs) this.#settle(ready, attempts, decision);
    else this.#memory.add(-1);
  }

  #settle(ready: ReadyDelivery, attempts: DeliveryResult['attempts'], decision: Decision): void {
    this.#memory.add(-1);
    const { id, name } = this.#destination;
    const { set, delivery, serialized } = ready;
    this.#dependencies.settle({ set, destination: id, position: delivery.position, attempts, decision });
    const { currentObserver, clock, sourceName } = this.#dependencies;
    if (currentObserver.observer === undefined) return;
    const source = sourceName(ready.source);
    showResult({ source, destination: name, serialized, attempts, decision }, currentObserver, clock);
  }

  // Loading the backlog

  /**
   * Starts the next action on the backlog, or a timer for it. Called after every round, so it must be cheap.
   */
  #load(): void {
    if (this.#backlog.nextDueAt === undefined && this.#backlog.phase !== 'releasing') return;
    if (this.#loading !== undefined || !this.#isServing()) return;
    this.#memory.check(this.#queue.size, this.rounds.deliveries);
    checkBacklog(this.#backlog, this.#tracker.breaker.state);
    const now = this.#dependencies.clock.monotonic();
    const action = nextAction(this.#backlog, this.#tracker.breaker, this.#room(), now);
    if (action.kind === 'none') return;
    if (action.kind === 'full') this.#backlog = afterFallingBehind(this.#backlog);
    else if (action.kind === 'wait') this.#wakeAt(action.until);
    else {
      this.#loading = this.#run(action)
        .then(() => {
          this.#loading = undefined;
          this.#guard(() => this.#load());
        })
        .catch(this.fail);
    }
  }

  /** How many deliveries may be claimed; 0 when a claim is not worth its commit. */
  #room(): number {
    const isBehind = this.#backlog.phase !== 'caught_up';
    return roomToClaim(
      { held: this.#memory.held, isBehind, limit: this.#tracker.limit },
      this.#dependencies.total,
    );
  }

  #wakeAt(at: Monotonic): void {
    if (this.#wakesAt === at || at === Number.POSITIVE_INFINITY) return;
    this.#cancelTimer?.();
    this.#wakesAt = at;
    const { clock } = this.#dependencies;
    this.#cancelTimer = clock.after(at - clock.monotonic(), () => {
      this.#wakesAt = undefined;
      this.#guard(() => this.#load());
    });
  }

  /** Never rejects: after a failure it waits, and `#load` decides anew. */
  async #run(action: LoaderAction): Promise<void> {
    try {
      if (action.kind === 'claim') await this.#claim(action.max, this.#dependencies.clock.monotonic());
      else if (action.kind === 'probe') await this.#probe();
      else if (action.kind === 'release') await this.#release();
      else await this.#expire();
    } catch (error) {
      await this.#loader.backOff(error, action.kind);
    }
  }

  /** @returns whether a probe was sent */
  async #claim(max: number, dueAt: Monotonic): Promise<boolean> {
    const { outage } = this.#backlog;
    this.#backlog = beforeClaim(this.#backlog);
    const { deliveries, nextDueAt } = await this.#loader.claim(max, dueAt);
    if (this.#failure !== undefined) return false;
    this.#backlog = afterClaim(this.#backlog, nextDueAt, dueAt);
    if (deliveries.length === 0) return false;
    this.#memory.claim(deliveries.length);
    const events = await this.#loader.read(deliveries);
    if (this.#failure !== undefined) return false;
    this.#memory.read();
    if (events === undefined) {
      this.#memory.add(-deliveries.length);
      return false;
    }
    const { ready, dead } = batchOf(deliveries, events, outage, this.#windowStart());
    for (const { held, reason } of dead) this.#deadLetter(held, reason);
    const [probe] = ready;
    const mayProbe = this.#tracker.isProbing && this.#isServing() && !this.#areResultsLate();
    const isProbeSent = mayProbe && probe !== undefined;
    if (isProbeSent) this.#send([probe], true);
    else this.#enqueue(ready);
    return isProbeSent;
  }

  #deadLetter({ set, delivery: { position } }: HeldDelivery, reason: string): void {
    this.#memory.add(-1);
    const decision = { kind: 'dead', reason } as const;
    this.#dependencies.settle({ set, destination: this.#destination.id, position, attempts: [], decision });
  }

  /** Expiry goes first, because the probe would take the delivery that has waited longest. */
  async #probe(): Promise<void> {
    const { clock, probeTurns } = this.#dependencies;
    if (this.#areResultsLate()) return this.#tracker.postponeProbe(clock.monotonic() + MIN_PROBE_DELAY);
    await this.#givingBack;
    const wait = (await probeTurns?.takeProbe(this.#destination.id)) ?? 0;
    if (wait > 0) return this.#tracker.postponeProbe(clock.monotonic() + wait);
    this.#tracker.beginProbe();
    let isSent = false;
    try {
      await this.#expire();
      isSent = await this.#claim(1, Math.max(clock.monotonic(), this.#backlog.nextDueAt ?? 0));
    } finally {
      // No round will end it: nothing was there to probe with, or the destination was paused or the lease
      // lost meanwhile.
      if (!isSent) this.#cancelProbe();
    }
  }

  #cancelProbe(): void {
    this.#tracker.cancelProbe(this.#dependencies.clock.monotonic());
    this.#giveBackProbe(0);
  }

  /** A turn that cannot be given back is over after a while. */
  #giveBackProbe(pause: Duration): void {
    const { probeTurns } = this.#dependencies;
    this.#givingBack = probeTurns?.giveBackProbe(this.#destination.id, pause).catch(() => undefined);
  }

  /**
   * Failures are written first: beside an endpoint that is up they would wait for their next delay otherwise.
   */
  async #release(): Promise<void> {
    await this.#dependencies.writeResults();
    await this.#expire();
    const { at, released, onDisk } = await this.#loader.release();
    if (released > 0) this.#backlog = afterParking(this.#backlog, at);
    // The breaker may have opened again meanwhile. Then the next recovery releases what has failed since.
    if (this.#backlog.phase !== 'releasing') return;
    this.#backlog = afterRelease(this.#backlog, at);
    this.#reporter.breakerClosed(onDisk);
  }

  async #expire(): Promise<void> {
    this.#backlog = { ...this.#backlog, expiryCheckedAt: this.#dependencies.clock.monotonic() };
    const { outage, nextDueAt } = this.#backlog;
    if (outage === undefined || nextDueAt === undefined) return;
    const before = expiryCutoff(outage, nextDueAt, this.#windowStart());
    if (before !== undefined) await this.#loader.expire(before);
  }

  /** Start of the retry window that ends now. */
  #windowStart(): Monotonic {
    return retryWindowStart(
      this.#destination.pauses ?? NO_PAUSES,
      RETRY_WINDOW,
      this.#dependencies.clock.monotonic(),
    );
  }
}

/** For how long nobody probes after a probe has ended. */
function pauseOf(breaker: CircuitBreaker, now: Monotonic): Duration {
  return breaker.state === 'open' ? Math.max(0, breaker.nextProbeAt - now) : 0;
}

const NO_PAUSES: NonNullable<Destination['pauses']> = [];

/** The settings a round was sent with, and its ticket. */
interface RoundContext {
  readonly destination: Destination;
  readonly ticket: RoundTicket;
  /** The delivery is still that of this process. */
  readonly isOurs: boolean;
}
