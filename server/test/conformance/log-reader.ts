import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Event, Position } from '../../src/model/event.ts';
import { DAY } from '../../src/model/time.ts';
import { type LogPage, type LogReader, StorageError } from '../../src/ports/event-log.ts';
import type { Store } from '../../src/ports/store.ts';
import { batch, event, events, idsAt } from './batches.ts';
import { START, type StoreHarness } from './harness.ts';
import { eventsOf, FOR_EVER, keepUp, write, writeSingly } from './upkeep.ts';

export interface LogReaderHarness extends StoreHarness {
  /** A reader of the log of an open store. */
  reader(store: Store): LogReader;
}

/** The duties of every `LogReader` (ports/event-log.ts). */
export function logReaderConformance(name: string, harness: LogReaderHarness): void {
  describe(`a reader of the log of ${name}`, () => {
    let current: { store: Store; readonly reader: LogReader };
    beforeEach(async () => {
      const store = await harness.open();
      current = { store, reader: harness.reader(store) };
    });
    afterEach(async () => {
      await current.reader.stop();
      await harness.close(current.store);
    });
    const now = () => current;
    readsWhole(now);
    readsAroundGaps(now);
    readsMeanwhile(now, harness);
  });
}

type Subject = () => { store: Store; readonly reader: LogReader };

function readsWhole(now: Subject): void {
  it('reads every event with its position, source and time of arrival, whatever the size of the pages', async () => {
    const { store, reader } = now();
    const small = await write(store, [event('a', 1), event('ä€😀', 2)], START);
    const large = await write(store, events(1234, 'large', 3), START + 5);
    const positions = [...small, ...large];
    for (const max of [1, 7, 500, 100_000]) {
      const read = await readAll(reader, 0, max);
      expect(read.map(({ position }) => position)).toEqual(positions);
      expect(read.map(({ id }) => id)).toEqual(await idsAt(store, positions));
      expect(read.slice(0, 3).map(({ source, at }) => [source, at])).toEqual([
        [1, START],
        [2, START],
        [3, START + 5],
      ]);
    }
  });

  it('tells how far a producer has come', async () => {
    const { store, reader } = now();
    expect(await reader.producedTo('users')).toBe(0);
    await store.log.append(batch(events(3), { received: [], producer: { name: 'users', sequence: 5 } }));
    expect([await reader.producedTo('users'), await reader.producedTo('others')]).toEqual([7, 0]);
  });

  it('tells of an empty log, and goes on from its end when something is stored', async () => {
    const { store, reader } = now();
    const { first, end } = await reader.bounds();
    expect(end).toBe(first);
    const nothing = await reader.page(end, 10);
    expect([nothing.next, nothing.sources.length, nothing.lines.byteLength]).toEqual([end, 0, 0]);
    await write(store, events(3));
    const page = await reader.page(end, 10);
    expect(page.sources).toHaveLength(3);
    expect(await reader.bounds()).toEqual({ first, end: page.next });
    expect((await reader.page(page.next, 10)).next).toBe(page.next);
  });

  it('goes on in the middle of what upkeep has brought together', async () => {
    const { store, reader } = now();
    const written = await writeSingly(store, events(150));
    const before = (await readAll(reader, 0, 40)).slice(0, 70);
    await keepUp(store, START + DAY, FOR_EVER);
    const after = await readAll(reader, before.at(-1)!.position + 1, 40);
    const positions = [...before, ...after].map(({ position }) => position);
    expect(positions).toEqual(written);
    expect([...before, ...after].map(({ id }) => id)).toEqual(events(150).map(({ messageId }) => messageId));
  });

  it('refuses to read when it is stopped', async () => {
    const { reader } = now();
    await reader.stop();
    await expect(reader.page(0, 1)).rejects.toThrow(StorageError);
    await expect(reader.bounds()).rejects.toThrow(StorageError);
  });
}

function readsAroundGaps(now: Subject): void {
  it('leaves the line of an erased event empty', async () => {
    const { store, reader } = now();
    await write(store, [...eventsOf('a', 2), ...eventsOf('gone', 2), ...eventsOf('b', 2)]);
    await store.log.erase({ userIds: ['gone'] });
    expect((await readAll(reader, 0, 100)).map(({ id }) => id)).toEqual([
      'a0',
      'a1',
      undefined,
      undefined,
      'b0',
      'b1',
    ]);
  });

  it('skips what is past its retention', async () => {
    const { store, reader } = now();
    await writeSingly(store, events(80, 'old'));
    const kept = await writeSingly(store, events(80, 'young'), START + 20 * DAY);
    await keepUp(store, START + 20 * DAY, { events: 7 * DAY, deadLetters: 7 * DAY });
    const { first, end } = await reader.bounds();
    expect(first).toBeLessThanOrEqual(kept[0]!);
    expect(end).toBe(kept.at(-1)! + 1);
    const read = (await readAll(reader, 0, 33)).filter(({ id }) => id !== undefined);
    expect(read.slice(-80).map(({ position }) => position)).toEqual(kept);
    expect(read[0]!.position).toBeGreaterThanOrEqual(first);
  });
}

function readsMeanwhile(now: Subject, harness: LogReaderHarness): void {
  it('sees each commit whole and once, while commits and upkeep go on', async () => {
    const { store, reader } = now();
    const read: Position[] = [];
    let isDone = false;
    const follow = (async () => {
      let from = (await reader.bounds()).first;
      for (;;) {
        const wasDone = isDone;
        const page = await reader.page(from, 50);
        for (let nth = 0; nth < page.sources.length; nth++) read.push(page.first + nth);
        if (page.next === from && wasDone) return;
        from = page.next;
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const written: Position[] = [];
    for (let round = 0; round < 40; round++) {
      written.push(...(await write(store, events(1 + ((round * 13) % 90), `r${round}-`))));
      if (round % 5 === 4) await store.log.maintain(START + round, FOR_EVER, 5);
    }
    isDone = true;
    await follow;
    expect(read).toEqual(written);
  });

  it('reads on after the store has died and was opened again', async () => {
    const subject = now();
    await write(subject.store, events(5, 'before'));
    expect(await readAll(subject.reader, 0, 100)).toHaveLength(5);
    subject.store = await harness.reopen(subject.store);
    await write(subject.store, events(5, 'after'));
    expect(await readAll(subject.reader, 0, 100)).toHaveLength(10);
    const other = harness.reader(subject.store);
    expect(await readAll(other, 0, 3)).toHaveLength(10);
    await other.stop();
  });
}

interface ReadEvent {
  readonly position: Position;
  readonly id: string | undefined;
  readonly source: number;
  readonly at: number;
}

/** Everything from a position on. The messageId of an event that is gone is undefined. */
async function readAll(reader: LogReader, from: Position, max: number): Promise<ReadEvent[]> {
  const read: ReadEvent[] = [];
  for (let at = from; ; ) {
    const page = await reader.page(at, max);
    read.push(...eventsIn(page));
    if (page.next === at) return read;
    expect(page.next).toBeGreaterThan(at);
    at = page.next;
  }
}

function eventsIn({ first, lines, starts, sources, times }: LogPage): ReadEvent[] {
  expect(starts).toHaveLength(sources.length + 1);
  return Array.from(sources, (source, nth) => {
    const line = Buffer.from(lines.subarray(starts[nth]!, starts[nth + 1]! - 1)).toString();
    const id = line === '' ? undefined : (JSON.parse(line) as Event).messageId;
    return { position: first + nth, id, source, at: times[nth]! };
  });
}
