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
import {
  assertOpen,
  type MemoryContents,
  type Opening,
  type StoredDeadLetter,
  uncountLetter,
} from './contents.ts';
import { addRedelivered, addSet, newDeliveries, progressOf } from './delivery-queue.ts';

export function openHistory(contents: MemoryContents): DeliveryHistories {
  return {
    async read(positions) {
      return positions.map((position) => historyOf(contents, position));
    },
    async findPending(query, max, below = Number.POSITIVE_INFINITY) {
      return findPending(contents, query, { max, below });
    },
    async progress(origin) {
      return progressOf(contents, origin);
    },
    async pendingOf(origins) {
      return origins.map((origin) => progressOf(contents, origin).pending);
    },
    async redactAnswers(redact, onSlice) {
      onSlice?.();
      let redacted = 0;
      contents.failures = contents.failures.map((failure) => {
        const { answer } = failure.attempt;
        const without = answer === undefined ? undefined : redact(answer);
        if (without === undefined || without === answer) return failure;
        redacted++;
        return { ...failure, attempt: { ...failure.attempt, answer: without } };
      });
      contents.letters = contents.letters.map((letter) => {
        const without = letter.note === undefined ? undefined : redact(letter.note);
        if (without === undefined || without === letter.note) return letter;
        redacted++;
        return { ...letter, note: without };
      });
      return redacted;
    },
  };
}

function findPending(
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
  const ids = new Set([...record.owed, ...replayDestinations(contents, position)]);
  return {
    deliveries: [...ids]
      .sort((a, b) => a - b)
      .map((destination) => deliveryOf(contents, destination, position)),
    skipped: record.skipped.toSorted((a, b) => a.destination - b.destination),
  };
}

/**
 * Destinations that an event was replayed to: each has a pending delivery, a dead letter or an attempt of it.
 */
function replayDestinations(contents: MemoryContents, position: Position): number[] {
  const { sets, letters, failures, accepted } = contents;
  return [
    ...[...sets.values()].filter(({ deliveries }) => deliveries.has(position)),
    ...[...letters, ...failures].filter((one) => one.position === position),
    ...(accepted.get(position) ?? []),
  ].map(({ destination }) => destination);
}

function deliveryOf(contents: MemoryContents, destination: number, position: Position): DeliveryHistory {
  const attempts = [...contents.failures, ...(contents.accepted.get(position) ?? [])]
    .filter((one) => one.position === position && one.destination === destination)
    .map(({ attempt }) => storedForm(attempt))
    .sort((a, b) => a.startedAt - b.startedAt);
  return { destination, ...stateOf(contents, destination, position), attempts };
}

/** The fields of an attempt that an adapter on disk keeps. */
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
  const letters = contents.letters.filter(
    (one) => one.position === position && one.destination === destination,
  );
  const worst = letters.findLast(({ state }) => state === 'dead') ?? letters.at(-1);
  if (worst === undefined) return { state: 'delivered' };
  const { state, reason, note } = worst;
  return { state, reason, ...(note === undefined ? {} : { note }) };
}

/** A cursor counts letters from the newest. */
export function openDeadLetters(contents: MemoryContents, holder: Opening): DeadLetterQueue {
  return {
    async list(query, limit, from = '0') {
      const found = contents.letters.filter(predicateOf(query)).reverse();
      const end = Number(from) + limit;
      const letters = found.slice(Number(from), end).map(({ origin: _, ...letter }) => letter);
      return end < found.length ? { letters, next: String(end) } : { letters };
    },

    async count(query) {
      return { count: contents.letters.filter(predicateOf(query)).length };
    },

    async redeliver({ query, now, before = now, origin }) {
      assertOpen(contents, holder);
      const isOld = predicateOf({ ...query, to: Math.min(query.to ?? before, before) });
      const going = contents.letters.filter(isOld);
      contents.letters = contents.letters.filter((letter) => !isOld(letter));
      for (const letter of going) redeliverLetter(contents, letter, now);
      if (origin !== undefined && going.length > 0) addRedelivered(contents, origin, going.length);
      return { count: going.length };
    },
  };
}

function predicateOf({
  destinations,
  state,
  reason,
  from = 0,
  to = Number.POSITIVE_INFINITY,
  only,
}: DeadLetterQuery): (letter: DeadLetter) => boolean {
  return (letter) =>
    destinations.includes(letter.destination) &&
    (state === undefined || letter.state === state) &&
    (reason === undefined || letter.reason === reason) &&
    letter.at >= from &&
    letter.at < to &&
    (only === undefined ||
      only.some((one) => one.destination === letter.destination && one.position === letter.position));
}

function redeliverLetter(contents: MemoryContents, letter: StoredDeadLetter, now: number): void {
  const { destination, position, origin } = letter;
  uncountLetter(contents, letter);
  addSet(contents, {
    destination,
    origin,
    dueAt: now,
    holder: undefined,
    deliveries: newDeliveries([position]),
  });
}
