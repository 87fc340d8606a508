import { describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../../model/time.ts';
import { MAX_WAITING, Throttle } from './throttle.ts';

const NOON = Date.UTC(2026, 0, 1, 12);

/** Changes a value as soon as it was told, until a time; resolves to when it was told, in seconds. */
function flap(throttle: Throttle, from: number, to: number): number[] {
  const told: number[] = [];
  for (let now = from; now <= to; ) {
    if (throttle.isWaiting(1, 7, now)) {
      now = throttle.nextDue()!;
      throttle.due(now);
      continue;
    }
    throttle.told(1, 7, now);
    throttle.keepOnly(1, () => false);
    told.push((now - from) / SECOND);
  }
  throttle.keepOnly(1, () => false);
  return told;
}

describe('a value that goes to and fro', () => {
  it('is told ever more rarely from its fourth change within a minute, at last once a minute', () => {
    expect(flap(new Throttle(), NOON, NOON + 5 * MINUTE)).toEqual([1, 2, 3, 5, 9, 17, 33, 65, 125, 185, 245]);
  });

  it('is told within a second again when it was quiet for five minutes', () => {
    const throttle = new Throttle();
    const last = NOON + flap(throttle, NOON, NOON + MINUTE).at(-1)! * SECOND;
    expect(flap(throttle, last + 5 * MINUTE - 1, last + 7 * MINUTE)[0]).toBe(32);
    const later = last + 20 * MINUTE;
    expect(flap(throttle, later, later + 4 * SECOND)).toEqual([1, 2, 3]);
  });

  it('holds up no other', () => {
    const throttle = new Throttle();
    flap(throttle, NOON, NOON + MINUTE);
    const now = NOON + 2 * MINUTE;
    expect([throttle.isWaiting(1, 8, now), throttle.isWaiting(2, 7, now)]).toEqual([true, true]);
    expect(throttle.waitsUntil(1)).toBe(now + SECOND);
    expect(throttle.due(now + SECOND)).toEqual([1, 2]);
  });

  it('that changes three times a minute waits for a second each time', () => {
    const throttle = new Throttle();
    for (let nth = 0; nth < 9; nth++) {
      const now = NOON + nth * 31 * SECOND;
      expect(throttle.isWaiting(1, 7, now)).toBe(true);
      expect(throttle.waitsUntil(1)).toBe(now + SECOND);
      throttle.due(now + SECOND);
      expect(throttle.isWaiting(1, 7, now + SECOND)).toBe(false);
      throttle.told(1, 7, now + SECOND);
      throttle.keepOnly(1, () => false);
    }
  });
});

it('names a profile once, when the first of its changes is due, and the next one then', () => {
  const throttle = new Throttle();
  flap(throttle, NOON, NOON + 4 * SECOND);
  const now = NOON + 5 * SECOND;
  throttle.isWaiting(1, 7, now);
  throttle.isWaiting(1, 8, now);
  throttle.isWaiting(1, 9, now);
  expect(throttle.due(now + SECOND)).toEqual([1]);
  throttle.keepOnly(1, (computation) => computation === 7);
  expect(throttle.nextDue()).toBe(throttle.waitsUntil(1));
});

it('waits no longer than a minute when the wall clock was set back', () => {
  const throttle = new Throttle();
  expect(throttle.isWaiting(1, 7, NOON)).toBe(true);
  expect(throttle.isWaiting(1, 7, NOON - 2 * MINUTE)).toBe(false);
});

describe('changes that wait', () => {
  it('are bounded: beyond so many profiles they are told at once, and wait again when there is room', () => {
    const throttle = new Throttle();
    for (let profile = 1; profile <= MAX_WAITING; profile++) throttle.isWaiting(profile, 7, NOON);
    expect(throttle.isWaiting(MAX_WAITING, 7, NOON)).toBe(true);
    expect(throttle.isWaiting(MAX_WAITING, 8, NOON)).toBe(true);
    expect(throttle.isWaiting(MAX_WAITING + 1, 7, NOON)).toBe(false);
    throttle.forget(1);
    expect(throttle.isWaiting(MAX_WAITING + 1, 7, NOON)).toBe(true);
  });
});
