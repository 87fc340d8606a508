import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import type { Json } from '../model/json.ts';
import { correctedTime, formatTime, readCanonical, readTime } from './times.ts';

/** Behind the first moment of the year 1. */
const EARLIEST = -62_135_596_799_999;
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
        if (Math.abs(each) >= 1e11 && Math.abs(each) < 1e14) expect(readTime(each)).toBe(each);
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
    '2026-11',
    '21.11.2026',
    '11/21/2026 03:35:55',
    '2026-W47-6',
    '2026-325',
    'Sat, 21 Nib 2026 03:35:55 GMT',
  ],
  ...[
    '2026-00-10T00:00:00.000Z',
    '2026-13-10T00:00:00.000Z',
    '2026-04-31T00:00:00.000Z',
    '1900-02-29',
    '2026-1-0',
  ],
  ...[
    '2026-11-21T24:00:00.001Z',
    '2026-11-21T24:01:00Z',
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
  ...[`2026-11-21T03:35:55.${'1'.repeat(80)}Z`, null, true, [], {}],
  ...[Number.POSITIVE_INFINITY, 1e300, (LATEST + 1) * 1000, EARLIEST - 1],
  ...['0001-01-01T00:00:00', '0001-01-01T00:00:00.000Z', '0000-00-00 00:00:00', '0000-01-01T00:00:00+05:00'],
  ...['03/04/2019 05:06:07', '2019-02-30T00:00:00Z', '2019-02-29T00:00:00Z', '+010000-01-01T00:00:00Z'],
  ...[
    '9999-12-31T23:59:59-05:00',
    -62_135_596_800_001,
    '2019-03-04T05:06:07+99:99',
    '2019-03-04T05:06:07+14:60',
  ],
  ...['2019-03-04 05:06:07 PST', '2019-W10-1', '2019-063'],
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

/** As languages, databases and mails write it. */
test.each<[Json, string]>([
  ['2019-03-04T05:06:07.089Z', '2019-03-04T05:06:07.089Z'],
  ['2019-03-04T05:06:07.089123456Z', '2019-03-04T05:06:07.089Z'],
  ['2019-03-04t05:06:07z', '2019-03-04T05:06:07.000Z'],
  ['2019-03-04T05:06Z', '2019-03-04T05:06:00.000Z'],
  ['2019-03-04T05:06:07+02', '2019-03-04T03:06:07.000Z'],
  ['2019-03-04T05:06:07-00:00', '2019-03-04T05:06:07.000Z'],
  ['2019-03-04 05:06:07 +0000', '2019-03-04T05:06:07.000Z'],
  ['2019-03-04 05:06:07 +0200', '2019-03-04T03:06:07.000Z'],
  ['2019-03-04 05:06:07.089 +0000 UTC', '2019-03-04T05:06:07.089Z'],
  ['2019-03-04 05:06:07.089123 +0200 CEST m=+0.000012', '2019-03-04T03:06:07.089Z'],
  ['2019-03-04T05:06:07.089+02:00[Europe/Berlin]', '2019-03-04T03:06:07.089Z'],
  ['2019-03-04T05:06:07,089Z', '2019-03-04T05:06:07.089Z'],
  ['20190304T050607Z', '2019-03-04T05:06:07.000Z'],
  ['Mon, 04 Mar 2019 05:06:07 GMT', '2019-03-04T05:06:07.000Z'],
  ['Mon, 04 Mar 2019 05:06:07 +0200', '2019-03-04T03:06:07.000Z'],
  ['Mon Mar 04 2019 05:06:07 GMT+0200 (Eastern European Standard Time)', '2019-03-04T03:06:07.000Z'],
  ['/Date(1551675967089)/', '2019-03-04T05:06:07.089Z'],
  ['/Date(1551675967089+0200)/', '2019-03-04T05:06:07.089Z'],
  ['2019/03/04 05:06:07', '2019-03-04T05:06:07.000Z'],
  ['2019-03-04T24:00:00Z', '2019-03-05T00:00:00.000Z'],
  ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
  ['2019-03-04T05:06:07\u221202:00', '2019-03-04T07:06:07.000Z'],
  [' 2019-03-04T05:06:07Z ', '2019-03-04T05:06:07.000Z'],
  [0, '1970-01-01T00:00:00.000Z'],
  [-0.5, '1969-12-31T23:59:59.500Z'],
  [1551675967, '2019-03-04T05:06:07.000Z'],
  ['1551675967', '2019-03-04T05:06:07.000Z'],
  [1551675967.089, '2019-03-04T05:06:07.089Z'],
  [1551675967089, '2019-03-04T05:06:07.089Z'],
  ['1551675967089', '2019-03-04T05:06:07.089Z'],
  [1551675967089123, '2019-03-04T05:06:07.089Z'],
  [{ _seconds: 1551675967, _nanoseconds: 89000000 }, '2019-03-04T05:06:07.089Z'],
  [{ $date: '2019-03-04T05:06:07.089Z' }, '2019-03-04T05:06:07.089Z'],
  [{ $date: { $numberLong: '1551675967089' } }, '2019-03-04T05:06:07.089Z'],
])('%j is a time', (value, time) => {
  expect(formatTime(readTime(value))).toBe(time);
});
