import { expect, it } from 'vitest';
import { openMemoryStore } from '../../test/memory-store/store.ts';
import { handClock } from '../../test/support/clock.ts';
import { wallClockStore } from '../adapters/system/wall-clock-store.ts';
import type { LogView } from '../ports/store-view.ts';
import { estimate, previewReplay } from './preview.ts';
import { CURSOR_END, LogCursor, type ReplayFilter } from './selection.ts';

const START = Date.UTC(2026, 0, 1);
const RANGE = { from: START, to: START + 1000 };

/** A log with one event a millisecond. */
async function logOf(count: number): Promise<LogView> {
  const store = openMemoryStore();
  for (let n = 0; n < count; n++) {
    const receivedAt = new Date(START + n).toISOString();
    const json = JSON.stringify({ messageId: `m${n}`, type: n % 2 === 0 ? 'track' : 'page', receivedAt });
    const events = [{ source: 1, messageId: `m${n}`, json }];
    const parts = { plans: [], planIndexes: [], owed: [], received: [] };
    await store.log.append({ id: `b${n}`, receivedAt: START + n, events, ...parts });
  }
  return wallClockStore(store, handClock(START)).log;
}

async function readAll(
  reader: LogCursor,
  max: number,
  cursor = 0,
): Promise<{ ids: string[]; cursors: number[] }> {
  const ids: string[] = [];
  const cursors = [cursor];
  while (cursors.at(-1) !== CURSOR_END) {
    const { events, to } = await reader.next(cursors.at(-1)!, max, ({ event }) => event.type === 'track');
    expect(events.length).toBeLessThanOrEqual(max);
    ids.push(...events.map(({ stored }) => stored.event.messageId));
    cursors.push(to);
  }
  return { ids, cursors };
}

it('gives the wanted events of a range, the oldest first, each once, in slices as large as asked', async () => {
  const log = await logOf(1100);
  const wanted = Array.from({ length: 500 }, (_, n) => `m${2 * n}`);
  for (const max of [7, 100, Number.POSITIVE_INFINITY]) {
    expect((await readAll(new LogCursor(log, RANGE), max)).ids).toEqual(wanted);
  }
});

it('goes on from every cursor it ever gave, also twice', async () => {
  const log = await logOf(40);
  const { ids, cursors } = await readAll(new LogCursor(log, RANGE), 3);
  for (const [nth, cursor] of cursors.slice(0, -1).entries()) {
    const rest = await readAll(new LogCursor(log, RANGE), 3, cursor);
    expect(rest.ids).toEqual(ids.slice(nth * 3));
  }
  const same = new LogCursor(log, RANGE);
  await readAll(same, 5);
  expect((await readAll(same, 5, cursors[1]!)).ids).toEqual(ids.slice(3));
});

it('ends at once where there is nothing', async () => {
  const log = await logOf(0);
  expect(await new LogCursor(log, RANGE).next(0, 9, () => true)).toEqual({ events: [], to: CURSOR_END });
  expect(await new LogCursor(await logOf(3), RANGE).next(CURSOR_END, 9, () => true)).toEqual({
    events: [],
    to: CURSOR_END,
  });
});

/** Reads slices as `Replayer.preview` does. */
const sliceReader = (log: LogView, isWanted: ReplayFilter) => {
  const reader = new LogCursor(log, RANGE);
  return async (cursor: number) => {
    const slice = await reader.next(cursor, Number.POSITIVE_INFINITY, isWanted);
    return { ...slice, deliveries: 2 * slice.events.length };
  };
};

it('previews a range by reading all of it', async () => {
  const log = await logOf(20);
  const isPage: ReplayFilter = ({ event }) => event.type === 'page';
  const dependencies = { log, clock: { monotonic: () => 0 }, readSlice: sliceReader(log, isPage) };
  const { count, deliveries, bytes, isExact } = await previewReplay(RANGE, dependencies);
  expect({ count, deliveries, isExact }).toEqual({ count: 10, deliveries: 20, isExact: true });
  const { events } = await new LogCursor(log, RANGE).next(0, 1, isPage);
  expect(bytes).toBeGreaterThanOrEqual(10 * JSON.stringify(events[0]!.stored.event).length);
});

it('estimates the rest of a range that takes too long to read, and never more than is stored', async () => {
  const log = await logOf(1000);
  for (const [wanted, least, most] of [
    [() => true, 1000, 1000],
    [({ event }) => event.type === 'page', 450, 550],
    // All of them at the beginning: the rest of the range is unlike the part that is read.
    [({ event }) => Number(event.messageId.slice(1)) < 500, 500, 1000],
    [() => false, 0, 0],
  ] as [ReplayFilter, number, number][]) {
    let time = 0;
    // Every reading of the clock is a second later: there is time for 500 events.
    const dependencies = {
      log,
      clock: { monotonic: () => (time += 1000) },
      readSlice: sliceReader(log, wanted),
    };
    const preview = await previewReplay(RANGE, dependencies);
    expect(preview.isExact).toBe(false);
    expect(preview.count).toBeGreaterThanOrEqual(least);
    expect(preview.count).toBeLessThanOrEqual(most);
    const { bytes } = await log.rangeSize(RANGE, 0);
    expect(preview.bytes).toBeLessThanOrEqual(bytes);
  }
});

it('estimates by what is stored, however unevenly it arrived', () => {
  const seen = { count: 10, deliveries: 20, bytes: 1000 };
  const left = { events: 30, bytes: 2500 };
  expect(estimate(seen, { scanned: 20, left })).toEqual({
    ...{ count: 25, deliveries: 50, bytes: 2500 },
    isExact: false,
  });
  expect(estimate(seen, { scanned: 10, left })).toEqual({
    ...{ count: 40, deliveries: 80, bytes: 3500 },
    isExact: false,
  });
  expect(estimate(seen, { scanned: 0, left })).toMatchObject({ count: 40 });
  expect(estimate({ count: 0, deliveries: 0, bytes: 0 }, { scanned: 20, left })).toMatchObject({
    count: 0,
    bytes: 0,
  });
});
