import type { Destination } from '../model/destination.ts';
import type { Time } from '../model/time.ts';
import type { Result } from '../ports/backlog.ts';
import type { Deliverer, InHand } from '../ports/deliverer.ts';
import type { DestinationType } from '../ports/destination-type.ts';
import { Lane, type LaneTools } from './lane.ts';
import { Settler } from './settler.ts';

/** New deliveries all lanes together take into memory. A lane's window is a tenth of it, so no lane can take it all. */
const TOTAL_WINDOW = 20_000;

export interface LanesTools extends Omit<LaneTools, 'type' | 'settle'> {
  readonly types: Readonly<Record<Destination['type'], DestinationType>>;
}

/** One lane per destination. */
export class Lanes implements Deliverer {
  readonly #tools: LanesTools;
  readonly #settler: Settler;
  readonly #lanes = new Map<number, Lane>();

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
    });
  }

  /** Takes up what an earlier process left owed. Call after `configure`. */
  async start(): Promise<void> {
    const adopted = await this.#tools.backlog.adopt();
    if (adopted > 0) this.#tools.logger.info({ deliveries: adopted }, 'backlog.adopted');
    for (const { destination, nextDueAt } of await this.#tools.backlog.lanes()) {
      if (nextDueAt !== undefined) this.#lanes.get(destination)?.due(nextDueAt);
    }
  }

  /** Lets what is in flight end and writes it down; what has not begun stays owed. */
  async stop(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.stop()));
    await this.#settler.flush();
  }

  reserve(destination: number, deliveries: number): boolean {
    const lane = this.#lanes.get(destination);
    if (lane === undefined || this.#held() + deliveries > TOTAL_WINDOW) return false;
    return lane.reserve(deliveries);
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

  #held(): number {
    let held = 0;
    for (const lane of this.#lanes.values()) held += lane.held;
    return held;
  }
}
