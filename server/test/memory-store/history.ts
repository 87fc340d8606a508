import type { Attempt } from '../../src/model/delivery.ts';
import type { Position } from '../../src/model/event.ts';
import type {
  DeadLetter,
  DeadLetterQuery,
  DeadLetterQueue,
  DeliveryHistories,
  DeliveryHistory,
  EventHistory,
  PendingPage,
  PendingQuery,
} from '../../src/ports/delivery-queue.ts';
import { countRevived, progressOf, putOnDisk } from './backlog.ts';
import {
  assertOpen,
  type MemoryContents,
  type MemoryDeadLetter,
  type Opening,
  type PendingSet,
} from './contents.ts';
import { countersOfDestination } from './ledger.ts';

/** Walks over everything: meant for tests and a page somebody looks at. */
export function openHistory(contents: MemoryContents): DeliveryHistories {
  return {
    async read(positions) {
      return positions.map((position) => historyOf(contents, position));
    },
    async findPending(query, max, below = Number.POSITIVE_INFINITY) {
      return pendingOf(contents, query, { max, below });
    },
    async progress(origin) {
      return progressOf(contents, origin);
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
  const ids = [...new Set([...record.owed, ...otherDestinations(contents, position)])].sort((a, b) => a - b);
  return {
    deliveries: ids.map((destination) => deliveryOf(contents, destination, position)),
    skipped: record.skipped.toSorted((a, b) => a.destination - b.destination),
  };
}

/** Whoever was owed it once more has left something of it here: every delivery is pending, or dead, or was requested. */
function otherDestinations(contents: MemoryContents, position: Position): number[] {
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
    .map(({ attempt }) => storedForm(attempt))
    .sort((a, b) => a.startedAt - b.startedAt);
  return { destination, ...stateOf(contents, destination, position), attempts };
}

/** What an adapter on disk remembers of a request. */
function storedForm({ latencyMs, outcome, ...attempt }: Attempt): Attempt {
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

/** A page begins at a place in the order of burial, counted from the end. */
export function openDeadLetters(contents: MemoryContents, holder: Opening): DeadLetterQueue {
  return {
    async list(query, limit, from = '0') {
      const found = contents.letters.filter(matchesQuery(query)).reverse();
      const end = Number(from) + limit;
      const letters = found.slice(Number(from), end).map(({ origin: _, ...letter }) => letter);
      return end < found.length ? { letters, next: String(end) } : { letters };
    },

    async count(query) {
      return { count: contents.letters.filter(matchesQuery(query)).length };
    },

    async redeliver({ query, now, before = now, origin }) {
      assertOpen(contents, holder);
      const old = { ...query, to: Math.min(query.to ?? before, before) };
      const going = new Set(contents.letters.filter(matchesQuery(old)));
      contents.letters = contents.letters.filter((letter) => !going.has(letter));
      for (const letter of going) reviveLetter(contents, letter, now);
      if (origin !== undefined && going.size > 0) countRevived(contents, origin, going.size);
      return { count: going.size };
    },
  };
}

function matchesQuery({
  destinations,
  reason,
  from = 0,
  to = Number.POSITIVE_INFINITY,
  only,
}: DeadLetterQuery) {
  return (letter: DeadLetter): boolean =>
    destinations.includes(letter.destination) &&
    (reason === undefined || letter.reason === reason) &&
    letter.at >= from &&
    letter.at < to &&
    (only === undefined ||
      only.some((one) => one.destination === letter.destination && one.position === letter.position));
}

function reviveLetter(
  contents: MemoryContents,
  { destination, position, reason, origin }: MemoryDeadLetter,
  now: number,
): void {
  const { dead } = countersOfDestination(contents, destination);
  const left = dead.get(reason)! - 1;
  if (left === 0) dead.delete(reason);
  else dead.set(reason, left);
  const deliveries = new Map([[position, { position, rounds: 0 }]]);
  const set: PendingSet = {
    ...{ id: ++contents.lastSet, destination, origin, dueAt: now, holder: undefined, deliveries },
  };
  contents.sets.set(set.id, set);
  putOnDisk(contents, set);
}
