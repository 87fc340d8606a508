import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import * as z from 'zod';
import {
  decodeCursor,
  encodeCursor,
  formatPageStart,
  pageByName,
  pageQuery,
  parseNumberCursor,
  parsePageStart,
  timeParameter,
} from './pagination.ts';
import { Problem } from './problem.ts';

const ASKED = { list: 'events', type: 'track' };

describe('a cursor', () => {
  it.each(['0', '12-34', 'größer'])('leads to the place it was made of: %s', (place) => {
    const cursor = encodeCursor(place, ASKED);
    expect(cursor).toMatch(/^[\w-]+$/);
    expect(decodeCursor(cursor, ASKED)).toBe(place);
  });

  it('that is not given is the beginning', () => {
    expect(decodeCursor(undefined, ASKED)).toBeUndefined();
  });

  it('is refused for another list, with other parameters, and when it is none', () => {
    const cursor = encodeCursor('12', ASKED);
    const wrong: [string, object][] = [
      [cursor, { ...ASKED, list: 'deliveries' }],
      [cursor, { ...ASKED, type: 'page' }],
      [cursor, { ...ASKED, userId: 'u1' }],
      [encodeCursor('12', { ...ASKED, from: 1 }), ASKED],
      ['12', ASKED],
      [`${cursor}x`, ASKED],
      ['ü', ASKED],
    ];
    for (const [given, asked] of wrong) {
      expect(() => decodeCursor(given, asked), given).toThrow(Problem);
    }
  });

  it.each([{ below: 0 }, { below: 2 ** 52 }, { below: 13, after: 0 }, { below: 13, after: 2 ** 26 + 5 }])(
    'can be of a place in the log: %o',
    (place) => {
      expect(parsePageStart(formatPageStart(place))).toEqual({ from: place });
    },
  );
});

const named = (...names: string[]) => names.map((name) => ({ name }));

describe('a page of a list in memory', () => {
  test('is sorted by name, says how to go on, and null at the end', () => {
    const entries = named('c', 'a', 'b');
    const first = pageByName(entries, { limit: 2 });
    expect(first.data).toEqual(named('a', 'b'));
    expect(pageByName(entries, { limit: 2, cursor: first.next! })).toEqual({ data: named('c'), next: null });
    expect(pageByName(entries, { limit: 3 }).next).toBeNull();
    expect(pageByName([], { limit: 1 })).toEqual({ data: [], next: null });
  });

  test('goes on where it was, whatever has come and gone meanwhile', () => {
    const { next } = pageByName(named('a', 'b', 'c'), { limit: 2 });
    expect(pageByName(named('aa', 'bb', 'd'), { limit: 2, cursor: next! }).data).toEqual(named('bb', 'd'));
  });

  test('shows every entry once, whatever the names are, with cursors that need no escaping', () => {
    const names = fc.uniqueArray(
      fc.string({ unit: 'binary', minLength: 1 }).map((name) => name.toWellFormed()),
      { maxLength: 20 },
    );
    fc.assert(
      fc.property(names, fc.integer({ min: 1, max: 7 }), (all, limit) => {
        const shown: string[] = [];
        let cursor: string | undefined;
        do {
          const { data, next } = pageByName(named(...all), { limit, cursor });
          shown.push(...data.map(({ name }) => name));
          cursor = next ?? undefined;
          if (cursor !== undefined) expect(encodeURIComponent(cursor)).toBe(cursor);
        } while (cursor !== undefined);
        expect(shown).toEqual([...all].sort((one, other) => (one < other ? -1 : 1)));
      }),
    );
  });

  test.each(['ä', 'a b', 'YQ==', '?', 'Y'])('refuses %j as a cursor', (cursor) => {
    expect(() => pageByName(named('a'), { limit: 1, cursor })).toThrow(Problem);
  });
});

describe('a cursor that is a number', () => {
  test('is read, and may be missing', () => {
    expect([parseNumberCursor(undefined), parseNumberCursor('0'), parseNumberCursor('42')]).toEqual([
      undefined,
      0,
      42,
    ]);
  });

  test.each(['-1', '1.5', '1e3', ' 1', 'x', '9'.repeat(16)])('is not %j', (text) => {
    expect(() => parseNumberCursor(text)).toThrow(Problem);
  });
});

describe('the parameters of a list', () => {
  const schema = z.object(pageQuery);

  test('are 100 entries from the beginning unless said otherwise, and 500 at most', () => {
    expect(schema.parse({})).toEqual({ limit: 100 });
    expect(schema.parse({ limit: '500', cursor: 'x' })).toEqual({ limit: 500, cursor: 'x' });
    for (const limit of ['0', '501', '1.5', 'x', '', ['1', '2']])
      expect(schema.safeParse({ limit }).success).toBe(false);
    expect(schema.safeParse({ cursor: '' }).success).toBe(false);
  });
});

test('a time has an offset or is in UTC, and is milliseconds when read', () => {
  expect(timeParameter.parse('2026-03-04T05:06:07Z')).toBe(Date.UTC(2026, 2, 4, 5, 6, 7));
  expect(timeParameter.parse('2026-03-04T06:06:07.5+01:00')).toBe(Date.UTC(2026, 2, 4, 5, 6, 7, 500));
  for (const text of ['2026-03-04', '2026-03-04T05:06:07', '1', 'yesterday', '2026-02-30T00:00:00Z'])
    expect([text, timeParameter.safeParse(text).success]).toEqual([text, false]);
});
