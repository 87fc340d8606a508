import {
  type Duration,
  HOUR,
  MINUTE,
  type Monotonic,
  type OnWallClock,
  SECOND,
  type Time,
} from '../../model/time.ts';
import { attemptOnWallClock, type Clock, type ClockStep, wallTimeOf } from '../../ports/clock.ts';
import type {
  DeadLetterQuery,
  DeadLetterQueue,
  EventHistory,
  QueueStats,
} from '../../ports/delivery-queue.ts';
import type { EventLog, LogSize } from '../../ports/event-log.ts';
import type { Store } from '../../ports/store.ts';
import type { DeadLetterView, LogView, StoreView, WallRange } from '../../ports/store-view.ts';

/** The view of a store in times of the wall clock. */
export function wallClockStore(store: Store, clock: Clock): StoreView {
  const { queue, history } = store;
  return {
    backup: (folder, progress) => store.backup(folder, progress),
    log: logOnWallClock(store.log, clock),
    queue: {
      ledger: () => queue.ledger(),
      stats: async () => (await queue.stats()).map((lane) => laneOnWallClock(lane, clock)),
    },
    history: {
      findPending: (query, max, below) => history.findPending(query, max, below),
      progress: (origin) => history.progress(origin),
      pendingOf: (origins) => history.pendingOf(origins),
      read: async (positions) =>
        (await history.read(positions)).map((known) => known && historyOnWallClock(known, clock)),
    },
    deadLetters: deadLettersOnWallClock(store.deadLetters, clock),
  };
}

function logOnWallClock(log: EventLog, clock: Clock): LogView {
  return {
    read: (positions) => log.read(positions),
    damaged: (positions) => log.damaged(positions),
    find: async (query, below) => {
      const asked = 'from' in query ? { ...query, ...arrivalRange(query, clock.steps()) } : query;
      const page = await log.find(asked, below);
      return { ...page, reachedAt: knownWallTime(page.reachedAt, clock) };
    },
    size: async () => sizeOnWallClock(await log.size(), clock),
    rangeSize: (range, from) => log.rangeSize(arrivalRange(range, clock.steps()), from),
  };
}

function sizeOnWallClock(size: LogSize, clock: Clock): OnWallClock<LogSize> {
  const { oldestAt, damage } = size;
  return {
    ...size,
    oldestAt: knownWallTime(oldestAt, clock),
    damage: damage && { ...damage, foundAt: knownWallTime(damage.foundAt, clock) },
  };
}

function laneOnWallClock(lane: QueueStats, clock: Clock): OnWallClock<QueueStats> {
  return {
    ...lane,
    nextDueAt: knownWallTime(lane.nextDueAt, clock),
    oldestAt: knownWallTime(lane.oldestAt, clock),
  };
}

function knownWallTime(at: Monotonic | undefined, clock: Clock): Time | undefined {
  return at === undefined ? undefined : wallTimeOf(at, clock);
}

function historyOnWallClock(known: EventHistory, clock: Clock): OnWallClock<EventHistory> {
  const deliveries = known.deliveries.map(({ nextAttemptAt, ...delivery }) => {
    const attempts = delivery.attempts.map((attempt) => attemptOnWallClock(attempt, clock));
    const shown = { ...delivery, attempts };
    return nextAttemptAt === undefined
      ? shown
      : { ...shown, nextAttemptAt: wallTimeOf(nextAttemptAt, clock) };
  });
  return { ...known, deliveries };
}

function deadLettersOnWallClock(deadLetters: DeadLetterQueue, clock: Clock): DeadLetterView {
  const within = (asked: OnWallClock<DeadLetterQuery>): DeadLetterQuery => {
    const { from = 0, to = Number.MAX_SAFE_INTEGER, ...query } = asked;
    return { ...query, ...monotonicRange({ from, to }, clock.steps()) };
  };
  return {
    list: async (query, limit, begin) => {
      const { letters, ...page } = await deadLetters.list(within(query), limit, begin);
      return { ...page, letters: letters.map((one) => ({ ...one, at: wallTimeOf(one.at, clock) })) };
    },
    count: (query, from) => deadLetters.count(within(query), from),
    redeliver: (slice) => deadLetters.redeliver({ ...slice, query: within(slice.query) }),
  };
}

/**
 * How far apart the time that an event shows and the time that a store keeps for it may lie where the wall
 * clock was not set: the clock may be slewed by less than a second, and two clocks read in turn differ by a
 * millisecond.
 */
const SLEW: Duration = SECOND;

/**
 * The longest time between events of one commit: the store keeps the arrival of the last one. See
 * `Batch.receivedAt`.
 */
const COMMIT_SPAN: Duration = MINUTE;

/**
 * Tolerance around a step: it is noticed up to this much later, and an event may have been in flight at the
 * time.
 */
const STEP_MARGIN = HOUR;

interface MonotonicRange {
  readonly from: Monotonic;
  readonly to: Monotonic;
}

/**
 * The monotonic range that has every event that shows an arrival time in this range. It has others near its
 * ends too, and between them where the wall clock was set: callers compare the time that each event shows.
 */
export function arrivalRange(range: WallRange, steps: readonly ClockStep[]): MonotonicRange {
  const { from, to } = monotonicRange(range, steps);
  if (from >= to) return { from, to };
  return { from: from - SLEW, to: Math.min(to + COMMIT_SPAN + SLEW, Number.MAX_SAFE_INTEGER) };
}

/**
 * The monotonic range of what `wallTimeOf` shows within this range. Where the clock was set, there may be
 * several such ranges with others between them: the result then spans them all.
 */
export function monotonicRange({ from, to }: WallRange, steps: readonly ClockStep[]): MonotonicRange {
  if (from <= 0 && to >= Number.MAX_SAFE_INTEGER) return { from: 0, to: Number.MAX_SAFE_INTEGER };
  const parts = steps.flatMap(({ at, ahead }, nth) => {
    const begin = nth === 0 ? Number.NEGATIVE_INFINITY : at - STEP_MARGIN;
    const end = (steps[nth + 1]?.at ?? Number.MAX_SAFE_INTEGER) + STEP_MARGIN;
    const part = { from: Math.max(from - ahead, begin), to: Math.min(to - ahead, end) };
    return part.from < part.to ? [part] : [];
  });
  if (parts.length === 0) return { from: 0, to: 0 };
  return {
    from: Math.min(...parts.map((part) => part.from)),
    to: Math.min(Math.max(...parts.map((part) => part.to)), Number.MAX_SAFE_INTEGER),
  };
}
