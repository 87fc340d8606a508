import type { Attempt } from './model/delivery.ts';
import { HOUR, type Monotonic, SECOND, type Time } from './model/time.ts';
import type { LaneStat } from './ports/backlog.ts';
import { type Clock, type ClockStep, wallTimeOf } from './ports/clock.ts';
import type { DeadLetters, DeadQuery } from './ports/dead-letters.ts';
import type { EventLog, Found, LogSize, Query } from './ports/event-log.ts';
import type { EventHistory } from './ports/history.ts';
import type { Store } from './ports/store.ts';

/**
 * A store as people ask it. Stores keep and compare times of the monotonic clock, so that setting the wall clock ends no
 * window and lets nothing go; people ask by the wall clock, and are shown it.
 */
export function onWallClock(store: Store, clock: Clock): Store {
  const { log, backlog, history, deadLetters } = store;
  return replacing(store, {
    log: replacing(log, {
      find: async (query, below) => {
        const found = await ('from' in query
          ? findBetween(log, { query, below, clock })
          : log.find(query, below));
        const { reachedAt } = found;
        return reachedAt === undefined ? found : { ...found, reachedAt: wallTimeOf(reachedAt, clock) };
      },
      size: async () => shownSize(await log.size(), clock),
      extent: (range, from) => log.extent(monotonicRange(range, clock.steps()).bounds, from),
    }),
    backlog: replacing(backlog, {
      lanes: async () => (await backlog.lanes()).map((lane) => shownLane(lane, clock)),
    }),
    history: replacing(history, {
      of: async (positions) =>
        (await history.of(positions)).map((known) => known && shownHistory(known, clock)),
    }),
    deadLetters: shownDeadLetters(deadLetters, clock),
  });
}

/** The same object with other methods in the place of some. */
function replacing<Whole extends object>(whole: Whole, parts: Partial<Whole>): Whole {
  return new Proxy(whole, {
    get(target, name) {
      const part = Reflect.get(parts, name) ?? Reflect.get(target, name);
      return typeof part === 'function' ? part.bind(target) : part;
    },
  });
}

function shownSize(size: LogSize, clock: Clock): LogSize {
  const { oldestAt, damage } = size;
  const foundAt = damage?.foundAt;
  return {
    ...size,
    ...(oldestAt === undefined ? {} : { oldestAt: wallTimeOf(oldestAt, clock) }),
    ...(foundAt === undefined ? {} : { damage: { ...damage!, foundAt: wallTimeOf(foundAt, clock) } }),
  };
}

function shownLane(lane: LaneStat, clock: Clock): LaneStat {
  const { nextDueAt, oldestAt } = lane;
  return {
    ...lane,
    ...(nextDueAt === undefined ? {} : { nextDueAt: wallTimeOf(nextDueAt, clock) }),
    ...(oldestAt === undefined ? {} : { oldestAt: wallTimeOf(oldestAt, clock) }),
  };
}

function shownHistory(known: EventHistory, clock: Clock): EventHistory {
  const deliveries = known.deliveries.map((delivery) => {
    const { nextAttemptAt } = delivery;
    const attempts = delivery.attempts.map((attempt) => shownAttempt(attempt, clock));
    const shown = { ...delivery, attempts };
    return nextAttemptAt === undefined
      ? shown
      : { ...shown, nextAttemptAt: wallTimeOf(nextAttemptAt, clock) };
  });
  return { ...known, deliveries };
}

function shownAttempt(attempt: Attempt, clock: Clock): Attempt {
  return { ...attempt, startedAt: wallTimeOf(attempt.startedAt, clock) };
}

/**
 * Dead letters by the time at which they were given up. Where the wall clock was set back, those that show a time out of the
 * range but died between others of it are among them.
 */
function shownDeadLetters(deadLetters: DeadLetters, clock: Clock): DeadLetters {
  const within = ({ from = 0, to = Number.MAX_SAFE_INTEGER, ...query }: DeadQuery): DeadQuery => {
    return { ...query, ...monotonicRange({ from, to }, clock.steps()).bounds };
  };
  return replacing(deadLetters, {
    list: async (query, limit, begin) => {
      const { letters, ...page } = await deadLetters.list(within(query), limit, begin);
      return { ...page, letters: letters.map((one) => ({ ...one, at: wallTimeOf(one.at, clock) })) };
    },
    count: (query, from) => deadLetters.count(within(query), from),
    revive: (slice) => deadLetters.revive({ ...slice, query: within(slice.query) }),
  });
}

type Between = Extract<Query, { from: Time }>;

interface Search {
  readonly query: Between;
  readonly below: number | undefined;
  readonly clock: Clock;
}

/** Events by the time of arrival that they show. Where the wall clock was set near that time, each of them is looked at. */
async function findBetween(log: EventLog, { query, below, clock }: Search): Promise<Found> {
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

/** A step was noticed at most so much after it happened; and an event may have been under way when the clock was set. */
const MARGIN = HOUR;

/**
 * Between which monotonic times the events arrived that show a time of arrival in this range. Where the clock was set, there
 * may be several such times, with others between them: then all of it, and it is not exact.
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
      Math.max(from - ahead, begin - MARGIN),
      Math.min(to - ahead, end + MARGIN, Number.MAX_SAFE_INTEGER),
    ];
    if (first >= last) return [];
    const isInside = first >= begin + MARGIN && last <= end - MARGIN;
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
