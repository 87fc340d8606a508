import { describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../model/time.ts';
import { backoff, SCHEDULE } from './backoff.ts';

describe('backoff', () => {
  it('follows the schedule and then repeats its last delay', () => {
    const delays = Array.from({ length: 15 }, (_, index) => backoff(index + 1, 0.5));
    expect(delays).toEqual([...SCHEDULE, 30 * MINUTE, 30 * MINUTE, 30 * MINUTE]);
  });

  it('spreads each delay from 0.8 to 1.2 of itself', () => {
    expect(backoff(1, 0)).toBe(0.8 * SECOND);
    expect(backoff(1, 0.999999)).toBe(1.2 * SECOND);
  });
});
