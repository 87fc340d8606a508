import { invariant } from '../model/invariant.ts';
import { roomForNew, type TotalInMemory } from './backlog.ts';

/**
 * The deliveries of one lane in memory: reserved for a commit under way, claimed and being read, queued, or
 * in flight. A running total, because every commit asks for it.
 */
export class LaneMemory {
  readonly #total: TotalInMemory;
  held = 0;
  /** Room for new deliveries that are being stored. */
  #reserved = 0;
  /** Claimed deliveries whose events are being read. */
  #claimed = 0;

  /** `total`: of all lanes, which this one adds to. */
  constructor(total: TotalInMemory) {
    this.#total = total;
  }

  /** Makes room for new deliveries, as far as there is some. Returns for how many. */
  reserve(deliveries: number): number {
    const reserved = Math.min(deliveries, roomForNew(this.held, this.#total));
    if (reserved > 0) this.add(reserved);
    this.#reserved += reserved;
    return reserved;
  }

  /** The deliveries are here, or will not come. They stay held until they are taken away. */
  endReservation(deliveries: number): void {
    invariant(deliveries <= this.#reserved, 'no more room is given back than was reserved');
    this.#reserved -= deliveries;
  }

  /** Claimed deliveries are being read, until `read`. */
  claim(deliveries: number): void {
    invariant(this.#claimed === 0, 'a lane reads one claim at a time');
    this.#claimed = deliveries;
    this.add(deliveries);
  }

  read(): void {
    this.#claimed = 0;
  }

  /** Holds more deliveries, or fewer where the number is negative. */
  add(deliveries: number): void {
    this.held += deliveries;
    this.#total.held += deliveries;
    invariant(this.held >= 0, 'a lane holds no fewer deliveries than none');
    invariant(this.#total.held >= this.held, 'a lane holds a part of what all of them hold');
  }

  /** Call when every delivery is in one of its places. */
  check(queued: number, inFlight: number): void {
    invariant(
      this.held === this.#reserved + this.#claimed + queued + inFlight,
      'what a lane holds is reserved, being read, queued or in flight',
    );
  }

  /** The lane has failed: the others get its room. */
  giveUp(): void {
    this.#total.held = Math.max(0, this.#total.held - this.held);
    this.held = 0;
  }
}
