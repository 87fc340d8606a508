import { describe, expect, it } from 'vitest';
import { cursorOf, logPlaceIn, placeIn, textOf } from './cursor.ts';
import { Problem } from './problem.ts';

const ASKED = { list: 'events', type: 'track' };

describe('a cursor', () => {
  it.each(['0', '12-34', 'größer'])('leads to the place it was made of: %s', (place) => {
    const cursor = cursorOf(place, ASKED);
    expect(cursor).toMatch(/^[\w-]+$/);
    expect(placeIn(cursor, ASKED)).toBe(place);
  });

  it('that is not given is the beginning', () => {
    expect(placeIn(undefined, ASKED)).toBeUndefined();
  });

  it('is refused for another list, with other parameters, and when it is none', () => {
    const cursor = cursorOf('12', ASKED);
    const wrong: [string, object][] = [
      [cursor, { ...ASKED, list: 'deliveries' }],
      [cursor, { ...ASKED, type: 'page' }],
      [cursor, { ...ASKED, userId: 'u1' }],
      [cursorOf('12', { ...ASKED, from: 1 }), ASKED],
      ['12', ASKED],
      [`${cursor}x`, ASKED],
      ['ü', ASKED],
    ];
    for (const [given, asked] of wrong) {
      expect(() => placeIn(given, asked), given).toThrow(Problem);
    }
  });

  it.each([{ below: 0 }, { below: 2 ** 52 }, { below: 13, after: 0 }, { below: 13, after: 2 ** 26 + 5 }])(
    'can be of a place in the log: %o',
    (place) => {
      expect(logPlaceIn(textOf(place))).toEqual({ from: place });
    },
  );
});
