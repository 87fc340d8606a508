import { expect, test } from 'vitest';
import { ServerTime } from './server-time.ts';

const NOON = Date.UTC(2026, 10, 29, 12);
const HOUR = 3_600_000;

test.each([
  ['as this one', 0],
  ['an hour ahead', HOUR],
  ['an hour behind', -HOUR],
])('a clock that shows the time %s is known to a second after one answer', (_, ahead) => {
  const time = new ServerTime();
  time.note(NOON + ahead, NOON, NOON + 20);
  expect(Math.abs(time.at(NOON) - (NOON + ahead))).toBeLessThan(1000);
});

test('ages do not jump by the second that the answers leave open', () => {
  const time = new ServerTime();
  for (let ms = 0; ms < 60_000; ms += 700)
    time.note(Math.floor((NOON + ms) / 1000) * 1000, NOON + ms - 10, NOON + ms);
  const settled = time.at(NOON);
  for (let ms = 60_000; ms < 120_000; ms += 700) {
    time.note(Math.floor((NOON + ms) / 1000) * 1000, NOON + ms - 10, NOON + ms);
    expect(time.at(NOON)).toBe(settled);
  }
  expect(Math.abs(settled - NOON)).toBeLessThan(1000);
});

test('a clock that is set is followed, and an answer without a time says nothing', () => {
  const time = new ServerTime();
  time.note(NOON, NOON, NOON + 5);
  time.note(Number.NaN, NOON, NOON + 5);
  time.note(NOON, NOON + HOUR, NOON + HOUR + 5);
  expect(Math.abs(time.at(NOON + HOUR) - NOON)).toBeLessThan(1000);
});
