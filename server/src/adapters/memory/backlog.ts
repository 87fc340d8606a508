import type { Decision, Delivery } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { Backlog, Claim, Held, LaneStat, Result, Settled } from '../../ports/backlog.ts';
import type { Holder, MemoryContents, PendingSet } from './contents.ts';
import { assertOpen } from './contents.ts';
import { firstDue, inOrder, putOnDisk, replaceOnDisk, takeFirstDue } from './due.ts';
import { oweAgain } from './owed.ts';
import { bury, ledgerOf, tallyOfDestination } from './tally.ts';

/**
 * The backlog in memory. A set is held when it has a holder, else it is on disk; parked and waiting differ only in
 * whether `dueAt` has come. Due times are exact: nothing is rounded.
 */
export function openBacklog(contents: MemoryContents, holder: Holder): Backlog {
  return {
    async lanes() {
      return lanesOf(contents);
    },
    async claim(destination, max, now) {
      assertOpen(contents, holder);
      return claimDue(contents, { holder, destination, max, now });
    },
    async settle(results) {
      // A process that is gone holds nothing, so its results change nothing; refusing them is not an error.
      if (contents.holder !== holder) return { ignored: results.length };
      return settleAll(contents, holder, results);
    },
    async release(destination, now) {
      assertOpen(contents, holder);
      return makeDue(contents, destination, now);
    },
    async expire(destination, before, reason) {
      assertOpen(contents, holder);
      return buryOld(contents, { destination, before, reason });
    },
    async owe(slice) {
      assertOpen(contents, holder);
      return oweAgain(contents, slice);
    },
    async adopt() {
      assertOpen(contents, holder);
      return parkOrphans(contents, holder);
    },
    async ledger() {
      return ledgerOf(contents);
    },
  };
}

/** Walks over all sets: meant for once a second, not for every delivery. */
function lanesOf(contents: MemoryContents): readonly LaneStat[] {
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
  const first = firstDue(contents, destination);
  return first === undefined ? {} : { nextDueAt: first.dueAt };
}

interface Wish {
  readonly holder: Holder;
  readonly destination: number;
  readonly max: number;
  readonly now: Time;
}

/**
 * The cost depends on what is handed out: a set taken whole keeps its name, and only the last one may have to be split.
 */
function claimDue(contents: MemoryContents, wish: Wish): Claim {
  const deliveries: Held[] = [];
  while (deliveries.length < wish.max) {
    const first = firstDue(contents, wish.destination);
    if (first === undefined || first.dueAt > wish.now) break;
    const set = take(contents, first, wish.max - deliveries.length);
    set.holder = wish.holder;
    const { id, origin } = set;
    const whose = origin === undefined ? {} : { origin };
    for (const delivery of set.deliveries.values()) deliveries.push({ set: id, delivery, ...whose });
  }
  return { deliveries, ...nextDueOf(contents, wish.destination) };
}

/** Takes at most `room` deliveries of the first due set off disk: the set itself, or a new one split from it. */
function take(contents: MemoryContents, first: PendingSet, room: number): PendingSet {
  if (first.deliveries.size <= room) {
    takeFirstDue(contents, first.destination);
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

function settleAll(contents: MemoryContents, holder: Holder, results: readonly Result[]): Settled {
  const waiting: WaitingSets = new Map();
  let ignored = 0;
  for (const result of results) {
    const set = leaveSet(contents, holder, result);
    if (set === undefined) ignored += 1;
    else settleOne(contents, result, { waiting, origin: set.origin });
  }
  return { ignored };
}

/** Takes the result's delivery out of its set, and gives the set; nothing when this process does not hold it there. */
function leaveSet(contents: MemoryContents, holder: Holder, result: Result): PendingSet | undefined {
  const set = contents.sets.get(result.set);
  if (set === undefined || set.holder !== holder || set.destination !== result.destination) return undefined;
  if (!set.deliveries.delete(result.position)) return undefined;
  if (set.deliveries.size === 0) contents.sets.delete(set.id);
  return set;
}

interface LeftBehind {
  readonly waiting: WaitingSets;
  /** Of the set that the delivery was in. */
  readonly origin: string | undefined;
}

/** The delivery has left its set: it must end in exactly one of the three places below. */
function settleOne(contents: MemoryContents, result: Result, left: LeftBehind): void {
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
      tallyOfDestination(contents, destination).delivered += 1;
      break;
    case 'dead':
      bury(
        contents,
        { destination, origin: left.origin, reason: decision.reason, at: timeOfDeath(contents, result) },
        [position],
      );
      break;
    case 'retry':
      wait(contents, destination, decision, left);
      break;
  }
}

/** A delivery is dead from the moment its last request ended; without one, about when the newest event arrived. */
function timeOfDeath(contents: MemoryContents, { attempts }: Result): Time {
  const last = attempts.at(-1);
  if (last !== undefined) return Math.round(last.startedAt + last.latencyMs);
  return contents.events.get(contents.lastPosition)?.receivedAt ?? 0;
}

function wait(
  contents: MemoryContents,
  destination: number,
  decision: Extract<Decision, { kind: 'retry' }>,
  { waiting, origin }: LeftBehind,
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
function makeDue(contents: MemoryContents, destination: number, now: Time): number {
  let released = 0;
  const sets = inOrder(contents, destination).map((set) => {
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
const SLICE = 100;

interface Burial {
  readonly destination: number;
  readonly before: Time;
  readonly reason: string;
}

/** One slice: as many sets as have something to bury, up to `SLICE`. */
function buryOld(contents: MemoryContents, { destination, before, reason }: Burial): number {
  const buried = new Map<string | undefined, Position[]>();
  let count = 0;
  let touched = 0;
  const left = inOrder(contents, destination).filter((set) => {
    if (touched === SLICE) return true;
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
    bury(contents, { destination, origin, reason, at: before }, positions);
  return count;
}

/** The sets keep the time they were due at, so that what has waited longest still goes first. */
function parkOrphans(contents: MemoryContents, holder: Holder): number {
  let parked = 0;
  for (const set of contents.sets.values()) {
    if (set.holder === undefined || set.holder === holder) continue;
    set.holder = undefined;
    putOnDisk(contents, set);
    parked += set.deliveries.size;
  }
  return parked;
}
