import { type Duration, HOUR, MINUTE, SECOND, type Time } from '../../model/time.ts';
import { attemptOnWallClock, type Clock, type ClockStep, wallTimeOf } from '../../ports/clock.ts';
import type {
  DeadLetterQuery,
  DeadLetterQueue,
  EventHistory,
  QueueStats,
} from '../../ports/delivery-queue.ts';
import type { LogSize } from '../../ports/event-log.ts';
import type { Store } from '../../ports/store.ts';

/**
 * A store for queries by people. Stores keep and compare times of the monotonic clock: setting the wall clock
 * then ends no window and deletes nothing. People ask in wall-clock times and are shown wall-clock times.
 */
export function wallClockStore(store: Store, clock: Clock): Store {
  const { log, queue: backlog, history, deadLetters } = store;
  return withReplaced(store, {
    log: withReplaced(log, {
      find: async (query, below) => {
        const range = 'from' in query ? arrivalRange(query, clock.steps()) : {};
        const found = await log.find({ ...query, ...range }, below);
        const { reachedAt } = found;
        return reachedAt === undefined ? found : { ...found, reachedAt: wallTimeOf(reachedAt, clock) };
      },
      size: async () => sizeOnWallClock(await log.size(), clock),
      rangeSize: (range, from) => log.rangeSize(arrivalRange(range, clock.steps()), from),
    }),
    queue: withReplaced(backlog, {
      stats: async () => (await backlog.stats()).map((lane) => laneOnWallClock(lane, clock)),
    }),
    history: withReplaced(history, {
      read: async (positions) =>
        (await history.read(positions)).map((known) => known && historyOnWallClock(known, clock)),
    }),
    deadLetters: deadLettersOnWallClock(deadLetters, clock),
  });
}

/** The same object with some methods replaced. */
function withReplaced<Whole extends object>(whole: Whole, parts: Partial<Whole>): Whole {
  return new Proxy(whole, {
    get(target, name) {
      const part = Reflect.get(parts, name) ?? Reflect.get(target, name);
      return typeof part === 'function' ? part.bind(target) : part;
    },
  });
}

function sizeOnWallClock(size: LogSize, clock: Clock): LogSize {
  const { oldestAt, damage } = size;
  const foundAt = damage?.foundAt;
  return {
    ...size,
    ...(oldestAt === undefined ? {} : { oldestAt: wallTimeOf(oldestAt, clock) }),
    ...(foundAt === undefined ? {} : { damage: { ...damage!, foundAt: wallTimeOf(foundAt, clock) } }),
  };
}

function laneOnWallClock(lane: QueueStats, clock: Clock): QueueStats {
  const { nextDueAt, oldestAt } = lane;
  return {
    ...lane,
    ...(nextDueAt === undefined ? {} : { nextDueAt: wallTimeOf(nextDueAt, clock) }),
    ...(oldestAt === undefined ? {} : { oldestAt: wallTimeOf(oldestAt, clock) }),
  };
}

function historyOnWallClock(known: EventHistory, clock: Clock): EventHistory {
  const deliveries = known.deliveries.map((delivery) => {
    const { nextAttemptAt } = delivery;
    const attempts = delivery.attempts.map((attempt) => attemptOnWallClock(attempt, clock));
    const shown = { ...delivery, attempts };
    return nextAttemptAt === undefined
      ? shown
      : { ...shown, nextAttemptAt: wallTimeOf(nextAttemptAt, clock) };
  });
  return { ...known, deliveries };
}

/**
 * Dead letters by the time at which they were given up. Where the wall clock was set back, the result may
 * include some that show a time outside the range: they died between others inside it.
 */
function deadLettersOnWallClock(deadLetters: DeadLetterQueue, clock: Clock): DeadLetterQueue {
  const within = ({ from = 0, to = Number.MAX_SAFE_INTEGER, ...query }: DeadLetterQuery): DeadLetterQuery => {
    return { ...query, ...monotonicRange({ from, to }, clock.steps()) };
  };
  return withReplaced(deadLetters, {
    list: async (query, limit, begin) => {
      const { letters, ...page } = await deadLetters.list(within(query), limit, begin);
      return { ...page, letters: letters.map((one) => ({ ...one, at: wallTimeOf(one.at, clock) })) };
    },
    count: (query, from) => deadLetters.count(within(query), from),
    redeliver: (slice) => deadLetters.redeliver({ ...slice, query: within(slice.query) }),
  });
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

interface WallRange {
  /** Inclusive. */
  readonly from: Time;
  /** Exclusive. */
  readonly to: Time;
}

/**
 * The monotonic range that has every event that shows an arrival time in this range. It has others near its
 * ends too, and between them where the wall clock was set: callers compare the time that each event shows.
 */
export function arrivalRange(range: WallRange, steps: readonly ClockStep[]): WallRange {
  const { from, to } = monotonicRange(range, steps);
  if (from >= to) return { from, to };
  return { from: from - SLEW, to: Math.min(to + COMMIT_SPAN + SLEW, Number.MAX_SAFE_INTEGER) };
}

/**
 * The monotonic range of what `wallTimeOf` shows within this range. Where the clock was set, there may be
 * several such ranges with others between them: the result then spans them all.
 */
export function monotonicRange({ from, to }: WallRange, steps: readonly ClockStep[]): WallRange {
  if (from <= 0 && to >= Number.MAX_SAFE_INTEGER) return { from, to };
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
