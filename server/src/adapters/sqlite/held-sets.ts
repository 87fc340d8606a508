import type { Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { SetId } from '../../ports/backlog.ts';
import type { HeldSet } from './held-set.ts';

/** The pending sets in the hands of this process. No index leads to their rows: whoever looks for what is held asks here. */
export class HeldSets {
  readonly #sets = new Map<SetId, HeldSet>();
  /** What an earlier start of the program held, until it is adopted. */
  #orphans: readonly HeldSet[];

  constructor(orphans: readonly HeldSet[]) {
    this.#orphans = orphans;
  }

  get(id: SetId): HeldSet | undefined {
    return this.#sets.get(id);
  }

  put(id: SetId, set: HeldSet): void {
    this.#sets.set(id, set);
  }

  delete(id: SetId): void {
    this.#sets.delete(id);
  }

  /** Those of this process. */
  entries(): Iterable<[SetId, HeldSet]> {
    return this.#sets.entries();
  }

  adopted(): void {
    this.#orphans = [];
  }

  /** The lowest position from `from` on that this process delivers from memory; infinite when there is none. */
  lowestFrom(from: Position): Position {
    let lowest = Number.POSITIVE_INFINITY;
    for (const { first } of this.#sets.values()) if (first >= from && first < lowest) lowest = first;
    return lowest;
  }

  /** What of one delivery is held. */
  at(destination: number, position: Position): Delivery | undefined {
    for (const set of this.#setsOf(destination)) {
      const delivery = set.at(position);
      if (delivery !== undefined) return delivery;
    }
    return undefined;
  }

  /** Everything of a destination that is held. */
  of(destination: number): Delivery[] {
    return this.#setsOf(destination).flatMap((set) => set.deliveries());
  }

  #setsOf(destination: number): HeldSet[] {
    return [...this.#sets.values(), ...this.#orphans].filter((set) => set.destination === destination);
  }
}
