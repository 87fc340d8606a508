import type { Position } from '../../model/event.ts';
import type { DeliveryHistory, EventHistory } from '../../ports/history.ts';
import type { AcceptedAttempts, AcceptedBy } from './accepted.ts';
import { type Chunks, lineOf } from './chunks.ts';
import type { Failures } from './failures.ts';
import type { PendingFacts } from './pending-facts.ts';
import { NO_PLAN, type Plans } from './plans.ts';

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
    const all = [...positions];
    const accepted = this.#parts.accepted.at(all);
    return all.map((position) => {
      const chunk = this.#chunks.at(position);
      const isThere =
        chunk === undefined ? this.#chunks.isDamaged(position) : lineOf(chunk, position).length > 0;
      if (!isThere) return undefined;
      const { plans, pending, failures } = this.#parts;
      // Of a damaged event what remains is told: who was owed it is known as far as they have left something of it.
      const { owed, skipped } = plans.get(chunk?.plans[position - chunk.first] ?? NO_PLAN);
      const requests = accepted.get(position) ?? [];
      // Whoever was owed it once more has left something of it here: it is pending, or was requested, or is dead.
      const others = [
        ...pending.againTo(position),
        ...requests.map(({ destination }) => destination),
        ...failures.destinationsOf(position),
      ];
      const ids = [...new Set([...owed, ...others])].sort((a, b) => a - b);
      return { deliveries: ids.map((id) => this.#delivery(id, position, requests)), skipped };
    });
  }

  #delivery(destination: number, position: Position, accepted: readonly AcceptedBy[]): DeliveryHistory {
    const own = accepted.filter((one) => one.destination === destination).map(({ attempt }) => attempt);
    const attempts = [...this.#parts.failures.of(destination, position), ...own];
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
