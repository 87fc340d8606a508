import { invariant } from '../../model/invariant.ts';
import type { LedgerCount } from './ledger.ts';

/**
 * Adds up the changes that one transaction makes to the sum that holds for every lane (model/ledger.ts):
 * `owed = delivered + pending + dead + dropped + erased`. The counters say one half of it, the pending sets
 * the other, so that a delivery that is lost or made twice shows before the commit.
 *
 * What a damaged row held is in neither half: only its number is known, and it may be wrong. The sum of a
 * source is checked where its calls are counted (ingest/commit-queue.ts).
 */
export class LedgerBalance {
  /** By id of the lane: owed, less everything else. */
  readonly #lanes = new Map<number, number>();

  /** A counter changes. */
  count({ scope, id, name, n }: LedgerCount): void {
    if (scope !== 'destination' || name.startsWith('skipped')) return;
    this.#lanes.set(id, (this.#lanes.get(id) ?? 0) + (name === 'owed' ? n : -n));
  }

  /** So many more deliveries of a lane are pending; a negative number takes them away. */
  pending(lane: number, n: number): void {
    this.#lanes.set(lane, (this.#lanes.get(lane) ?? 0) - n);
  }

  /** Call before the commit. */
  check(): void {
    for (const balance of this.#lanes.values())
      invariant(balance === 0, 'what a lane is owed is delivered, pending, dead, dropped or erased');
    this.#lanes.clear();
  }
}
