import { type Destination, destinationOfLane, laneAt, lanesOf, placeOfLane } from '../model/destination.ts';
import type { Monotonic } from '../model/time.ts';
import type { Backlog, Result } from '../ports/backlog.ts';
import type { Deliverer, InHand } from '../ports/deliverer.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import type { EndpointHealths } from '../ports/endpoint-healths.ts';
import type { Measures } from '../ports/measures.ts';
import { statesByDestination } from './by-destination.ts';
import { Endpoints } from './endpoints.ts';
import { Lane, type LaneTools } from './lane.ts';
import type { DestinationState } from './lane-state.ts';
import { Settler } from './settler.ts';

export interface LanesTools extends Omit<LaneTools, 'type' | 'measures' | 'settle' | 'total' | 'watched'> {
  readonly types: Readonly<Record<Destination['type'], DestinationType>>;
  readonly measures?: Pick<Measures, 'ofDestination'> | undefined;
  readonly healths: EndpointHealths;
}

/** One lane per destination, or one per endpoint where each is a delivery of its own; see `lanesOf`. */
export class Lanes implements Deliverer {
  readonly #tools: LanesTools;
  readonly #settler: Settler;
  readonly #endpoints: Endpoints;
  readonly #lanes = new Map<number, Lane>();
  readonly #destinations = new Map<number, Destination>();
  /** Kept as a sum, because it is asked for with every commit and destination. */
  readonly #total = { held: 0 };

  constructor(tools: LanesTools) {
    this.#tools = tools;
    this.#endpoints = new Endpoints(tools);
    const settle: Backlog['settle'] = (results) => {
      const settled = tools.backlog.settle(results);
      // In the same turn, so that both are one commit.
      this.#endpoints.ride();
      return settled;
    };
    this.#settler = new Settler({ settle }, tools.clock, tools.logger, (results) => this.#announce(results));
  }

  /** Makes a lane for each that is new and hands the current settings to the others. */
  configure(destinations: readonly Destination[]): void {
    for (const destination of destinations) {
      this.#destinations.set(destination.id, destination);
      this.#endpoints.configure(destination);
      for (const { id } of lanesOf(destination)) this.#laneOf(id);
    }
    // All lanes there are, because an endpoint that is gone may have left something owed at its place.
    for (const [id, lane] of this.#lanes) lane.configure(this.#settingsOf(id)!);
  }

  /** The lane with this id, made if need be; nothing when nobody knows its destination. */
  #laneOf(id: number): Lane | undefined {
    const lane = this.#lanes.get(id);
    if (lane !== undefined) return lane;
    const settings = this.#settingsOf(id);
    if (settings === undefined) return undefined;
    const made = this.#make(settings);
    this.#lanes.set(id, made);
    return made;
  }

  #settingsOf(lane: number): Destination | undefined {
    const destination = this.#destinations.get(destinationOfLane(lane));
    return destination && laneAt(destination, placeOfLane(lane));
  }

  #make(destination: Destination): Lane {
    return new Lane(destination, {
      ...this.#tools,
      type: this.#tools.types[destination.type],
      measures: this.#tools.measures?.ofDestination(destinationOfLane(destination.id)),
      settle: (result) => this.#settler.add(result),
      total: this.#total,
      watched: this.#endpoints.of(destinationOfLane(destination.id)),
    });
  }

  /** Takes up what an earlier process left owed. Call after `configure`. */
  async start(): Promise<void> {
    await this.#endpoints.recall();
    for (const lane of this.#lanes.values()) lane.recall();
    const adopted = await this.#tools.backlog.adopt();
    if (adopted > 0) this.#tools.logger.info({ deliveries: adopted }, 'backlog.adopted');
    for (const { destination, nextDueAt } of await this.#tools.backlog.lanes()) {
      if (nextDueAt !== undefined) this.#laneOf(destination)?.resume(nextDueAt);
    }
  }

  /** Lets what is in flight end, within five seconds, and writes it down; what has not begun stays owed. Idempotent. */
  async stop(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.stop()));
    await Promise.all([this.#settler.stop(), this.#endpoints.stop()]);
  }

  /** Every destination as it is now, for status screens. */
  states(): readonly DestinationState[] {
    return statesByDestination([...this.#lanes.values()].map((lane) => lane.state())).map((state) => ({
      ...state,
      endpoints: this.#endpoints.states(state.destination),
    }));
  }

  reserve(destination: number, deliveries: number): number {
    return this.#lanes.get(destination)?.reserve(deliveries) ?? 0;
  }

  release(destination: number, deliveries: number): void {
    this.#lanes.get(destination)?.release(deliveries);
  }

  deliver(destination: number, deliveries: readonly InHand[]): void {
    this.#lanes.get(destination)?.deliver(deliveries);
  }

  parked(destination: number, at: Monotonic): void {
    this.#laneOf(destination)?.due(at);
  }

  /** A retry is on disk now, so its lane may wait for it. */
  #announce(results: readonly Result[]): void {
    for (const { destination, decision } of results) {
      if (decision.kind === 'retry') this.#lanes.get(destination)?.due(decision.at);
    }
  }
}
