import { expect, it } from 'vitest';
import { SECOND } from '../model/time.ts';
import { Speed } from './speed.ts';

it('is what was done of late, and unknown at first and where nothing is done', () => {
  const speed = new Speed();
  speed.note(0, 0);
  speed.note(500, SECOND);
  expect(speed.perSecond(SECOND)).toBeUndefined();
  speed.note(1000, 2 * SECOND);
  expect(speed.perSecond(2 * SECOND)).toBe(500);
  expect(speed.perSecond(4 * SECOND)).toBe(250);
  for (let second = 3; second <= 60; second++) speed.note(1000 + (second - 2) * 10, second * SECOND);
  expect(speed.perSecond(60 * SECOND)).toBeCloseTo(10);
  const idle = new Speed();
  idle.note(7, 0);
  idle.note(7, 10 * SECOND);
  expect(idle.perSecond(10 * SECOND)).toBeUndefined();
});
