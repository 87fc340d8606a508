import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Event } from '../model/event.ts';
import type { StoredEvent } from '../ports/event-log.ts';
import type { Page, PageStart } from './contract.ts';
import {
  mergedLister,
  type PageSource,
  type PositionLister,
  paginate,
  Semaphore,
  splitByPiece,
} from './paginate.ts';

it('lets so many go on at once, the others in the order they came, whatever becomes of those before', async () => {
  const turns = new Semaphore(2);
  const begun: number[] = [];
  const ends: { resolve(value: string): void; reject(error: Error): void }[] = [];
  const take = (n: number) =>
    turns.run(() => {
      begun.push(n);
      return new Promise<string>((resolve, reject) => {
        ends[n] = { resolve, reject };
      });
    });
  const all = [take(0), take(1), take(2), take(3), take(4)];
  expect(begun).toEqual([0, 1]);
  ends[1]!.reject(new Error('the disk is gone'));
  await expect(all[1]).rejects.toThrow('the disk is gone');
  ends[0]!.resolve('first');
  expect(await all[0]).toBe('first');
  await Promise.resolve();
  expect(begun).toEqual([0, 1, 2, 3]);
  ends[2]!.resolve('third');
  ends[3]!.resolve('fourth');
  await Promise.all([all[2], all[3]]);
  ends[4]!.resolve('fifth');
  expect(await all[4]).toBe('fifth');
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  const later = take(5);
  expect(begun).toContain(5);
  ends[5]!.resolve('sixth');
  expect(await later).toBe('sixth');
});

const EVENT: Event = {
  ...{ messageId: 'm', type: 'track', channel: 'server', context: {}, integrations: {} },
  ...{ timestamp: '2026-01-01T00:00:00.000Z', receivedAt: '2026-01-01T00:00:00.000Z' },
};

/** A log of so many events, looked through so many at a time; each is owed to two lanes. */
function logOf(events: number, { slice = 7, padding = '' } = {}) {
  const stored = (position: number): StoredEvent => ({
    source: position % 3,
    arrivedAt: Date.parse(EVENT.receivedAt),
    event: { ...EVENT, messageId: `m${position}`, padding },
  });
  let reads = 0;
  const tools = {
    log: {
      read: async (positions: readonly number[]) => {
        reads += positions.length;
        return positions.map((position) => (position === 13 ? undefined : stored(position)));
      },
    },
    history: {
      read: async (positions: readonly number[]) =>
        positions.map((position) => (position === 17 ? undefined : { deliveries: [], skipped: [] })),
    },
    now: () => reads,
  };
  const way: PageSource<string> = {
    list: async (below = events + 1) => {
      const highest = Math.min(below - 1, events);
      const positions = Array.from({ length: Math.min(slice, highest) }, (_, nth) => highest - nth);
      const last = positions.at(-1) ?? 1;
      return last > 1 ? { positions, next: last } : { positions };
    },
    accepts: ({ source }) => source !== 0,
    entriesOf: (position, { event }) =>
      [2, 5, 9].map((lane) => ({ entry: `${position}-${lane}${String(event['padding'])}`, lane })),
  };
  return { way, tools };
}

const EXPECTED = (events: number) =>
  Array.from({ length: events }, (_, nth) => events - nth)
    .filter((position) => position % 3 !== 0 && position !== 13 && position !== 17)
    .flatMap((position) => [2, 5, 9].map((lane) => `${position}-${lane}`));

async function allOf(
  { way, tools }: ReturnType<typeof logOf>,
  { limit, patience = Number.POSITIVE_INFINITY }: { readonly limit: number; readonly patience?: number },
): Promise<Page<string>[]> {
  const pages: Page<string>[] = [];
  let from: PageStart | undefined;
  do {
    const page = await paginate(
      way,
      { limit, until: tools.now() + patience, ...(from === undefined ? {} : { from }) },
      tools,
    );
    pages.push(page);
    from = page.next;
  } while (from !== undefined);
  return pages;
}

describe('a page of a search', () => {
  it.each([1, 2, 3, 4, 7, 50, 500])(
    'of %i at most is full as long as there is more, and none is shown twice',
    async (limit) => {
      const pages = await allOf(logOf(40), { limit });
      expect(pages.flatMap(({ data }) => data)).toEqual(EXPECTED(40));
      for (const { data } of pages.slice(0, -2)) expect(data.length).toBe(limit);
    },
  );

  it('ends when the time is over, empty if need be, and the next one goes on behind it', async () => {
    const pages = await allOf(logOf(40), { limit: 500, patience: 1 });
    expect(pages.length).toBeGreaterThan(3);
    expect(pages.flatMap(({ data }) => data)).toEqual(EXPECTED(40));
    const { way, tools } = logOf(40);
    const none = await allOf({ way: { ...way, accepts: () => false }, tools }, { limit: 5, patience: 1 });
    expect(none.length).toBeGreaterThan(3);
    expect(none.flatMap(({ data }) => data)).toEqual([]);
  });

  it('ends before it is too large to be sent', async () => {
    const pages = await allOf(logOf(10, { padding: 'x'.repeat(1024 * 1024) }), { limit: 500 });
    expect(Math.max(...pages.map(({ data }) => data.length))).toBeLessThan(6);
    expect(pages.flatMap(({ data }) => data).map((entry) => entry.slice(0, entry.indexOf('x')))).toEqual(
      EXPECTED(10),
    );
  });

  it('of an empty log is empty, and the last', async () => {
    expect(await allOf(logOf(0), { limit: 5 })).toEqual([{ data: [], searched: 0 }]);
  });
});

describe('a portion', () => {
  it('is of events that lie together, or of a few pieces that do not', () => {
    const together = Array.from({ length: 1200 }, (_, nth) => 2000 - nth);
    expect(splitByPiece(together).map(({ length }) => length)).toEqual([500, 500, 200]);
    const apart = Array.from({ length: 30 }, (_, nth) => (30 - nth) * 1000);
    expect(splitByPiece(apart).map(({ length }) => length)).toEqual([12, 12, 6]);
    expect(splitByPiece([...together, ...apart]).flat()).toEqual([...together, ...apart]);
    expect(splitByPiece([])).toEqual([]);
  });
});

describe('merged listers', () => {
  it('list what any of them lists, each position once, the newest first, however their pages are cut', async () => {
    const positions = fc.uniqueArray(fc.nat(30));
    const lister = fc.record({ positions, page: fc.integer({ min: 1, max: 4 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(lister, { minLength: 1, maxLength: 4 }), async (listers) => {
        const list = mergedLister(
          listers.map(
            ({ positions, page }): PositionLister =>
              async (below = Number.POSITIVE_INFINITY) => {
                const left = positions.filter((position) => position < below).sort((a, b) => b - a);
                const shown = left.slice(0, page);
                return { positions: shown, ...(left.length > page ? { next: shown.at(-1)! } : {}) };
              },
          ),
        );
        const found: number[] = [];
        let below: number | undefined;
        do {
          const page = await list(below);
          found.push(...page.positions);
          below = page.next;
        } while (below !== undefined);
        const all = new Set(listers.flatMap(({ positions }) => positions));
        expect(found).toEqual([...all].sort((a, b) => b - a));
      }),
    );
  });
});
