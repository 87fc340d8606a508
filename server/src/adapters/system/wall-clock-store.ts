import { HOUR, type Monotonic, SECOND, type Time } from '../../model/time.ts';
import { attemptOnWallClock, type Clock, type ClockStep, wallTimeOf } from '../../ports/clock.ts';
import type {
  DeadLetterQuery,
  DeadLetterQueue,
  EventHistory,
  QueueStats,
} from '../../ports/delivery-queue.ts';
import type { EventLog, LogQuery, LogSize, PositionPage } from '../../ports/event-log.ts';
import type { Store } from '../../ports/store.ts';

/**
 * A store for queries by people. Stores keep and compare times of the monotonic clock: setting the wall clock then ends no
 * window and deletes nothing. People ask in wall-clock times and are shown wall-clock times.
 */
export function wallClockStore(store: Store, clock: Clock): Store {
  const { log, queue: backlog, history, deadLetters } = store;
  return withReplaced(store, {
    log: withReplaced(log, {
      find: async (query, below) => {
        const found = await ('from' in query
          ? findInRange(log, { query, below, clock })
          : log.find(query, below));
        const { reachedAt } = found;
        return reachedAt === undefined ? found : { ...found, reachedAt: wallTimeOf(reachedAt, clock) };
      },
      size: async () => sizeOnWallClock(await log.size(), clock),
      rangeSize: (range, from) => log.rangeSize(monotonicRange(range, clock.steps()).bounds, from),
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
 * Dead letters by the time at which they were given up. Where the wall clock was set back, the result may include some that
 * show a time outside the range: they died between others inside it.
 */
function deadLettersOnWallClock(deadLetters: DeadLetterQueue, clock: Clock): DeadLetterQueue {
  const within = ({ from = 0, to = Number.MAX_SAFE_INTEGER, ...query }: DeadLetterQuery): DeadLetterQuery => {
    return { ...query, ...monotonicRange({ from, to }, clock.steps()).bounds };
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

type RangeQuery = Extract<LogQuery, { from: Time }>;

interface RangeSearch {
  readonly query: RangeQuery;
  readonly below: number | undefined;
  readonly clock: Clock;
}

/** Events by the arrival time that they show. Where the wall clock was set near that time, each event is checked. */
async function findInRange(log: EventLog, { query, below, clock }: RangeSearch): Promise<PositionPage> {
  const range = monotonicRange(query, clock.steps());
  const found = await log.find({ ...query, ...range.bounds }, below);
  if (range.isExact || found.positions.length === 0) return found;
  const events = await log.read(found.positions);
  const positions = found.positions.filter((_, nth) => {
    const receivedAt = Date.parse(events[nth]?.event.receivedAt ?? '');
    return receivedAt >= query.from && receivedAt < query.to;
  });
  return { ...found, positions };
}

/** Tolerance around a step: it is noticed up to this much later, and an event may have been in flight at the time. */
const STEP_MARGIN = HOUR;

/**
 * The monotonic range of the events that show an arrival time in this range. Where the clock was set, there may be several
 * such ranges with others between them: the result then spans them all and is not exact.
 */
export function monotonicRange(
  { from, to }: { readonly from: Time; readonly to: Time },
  steps: readonly ClockStep[],
): { readonly bounds: { readonly from: Monotonic; readonly to: Monotonic }; readonly isExact: boolean } {
  if (from <= 0 && to >= Number.MAX_SAFE_INTEGER) return { bounds: { from, to }, isExact: true };
  const parts = steps.flatMap(({ at, ahead }, nth) => {
    const begin = nth === 0 ? Number.NEGATIVE_INFINITY : at;
    const end = steps[nth + 1]?.at ?? Number.POSITIVE_INFINITY;
    const [first, last] = [
      Math.max(from - ahead, begin - STEP_MARGIN),
      Math.min(to - ahead, end + STEP_MARGIN, Number.MAX_SAFE_INTEGER),
    ];
    if (first >= last) return [];
    const isInside = first >= begin + STEP_MARGIN && last <= end - STEP_MARGIN;
    return [{ from: first, to: last, isInside }];
  });
  const [only] = parts;
  if (only === undefined) return { bounds: { from: 0, to: 0 }, isExact: true };
  if (parts.length === 1 && (only.isInside || steps.length === 1)) {
    return { bounds: { from: only.from, to: only.to }, isExact: true };
  }
  const bounds = {
    from: Math.min(...parts.map((part) => part.from)) - SECOND,
    to: Math.max(...parts.map((part) => part.to)) + SECOND,
  };
  return { bounds, isExact: false };
}
