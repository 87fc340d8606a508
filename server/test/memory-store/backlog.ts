import type { Decision, Delivery } from '../../src/model/delivery.ts';
import type { Position } from '../../src/model/event.ts';
import type { Time } from '../../src/model/time.ts';
import type {
  Claim,
  DeliveryQueue,
  DeliveryResult,
  HeldDelivery,
  PendingSetId,
  QueueStats,
  ReplayProgress,
  ReplaySlice,
  SettleResult,
} from '../../src/ports/delivery-queue.ts';
import type { OwedEvents } from '../../src/ports/event-log.ts';
import { assertOpen, type MemoryContents, type Opening, type PendingSet } from './contents.ts';
import { addDeadLetters, countersOfDestination, ledgerOf } from './ledger.ts';

/**
 * Sets on disk in the order they are due: a binary heap per destination, so that parking and claiming cost the same
 * however much waits. Claims take from the front; nothing in it is ever changed in place except by losing deliveries. What
 * changes the middle, a release or an expiry, puts the whole in order anew.
 */
function firstOnDisk(contents: MemoryContents, destination: number): PendingSet | undefined {
  return contents.onDisk.get(destination)?.[0];
}

/** Puts a set on disk. */
export function putOnDisk(contents: MemoryContents, set: PendingSet): void {
  const heap = contents.onDisk.get(set.destination) ?? [];
  if (heap.length === 0) contents.onDisk.set(set.destination, heap);
  let place = heap.length;
  while (place > 0) {
    const parentPlace = (place - 1) >> 1;
    const parent = heap[parentPlace]!;
    if (isBefore(parent, set)) break;
    heap[place] = parent;
    place = parentPlace;
  }
  heap[place] = set;
}

/** Takes the set that `firstOnDisk` shows. */
function takeFirstOnDisk(contents: MemoryContents, destination: number): void {
  const heap = contents.onDisk.get(destination);
  const last = heap?.pop();
  if (heap === undefined || last === undefined || heap.length === 0) return;
  let place = 0;
  for (;;) {
    let childPlace = 2 * place + 1;
    const right = heap[childPlace + 1];
    if (right !== undefined && isBefore(right, heap[childPlace]!)) childPlace += 1;
    const child = heap[childPlace];
    if (child === undefined || isBefore(last, child)) break;
    heap[place] = child;
    place = childPlace;
  }
  heap[place] = last;
}

/** Every set of a destination on disk, the first due first. */
function onDiskInOrder(contents: MemoryContents, destination: number): PendingSet[] {
  return [...(contents.onDisk.get(destination) ?? [])].sort((one, other) => (isBefore(one, other) ? -1 : 1));
}

/** Puts these sets in the place of all that the destination had on disk. A sorted list is a heap. */
function replaceOnDisk(contents: MemoryContents, destination: number, sets: readonly PendingSet[]): void {
  contents.onDisk.set(
    destination,
    [...sets].sort((one, other) => (isBefore(one, other) ? -1 : 1)),
  );
}

/** Among sets due at the same time the older one goes first. */
function isBefore(one: PendingSet, other: PendingSet): boolean {
  return one.dueAt === other.dueAt ? one.id < other.id : one.dueAt < other.dueAt;
}

export interface AppendContext {
  /** One entry per event of the batch; `undefined` where it is a duplicate. */
  readonly positions: readonly (Position | undefined)[];
  readonly holder: Opening;
  readonly dueAt: Time;
}

/** Makes the pending set of one entry of `owed`, unless all its events are duplicates; its id when it is held. */
export function addPendingSet(
  contents: MemoryContents,
  owed: OwedEvents,
  birth: AppendContext,
): PendingSetId | undefined {
  const deliveries = new Map<Position, Delivery>();
  for (const index of owed.indexes) {
    const position = birth.positions[index];
    if (position !== undefined) deliveries.set(position, { position, rounds: 0 });
  }
  if (deliveries.size === 0) return undefined;

  countersOfDestination(contents, owed.destination).owed += deliveries.size;
  const isHeld = owed.state === 'held';
  const id = ++contents.lastSet;
  const holder = isHeld ? birth.holder : undefined;
  const { destination } = owed;
  const set = { id, destination, origin: undefined, dueAt: birth.dueAt, holder, deliveries };
  contents.sets.set(id, set);
  if (isHeld) return id;
  putOnDisk(contents, set);
  return undefined;
}

/** Owes a slice once more, unless its origin stands elsewhere; gives how far it has come. */
function enqueueSlice(contents: MemoryContents, slice: ReplaySlice): ReplayProgress {
  const { origin, destinations, positions, only, from, to, now } = slice;
  const { cursor, events } = progressOf(contents, origin);
  if (cursor !== from) return progressOf(contents, origin);
  contents.origins.set(origin, { cursor: to, events: events + positions.length });
  for (const destination of positions.length === 0 ? [] : destinations) {
    const own = only?.get(destination) ?? positions;
    if (own.length === 0) continue;
    countersOfDestination(contents, destination).owed += own.length;
    const deliveries = new Map(own.map((position) => [position, { position, rounds: 0 }]));
    const set = { id: ++contents.lastSet, destination, origin, dueAt: now, holder: undefined, deliveries };
    contents.sets.set(set.id, set);
    putOnDisk(contents, set);
  }
  return progressOf(contents, origin);
}

/** Counts what was revived on behalf of an origin. */
export function countRevived(contents: MemoryContents, origin: string, revived: number): void {
  const { cursor, events } = progressOf(contents, origin);
  contents.origins.set(origin, { cursor, events: events + revived });
}

/** Walks over everything pending. */
export function progressOf(contents: MemoryContents, origin: string): ReplayProgress {
  const { cursor, events } = contents.origins.get(origin) ?? { cursor: 0, events: 0 };
  const pending = new Map<number, number>();
  for (const set of contents.sets.values()) {
    if (set.origin !== origin) continue;
    pending.set(set.destination, (pending.get(set.destination) ?? 0) + set.deliveries.size);
  }
  return { cursor, events, pending };
}

/** What was taken out of one set. */
export interface WithdrawnDeliveries extends Pick<PendingSet, 'destination' | 'origin'> {
  readonly positions: readonly Position[];
}

/**
 * Takes what is owed of some events out of the sets that `from` names, and gives what was taken from each. An event that
 * is owed twice stands there twice. Walks over everything pending: meant for upkeep and erasing.
 */
export function withdraw(
  contents: MemoryContents,
  goes: (position: Position) => boolean,
  from: (set: PendingSet) => boolean,
): readonly WithdrawnDeliveries[] {
  const withdrawn: WithdrawnDeliveries[] = [];
  const emptied = new Set<number>();
  for (const set of contents.sets.values()) {
    if (!from(set)) continue;
    const gone = [...set.deliveries.keys()].filter(goes);
    if (gone.length === 0) continue;
    for (const position of gone) set.deliveries.delete(position);
    withdrawn.push({ destination: set.destination, origin: set.origin, positions: gone });
    if (set.deliveries.size > 0) continue;
    contents.sets.delete(set.id);
    emptied.add(set.destination);
  }
  for (const destination of emptied) dropEmptySets(contents, destination);
  return withdrawn;
}

/** A set is never empty: claims rely on it. */
function dropEmptySets(contents: MemoryContents, destination: number): void {
  const sets = contents.onDisk.get(destination) ?? [];
  replaceOnDisk(
    contents,
    destination,
    sets.filter((set) => set.deliveries.size > 0),
  );
}

/**
 * The backlog in memory. A set is held when it has a holder, else it is on disk; parked and waiting differ only in
 * whether `dueAt` has come. Due times are exact: nothing is rounded.
 */
export function openBacklog(contents: MemoryContents, holder: Opening): DeliveryQueue {
  return {
    async stats() {
      return lanesOf(contents);
    },
    async claim(destination, max, now) {
      assertOpen(contents, holder);
      return claimFirst(contents, { holder, destination, max, now });
    },
    async settle(results) {
      // A process that is gone holds nothing, so its results change nothing; refusing them is not an error.
      if (contents.holder !== holder) return { ignored: results.length };
      return settleAll(contents, holder, results);
    },
    async makeDue(destination, now) {
      assertOpen(contents, holder);
      return releaseAll(contents, destination, now);
    },
    async expire(destination, before, reason) {
      assertOpen(contents, holder);
      return expireOld(contents, { destination, before, reason });
    },
    async enqueue(slice) {
      assertOpen(contents, holder);
      return enqueueSlice(contents, slice);
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

/** Walks over all sets: meant for once a second, not for every delivery. */
function lanesOf(contents: MemoryContents): readonly QueueStats[] {
  const counts = new Map<number, { held: number; onDisk: number; retrying: number; oldestAt?: Time }>();
  for (const set of contents.sets.values()) {
    const lane = counts.get(set.destination) ?? { held: 0, onDisk: 0, retrying: 0 };
    lane[set.holder === undefined ? 'onDisk' : 'held'] += set.deliveries.size;
    for (const { position, rounds } of set.deliveries.values()) {
      if (rounds > 0) lane.retrying += 1;
      const arrivedAt = contents.events.get(position)?.receivedAt ?? Number.POSITIVE_INFINITY;
      if (arrivedAt < (lane.oldestAt ?? Number.POSITIVE_INFINITY)) lane.oldestAt = arrivedAt;
    }
    counts.set(set.destination, lane);
  }
  return [...counts].map(([destination, lane]) => ({
    destination,
    ...lane,
    ...nextDueOf(contents, destination),
  }));
}

function nextDueOf(contents: MemoryContents, destination: number): { readonly nextDueAt?: Time } {
  const first = firstOnDisk(contents, destination);
  return first === undefined ? {} : { nextDueAt: first.dueAt };
}

interface ClaimRequest {
  readonly holder: Opening;
  readonly destination: number;
  readonly max: number;
  readonly now: Time;
}

/**
 * The cost depends on what is handed out: a set taken whole keeps its name, and only the last one may have to be split.
 */
function claimFirst(contents: MemoryContents, wish: ClaimRequest): Claim {
  const deliveries: HeldDelivery[] = [];
  while (deliveries.length < wish.max) {
    const first = firstOnDisk(contents, wish.destination);
    if (first === undefined || first.dueAt > wish.now) break;
    const set = takeOffDisk(contents, first, wish.max - deliveries.length);
    set.holder = wish.holder;
    const { id, origin } = set;
    const whose = origin === undefined ? {} : { origin };
    for (const delivery of set.deliveries.values()) deliveries.push({ set: id, delivery, ...whose });
  }
  return { deliveries, ...nextDueOf(contents, wish.destination) };
}

/** Takes at most `room` deliveries of the first due set off disk: the set itself, or a new one split from it. */
function takeOffDisk(contents: MemoryContents, first: PendingSet, room: number): PendingSet {
  if (first.deliveries.size <= room) {
    takeFirstOnDisk(contents, first.destination);
    return first;
  }
  const part = new Map<Position, Delivery>();
  for (const [position, delivery] of first.deliveries) {
    if (part.size === room) break;
    part.set(position, delivery);
    first.deliveries.delete(position);
  }
  const { destination, origin, dueAt } = first;
  return addSet(contents, { destination, origin, dueAt, deliveries: part });
}

function addSet(contents: MemoryContents, born: Omit<PendingSet, 'id' | 'holder'>): PendingSet {
  const set = { ...born, id: ++contents.lastSet, holder: undefined };
  contents.sets.set(set.id, set);
  return set;
}

/** One waiting set per destination, origin and due time of this settle, made when its first delivery comes. */
type WaitingSets = Map<string, PendingSet>;

function settleAll(
  contents: MemoryContents,
  holder: Opening,
  results: readonly DeliveryResult[],
): SettleResult {
  const waiting: WaitingSets = new Map();
  let ignored = 0;
  for (const result of results) {
    const set = removeFromSet(contents, holder, result);
    if (set === undefined) ignored += 1;
    else applyResult(contents, result, { waiting, origin: set.origin });
  }
  return { ignored };
}

/** Takes the result's delivery out of its set, and gives the set; nothing when this process does not hold it there. */
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

/** The delivery has left its set: it must end in exactly one of the three places below. */
function applyResult(contents: MemoryContents, result: DeliveryResult, left: SettleContext): void {
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
    case 'dead':
      addDeadLetters(
        contents,
        { destination, origin: left.origin, reason: decision.reason, at: timeOfDeath(contents, result) },
        [position],
      );
      break;
    case 'retry':
      scheduleRetry(contents, destination, decision, left);
      break;
  }
}

/** A delivery is dead from the moment its last request ended; without one, about when the newest event arrived. */
function timeOfDeath(contents: MemoryContents, { attempts }: DeliveryResult): Time {
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
    set = addSet(contents, { destination, origin, dueAt: decision.at, deliveries: new Map() });
    waiting.set(key, set);
    putOnDisk(contents, set);
  }
  // A copy: what is "on disk" must not change when the caller's object does.
  set.deliveries.set(decision.next.position, { ...decision.next });
}

/** What was due before keeps its place in front of what is due now. */
function releaseAll(contents: MemoryContents, destination: number, now: Time): number {
  let released = 0;
  const sets = onDiskInOrder(contents, destination).map((set) => {
    if (set.dueAt <= now) return set;
    released += set.deliveries.size;
    const due = { ...set, dueAt: now };
    contents.sets.set(due.id, due);
    return due;
  });
  if (released > 0) replaceOnDisk(contents, destination, sets);
  return released;
}

/** Sets looked into in one slice. */
const EXPIRY_SLICE = 100;

interface Expiry {
  readonly destination: number;
  readonly before: Time;
  readonly reason: string;
}

/** One slice: as many sets as have something to bury, up to `SLICE`. */
function expireOld(contents: MemoryContents, { destination, before, reason }: Expiry): number {
  const buried = new Map<string | undefined, Position[]>();
  let count = 0;
  let touched = 0;
  const left = onDiskInOrder(contents, destination).filter((set) => {
    if (touched === EXPIRY_SLICE) return true;
    const known = count;
    for (const delivery of set.deliveries.values()) {
      // One that failed without a first failure is not told apart from one never tried.
      if ((delivery.firstFailedAt ?? set.dueAt) >= before) continue;
      set.deliveries.delete(delivery.position);
      const positions = buried.get(set.origin) ?? [];
      positions.push(delivery.position);
      buried.set(set.origin, positions);
      count += 1;
    }
    if (count > known) touched += 1;
    if (set.deliveries.size === 0) contents.sets.delete(set.id);
    return set.deliveries.size > 0;
  });
  if (count > 0) replaceOnDisk(contents, destination, left);
  for (const [origin, positions] of buried)
    addDeadLetters(contents, { destination, origin, reason, at: before }, positions);
  return count;
}

/** The sets keep the time they were due at, so that what has waited longest still goes first. */
function recoverOrphans(contents: MemoryContents, holder: Opening): number {
  let parked = 0;
  for (const set of contents.sets.values()) {
    if (set.holder === undefined || set.holder === holder) continue;
    set.holder = undefined;
    putOnDisk(contents, set);
    parked += set.deliveries.size;
  }
  return parked;
}
