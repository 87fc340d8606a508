import { expect } from 'vitest';
import type { Position } from '../../src/model/event.ts';
import type { Monotonic } from '../../src/model/time.ts';
import { DAY } from '../../src/model/time.ts';
import type { LogQuery, NewEvent, Retention } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, event, positionsOf } from './batches.ts';
import { START } from './harness.ts';

/** The retention of tests that do not care, or that delete nothing. */
export const A_WEEK: Retention = { events: 7 * DAY, deadLetters: 30 * DAY };
export const FOR_EVER: Retention = { events: 10_000 * DAY, deadLetters: 10_000 * DAY };

/** Milliseconds of one slice. */
const BUDGET = 20;

/** More slices than any test can need: upkeep that always finds something more to do is a bug. */
const MOST_SLICES = 5000;

/** Runs upkeep until there is nothing more to do. */
export async function keepUp(store: Store, now: Monotonic, retention: Retention = A_WEEK): Promise<void> {
  for (let slice = 0; slice < MOST_SLICES; slice++) {
    if (!(await store.log.maintain(now, retention, BUDGET))) return;
  }
  throw new Error('upkeep does not come to an end');
}

/** Everything a query finds, part by part. Expects the newest first, and each position once. */
export async function findAll(store: Store, query: LogQuery, below?: Position): Promise<Position[]> {
  const positions: Position[] = [];
  let next = below;
  do {
    const found = await store.log.find(query, next);
    positions.push(...found.positions);
    expect(found.next, 'parts that go on downwards').not.toBe(next ?? Number.NaN);
    next = found.next;
  } while (next !== undefined);
  expect(positions, 'the newest first').toEqual([...new Set(positions)].sort((a, b) => b - a));
  return positions;
}

/** Erases the events of a user; resolves to their number. */
export async function erase({ log }: Pick<Store, 'log'>, userId: string): Promise<number> {
  return (await log.erase({ userIds: [userId] })).events;
}

/** Appends these events, received at `at`, owed to nobody; gives their positions. */
export async function write(
  store: Store,
  of: readonly NewEvent[],
  at: Monotonic = START,
): Promise<readonly Position[]> {
  return positionsOf(await store.log.append(batch(of, { receivedAt: at })));
}

/** Events `<prefix>0`, `<prefix>1`, … of one user. */
export function eventsOf(userId: string, count: number, prefix = userId): NewEvent[] {
  return Array.from({ length: count }, (_, index) => event(`${prefix}${index}`, undefined, { userId }));
}

/**
 * Appends many batches of one event, all received at `at`. Adapters merge such batches once they are no
 * longer the newest: earlier events are then no longer stored as they arrived.
 */
export async function writeSingly(
  store: Store,
  of: readonly NewEvent[],
  at: Monotonic = START,
): Promise<readonly Position[]> {
  const written = await Promise.all(of.map((one) => write(store, [one], at)));
  return written.flat();
}
