import type { Destination } from '../model/destination.ts';
import type { Time } from '../model/time.ts';
import type { Result } from '../ports/backlog.ts';
import type { Deliverer, InHand } from '../ports/deliverer.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import { Lane, type LaneState, type LaneTools } from './lane.ts';
import { Settler } from './settler.ts';

export interface LanesTools extends Omit<LaneTools, 'type' | 'settle' | 'total'> {
  readonly types: Readonly<Record<Destination['type'], DestinationType>>;
}

/** One lane per destination. */
export class Lanes implements Deliverer {
  readonly #tools: LanesTools;
  readonly #settler: Settler;
  readonly #lanes = new Map<number, Lane>();
  /** Kept as a sum, because it is asked for with every commit and destination. */
  readonly #total = { held: 0 };

  constructor(tools: LanesTools) {
    this.#tools = tools;
    this.#settler = new Settler(tools.backlog, tools.clock, tools.logger, (results) =>
      this.#announce(results),
    );
  }

  /** Makes a lane for each new destination and hands the current settings to the others. */
  configure(destinations: readonly Destination[]): void {
    for (const destination of destinations) {
      const lane = this.#lanes.get(destination.id);
      if (lane) lane.configure(destination);
      else this.#lanes.set(destination.id, this.#make(destination));
    }
  }

  #make(destination: Destination): Lane {
    return new Lane(destination, {
      ...this.#tools,
      type: this.#tools.types[destination.type],
      settle: (result) => this.#settler.add(result),
      total: this.#total,
    });
  }

  /** Takes up what an earlier process left owed. Call after `configure`. */
  async start(): Promise<void> {
    const adopted = await this.#tools.backlog.adopt();
    if (adopted > 0) this.#tools.logger.info({ deliveries: adopted }, 'backlog.adopted');
    for (const { destination, nextDueAt } of await this.#tools.backlog.lanes()) {
      if (nextDueAt !== undefined) this.#lanes.get(destination)?.resume(nextDueAt);
    }
  }

  /** Lets what is in flight end, within five seconds, and writes it down; what has not begun stays owed. Idempotent. */
  async stop(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.stop()));
    await this.#settler.stop();
  }

  /** Every lane as it is now, for status screens. */
  states(): readonly LaneState[] {
    return [...this.#lanes.values()].map((lane) => lane.state());
  }

  reserve(destination: number, deliveries: number): boolean {
    return this.#lanes.get(destination)?.reserve(deliveries) ?? false;
  }

  release(destination: number, deliveries: number): void {
    this.#lanes.get(destination)?.release(deliveries);
  }

  deliver(destination: number, deliveries: readonly InHand[]): void {
    this.#lanes.get(destination)?.deliver(deliveries);
  }

  parked(destination: number, at: Time): void {
    this.#lanes.get(destination)?.due(at);
  }

  /** A retry is on disk now, so its lane may wait for it. */
  #announce(results: readonly Result[]): void {
    for (const { destination, decision } of results) {
      if (decision.kind === 'retry') this.#lanes.get(destination)?.due(decision.at);
    }
  }
}
