import type { Decision } from '../model/delivery.ts';
import { type Destination, endpointIndexOfLane, isDelivering } from '../model/destination.ts';
import { type Duration, type Monotonic, SECOND, type Time } from '../model/time.ts';
import { wallTimeOf } from '../ports/clock.ts';
import type { DeliveryResult, HeldDelivery, ReadyDelivery } from '../ports/delivery-queue.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import type { HttpClient } from '../ports/http-client.ts';
import type { CurrentObserver, DeliveryRecorder } from '../ports/telemetry.ts';
import {
  type RoundDependencies,
  type RoundResult,
  resultOnWallClock,
  SETTINGS_VERSION_MODULUS,
  sendRound,
} from './attempt.ts';
import { BacklogLoader, type LoaderDependencies, type LoaderHost } from './backlog-loader.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { WorkerState } from './contract.ts';
import type { DestinationEndpoints, EndpointTracker } from './endpoint-health.ts';
import { HealthReporter, HealthTracker, type RoundTicket } from './health.ts';
import { ReadyQueue, roomForNew, roomToClaim, type TotalInMemory } from './queue.ts';
import { DestinationRateLimiter } from './rate-limiter.ts';
import { decide } from './retry-policy.ts';

/** Requests end by themselves within their time limit; a lane that is stopped waits no longer than this for them. */
const STOP_LIMIT: Duration = 5 * SECOND;

export interface WorkerDependencies extends LoaderDependencies, Pick<RoundDependencies, 'traceparents'> {
  readonly transport: HttpClient;
  readonly type: DestinationType;
  readonly watching: CurrentObserver;
  /** The name of a source by its id, for those who watch. */
  readonly sourceName: (id: number) => string;
  readonly measures: DeliveryRecorder | undefined;
  readonly settle: (result: DeliveryResult) => void;
  /** What all lanes have in memory. */
  readonly total: TotalInMemory;
  /** The endpoints of its destination, of which it may have one or all. */
  readonly watched: Readonly<DestinationEndpoints>;
  /** From 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}

/**
 * Delivers to one destination, with nothing shared that another destination could be slowed by: its own window in
 * memory, its own number of requests in flight, its own breaker, its own way to its backlog on disk.
 *
 * ```
 *   reserve ─▶ deliver ─▶ ready ─▶ in flight ─▶ settle
 *                           ▲ │
 *   parked, due ─▶ claim ───┘ └─▶ handed back, when the breaker opens or the destination is paused
 * ```
 * While the breaker is open the lane holds nothing but its probe: whatever the length of the outage, it costs no memory.
 */
export class DestinationWorker implements LoaderHost {
  readonly #tools: WorkerDependencies;
  readonly #roundTools: RoundDependencies;
  readonly #reporter: HealthReporter;
  readonly #loader: BacklogLoader;
  readonly #queue = new ReadyQueue();
  readonly #tracker = new HealthTracker();
  readonly #rateLimiter: DestinationRateLimiter;
  #destination: Destination;
  /** Deliveries in memory: reserved, ready or in flight. */
  #held = 0;
  #inFlight = 0;
  #stopping: Promise<void> | undefined;
  #onIdle: (() => void) | undefined;

  constructor(destination: Destination, tools: WorkerDependencies) {
    this.#destination = destination;
    this.#tools = tools;
    this.#reporter = new HealthReporter(destination.name, tools.logger, tools.clock);
    this.#loader = new BacklogLoader(tools, this);
    this.#rateLimiter = new DestinationRateLimiter(tools.clock, () => this.#sendReady());
    this.#rateLimiter.configure(destination.settings);
    this.#roundTools = {
      type: tools.type,
      transport: tools.transport,
      clock: tools.clock,
      open: this.#rateLimiter,
      endpointAt: (place) => this.#endpointAt(place),
      traceparents: tools.traceparents,
    };
  }

  get destination(): Destination {
    return this.#destination;
  }

  get breaker(): CircuitBreaker {
    return this.#tracker.breaker;
  }

  get room(): number {
    const { isBehind } = this.#loader;
    return roomToClaim({ held: this.#held, isBehind, limit: this.#tracker.limit }, this.#tools.total);
  }

  state(): WorkerState {
    const { lastError, failingSince } = this.#reporter;
    const { breaker, limit } = this.#tracker;
    return {
      destination: this.#destination.id,
      state: workerStateOf(this.#destination, failingSince),
      held: this.#held,
      inFlight: this.#inFlight,
      limit,
      breaker: breaker.state,
      ...(breaker.state === 'open'
        ? { nextProbeAt: wallTimeOf(breaker.nextProbeAt, this.#tools.clock) }
        : {}),
      ...(failingSince === undefined ? {} : { failingSince }),
      ...(lastError === undefined ? {} : { lastError }),
    };
  }

  /** The settings that attempts use from now on. */
  configure(destination: Destination): void {
    const isChanged = destination.version !== this.#destination.version;
    this.#destination = destination;
    if (isChanged) this.#rateLimiter.configure(destination.settings);
    if (isChanged) this.#tracker.settingsChanged(this.#tools.clock.monotonic());
    this.#sendReady();
    this.#loader.advance();
  }

  /** Takes up how its endpoints did under an earlier process. */
  restore(): void {
    const { endpoints } = this.#destination.settings;
    this.#reporter.restore(endpoints.flatMap((_, place) => this.#endpointAt(place) ?? []));
  }

  /** What an earlier process left on disk is due at this time. */
  resume(at: Monotonic): void {
    this.#loader.isBehind = at <= this.#tools.clock.monotonic();
    this.#loader.noteDue(at);
  }

  /** The others must wait on disk: there is no room, or some are waiting there already and go first. Runs for each commit. */
  reserve(deliveries: number): number {
    const serves = this.#tracker.isClosed && this.#isServing() && !this.#loader.isBehind;
    const taken = serves ? Math.min(deliveries, roomForNew(this.#held, this.#tools.total)) : 0;
    if (taken > 0) this.addHeld(taken);
    if (taken < deliveries) this.#loader.isBehind = true;
    return taken;
  }

  release(deliveries: number): void {
    this.addHeld(-deliveries);
    this.#loader.advance();
  }

  deliver(deliveries: readonly ReadyDelivery[]): void {
    this.#queue.enqueue(deliveries);
    this.#sendReady();
  }

  /** Something on disk is due at this time. */
  noteDue(at: Monotonic): void {
    this.#loader.noteDue(at);
  }

  /**
   * Starts nothing new and resolves when nothing is in flight, at the latest after five seconds. What is ready stays owed:
   * the store counts it as held by this process, and the next one adopts it.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const landed = new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      if (this.#inFlight === 0) resolve();
    });
    const limit = Promise.withResolvers<void>();
    const cancel = this.#tools.clock.after(STOP_LIMIT, limit.resolve);
    await Promise.race([Promise.all([landed, this.#loader.stop()]), limit.promise]);
    cancel();
  }

  addHeld(deliveries: number): void {
    this.#held += deliveries;
    this.#tools.total.held += deliveries;
  }

  onLoaded(works: readonly ReadyDelivery[]): void {
    const [probe] = works;
    if (this.#tracker.isProbing && this.#isServing() && probe !== undefined) this.#send(probe, true);
    else this.deliver(works);
  }

  beginProbe(): void {
    this.#tracker.beginProbe();
  }

  cancelProbe(): void {
    this.#tracker.cancelProbe(this.#tools.clock.monotonic());
  }

  deadLetter({ set, delivery: { position } }: HeldDelivery, reason: string): void {
    this.addHeld(-1);
    const decision = { kind: 'dead', reason } as const;
    this.#tools.settle({ set, destination: this.#destination.id, position, attempts: [], decision });
  }

  onReleased(onDisk: number): void {
    this.#reporter.breakerClosed(onDisk);
  }

  #endpointAt(place: number): EndpointTracker | undefined {
    return this.#tools.watched.endpoints[endpointIndexOfLane(this.#destination.id) + place];
  }

  #isServing(): boolean {
    return this.#stopping === undefined && isDelivering(this.#destination);
  }

  #sendReady(): void {
    if (this.#stopping !== undefined) return;
    if (!this.#tracker.isClosed || !isDelivering(this.#destination)) this.#returnToDisk();
    while (
      this.#queue.size > 0 &&
      this.#inFlight < this.#tracker.limit &&
      this.#rateLimiter.canBeginRound()
    ) {
      this.#send(this.#queue.dequeue()!, false);
    }
  }

  /**
   * What is only ready goes back to disk, into the place it came from: no later than what is there, and where an outage
   * counts its window from its parking, at the time of its parking.
   */
  #returnToDisk(): void {
    const works = this.#queue.drain();
    if (works.length === 0) return;
    this.addHeld(-works.length);
    this.#loader.isBehind = true;
    const { outage, nextDueAt = Number.POSITIVE_INFINITY } = this.#loader;
    const now = Math.min(this.#tools.clock.monotonic(), nextDueAt);
    for (const { set, delivery, serialized: written } of works) {
      const parkedAt = outage === undefined ? now : Math.max(outage.since, written.arrivedAt);
      const decision = { kind: 'retry', at: Math.min(parkedAt, now), next: delivery } as const;
      const { position } = delivery;
      this.#tools.settle({ set, destination: this.#destination.id, position, attempts: [], decision });
    }
  }

  #send(work: ReadyDelivery, isProbe: boolean): void {
    const destination = this.#destination;
    const begun = this.#tracker.beginRound(isProbe);
    this.#inFlight++;
    sendRound(work, destination, this.#roundTools, (round) => {
      this.#inFlight--;
      this.#finishRound(work, round, { destination, begun });
      if (this.#inFlight === 0) this.#onIdle?.();
      this.#sendReady();
      this.#loader.advance();
    });
  }

  #finishRound(
    work: ReadyDelivery,
    { outcomes, attempts }: RoundResult,
    { destination, begun }: RoundContext,
  ): void {
    const { clock, random } = this.#tools;
    const now = clock.monotonic();
    const settingsVersion = destination.version % SETTINGS_VERSION_MODULUS;
    const { pauses = NO_PAUSES } = this.#destination;
    const { isProbe } = begun;
    const round = { outcomes, now, settingsVersion, pauses, isProbe, random: random() };
    const decision = decide(work.delivery, round);
    this.#reporter.record(decision, attempts);
    this.#tools.measures?.attemptEnded(work.serialized.arrivedAt, attempts, decision, now);
    this.#settle(work, attempts, decision);
    const { position } = work.delivery;
    const { latencyMs = 0 } = attempts[0] ?? {};
    const change = this.#tracker.record({
      round: begun,
      position,
      outcomes,
      latencyMs,
      now,
      random: random(),
    });
    if (change.kind === 'closed') this.#loader.breakerClosed();
    else if (change.kind === 'opened') {
      this.#loader.breakerOpened(change.outage);
      this.#reporter.breakerOpened(change.breaker);
    }
  }

  #settle(work: ReadyDelivery, attempts: DeliveryResult['attempts'], decision: Decision): void {
    this.addHeld(-1);
    const { id, name } = this.#destination;
    const { set, delivery, serialized: written } = work;
    this.#tools.settle({ set, destination: id, position: delivery.position, attempts, decision });
    const observer = this.#tools.watching();
    if (observer === undefined) return;
    const source = this.#tools.sourceName(work.source);
    const happened = { source, destination: name, event: written.event, attempts, decision };
    observer(resultOnWallClock(happened, this.#tools.clock));
  }
}

/** Disabled takes precedence over paused: new events are skipped. */
function workerStateOf(
  { enabled, paused }: Destination,
  failingSince: Time | undefined,
): WorkerState['state'] {
  if (!enabled) return 'disabled';
  if (paused === true) return 'paused';
  return failingSince === undefined ? 'healthy' : 'failing';
}

const NO_PAUSES: NonNullable<Destination['pauses']> = [];

/** The settings a round was sent with, and its place among the others. */
interface RoundContext {
  readonly destination: Destination;
  readonly begun: RoundTicket;
}
