import type { Attempt } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type {
  DeliveryHistory,
  EventHistory,
  History,
  PendingPage,
  PendingQuery,
} from '../../ports/history.ts';
import type { MemoryContents } from './contents.ts';
import { owingOf } from './owed.ts';

/** Walks over everything: meant for tests and a page somebody looks at. */
export function openHistory(contents: MemoryContents): History {
  return {
    async of(positions) {
      return positions.map((position) => historyOf(contents, position));
    },
    async pending(query, max, below = Number.POSITIVE_INFINITY) {
      return pendingOf(contents, query, { max, below });
    },
    async owing(origin) {
      return owingOf(contents, origin);
    },
  };
}

function pendingOf(
  { sets }: MemoryContents,
  { destinations, tried }: PendingQuery,
  { max, below }: { readonly max: number; readonly below: Position },
): PendingPage {
  const found = new Set<Position>();
  for (const { destination, deliveries } of sets.values()) {
    if (!destinations.includes(destination)) continue;
    for (const { position, rounds } of deliveries.values()) {
      if (position < below && (tried ?? rounds > 0) === rounds > 0) found.add(position);
    }
  }
  const positions = [...found].sort((a, b) => b - a).slice(0, max);
  return found.size > max ? { positions, next: positions.at(-1)! } : { positions };
}

function historyOf(contents: MemoryContents, position: Position): EventHistory | undefined {
  const record = contents.events.get(position);
  if (record === undefined) return undefined;
  const ids = [...new Set([...record.owed, ...alsoOwedTo(contents, position)])].sort((a, b) => a - b);
  return {
    deliveries: ids.map((destination) => deliveryOf(contents, destination, position)),
    skipped: record.skipped.toSorted((a, b) => a.destination - b.destination),
  };
}

/** Whoever was owed it once more has left something of it here: every delivery is pending, or dead, or was requested. */
function alsoOwedTo(contents: MemoryContents, position: Position): number[] {
  const { sets, letters, failures, accepted } = contents;
  return [
    ...[...sets.values()].filter(({ deliveries }) => deliveries.has(position)),
    ...[...letters, ...failures, ...(accepted.get(position) ?? [])].filter(
      (one) => one.position === position,
    ),
  ].map(({ destination }) => destination);
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
  for (const set of contents.sets.values()) {
    const delivery = set.destination === destination ? set.deliveries.get(position) : undefined;
    if (delivery === undefined) continue;
    const state = delivery.rounds > 0 ? 'retrying' : 'pending';
    return set.holder === undefined ? { state, nextAttemptAt: set.dueAt } : { state };
  }
  const letter = contents.letters.findLast(
    (one) => one.position === position && one.destination === destination,
  );
  return letter === undefined ? { state: 'delivered' } : { state: 'dead', reason: letter.reason };
}
