import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { correctedTime, formatTime, readCanonical, readTime } from './envelope.ts';

const EARLIEST = -62_167_219_200_000;
const LATEST = 253_402_300_799_999;
const anyTime = fc.integer({ min: EARLIEST, max: LATEST });
const zone = process.env['TZ'];

afterEach(() => {
  if (zone === undefined) delete process.env['TZ'];
  else process.env['TZ'] = zone;
});

test('every time is written as Date writes it, and read back the same', () => {
  fc.assert(
    fc.property(anyTime, fc.integer({ min: 0, max: 5000 }), (time, later) => {
      // A second one soon after, so that what is kept between two calls is used.
      for (const each of [time, Math.min(time + later, LATEST), time]) {
        const text = formatTime(each);
        expect(text).toBe(new Date(each).toISOString());
        expect(readCanonical(text)).toBe(each);
        expect(readTime(text)).toBe(each);
        expect(readTime(each)).toBe(each);
      }
    }),
    { numRuns: 2000 },
  );
});

test('the slow way reads the same as the fast one', () => {
  fc.assert(
    fc.property(anyTime, (time) => {
      const text = formatTime(time);
      expect(readTime(text.replace('Z', '+00:00'))).toBe(time);
      expect(readTime(text.replace('T', ' '))).toBe(time);
      expect(readCanonical(text.replace('T', ' '))).toBeNaN();
    }),
  );
});

test('offsets of hours and minutes are subtracted, with and without a colon', () => {
  const noon = Date.parse('2026-11-21T12:00:00.000Z');
  for (const text of [
    '17:30:00+05:30',
    '17:30:00+0530',
    '17:30+05:30',
    '08:30:00-03:30',
    '14:00:00+02',
    '12:00:00z',
  ]) {
    expect(readTime(`2026-11-21T${text}`), text).toBe(noon);
  }
});

test.each(['Asia/Kolkata', 'America/New_York', 'UTC'])(
  'a text without a zone is UTC on a machine in %s',
  (name) => {
    process.env['TZ'] = name;
    expect(readTime('2026-11-21T03:35:55')).toBe(1_795_232_155_000);
    expect(readTime('2026-11-21 03:35:55.5')).toBe(1_795_232_155_500);
    expect(readTime('2026-11-21')).toBe(1_795_219_200_000);
  },
);

test.each([
  ...[
    '',
    ' ',
    'now',
    '2026',
    '2026-11',
    '20261121',
    '21.11.2026',
    'Sat, 21 Nov 2026 03:35:55 GMT',
    '1795232155000',
  ],
  ...[
    '2026-00-10T00:00:00.000Z',
    '2026-13-10T00:00:00.000Z',
    '2026-04-31T00:00:00.000Z',
    '1900-02-29',
    '2026-1-0',
  ],
  ...[
    '2026-11-21T24:00:00.000Z',
    '2026-11-21T23:60:00.000Z',
    '2026-11-21T23:59:61.000Z',
    '2026-11-21T1:2:3Z',
  ],
  ...[
    '2026-11-21T03:35:55+24:00',
    '2026-11-21T03:35:55+05:60',
    '2026-11-21T03:35:55 EST',
    '2026-11-21T03:35:55.Z',
  ],
  ...[
    '0000-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59.999-00:01',
    '-000001-01-01T00:00:00Z',
    '2026-11-21TT03:35Z',
  ],
  ...[
    '2O26-11-21T03:35:55.000Z',
    '2026-11-21T03:35:55.00OZ',
    '2026-1a-21T03:35:55.000Z',
    '/026-11-21T03:35:55.000Z',
  ],
  ...['2026-11-21T03:35:55.123456789123456789123456789123456789123456789Z', null, true, [], {}],
  ...[Number.POSITIVE_INFINITY, LATEST + 1, EARLIEST - 1],
])('%j is no time', (value) => {
  expect(readTime(value)).toBeNaN();
});

test('a clock more than 24 hours off is not corrected', () => {
  const day = 86_400_000;
  expect(correctedTime(5, 1000, 1000 + day)).toBe(5 + day);
  expect(correctedTime(5, 1000 + day, 1000)).toBe(5 - day);
  expect(correctedTime(5, 1000, 1001 + day)).toBeNaN();
  expect(correctedTime(5, 1001 + day, 1000)).toBeNaN();
});

test('less than a second between sending and arriving is the network, and no wrong clock', () => {
  for (const apart of [0, 1, 138, 999]) {
    expect(correctedTime(5, 100_000, 100_000 + apart)).toBe(5);
    expect(correctedTime(5, 100_000 + apart, 100_000)).toBe(5);
  }
  expect(correctedTime(5, 100_000, 101_000)).toBe(1005);
  expect(correctedTime(5, 101_000, 100_000)).toBe(-995);
});
