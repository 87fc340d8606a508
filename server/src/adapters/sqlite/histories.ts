import type { Position } from '../../model/event.ts';
import type { DeliveryHistory, EventHistory } from '../../ports/history.ts';
import type { AcceptedAttempts } from './accepted.ts';
import { type Chunks, lineOf } from './chunks.ts';
import type { Failures } from './failures.ts';
import type { PendingFacts } from './pending-facts.ts';
import type { Plans } from './plans.ts';

export interface HistoryParts {
  readonly plans: Plans;
  readonly pending: PendingFacts;
  readonly accepted: AcceptedAttempts;
  readonly failures: Failures;
}

/**
 * What became of single events, put together from where each part of it is kept. That a delivery was delivered is written
 * nowhere by itself: it was owed, and is neither pending nor dead, which is what the ledger's sum says of all of them.
 */
export class Histories {
  readonly #chunks: Chunks;
  readonly #parts: HistoryParts;

  constructor(chunks: Chunks, parts: HistoryParts) {
    this.#chunks = chunks;
    this.#parts = parts;
  }

  of(positions: Iterable<Position>): (EventHistory | undefined)[] {
    return Array.from(positions, (position) => {
      const chunk = this.#chunks.at(position);
      if (chunk === undefined || lineOf(chunk, position).length === 0) return undefined;
      const { owed, skipped } = this.#parts.plans.get(chunk.plans[position - chunk.first]!);
      const { pending, accepted, failures } = this.#parts;
      // Whoever was owed it once more has left something of it here: it is pending, or was requested, or is dead.
      const others = [
        pending.againTo(position),
        ...[accepted, failures].map((one) => one.destinationsOf(position)),
      ];
      const ids = [...new Set([...owed, ...others.flat()])].sort((a, b) => a - b);
      return { deliveries: ids.map((destination) => this.#delivery(destination, position)), skipped };
    });
  }

  #delivery(destination: number, position: Position): DeliveryHistory {
    const { accepted, failures } = this.#parts;
    const attempts = [...failures.of(destination, position), ...accepted.of(destination, position)];
    attempts.sort((a, b) => a.startedAt - b.startedAt);
    return { destination, ...this.#stateOf(destination, position), attempts };
  }

  #stateOf(destination: number, position: Position): Omit<DeliveryHistory, 'destination' | 'attempts'> {
    const { failures, pending } = this.#parts;
    const owed = pending.of(destination, position);
    if (owed !== undefined) {
      const state = owed.delivery.rounds > 0 ? 'retrying' : 'pending';
      return owed.dueAt === undefined ? { state } : { state, nextAttemptAt: owed.dueAt };
    }
    const reason = failures.reasonOf(destination, position);
    return reason === undefined ? { state: 'delivered' } : { state: 'dead', reason };
  }
}
