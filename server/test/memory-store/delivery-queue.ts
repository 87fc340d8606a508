import { isNew } from '../../src/adapters/encoding/pending-set.ts';
import type { Decision, Delivery } from '../../src/model/delivery.ts';
import type { Position } from '../../src/model/event.ts';
import { defined } from '../../src/model/json.ts';
import type { Monotonic } from '../../src/model/time.ts';
import type {
  Claim,
  ClaimedDelivery,
  DeliveryQueue,
  DeliveryResult,
  QueueStats,
  ReplayProgress,
  ReplaySlice,
  SettleResult,
} from '../../src/ports/delivery-queue.ts';
import {
  addDeadLetters,
  assertOpen,
  countersOfDestination,
  isOpen,
  ledgerOf,
  type MemoryContents,
  type Opening,
  type PendingSet,
} from './contents.ts';

/**
 * A set with a holder is held; without one it is on disk, and due when `dueAt` has come. Due times are exact.
 */
export function openDeliveryQueue(contents: MemoryContents, holder: Opening): DeliveryQueue {
  return {
    async stats() {
      return statsOf(contents);
    },
    async nextDue() {
      const onDisk = statsOf(contents).filter(({ nextDueAt }) => nextDueAt !== undefined);
      return onDisk.map(({ destination, nextDueAt }) => ({ destination, nextDueAt: nextDueAt! }));
    },
    async claim(destination, max, now) {
      assertOpen(contents, holder);
      return claim(contents, { holder, destination, max, now });
    },
    async settle(results) {
      // A dead process holds nothing, so its results change nothing; that is no error.
      if (!isOpen(contents, holder)) return { ignored: results.length };
      return settle(contents, holder, results);
    },
    async makeDue(destination, now) {
      assertOpen(contents, holder);
      return makeDue(contents, destination, now);
    },
    async expire(destination, before, reason) {
      assertOpen(contents, holder);
      return expire(contents, { destination, before, reason });
    },
    async enqueue(slice) {
      assertOpen(contents, holder);
      return enqueue(contents, slice);
    },
    async recoverOrphans() {
      assertOpen(contents, holder);
      return recoverOrphans(contents, holder);
    },
    async ledger() {
      return ledgerOf(contents);
    },
  };
}

/** Adds a pending set. `deliveries` must not be empty, unless the caller fills it at once. */
export function addSet(contents: MemoryContents, set: Omit<PendingSet, 'id'>): PendingSet {
  const added = { ...set, id: ++contents.lastSet };
  contents.sets.set(added.id, added);
  return added;
}

/** Deliveries that were never tried. */
export function newDeliveries(positions: readonly Position[]): Map<Position, Delivery> {
  return new Map(positions.map((position) => [position, { position, rounds: 0 }]));
}

/**
 * The sets of a destination on disk, the first due first; of those due at the same time the older one first.
 */
function setsOnDisk(contents: MemoryContents, destination: number): PendingSet[] {
  return [...contents.sets.values()]
    .filter((set) => set.destination === destination && set.holder === undefined)
    .sort((a, b) => a.dueAt - b.dueAt || a.id - b.id);
}

function statsOf(contents: MemoryContents): readonly QueueStats[] {
  const counts = new Map<number, { held: number; onDisk: number; retrying: number; oldestAt?: Monotonic }>();
  for (const set of contents.sets.values()) {
    const stats = counts.get(set.destination) ?? { held: 0, onDisk: 0, retrying: 0 };
    stats[set.holder === undefined ? 'onDisk' : 'held'] += set.deliveries.size;
    for (const { position, rounds } of set.deliveries.values()) {
      if (rounds > 0) stats.retrying += 1;
      const arrivedAt = contents.events.get(position)?.receivedAt ?? Number.POSITIVE_INFINITY;
      if (arrivedAt < (stats.oldestAt ?? Number.POSITIVE_INFINITY)) stats.oldestAt = arrivedAt;
    }
    counts.set(set.destination, stats);
  }
  return [...counts].map(([destination, stats]) => ({
    destination,
    ...stats,
    ...nextDueOf(contents, destination),
  }));
}

function nextDueOf(contents: MemoryContents, destination: number): { readonly nextDueAt?: Monotonic } {
  const [first] = setsOnDisk(contents, destination);
  return first === undefined ? {} : { nextDueAt: first.dueAt };
}

interface ClaimRequest {
  readonly holder: Opening;
  readonly destination: number;
  readonly max: number;
  readonly now: Monotonic;
}

/** A set claimed whole keeps its id; the last one may be split. */
function claim(contents: MemoryContents, { holder, destination, max, now }: ClaimRequest): Claim {
  const claimed: ClaimedDelivery[] = [];
  for (const due of setsOnDisk(contents, destination)) {
    if (claimed.length === max || due.dueAt > now) break;
    const set = splitSet(contents, due, max - claimed.length);
    set.holder = holder;
    const { id, origin, dueAt } = set;
    for (const delivery of set.deliveries.values())
      claimed.push({
        ...{ set: id, delivery },
        ...defined({ origin, dueAt: isNew(delivery) ? dueAt : undefined }),
      });
  }
  return { deliveries: claimed, ...nextDueOf(contents, destination) };
}

/** The set itself when it has at most `max` deliveries, else a new one with its first `max`. */
function splitSet(contents: MemoryContents, set: PendingSet, max: number): PendingSet {
  if (set.deliveries.size <= max) return set;
  const first = [...set.deliveries].slice(0, max);
  for (const [position] of first) set.deliveries.delete(position);
  return addSet(contents, { ...set, deliveries: new Map(first) });
}

/** The waiting sets of one settle, by destination, origin and due time. */
type WaitingSets = Map<string, PendingSet>;

function settle(contents: MemoryContents, holder: Opening, results: readonly DeliveryResult[]): SettleResult {
  const waiting: WaitingSets = new Map();
  let ignored = 0;
  for (const result of results) {
    const set = removeFromSet(contents, holder, result);
    if (set === undefined) ignored += 1;
    else applyResult(contents, result, { waiting, origin: set.origin });
  }
  return { ignored };
}

/** Takes the delivery out of its set and returns the set; undefined when this process does not hold it. */
function removeFromSet(
  contents: MemoryContents,
  holder: Opening,
  result: DeliveryResult,
): PendingSet | undefined {
  const set = contents.sets.get(result.set);
  if (set === undefined || set.holder !== holder || set.destination !== result.destination) return undefined;
  if (!set.deliveries.delete(result.position)) return undefined;
  if (set.deliveries.size === 0) contents.sets.delete(set.id);
  return set;
}

interface SettleContext {
  readonly waiting: WaitingSets;
  /** Of the set that the delivery was in. */
  readonly origin: string | undefined;
}

/** The delivery has left its set; it ends as delivered, as a dead letter or in a waiting set. */
function applyResult(contents: MemoryContents, result: DeliveryResult, context: SettleContext): void {
  const { destination, position, decision } = result;
  for (const attempt of result.attempts) {
    if (attempt.outcome.kind !== 'accepted') contents.failures.push({ destination, position, attempt });
    else {
      const known = contents.accepted.get(position) ?? [];
      contents.accepted.set(position, [...known, { destination, position, attempt }]);
    }
  }
  switch (decision.kind) {
    case 'delivered':
      countersOfDestination(contents, destination).delivered += 1;
      break;
    case 'dead': {
      const { origin } = context;
      const at = timeOfDeath(contents, result);
      const { kind: state, reason } = decision;
      addDeadLetters(contents, { destination, origin, state, reason, at }, [position]);
      break;
    }
    case 'dropped': {
      const { kind: state, ...drop } = decision;
      addDeadLetters(contents, { destination, origin: context.origin, state, ...drop }, [position]);
      break;
    }
    case 'retry':
      scheduleRetry(contents, destination, decision, context);
      break;
  }
}

/** The end of the last request; without one, the arrival of the newest event. */
function timeOfDeath(contents: MemoryContents, { attempts }: DeliveryResult): Monotonic {
  const last = attempts.at(-1);
  if (last !== undefined) return Math.round(last.startedAt + last.latencyMs);
  return contents.events.get(contents.lastPosition)?.receivedAt ?? 0;
}

function scheduleRetry(
  contents: MemoryContents,
  destination: number,
  decision: Extract<Decision, { kind: 'retry' }>,
  { waiting, origin }: SettleContext,
): void {
  const key = JSON.stringify([destination, decision.at, origin]);
  let set = waiting.get(key);
  if (set === undefined) {
    set = addSet(contents, {
      destination,
      origin,
      dueAt: decision.at,
      holder: undefined,
      deliveries: new Map(),
    });
    waiting.set(key, set);
  }
  // A copy, so that the contents do not change with the caller's object.
  set.deliveries.set(decision.next.position, { ...decision.next });
}

function makeDue(contents: MemoryContents, destination: number, now: Monotonic): number {
  let count = 0;
  for (const set of setsOnDisk(contents, destination)) {
    if (set.dueAt <= now) continue;
    set.dueAt = now;
    count += set.deliveries.size;
  }
  return count;
}

interface Expiry {
  readonly destination: number;
  readonly before: Monotonic;
  readonly reason: string;
}

/** Sets that one call changes at most. */
const EXPIRY_SLICE = 100;

function expire(contents: MemoryContents, { destination, before, reason }: Expiry): number {
  const isOver = ({ firstFailedAt }: Delivery, set: PendingSet) => (firstFailedAt ?? set.dueAt) < before;
  const affected = setsOnDisk(contents, destination).filter((set) =>
    [...set.deliveries.values()].some((delivery) => isOver(delivery, set)),
  );
  let count = 0;
  for (const set of affected.slice(0, EXPIRY_SLICE)) {
    const positions = [...set.deliveries.values()]
      .filter((delivery) => isOver(delivery, set))
      .map(({ position }) => position);
    for (const position of positions) set.deliveries.delete(position);
    if (set.deliveries.size === 0) contents.sets.delete(set.id);
    addDeadLetters(
      contents,
      { destination, origin: set.origin, state: 'dead', reason, at: before },
      positions,
    );
    count += positions.length;
  }
  return count;
}

/** Enqueues a slice of a replay, unless its origin stands elsewhere. */
function enqueue(contents: MemoryContents, slice: ReplaySlice): ReplayProgress {
  const { origin, destinations, positions, only, from, to, now } = slice;
  const { cursor, events } = progressOf(contents, origin);
  if (cursor !== from) return progressOf(contents, origin);
  contents.origins.set(origin, { cursor: to, events: events + positions.length });
  for (const destination of positions.length === 0 ? [] : destinations) {
    const own = only?.get(destination) ?? positions;
    if (own.length === 0) continue;
    countersOfDestination(contents, destination).owed += own.length;
    addSet(contents, {
      destination,
      origin,
      dueAt: now,
      holder: undefined,
      deliveries: newDeliveries(own),
    });
  }
  return progressOf(contents, origin);
}

/** Adds redelivered dead letters to the events of an origin. */
export function addRedelivered(contents: MemoryContents, origin: string, count: number): void {
  const { cursor, events } = progressOf(contents, origin);
  contents.origins.set(origin, { cursor, events: events + count });
}

export function progressOf(contents: MemoryContents, origin: string): ReplayProgress {
  const { cursor, events } = contents.origins.get(origin) ?? { cursor: 0, events: 0 };
  const pending = new Map<number, number>();
  for (const set of contents.sets.values()) {
    if (set.origin !== origin) continue;
    pending.set(set.destination, (pending.get(set.destination) ?? 0) + set.deliveries.size);
  }
  return { cursor, events, pending };
}

/** The sets keep their due times, so the longest due still go first. */
function recoverOrphans(contents: MemoryContents, holder: Opening): number {
  let count = 0;
  for (const set of contents.sets.values()) {
    if (set.holder === undefined || set.holder === holder || contents.shared.members.has(set.holder))
      continue;
    set.holder = undefined;
    count += set.deliveries.size;
  }
  return count;
}

/** Deliveries taken out of one set. */
export interface WithdrawnDeliveries extends Pick<PendingSet, 'destination' | 'origin'> {
  readonly positions: readonly Position[];
}

/**
 * Takes deliveries out of all sets that `isAffected` names. An event that is owed twice is returned twice.
 */
export function withdraw(
  contents: MemoryContents,
  isGone: (position: Position) => boolean,
  isAffected: (set: PendingSet) => boolean,
): readonly WithdrawnDeliveries[] {
  const withdrawn: WithdrawnDeliveries[] = [];
  for (const set of contents.sets.values()) {
    if (!isAffected(set)) continue;
    const positions = [...set.deliveries.keys()].filter(isGone);
    if (positions.length === 0) continue;
    for (const position of positions) set.deliveries.delete(position);
    withdrawn.push({ destination: set.destination, origin: set.origin, positions });
    if (set.deliveries.size === 0) contents.sets.delete(set.id);
  }
  return withdrawn;
}
