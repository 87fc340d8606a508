import {
  type Destination,
  destinationOfLane,
  endpointIndexOfLane,
  laneAt,
  lanesOf,
} from '../model/destination.ts';
import type { Monotonic } from '../model/time.ts';
import type {
  DeliveryQueue,
  DeliveryResult,
  EndpointHealthStore,
  LiveDelivery,
  ReadyDelivery,
} from '../ports/delivery-queue.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import type { MetricsRecorder } from '../ports/telemetry.ts';
import type { DestinationState } from './contract.ts';
import { statesByDestination } from './destination-totals.ts';
import { EndpointRegistry } from './endpoint-health.ts';
import { ResultWriter } from './result-writer.ts';
import { DestinationWorker, type WorkerDependencies } from './worker.ts';

export interface DispatcherDependencies
  extends Omit<WorkerDependencies, 'type' | 'measures' | 'settle' | 'total' | 'watched'> {
  readonly types: Readonly<Record<Destination['type'], DestinationType>>;
  readonly measures?: Pick<MetricsRecorder, 'forDestination'> | undefined;
  readonly healths: EndpointHealthStore;
}

/** One lane per destination, or one per endpoint where each is a delivery of its own; see `lanesOf`. */
export class Dispatcher implements LiveDelivery {
  readonly #tools: DispatcherDependencies;
  readonly #resultWriter: ResultWriter;
  readonly #endpoints: EndpointRegistry;
  readonly #workers = new Map<number, DestinationWorker>();
  readonly #destinations = new Map<number, Destination>();
  /** Kept as a sum, because it is asked for with every commit and destination. */
  readonly #total = { held: 0 };

  constructor(tools: DispatcherDependencies) {
    this.#tools = tools;
    this.#endpoints = new EndpointRegistry(tools);
    const settle: DeliveryQueue['settle'] = (results) => {
      const settled = tools.backlog.settle(results);
      // In the same turn, so that both are one commit.
      this.#endpoints.writeIfDue();
      return settled;
    };
    this.#resultWriter = new ResultWriter({ settle }, tools.clock, tools.logger, (results) =>
      this.#scheduleRetries(results),
    );
  }

  /** Makes a lane for each that is new and hands the current settings to the others. */
  configure(destinations: readonly Destination[]): void {
    for (const destination of destinations) {
      this.#destinations.set(destination.id, destination);
      this.#endpoints.configure(destination);
      for (const { id } of lanesOf(destination)) this.#workerOf(id);
    }
    // All lanes there are, because an endpoint that is gone may have left something owed at its place.
    for (const [id, lane] of this.#workers) lane.configure(this.#settingsOf(id)!);
  }

  /** The lane with this id, made if need be; nothing when nobody knows its destination. */
  #workerOf(id: number): DestinationWorker | undefined {
    const lane = this.#workers.get(id);
    if (lane !== undefined) return lane;
    const settings = this.#settingsOf(id);
    if (settings === undefined) return undefined;
    const made = this.#createWorker(settings);
    this.#workers.set(id, made);
    return made;
  }

  #settingsOf(lane: number): Destination | undefined {
    const destination = this.#destinations.get(destinationOfLane(lane));
    return destination && laneAt(destination, endpointIndexOfLane(lane));
  }

  #createWorker(destination: Destination): DestinationWorker {
    return new DestinationWorker(destination, {
      ...this.#tools,
      type: this.#tools.types[destination.type],
      measures: this.#tools.measures?.forDestination(destinationOfLane(destination.id)),
      settle: (result) => this.#resultWriter.add(result),
      total: this.#total,
      watched: this.#endpoints.endpointsOf(destinationOfLane(destination.id)),
    });
  }

  /** Takes up what an earlier process left owed. Call after `configure`. */
  async start(): Promise<void> {
    await this.#endpoints.restore();
    for (const lane of this.#workers.values()) lane.restore();
    const adopted = await this.#tools.backlog.recoverOrphans();
    if (adopted > 0) this.#tools.logger.info({ deliveries: adopted }, 'backlog.adopted');
    for (const { destination, nextDueAt } of await this.#tools.backlog.stats()) {
      if (nextDueAt !== undefined) this.#workerOf(destination)?.resume(nextDueAt);
    }
  }

  /** Lets what is in flight end, within five seconds, and writes it down; what has not begun stays owed. Idempotent. */
  async stop(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((lane) => lane.stop()));
    await Promise.all([this.#resultWriter.stop(), this.#endpoints.stop()]);
  }

  /** Every destination as it is now, for status screens. */
  states(): readonly DestinationState[] {
    return statesByDestination([...this.#workers.values()].map((lane) => lane.state())).map((state) => ({
      ...state,
      endpoints: this.#endpoints.states(state.destination),
    }));
  }

  reserve(destination: number, deliveries: number): number {
    return this.#workers.get(destination)?.reserve(deliveries) ?? 0;
  }

  release(destination: number, deliveries: number): void {
    this.#workers.get(destination)?.release(deliveries);
  }

  deliver(destination: number, deliveries: readonly ReadyDelivery[]): void {
    this.#workers.get(destination)?.deliver(deliveries);
  }

  parked(destination: number, at: Monotonic): void {
    this.#workerOf(destination)?.noteDue(at);
  }

  /** A retry is on disk now, so its lane may wait for it. */
  #scheduleRetries(results: readonly DeliveryResult[]): void {
    for (const { destination, decision } of results) {
      if (decision.kind === 'retry') this.#workers.get(destination)?.noteDue(decision.at);
    }
  }
}
