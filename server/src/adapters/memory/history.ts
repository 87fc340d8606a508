import type { Attempt } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { DeliveryHistory, EventHistory, History } from '../../ports/history.ts';
import type { MemoryContents } from './contents.ts';

/** Walks over everything: meant for tests and a page somebody looks at. */
export function openHistory(contents: MemoryContents): History {
  return {
    async of(positions) {
      return positions.map((position) => historyOf(contents, position));
    },
  };
}

function historyOf(contents: MemoryContents, position: Position): EventHistory | undefined {
  const record = contents.events.get(position);
  if (record === undefined) return undefined;
  const ids = record.owed.toSorted((a, b) => a - b);
  return {
    deliveries: ids.map((destination) => deliveryOf(contents, destination, position)),
    skipped: record.skipped.toSorted((a, b) => a.destination - b.destination),
  };
}

function deliveryOf(contents: MemoryContents, destination: number, position: Position): DeliveryHistory {
  const attempts = [...contents.failures, ...(contents.accepted.get(position) ?? [])]
    .filter((one) => one.position === position && one.destination === destination)
    .map(({ attempt }) => remembered(attempt))
    .sort((a, b) => a.startedAt - b.startedAt);
  return { destination, ...stateOf(contents, destination, position), attempts };
}

/** What an adapter on disk remembers of a request. */
function remembered({ latencyMs, outcome, ...attempt }: Attempt): Attempt {
  const { notBefore: _, ...rest } = outcome;
  const isAccepted = outcome.kind === 'accepted';
  return { ...attempt, latencyMs: isAccepted ? Math.round(latencyMs * 10) / 10 : latencyMs, outcome: rest };
}

function stateOf(
  contents: MemoryContents,
  destination: number,
  position: Position,
): Omit<DeliveryHistory, 'destination' | 'attempts'> {
  const letter = contents.letters.findLast(
    (one) => one.position === position && one.destination === destination,
  );
  if (letter !== undefined) return { state: 'dead', reason: letter.reason };
  for (const set of contents.sets.values()) {
    const delivery = set.destination === destination ? set.deliveries.get(position) : undefined;
    if (delivery === undefined) continue;
    const state = delivery.rounds > 0 ? 'retrying' : 'pending';
    return set.holder === undefined ? { state, nextAttemptAt: set.dueAt } : { state };
  }
  return { state: 'delivered' };
}
