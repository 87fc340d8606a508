import type { Destination } from '../model/destination.ts';
import type { Position } from '../model/event.ts';
import { type InvariantError, invariant } from '../model/invariant.ts';
import {
  destinationOfLane,
  endpointIndexOfLane,
  type Lane,
  laneAt,
  laneIdsOf,
  type Target,
} from '../model/lane.ts';
import type { Duration, Monotonic } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type {
  DeliveryQueue,
  DeliveryResult,
  EndpointHealthStore,
  LiveDelivery,
  ReadyDelivery,
} from '../ports/delivery-queue.ts';
import { type DestinationTypes, type Sender, targetsOf } from '../ports/destination-type.ts';
import type { InvariantRecorder, MetricsRecorder } from '../ports/telemetry.ts';
import type { DestinationState, WorkerState } from './contract.ts';
import { destinationStateOf } from './destination-state.ts';
import { statesByDestination } from './destination-totals.ts';
import { EndpointRegistry } from './endpoint-health.ts';
import { type NodeShare, WHOLE_SHARE } from './rate-limiter.ts';
import { ResultWriter } from './result-writer.ts';
import { DestinationWorker } from './worker.ts';
import type { WorkerDependencies } from './worker-dependencies.ts';

export interface DispatcherDependencies
  extends Omit<
    WorkerDependencies,
    | 'sender'
    | 'measures'
    | 'settle'
    | 'writeResults'
    | 'total'
    | 'endpoints'
    | 'share'
    | 'areResultsWritten'
    | 'unreadFor'
  > {
  readonly types: DestinationTypes;
  /**
   * By the names of types. A destination of any other type has no worker: what it is owed waits in the store.
   */
  readonly senders: ReadonlyMap<string, Sender>;
  readonly measures?: (Pick<MetricsRecorder, 'forDestination'> & Partial<InvariantRecorder>) | undefined;
  /** Why nothing is delivered although it should be; absent where all is well. */
  readonly heldBack?: string;
  readonly healths: EndpointHealthStore;
}

/**
 * Gives every delivery to its worker. There is one worker for each destination, or for each of its endpoints
 * where each is a delivery of its own (`lanesOf`).
 */
export class Dispatcher implements LiveDelivery {
  readonly #dependencies: DispatcherDependencies;
  readonly #resultWriter: ResultWriter;
  readonly #endpoints: EndpointRegistry;
  readonly #workers = new Map<number, DestinationWorker>();
  readonly #destinations = new Map<number, Destination>();
  readonly #targets = new Map<number, readonly Target[]>();
  /** Names of destinations that audiences and computed traits owe their changes to. */
  #named: ReadonlySet<string> = new Set();
  /** A running total, because every commit asks for it once for each destination. */
  readonly #total = { held: 0 };
  readonly #reading: SocketReading;
  #share = WHOLE_SHARE;

  constructor(dependencies: DispatcherDependencies) {
    const { deliveryQueue, clock, logger } = dependencies;
    this.#dependencies = dependencies;
    this.#endpoints = new EndpointRegistry(dependencies);
    this.#reading = new SocketReading(clock);
    const settle: DeliveryQueue['settle'] = (results) => {
      const settled = deliveryQueue.settle(results);
      // In the same turn, so that both are one commit.
      this.#endpoints.writeIfDue();
      return settled;
    };
    const onWritten = (results: readonly DeliveryResult[], wasLate: boolean) => {
      this.#scheduleRetries(results);
      if (wasLate) this.#each((worker) => worker.resume());
    };
    this.#resultWriter = new ResultWriter({ settle, clock, logger, onWritten });
  }

  /**
   * Makes a worker for each new destination and passes the current settings to the others.
   *
   * @param named names of destinations that audiences and computed traits owe their changes to
   * @param gone removed destinations: they have nowhere to send to, and what they are owed is given up
   */
  configure(
    destinations: readonly Destination[],
    named: ReadonlySet<string> = new Set(),
    gone: readonly Destination[] = [],
  ): void {
    this.#named = named;
    for (const destination of destinations)
      this.#configureOne(destination, targetsOf(destination, this.#dependencies.types));
    for (const destination of gone)
      this.#configureOne({ ...destination, enabled: true, paused: false }, NOWHERE);
    // Every worker, because an endpoint that is gone may have left deliveries at its place.
    this.#each((worker, id) => worker.configure(this.#laneOf(id)!));
  }

  /** Does something with every lane that works. A broken invariant ends the lane in which it is broken. */
  #each(work: (worker: DestinationWorker, id: number) => void): void {
    for (const [id, worker] of this.#workers) this.#guard(worker, () => work(worker, id));
  }

  #guard(worker: DestinationWorker, work: () => void): void {
    if (worker.hasFailed) return;
    try {
      work();
    } catch (error) {
      worker.fail(error);
    }
  }

  #configureOne(destination: Destination, targets: readonly Target[]): void {
    this.#destinations.set(destination.id, destination);
    this.#targets.set(destination.id, targets);
    this.#endpoints.configure(destination.id, targets);
    for (const id of laneIdsOf(destination, targets)) this.#workerOf(id);
  }

  /**
   * The worker with this id, made if necessary; `undefined` when its destination is not known, or is not sent
   * to.
   */
  #workerOf(id: number): DestinationWorker | undefined {
    const worker = this.#workers.get(id);
    if (worker !== undefined) return worker;
    const lane = this.#laneOf(id);
    const sender = lane && this.#senderOf(lane);
    if (sender === undefined) return undefined;
    const created = this.#createWorker(lane!, sender);
    this.#workers.set(id, created);
    return created;
  }

  #laneOf(id: number): Lane | undefined {
    const destination = this.#destinations.get(destinationOfLane(id));
    return (
      destination &&
      laneAt(destination, this.#targets.get(destination.id) ?? NOWHERE, endpointIndexOfLane(id))
    );
  }

  #senderOf({ id, type }: Lane): Sender | undefined {
    const isGone = this.#targets.get(destinationOfLane(id)) === NOWHERE;
    return this.#dependencies.senders.get(type) ?? (isGone ? SENDS_NOTHING : undefined);
  }

  #createWorker(lane: Lane, sender: Sender): DestinationWorker {
    const destination = destinationOfLane(lane.id);
    const { maySend } = this.#dependencies;
    return new DestinationWorker(lane, {
      ...this.#dependencies,
      sender,
      measures: this.#dependencies.measures?.forDestination(destination),
      settle: (result) => this.#resultWriter.add(result),
      writeResults: () => this.#resultWriter.flush(),
      total: this.#total,
      share: () => this.#share,
      unreadFor: (now) => this.#reading.unreadFor(now),
      endpoints: this.#endpoints.endpointsOf(destination),
      laneFailed: this.#laneFailed,
      // Only a process among others can lose what it holds while it runs.
      areResultsWritten: () => maySend === undefined || !this.#resultWriter.isLate(),
    });
  }

  readonly #laneFailed = (lane: string, error: InvariantError): void => {
    this.#dependencies.measures?.invariantFailed?.(error.message);
    this.#dependencies.laneFailed?.(lane, error);
  };

  /** Reasons why deliveries stand still, all or those of some lanes; empty while all is well. */
  readonly degraded = (): readonly string[] => {
    const failed = [...this.#workers].flatMap(([id, worker]) => {
      const { failure } = worker.state();
      return failure === undefined ? [] : [failedText(this.#laneOf(id)!.name, failure)];
    });
    const { heldBack } = this.#dependencies;
    return heldBack === undefined ? failed : [heldBack, ...failed];
  };

  /** Recovers what an earlier process left owed. Call after `configure`. Rejects with a `StorageError`. */
  async start(): Promise<void> {
    const { deliveryQueue, logger } = this.#dependencies;
    await this.#endpoints.restore();
    this.#each((worker) => worker.restore());
    const recovered = await deliveryQueue.recoverOrphans();
    if (recovered > 0) logger.info({ deliveries: recovered }, 'backlog.adopted');
    await this.lookAtDisk();
  }

  /**
   * Learns what waits on disk. Other processes park deliveries too, and die: where several share the store
   * this is called every few seconds. Rejects with a `StorageError`.
   */
  async lookAtDisk(): Promise<void> {
    for (const { destination, nextDueAt } of await this.#dependencies.deliveryQueue.nextDue()) {
      const worker = this.#workerOf(destination);
      if (worker !== undefined) this.#guard(worker, () => worker.recoverFrom(nextDueAt));
    }
  }

  /** The lease is lost: forgets every delivery that is not in flight. Resolves when no claim is under way. */
  async forget(): Promise<void> {
    this.#resultWriter.forget();
    await Promise.all([...this.#workers.values()].map((worker) => worker.forget().catch(worker.fail)));
  }

  /**
   * Divides the limits of every destination by the nodes that deliver: this one keeps to its part from now
   * on.
   */
  shareWith(share: NodeShare): void {
    if (share.nodes === this.#share.nodes && share.place === this.#share.place) return;
    this.#share = share;
    this.#each((worker) => worker.shareChanged());
  }

  /**
   * Waits for the requests in flight, at most five seconds, and writes their results. The rest stays owed.
   * Idempotent.
   */
  async stop(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop()));
    await Promise.all([this.#resultWriter.stop(), this.#endpoints.stop()]);
  }

  /** State of every destination, for status screens and metrics. */
  states(): readonly DestinationState[] {
    const workers = [...this.#workers.values()].map((worker) => worker.state());
    return statesByDestination(workers).map((merged) => ({
      ...merged,
      state: this.#stateOf(merged),
      endpoints: this.#endpoints.states(merged.destination),
    }));
  }

  #stateOf({
    destination: id,
    failingSince,
    refusingSince,
    failure,
  }: WorkerState): DestinationState['state'] {
    const { name, enabled, paused = false, sources } = this.#destinations.get(id)!;
    const { trackers } = this.#endpoints.endpointsOf(id);
    return destinationStateOf({
      hasFailed: failure !== undefined,
      enabled,
      paused,
      failingSince,
      refusingSince,
      isFed: sources.length > 0 || this.#named.has(name),
      wasAsked: trackers.some(({ state }) => state !== undefined),
    });
  }

  /** Forgets deliveries in memory whose events were erased. */
  drop(positions: readonly Position[]): void {
    const gone = new Set(positions);
    this.#each((worker) => worker.drop(gone));
  }

  /**
   * Resolves when the requests that were in flight have ended and their results are written, or when the time
   * limit is over.
   */
  async requestsEnded(limit: Duration): Promise<void> {
    const { clock } = this.#dependencies;
    const end = clock.monotonic() + limit;
    const over = async (isOver: () => boolean) => {
      while (clock.monotonic() < end && !isOver())
        await new Promise<void>((resolve) => clock.after(IN_FLIGHT_INTERVAL, resolve));
    };
    const workers = [...this.#workers.values()];
    for (const { rounds } of workers) rounds.mark();
    await over(() => workers.every(({ rounds }) => rounds.marked === 0));
    await over(this.#resultWriter.untilWritten());
  }

  /**
   * Forgets answers of endpoints in which something stands that was erased. Resolves when the store has none
   * of them. Rejects with a `StorageError`.
   */
  async redact(mentions: (text: string) => boolean): Promise<void> {
    this.#each((worker) => worker.redact(mentions));
    await this.#endpoints.redact(mentions);
  }

  // These run for each commit: without a closure. A lane that has failed reserves nothing, and what it is
  // owed waits on disk.

  reserve(destination: number, deliveries: number): number {
    const worker = this.#workers.get(destination);
    if (worker === undefined || worker.hasFailed) return 0;
    try {
      return worker.reserve(deliveries);
    } catch (error) {
      worker.fail(error);
      return 0;
    }
  }

  unreserve(destination: number, deliveries: number): void {
    const worker = this.#workers.get(destination);
    if (worker === undefined || worker.hasFailed) return;
    try {
      worker.unreserve(deliveries);
    } catch (error) {
      worker.fail(error);
    }
  }

  deliver(destination: number, deliveries: readonly ReadyDelivery[]): void {
    const worker = this.#workers.get(destination);
    invariant(worker !== undefined || deliveries.length === 0, 'a delivery in memory has a lane');
    if (worker === undefined || worker.hasFailed) return;
    try {
      worker.deliver(deliveries);
    } catch (error) {
      worker.fail(error);
    }
  }

  parked(destination: number, at: Monotonic): void {
    const worker = this.#workerOf(destination);
    if (worker === undefined || worker.hasFailed) return;
    try {
      worker.noteDue(at);
    } catch (error) {
      worker.fail(error);
    }
  }

  /** The retries are on disk now, so the workers may wait for them. */
  #scheduleRetries(results: readonly DeliveryResult[]): void {
    for (const { destination, decision } of results) {
      if (decision.kind === 'retry') this.parked(destination, decision.at);
    }
  }
}

function failedText(lane: string, failure: string): string {
  return (
    `deliveries to ${JSON.stringify(lane)} stand still, because of a bug (${failure}): what it is owed is delivered after the next start; ` +
    'please report it'
  );
}

/** The targets of a destination that was removed. */
const NOWHERE: readonly Target[] = [];

/** Of a type that this program does not have any more: the round of a removed destination asks nobody. */
const SENDS_NOTHING: Sender = {
  most: () => ({ events: 1, bytes: 0 }),
  send: () => {},
  stop: async () => {},
};

/** How often the number of requests in flight is looked at while somebody waits for it. */
const IN_FLIGHT_INTERVAL: Duration = 20;

/**
 * Knows how long an answer may have waited in its socket. Node reads all sockets once in a turn of the event
 * loop, and a turn in which many calls come takes milliseconds.
 */
class SocketReading {
  readonly #clock: Clock;
  #lastEnd: Monotonic | undefined;
  #isNoted = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** For an answer that was read just now: no longer than since the sockets were read the last time. */
  unreadFor(now: Monotonic): Duration {
    if (!this.#isNoted) {
      this.#isNoted = true;
      this.#clock.turn(this.#endReading);
    }
    return this.#lastEnd === undefined ? 0 : Math.max(0, now - this.#lastEnd);
  }

  /** Runs when all sockets of a turn were read. */
  readonly #endReading = (): void => {
    this.#isNoted = false;
    this.#lastEnd = this.#clock.monotonic();
  };
}
