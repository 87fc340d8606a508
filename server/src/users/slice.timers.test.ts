import { expect, test } from 'vitest';
import { MINUTE } from '../model/time.ts';
import { setTimer, timerFired } from './slice.ts';

const profile = (timer: number) => ({ id: 7, timer });

test('a timer stands for the first whole minute at which the change is over', () => {
  expect(setTimer(profile(0), 10 * MINUTE)).toEqual({ minute: 10, profile: 7 });
  expect(setTimer(profile(0), 10 * MINUTE + 1)).toEqual({ minute: 11, profile: 7 });
});

test('a profile without a change to come gets no timer', () => {
  expect(setTimer(profile(0), undefined)).toBeUndefined();
});

test('a timer is set only if it is earlier than the one that is there', () => {
  const one = profile(0);
  setTimer(one, 10 * MINUTE);
  expect(setTimer(one, 12 * MINUTE)).toBeUndefined();
  expect(setTimer(one, 10 * MINUTE)).toBeUndefined();
  expect(setTimer(one, 9 * MINUTE)).toEqual({ minute: 9, profile: 7 });
});

test('a timer that fired makes room for the next one, a replaced one does not', () => {
  const one = profile(9);
  timerFired(one, { minute: 12, profile: 7 });
  expect(setTimer(one, 20 * MINUTE)).toBeUndefined();
  timerFired(one, { minute: 9, profile: 7 });
  expect(setTimer(one, 20 * MINUTE)).toEqual({ minute: 20, profile: 7 });
});
