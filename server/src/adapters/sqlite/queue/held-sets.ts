import type { Delivery } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { PendingSetId } from '../../../ports/delivery-queue.ts';
import { isNew } from './delivery-set-codec.ts';

/** The pending sets that this process holds, in memory. Their rows are in no index, so every search for held deliveries asks here. */
export class HeldSets {
  readonly #sets = new Map<PendingSetId, HeldSet>();
  /** Sets that an earlier start of the program held, until `recoverOrphans`. */
  #orphans: readonly HeldSet[];

  constructor(orphans: readonly HeldSet[]) {
    this.#orphans = orphans;
  }

  get(id: PendingSetId): HeldSet | undefined {
    return this.#sets.get(id);
  }

  put(id: PendingSetId, set: HeldSet): void {
    this.#sets.set(id, set);
  }

  delete(id: PendingSetId): void {
    this.#sets.delete(id);
  }

  /** The sets of this process, without orphans. */
  entries(): Iterable<[PendingSetId, HeldSet]> {
    return this.#sets.entries();
  }

  dropOrphans(): void {
    this.#orphans = [];
  }

  /** The lowest position from `from` on that this process delivers from memory; infinite when there is none. */
  lowestFrom(from: Position): Position {
    let lowest = Number.POSITIVE_INFINITY;
    for (const { first } of this.#sets.values()) if (first >= from && first < lowest) lowest = first;
    return lowest;
  }

  /** The held delivery of an event to a destination; undefined when there is none. */
  at(destination: number, position: Position): Delivery | undefined {
    for (const set of this.#setsOf(destination)) {
      const delivery = set.at(position);
      if (delivery !== undefined) return delivery;
    }
    return undefined;
  }

  /** All held deliveries of a destination. */
  of(destination: number): Delivery[] {
    return this.#setsOf(destination).flatMap((set) => set.deliveries());
  }

  #setsOf(destination: number): HeldSet[] {
    return [...this.#sets.values(), ...this.#orphans].filter((set) => set.destination === destination);
  }
}

/** The unsettled deliveries of one held set. Settling a delivery sets a flag and runs no statement. */
export class HeldSet {
  readonly destination: number;
  /** The replay or redelivery that enqueued it; undefined for a set of new events. */
  readonly origin: string | undefined;
  /** Ascending. */
  readonly #positions: Float64Array;
  /** In the same order, only where some were tried before: a crash must not lose their rounds. */
  readonly #tried: readonly Delivery[] | undefined;
  readonly #taken: Uint8Array;
  #left: number;

  private constructor(
    { destination, origin }: Pick<HeldSet, 'destination' | 'origin'>,
    positions: Float64Array,
    tried: readonly Delivery[] | undefined,
  ) {
    this.destination = destination;
    this.origin = origin;
    this.#positions = positions;
    this.#tried = tried;
    this.#taken = new Uint8Array(positions.length);
    this.#left = positions.length;
  }

  /** For deliveries that were never tried, at ascending positions: the healthy path makes no object for each. */
  static fromPositions(destination: number, positions: readonly Position[]): HeldSet {
    return new HeldSet({ destination, origin: undefined }, Float64Array.from(positions), undefined);
  }

  static fromDeliveries(
    destination: number,
    deliveries: readonly Delivery[],
    origin?: string | null,
  ): HeldSet {
    const isOrdered = deliveries.every((one, n) => n === 0 || one.position >= deliveries[n - 1]!.position);
    const ordered = isOrdered ? deliveries : deliveries.toSorted((a, b) => a.position - b.position);
    const tried = ordered.every(isNew) ? undefined : ordered;
    return new HeldSet(
      { destination, origin: origin ?? undefined },
      Float64Array.from(ordered, (delivery) => delivery.position),
      tried,
    );
  }

  /** The lowest position of the set when it was made. */
  get first(): Position {
    return this.#positions[0] ?? Number.POSITIVE_INFINITY;
  }

  get left(): number {
    return this.#left;
  }

  /** False when the position is not in the set, or was taken as often as it stands there. */
  take(position: Position): boolean {
    const found = this.#indexOf(position);
    if (found < 0) return false;
    const index = this.#taken[found] === 0 ? found : this.#untakenBeside(found);
    if (index < 0) return false;
    this.#taken[index] = 1;
    this.#left--;
    return true;
  }

  /** The unsettled delivery at a position. */
  at(position: Position): Delivery | undefined {
    const found = this.#indexOf(position);
    if (found < 0) return undefined;
    const index = this.#taken[found] === 0 ? found : this.#untakenBeside(found);
    return index < 0 ? undefined : (this.#tried?.[index] ?? { position, rounds: 0 });
  }

  /** An event that is owed twice, once new and once replayed, may stand twice in one set. */
  #untakenBeside(found: number): number {
    const positions = this.#positions;
    let index = found;
    while (index > 0 && positions[index - 1] === positions[found]) index--;
    for (; positions[index] === positions[found]; index++) if (this.#taken[index] === 0) return index;
    return -1;
  }

  /** All unsettled deliveries. */
  deliveries(): Delivery[] {
    const left: Delivery[] = [];
    for (let index = 0; index < this.#positions.length; index++) {
      if (this.#taken[index] === 0)
        left.push(this.#tried?.[index] ?? { position: this.#positions[index]!, rounds: 0 });
    }
    return left;
  }

  #indexOf(position: Position): number {
    const positions = this.#positions;
    // The positions of one append have no gaps, so the first guess is nearly always right.
    const guess = position - positions[0]!;
    if (positions[guess] === position) return guess;
    let low = 0;
    let high = positions.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = positions[middle]!;
      if (found === position) return middle;
      if (found < position) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}
